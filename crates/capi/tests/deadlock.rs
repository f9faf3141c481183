//! Jobs in which nothing can go on end with a line that says who waits where, and with a code of their own;
//! jobs that only look so go on. `tests/c/deadlock.c` has both.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use support::c::{compile, launcher};
use support::{Ended, Setting, TestDir, run, run_well};

const DEADLOCKED: i32 = 35;

struct Program {
    path: PathBuf,
    _dir: TestDir,
}

fn program() -> Program {
    let dir = TestDir::new();
    Program { path: compile(&dir, "deadlock"), _dir: dir }
}

impl Program {
    fn run(&self, setting: &Setting, what: &str) -> Ended {
        run(&launcher(), setting, &self.path, &[what])
    }

    /// The job ends because of a deadlock, of which this is said.
    fn must_name(&self, setting: &Setting, what: &str, words: &str) {
        let ended = self.run(setting, what);
        let line = format!("multigrain: deadlock: {words}; the job ends\n");
        let said = (ended.code, ended.err.as_str());
        assert_eq!(said, (Some(DEADLOCKED), line.as_str()), "{what} as {setting:?}");
    }
}

#[test]
fn who_waits_where_is_named_when_a_node_ends_early() {
    let program = program();
    let words =
        "node 1 waits in mg_finalize, nodes 0 and 2 in barrier 1 (2 of 3 threads have come)";
    for transport in ["unix", "tcp"] {
        for consistency in ["sequential", "eager-release", "lazy-release", "auto"] {
            let setting = Setting { transport, consistency, ..Setting::nodes(3) };
            program.must_name(&setting, "early-end", words);
        }
    }
    for options in [&["--wait", "block"], &["--wait", "spin"], &["--wait", "yield"]] {
        program.must_name(&Setting { options, ..Setting::nodes(3) }, "early-end", words);
    }
    let many = "node 1 waits in mg_finalize, nodes 0 and 2 to 19 in barrier 1 \
                (19 of 20 threads have come)";
    program.must_name(&Setting::nodes(20), "early-end", many);
}

