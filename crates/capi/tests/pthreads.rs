//! What a program of pthreads expects, on real nodes: threads that end as C ends them, locks that belong to
//! threads, try and timed forms, read-write locks, once, objects keyed by an address.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Ended, Setting, TestDir, run, run_well, settings, workspace};

/// A directory with the library, under its SONAME too, and the command.
fn built() -> PathBuf {
    support::build(&["multigrain-capi", "multigrain-cli"])
}

fn launcher() -> PathBuf {
    built().join("multigrain")
}

/// `tests/c/NAME.c` as a program in `dir`, linked with the shared library.
fn compile(dir: &TestDir, name: &str) -> PathBuf {
    let program = dir.path().join(name);
    let library = built();
    let link = dir.path().join("libmultigrain.so.0");
    std::os::unix::fs::symlink(library.join("libmultigrain.so"), &link).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-pthread").arg("-I").arg(workspace().join("include")).arg(source);
    command.arg("-o").arg(&program).arg("-L").arg(&library).arg("-lmultigrain");
    command.arg(format!("-Wl,-rpath,{}", dir.path().display())).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn threads_end_by_pthread_exit_and_cancellation_and_have_the_stack_of_pthreads() {
    let dir = TestDir::new();
    let program = compile(&dir, "ends");
    for nodes in [1, 2] {
        run_well(&launcher(), &Setting::nodes(nodes), &program, &[]);
    }
}

#[test]
fn threads_that_are_joined_leave_no_memory_behind() {
    let dir = TestDir::new();
    let program = compile(&dir, "joined");
    for nodes in [1, 2] {
        run_well(&launcher(), &Setting::nodes(nodes), &program, &[]);
    }
}

#[test]
fn what_receives_starts_does_not_wait_for_the_loader() {
    let dir = TestDir::new();
    let program = compile(&dir, "loader_lock");
    run_well(&launcher(), &Setting::nodes(2), &program, &[]);
}

#[test]
fn a_private_address_for_a_thread_of_another_node_is_worth_a_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "private_argument");
    for place in ["stack", "heap", "shared"] {
        let ended = run(&launcher(), &Setting::nodes(2), &program, &[place]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let line = format!("of a thread for node 1 is an address of this process's {place}");
        assert_eq!(ended.err.matches(&line).count(), usize::from(place != "shared"), "{ended:?}");
        assert!(place != "shared" || ended.err.is_empty(), "{ended:?}");
    }
}

