//! The C interface as C programs meet it: compiled against `include/`, linked with the built
//! library, run as jobs of 1, 2 and 4 nodes under every guard and transport. The programs are in
//! `tests/c`; each checks what it does and exits with 0 if all is well.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod counts;
mod memory;
#[path = "../support/mod.rs"]
mod support;

use std::process::{Command, Stdio};

use support::c::{compile, guards, launcher};
use support::{Setting, TestDir, run, run_well, settings};

/// Runs a program on these numbers of nodes in every way.
fn run_in_every_way(name: &str, nodes: &[u32], threads: u32) {
    let dir = TestDir::new();
    let program = compile(&dir, name);
    for setting in settings(nodes, guards()) {
        run_well(&launcher(), &Setting { threads, ..setting }, &program, &[]);
    }
}

#[test]
fn a_program_that_never_calls_mg_init_is_told_so_and_one_that_does_is_not() {
    let dir = TestDir::new();
    let program = compile(&dir, "forgotten");
    for (arguments, told) in [(&[][..], 2), (&["late"], 0)] {
        let ended = run(&launcher(), &Setting::nodes(2), &program, arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let line = "this program never called mg_init, so all calls of the library failed";
        assert_eq!(ended.err.matches(line).count(), told, "{ended:?}");
    }
}

#[test]
fn calls_outside_of_a_job_are_refused() {
    let dir = TestDir::new();
    let program = compile(&dir, "outside");
    let alone = Command::new(&program).stdin(Stdio::null()).output().unwrap();
    assert!(alone.status.success(), "without a launcher: {alone:?}");
    run_well(&launcher(), &Setting::nodes(1), &program, &[]);
    run_well(&launcher(), &Setting::nodes(2), &program, &[]);
}

#[test]
fn wrong_arguments_get_their_codes_and_the_job_goes_on() {
    run_in_every_way("arguments", &[1, 2], 1);
}

#[test]
fn nodes_that_disagree_about_a_barrier_end_the_job_with_a_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "disagree");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &[]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("barrier 1: threads disagree about its size"), "{ended:?}");
    assert!(ended.err.contains("at a message of node 0"), "the other is not to blame: {ended:?}");
}