#[test]
fn nodes_of_other_hosts_are_asked_as_well() {
    let (dir, program) = (TestDir::new(), program());
    // Runs the agent of a host here.
    let ssh = dir.path().join("ssh");
    std::fs::write(&ssh, "#!/bin/sh\nshift\nexec sh -c \"$*\"\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&ssh, executable).unwrap();
    let ssh: &str = ssh.display().to_string().leak();
    let options = vec!["--launcher-command", ssh, "--hosts", "a:2,b"].leak();
    let setting = Setting { transport: "auto", options, ..Setting::nodes(3) };
    let words =
        "node 1 waits in mg_finalize, nodes 0 and 2 in barrier 1 (2 of 3 threads have come)";
    program.must_name(&setting, "early-end", words);
}

#[test]
fn a_cycle_of_locks_is_named_also_while_other_nodes_run() {
    let words = "thread 0 of node 0 holds lock 7 and waits for lock 8, \
                 thread 0 of node 1 holds lock 8 and waits for lock 7";
    let program = program();
    for nodes in [2, 3] {
        program.must_name(&Setting::nodes(nodes), "cycle", words);
    }
}

#[test]
fn a_cycle_through_read_write_locks_conditions_and_joins_is_named_while_other_nodes_run() {
    let program = program();
    for (nodes, what, words) in [
        (
            3,
            "read-write-cycle",
            "thread 0 of node 0 holds read-write lock 7 and waits for read-write lock 8, \
             thread 0 of node 1 holds read-write lock 8 and waits for read-write lock 7",
        ),
        (
            3,
            "cycle-of-many",
            "thread 0 of node 0 holds read-write lock 7 and waits for read-write lock 8, \
             thread 0 of node 1 holds read-write lock 8 and waits for read-write lock 7",
        ),
        (
            3,
            "timed-condition-cycle",
            "thread 0 of node 0 holds lock 8 and waits for lock 7, \
             thread 0 of node 1 holds lock 7 and waits for lock 8",
        ),
        (
            4,
            "behind-writer",
            "thread 0 of node 0 holds read-write lock 7 and waits for lock 8, \
             thread 0 of node 1 holds lock 8 and waits for read-write lock 7",
        ),
        (
            3,
            "condition-cycle",
            "thread 0 of node 0 holds lock 8 and waits for lock 7, \
             thread 0 of node 1 holds lock 7 and waits for lock 8",
        ),
        (
            3,
            "join-cycle",
            "thread 0 of node 0 holds lock 7 and waits for the end of thread 1 of node 1, \
             thread 1 of node 1 waits for lock 7",
        ),
    ] {
        program.must_name(&Setting::nodes(nodes), what, words);
    }
}

#[test]
fn a_cycle_of_locks_is_named_while_threads_of_its_nodes_hold_and_wait_in_turn() {
    let words = "thread 0 of node 0 holds lock 7 and waits for lock 8, \
                 thread 0 of node 1 holds lock 8 and waits for lock 7";
    program().must_name(&Setting::nodes(2), "nested-beside-cycle", words);
}

#[test]
fn a_cycle_of_locks_is_named_while_other_nodes_exchange_pages() {
    let words = "thread 0 of node 0 holds lock 7 and waits for lock 8, \
                 thread 0 of node 1 holds lock 8 and waits for lock 7";
    program().must_name(&Setting::nodes(4), "busy-cycle", words);
}

#[test]
fn who_waits_is_named_when_the_main_thread_has_ended() {
    let program = program();
    for what in ["main-left", "own-left"] {
        program.must_name(&Setting::nodes(1), what, "node 0 waits for semaphore 8");
        let words = "nodes 1 and 2 wait in mg_finalize, node 0 for semaphore 8";
        program.must_name(&Setting::nodes(3), what, words);
    }
}

#[test]
fn threads_of_the_programs_own_that_main_joins_are_named() {
    let program = program();
    // Which of the two is met first is not said.
    let ended = program.run(&Setting::nodes(1), "threads");
    assert_eq!(ended.code, Some(DEADLOCKED), "{ended:?}");
    let waits = |id| ended.err.contains(&format!("in barrier {id}"));
    assert!(waits(40) && waits(41) && ended.err.contains(" of node 0 wait"), "{ended:?}");
}

#[test]
fn thousands_of_threads_that_wait_are_named() {
    let ended = program().run(&Setting::nodes(1), "crowd");
    assert_eq!(ended.code, Some(DEADLOCKED), "{ended:?}");
    assert!(ended.err.contains("threads 1 to 4000 of node 0 wait for semaphore 8"), "{ended:?}");
}

#[test]
fn whatever_is_waited_for_is_named() {
    let program = program();
    let two = Setting::nodes(2);
    let held = "node 1 waits for lock 7, which node 0 holds, node 0 for semaphore 4";
    program.must_name(&two, "held", held);
    let many = "node 1 waits for lock 10, which node 0 holds, node 0 for semaphore 4";
    program.must_name(&two, "many", many);
    let condition = "nodes 0 and 1 wait for a signal on condition 6";
    program.must_name(&two, "condition", condition);
    let name = "nodes 0 and 1 wait for a name \"never\" that nobody publishes";
    program.must_name(&two, "name", name);
    let segment = "nodes 0 and 1 wait for a segment \"never\" that nobody creates";
    program.must_name(&two, "segment", segment);
    for what in ["exits", "exits-first", "exits-without-main"] {
        let ended = program.run(&two, what);
        let words = "node 0 for the end of a thread of node 1";
        assert!(ended.code == Some(DEADLOCKED) && ended.err.contains("mg_finalize"), "{ended:?}");
        assert!(ended.err.contains(words), "{ended:?}");
    }
    let ended = program.run(&two, "join");
    assert_eq!(ended.code, Some(DEADLOCKED), "{ended:?}");
    assert!(ended.err.contains("for the end of a thread of node 1"), "{ended:?}");
    assert!(ended.err.contains("for semaphore 8"), "{ended:?}");
}

#[test]
fn handlers_of_signals_count_only_where_they_could_let_somebody_go_on() {
    let program = program();
    let early_end =
        "node 1 waits in mg_finalize, nodes 0 and 2 in barrier 1 (2 of 3 threads have come)";
    program.must_name(&Setting::nodes(3), "useless-handler", early_end);
}

#[test]
fn a_handler_that_waits_where_its_thread_does_ends_its_node_with_a_line() {
    let program = program();
    for (what, place) in [
        ("exits-in-handler", "in mg_finalize"),
        ("exits-last-in-handler", "for another node"),
        ("waits-in-handler", "for semaphore 6"),
        ("asks-in-handler", "for a name"),
    ] {
        let ended = program.run(&Setting::nodes(2), what);
        let line = format!("a signal handler waits {place} while its thread waited in a call");
        assert_eq!(ended.code, Some(70), "{what}: {ended:?}");
        assert!(ended.err.contains(&line), "{what}: {ended:?}");
    }
}

#[test]
fn an_ack_that_a_parked_thread_has_deferred_hides_no_deadlock() {
    let program = program();
    for options in [&["--wait", "block"], &["--wait", "yield"], &["--wait", "spin"]] {
        let ended = program.run(&Setting { options, ..Setting::nodes(2) }, "touched");
        assert_eq!(ended.code, Some(DEADLOCKED), "{options:?}: {ended:?}");
        assert!(ended.err.contains("for semaphore 5"), "{options:?}: {ended:?}");
    }
}

#[test]
fn a_thread_that_calls_exit_beside_one_that_ends_the_process_waits_for_the_others_too() {
    run_well(&launcher(), &Setting::nodes(2), &program().path, &["exits-detached"]);
}

#[test]
fn a_program_without_a_launcher_names_its_deadlock_too() {
    let program = program();
    let mut command = Command::new(&program.path);
    let output = command.arg("condition").stdin(Stdio::null()).output().unwrap();
    let line = "multigrain: node 0: deadlock: node 0 waits for a signal on condition 6\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), line);
    assert_eq!(output.status.code(), Some(DEADLOCKED));
}

#[test]
fn a_job_that_can_go_on_is_left_alone() {
    let program = program();
    for what in [
        "sleeper",
        "stranger",
        "handler",
        "slow-handler",
        "handler-in-join",
        "turns",
        "joins",
        "timed",
    ] {
        for nodes in [1, 3] {
            run_well(&launcher(), &Setting::nodes(nodes), &program.path, &[what]);
        }
    }
}

#[test]
fn a_job_that_its_limit_of_time_ends_says_which_nodes_wait() {
    let program = program();
    let setting = Setting { options: &["--timeout", "5"], ..Setting::nodes(2) };
    for (what, words) in [
        ("sleeper-for-ever", "node 1 waits in barrier 1 (1 of 2 threads has come)"),
        (
            "timed-for-ever",
            "thread 0 of node 1 waits for lock 7, which thread 0 of node 0 holds, until its deadline, \
             thread 0 of node 0 for semaphore 5 until its deadline",
        ),
    ] {
        let ended = program.run(&setting, what);
        let line = format!("multigrain: time-out after 5 s ({words}); the job ends\n");
        assert_eq!((ended.code, ended.err), (Some(124), line), "{what}");
    }
}
