//! Service levels (`multigrain run --service`): who receives, and that jobs are right at each.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use support::c::{compile, launcher};
use support::{Setting, TestDir, run_well};

const LEVELS: [&[&str]; 3] =
    [&["--service", "blocked"], &["--service", "polling"], &["--service", "helping"]];

#[test]
fn the_service_thread_receives_asleep_or_awake_or_leaves_it_to_those_that_wait() {
    let dir = TestDir::new();
    let program = compile(&dir, "service");
    for options in LEVELS {
        for transport in ["unix", "tcp"] {
            let setting = Setting { transport, options, ..Setting::nodes(2) };
            run_well(&launcher(), &setting, &program, &[options[1]]);
        }
    }
}

#[test]
fn jobs_are_right_at_every_service_level() {
    let dir = TestDir::new();
    let programs = [("sync", 1), ("memory", 1), ("threads", 3)]
        .map(|(name, threads)| (compile(&dir, name), threads));
    for options in LEVELS {
        for wait in ["adaptive", "block", "yield"] {
            for transport in ["unix", "tcp"] {
                let options = [options, &["--wait", wait]].concat().leak();
                for (program, threads) in &programs {
                    let setting =
                        Setting { transport, threads: *threads, options, ..Setting::nodes(2) };
                    run_well(&launcher(), &setting, program, &[]);
                }
            }
        }
    }
}