#[test]
fn a_node_whose_unjoined_thread_writes_late_lets_the_others_go_before_it_leaves() {
    let dir = TestDir::new();
    let program = compile(&dir, "unjoined");
    for consistency in ["eager-release", "lazy-release", "auto"] {
        for _ in 0..3 {
            let setting = Setting { consistency, ..Setting::nodes(2) };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

/// A node without any thread left, and what was started there then was cut off.
#[test]
fn nodes_whose_main_threads_have_ended_stay_for_threads_that_start_later() {
    let dir = TestDir::new();
    let program = compile(&dir, "hops");
    for (nodes, consistency) in [(2, "sequential"), (3, "lazy-release"), (4, "auto")] {
        let setting = Setting { consistency, ..Setting::nodes(nodes) };
        let out = run_well(&launcher(), &setting, &program, &[]);
        assert_eq!(out.matches("the last hop").count(), 1, "{setting:?}: {out}");
    }
}

#[test]
fn a_process_whose_main_thread_ends_by_pthread_exit_after_mg_finalize_ends() {
    let dir = TestDir::new();
    let program = compile(&dir, "main_gone");
    for nodes in [1, 3] {
        for what in ["main", "joined", "thread"] {
            run_well(&launcher(), &Setting::nodes(nodes), &program, &[what]);
        }
    }
}

#[test]
fn a_job_whose_unjoined_threads_write_for_ever_ends() {
    let dir = TestDir::new();
    let program = compile(&dir, "unjoined_forever");
    for consistency in ["sequential", "eager-release", "lazy-release", "auto"] {
        for locked in ["0", "1"] {
            for _ in 0..5 {
                let setting = Setting { consistency, ..Setting::nodes(4) };
                run_well(&launcher(), &setting, &program, &[locked]);
            }
        }
    }
}

#[test]
fn who_joins_a_thread_sees_what_its_destructors_wrote() {
    let dir = TestDir::new();
    let program = compile(&dir, "destructors");
    for nodes in [1, 2] {
        for consistency in ["1", "2", "3", "4"] {
            run_well(&launcher(), &Setting::nodes(nodes), &program, &[consistency]);
        }
    }
}

#[test]
fn destructors_of_a_main_thread_that_ends_by_pthread_exit_use_shared_memory() {
    let dir = TestDir::new();
    let program = compile(&dir, "main_destructor");
    for nodes in [1, 3] {
        for consistency in ["sequential", "eager-release", "lazy-release", "auto"] {
            let setting = Setting { consistency, ..Setting::nodes(nodes) };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
fn a_process_whose_main_thread_ends_by_pthread_exit_lives_until_the_others_end_and_leaves() {
    let dir = TestDir::new();
    let program = compile(&dir, "ends");
    for nodes in [1, 3] {
        let ended = run(&launcher(), &Setting::nodes(nodes), &program, &["main"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for line in ["outlived its main thread", "says goodbye"] {
            assert_eq!(ended.err.matches(line).count(), nodes as usize, "{ended:?}");
        }
    }
}

#[test]
fn exit_of_a_thread_and_mg_finalize_of_another_wait_for_one_another() {
    let dir = TestDir::new();
    let program = compile(&dir, "ends");
    for nodes in [2, 3] {
        for arguments in [&["process"][..], &["process", "first"]] {
            run_well(&launcher(), &Setting::nodes(nodes), &program, arguments);
        }
    }
}

#[test]
fn what_an_ending_thread_holds_is_named_and_nobody_can_unlock_it() {
    let dir = TestDir::new();
    let program = compile(&dir, "ends");
    for nodes in [1, 2] {
        let Ended { code, err, .. } = run(&launcher(), &Setting::nodes(nodes), &program, &["held"]);
        assert_eq!(code, Some(0), "{err}");
        let line = |of: &str| format!("a thread ended holding {of}: nobody can unlock it any more");
        let place = err.lines().find_map(|line| line.split_once("place ")).unwrap().1;
        for of in ["lock 7".to_owned(), format!("lock at {place}"), "read-write lock 9".to_owned()]
        {
            assert_eq!(err.matches(&line(&of)).count(), 1, "{of}: {err}");
        }
        assert_eq!(err.matches("ended holding").count(), 3, "{err}");
    }
}

#[test]
fn what_the_main_thread_holds_when_it_returns_or_finalizes_is_named() {
    let dir = TestDir::new();
    let program = compile(&dir, "ends");
    for nodes in [1, 2] {
        for arguments in [&["held-by-main"][..], &["held-by-main", "finalize"]] {
            let ended = run(&launcher(), &Setting::nodes(nodes), &program, arguments);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            for of in ["lock 7", "read-write lock 9"] {
                let line =
                    format!("a thread left the job holding {of}: nobody can unlock it any more");
                assert_eq!(ended.err.matches(&line).count(), 1, "{of}: {ended:?}");
            }
            assert_eq!(ended.err.matches(" holding ").count(), 2, "{ended:?}");
        }
    }
}

#[test]
fn of_many_things_that_a_thread_holds_at_its_end_some_are_named_and_the_others_counted() {
    let dir = TestDir::new();
    let ended = run(&launcher(), &Setting::nodes(1), &compile(&dir, "ends"), &["many-held"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.err.matches("holding lock ").count(), 16, "{ended:?}");
    assert_eq!(ended.err.matches("left the job holding 84 more").count(), 1, "{ended:?}");
}

#[test]
fn tries_deadlines_read_write_locks_once_and_addresses_work() {
    let dir = TestDir::new();
    let program = compile(&dir, "tries");
    for setting in settings(&[1, 2, 4], &["auto"]) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn tries_and_deadlines_order_release_consistent_memory_too() {
    let dir = TestDir::new();
    let program = compile(&dir, "tries");
    for consistency in ["2", "3", "4"] {
        run_well(&launcher(), &Setting::nodes(3), &program, &[consistency]);
    }
}

#[test]
fn the_race_checker_knows_what_tries_and_read_write_locks_order() {
    let dir = TestDir::new();
    let program = compile(&dir, "tries");
    let setting = Setting { options: &["--check-races"], ..Setting::nodes(3) };
    let ended = run(&launcher(), &setting, &program, &["3"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
