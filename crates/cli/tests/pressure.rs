//! A node whose semaphore another one posts to stops for a while: the poster waits instead of filling
//! its memory, and no unit is lost.
//!
//! This test binary is also the program of the job: the launcher starts it with the name of the
//! one test that is a node.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Job, Result};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::{multigrain, run};

/// Units that node 1 posts, each by itself. The messages take 40 bytes each, and more in a queue.
const UNITS: u64 = 400_000;
/// What node 1 may need for them, in KiB.
const ROOM: u64 = 16 << 10;
/// Who does not go on for so long waits for room.
const STILL: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn who_posts_to_a_stopped_node_waits() {
    for transport in ["unix", "tcp"] {
        let mut command = multigrain();
        command.args(["run", "-n", "2", "--transport", transport, "--timeout", "120", "--"]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "node", "--ignored", "--nocapture"]);
        let ended = run(command.env("PRESSURE", "1"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("all units are there"), "{ended:?}");
        assert!(ended.out.contains("the poster waited"), "{ended:?}");
    }
}

/// The program of the job; does nothing without the launcher.
#[test]
#[ignore = "a node of the job"]
fn node() {
    if std::env::var_os("PRESSURE").is_some() {
        assert!(multigrain::run(post) == ExitCode::SUCCESS);
    }
}

fn post(job: &Job) -> Result<()> {
    let pid = getpid().as_raw_nonzero().get();
    let manager = job.share("pid", || job.alloc(pid))?;
    // Even numbers are managed by node 0, which allocated the first.
    let units = job.semaphore(4);
    job.barrier(0)?;
    if job.node() == 1 {
        let manager = Pid::from_raw(manager.get()).unwrap();
        let before = most_memory();
        kill_process(manager, Signal::STOP).unwrap();
        let posted = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| go_on_when_still(&posted, manager));
            for _ in 0..UNITS {
                units.post(1)?;
                posted.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), multigrain::Error>(())
        })?;
        let needed = most_memory() - before;
        assert!(needed < ROOM, "{needed} KiB for posts");
    } else {
        for _ in 0..UNITS {
            units.wait()?;
        }
        println!("\nall units are there");
    }
    job.barrier(0)
}

/// Lets the manager go on when the poster does not.
fn go_on_when_still(posted: &AtomicU64, manager: Pid) {
    let started = Instant::now();
    let (mut last, mut since) = (0, Instant::now());
    while since.elapsed() < STILL || last == 0 {
        let now = posted.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if now == UNITS || started.elapsed() > LIMIT {
            break;
        }
        thread::yield_now();
    }
    kill_process(manager, Signal::CONT).unwrap();
    assert!(last < UNITS, "all was posted while nobody took it");
    println!("\nthe poster waited after {last} units");
}

/// The most memory this process has had so far, in KiB.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}