#[test]
fn collective_operations_combine_what_all_threads_bring() {
    let dir = TestDir::new();
    let program = compile(&dir, "collective");
    let consistencies = ["sequential", "eager-release", "lazy-release", "auto"];
    for (consistency, nodes) in consistencies.into_iter().zip([1, 2, 3, 2]) {
        let ways: &[_] = if nodes == 2 { &["unix", "tcp"] } else { &["unix"] };
        for (&transport, threads) in ways.iter().zip([3, 1]) {
            let setting = Setting { consistency, threads, transport, ..Setting::nodes(nodes) };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
fn atomic_operations_are_exact_and_done_where_the_word_lives() {
    run_in_every_way("fetch_op", &[1, 2, 4], 2);
}

#[test]
fn threads_that_disagree_about_a_collective_operation_are_told() {
    let dir = TestDir::new();
    let program = compile(&dir, "collective");
    run_well(&launcher(), &Setting::nodes(1), &program, &["threads-disagree"]);
    let ended = run(&launcher(), &Setting::nodes(2), &program, &["nodes-disagree"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let line = "barrier of collective 1: threads disagree: ";
    assert!(ended.err.contains(line), "{ended:?}");
    assert!(ended.err.contains("sum of 1 x int64"), "{ended:?}");
    assert!(ended.err.contains("max of 1 x int64"), "{ended:?}");
}

#[test]
fn a_thread_refused_at_a_barrier_has_not_come() {
    let dir = TestDir::new();
    let program = compile(&dir, "refused");
    run_well(&launcher(), &Setting::nodes(1), &program, &[]);
}

#[test]
fn a_thread_that_begins_at_an_arrived_node_loses_no_write() {
    let dir = TestDir::new();
    let program = compile(&dir, "arrived");
    for consistency in ["sequential", "eager-release", "lazy-release", "auto"] {
        for setting in settings(&[2, 3], guards()) {
            let setting = Setting { consistency, ..setting };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
    let options = &["--tracking", "scans"];
    let setting = Setting { consistency: "lazy-release", options, ..Setting::nodes(3) };
    run_well(&launcher(), &setting, &program, &[]);
}

#[test]
fn a_large_job_has_the_links_that_it_uses_and_keeps_them() {
    let dir = TestDir::new();
    let program = compile(&dir, "large");
    let consistencies = ["sequential", "eager-release", "lazy-release", "auto"];
    for (consistency, transport) in consistencies.into_iter().zip(["unix", "tcp", "tcp", "unix"]) {
        let setting = Setting { consistency, transport, ..Setting::nodes(12) };
        run_well(&launcher(), &setting, &program, &[]);
    }
}

/// Of more than 48 copies (ADR 57).
#[test]
fn what_very_many_nodes_have_read_is_invalidated_by_a_tree() {
    let dir = TestDir::new();
    let program = compile(&dir, "many_copies");
    let options = &["--manager", "allocator"];
    for (nodes, transport) in [(64, "unix"), (52, "tcp")] {
        let setting = Setting { transport, options, ..Setting::nodes(nodes) };
        run_well(&launcher(), &setting, &program, &[]);
    }
    // One that passes it on, one below that, and the last of all.
    for stops in ["1", "4", "63"] {
        let ended =
            run(&launcher(), &Setting { options, ..Setting::nodes(64) }, &program, &[stops]);
        assert_eq!(ended.code, Some(128 + 9), "{ended:?}");
        let line = format!("multigrain: node {stops} (pid ");
        let lines: Vec<&str> = ended.err.lines().collect();
        assert!(lines.len() == 1 && lines[0].starts_with(&line), "{ended:?}");
        assert!(lines[0].contains("was killed by signal 9 (SIGKILL); the job ends"), "{ended:?}");
    }
}

#[test]
fn a_joined_threads_writes_are_seen_though_others_tell_them_too() {
    let dir = TestDir::new();
    let program = compile(&dir, "told");
    for consistency in ["lazy-release", "auto"] {
        for setting in settings(&[2], guards()) {
            let setting = Setting { consistency, ..setting };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
fn synchronization_is_exact() {
    run_in_every_way("sync", &[1, 2, 4], 1);
}

#[test]
fn threads_run_where_they_are_told_and_bring_results() {
    run_in_every_way("threads", &[1, 2, 4], 3);
}

#[test]
fn only_functions_of_the_program_start_and_detached_threads_are_forgotten() {
    run_in_every_way("limits", &[1, 2], 1);
}

#[test]
fn a_node_has_4096_threads_and_the_next_one_is_refused_before_it_runs() {
    let dir = TestDir::new();
    let program = compile(&dir, "limits");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &["slots"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = "cannot start a thread: the limit is 4,096 threads of a node";
    assert_eq!(ended.err.matches(line).count(), 1, "said once: {ended:?}");
}

/// Each run lost a write in 8 of 45 while runs of pages were closed without their locks.
#[test]
fn what_threads_of_a_node_write_and_acquire_at_one_time_is_lost_to_none() {
    let dir = TestDir::new();
    let program = compile(&dir, "partners");
    for setting in settings(&[2], guards()) {
        let options = &["--learn", "on"];
        let setting = Setting { consistency: "lazy-release", threads: 8, options, ..setting };
        for _ in 0..2 {
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
#[ignore = "takes half a minute; the registry's own test counts as far"]
fn a_node_keeps_65536_results_and_starts_again_when_they_are_asked_for() {
    let dir = TestDir::new();
    let program = compile(&dir, "limits");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &["unjoined"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = "65,536 threads that ended and were never joined; join or detach them";
    assert_eq!(ended.err.matches(line).count(), 1, "said once: {ended:?}");
}

/// A thread was cancelled as the library wrote a line or read a file, and the process aborted.
#[test]
fn no_call_is_a_cancellation_point() {
    let dir = TestDir::new();
    let program = compile(&dir, "cancelled");
    for setting in settings(&[1, 2], guards()) {
        let ended = run(&launcher(), &setting, &program, &["calls"]);
        assert_eq!(ended.code, Some(0), "{setting:?}: {ended:?}");
        let came = ended.out.matches("came to its end").count();
        assert_eq!(came, setting.nodes as usize, "{setting:?}: {ended:?}");
        let held = ended.err.matches("a thread left the job holding lock 10").count();
        assert_eq!(held, setting.nodes as usize, "{setting:?}: {ended:?}");
    }
}

/// Its end was never told: who joined it was in a deadlock.
#[test]
fn a_thread_that_is_cancelled_in_its_destructors_ends_as_it_returned() {
    let dir = TestDir::new();
    let program = compile(&dir, "cancelled");
    for nodes in [1, 2] {
        run_well(&launcher(), &Setting::nodes(nodes), &program, &["destructors"]);
    }
}

#[test]
fn a_failure_is_said_in_its_own_words() {
    run_in_every_way("words", &[1, 2], 1);
}

#[test]
fn the_line_about_a_crash_names_the_address_and_near_null_whose_globals_are() {
    let dir = TestDir::new();
    let program = compile(&dir, "crash");
    for &guard in guards() {
        let line = |place: &str| {
            let setting = Setting { guard, ..Setting::nodes(2) };
            let ended = run(&launcher(), &setting, &program, &[place]);
            assert_eq!(ended.code, Some(128 + 11), "{guard} {place}: {ended:?}");
            assert!(ended.err.contains("node 1 (pid "), "{guard} {place}: {ended:?}");
            ended.err
        };
        for (place, address) in [("null", "0x0"), ("global", "0x14")] {
            let said = line(place);
            let words = format!(
                "was killed by signal 11 (SIGSEGV) at address {address}, near NULL: globals are \
                 private to a node"
            );
            assert!(said.contains(&words), "{guard}: {said}");
        }
        let said = line("reserved");
        assert!(said.contains(", where this node has no memory: malloc"), "{guard}: {said}");
        let said = line("wild");
        let words = "(SIGSEGV) at address 0x600000001000, where this node has no memory: malloc, stacks and \
                     globals are private to a node";
        assert!(said.contains(words), "{guard}: {said}");
        assert!(line("unallocated").contains("at address 0x1fff00000040, where shared memory"));
        assert!(line("far").contains("at an address that cannot be: a damaged pointer"));
        assert!(line("code").contains(", in shared memory, which holds data and no code: "));
        for place in ["stack", "thread"] {
            let said = line(place);
            // Where accesses wait in this signal's handler, it stands on the thread's own stack.
            let words = match guard {
                "uffd" => "beyond the end of its thread's stack: a recursion without end",
                _ => {
                    "and could not say where: its stack was full (ulimit -s, ulimit -v) or overrun, or"
                }
            };
            assert!(said.contains("(SIGSEGV)") && said.contains(words), "{guard}: {said}");
        }
        for place in ["overrun", "thread-overrun"] {
            let said = line(place);
            // A thread's own data lie above its stack; without them the library may not come to say where.
            let words = match place {
                "overrun" => {
                    ", where its thread's stack begins: something on the stack, a local array perhaps, was"
                }
                _ => "overrun",
            };
            assert!(said.contains(words), "{guard} {place}: {said}");
        }
    }
}
