//! What a process may do beside its part in the job: children, ends, signals. The programs are in `tests/c`;
//! each checks what it does and exits with 0 if all is well.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use support::c::{built, compile, compiler, guards, launcher, must_succeed, source};
use support::{Ended, Setting, TestDir, not_tried, run, run_well};

/// Far below the time that a job of the tests may take: nothing hangs.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_handler_that_touches_shared_memory_inside_of_a_call_is_named() {
    let dir = TestDir::new();
    let program = compile(&dir, "late_handler");
    for &guard in guards() {
        for arguments in [&[][..], &["timed"]] {
            let setting = Setting { guard, ..Setting::nodes(2) };
            let ended = run(&launcher(), &setting, &program, arguments);
            assert_eq!(ended.code, Some(70), "{guard}, {arguments:?}: {ended:?}");
            let words = "failed: a signal handler touched shared memory at 0x";
            assert!(ended.err.contains(words), "{guard}, {arguments:?}: {ended:?}");
        }
    }
}

/// Its thread had the lock that the post needed, and stood for ever.
#[test]
fn a_handler_posts_a_semaphore_wherever_it_has_interrupted_its_thread() {
    let dir = TestDir::new();
    let program = compile(&dir, "handler_posts");
    for &guard in guards() {
        for consistency in ["sequential", "lazy-release", "auto"] {
            for nodes in [1, 2] {
                let setting = Setting { guard, consistency, ..Setting::nodes(nodes) };
                run_well(&launcher(), &setting, &program, &[]);
            }
        }
    }
}

/// Its thread told its end meanwhile, and had the locks of that.
#[test]
fn a_handler_posts_a_semaphore_while_its_thread_begins_or_ends() {
    let dir = TestDir::new();
    let program = compile(&dir, "handler_at_ends");
    for &guard in guards() {
        for consistency in ["sequential", "eager-release", "lazy-release", "auto"] {
            for nodes in [1, 2] {
                let setting = Setting { guard, consistency, ..Setting::nodes(nodes) };
                run_well(&launcher(), &setting, &program, &[]);
            }
        }
    }
}

/// Its thread sent what the access needed, and had the lock of that.
#[test]
fn a_handler_posts_a_semaphore_while_an_access_of_its_thread_waits() {
    let dir = TestDir::new();
    let program = compile(&dir, "handler_in_trap");
    for &guard in guards() {
        run_well(&launcher(), &Setting { guard, ..Setting::nodes(2) }, &program, &[]);
    }
}

/// What is said of 16 counters that four nodes count without their lock: one line, and how many more there are.
#[test]
fn a_missing_lock_is_one_line_and_a_count_and_the_exit_code_also_at_a_time_out() {
    let dir = TestDir::new();
    let program = compile(&dir, "unlocked");
    let setting = |options| Setting { options, consistency: "lazy-release", ..Setting::nodes(4) };
    let said = |ended: &Ended, what: &str| ended.err.matches(what).count();
    let ended = run(&launcher(), &setting(&["--check-races"]), &program, &[]);
    assert_eq!(ended.code, Some(66), "{ended:?}");
    assert_eq!((said(&ended, "race: 4 bytes"), said(&ended, "race: and ")), (1, 1), "{ended:?}");
    let of = "more like it of the allocation of 1024 bytes at 0x";
    assert_eq!(said(&ended, of), 1, "{ended:?}");
    let all = run(&launcher(), &setting(&["--check-races=all"]), &program, &[]);
    assert_eq!((all.code, said(&all, "race: and ")), (Some(66), 0), "{all:?}");
    assert!(said(&all, "race: 4 bytes") >= 16, "{all:?}");
    let late = setting(&["--check-races", "--timeout", "3"]);
    let ended = run(&launcher(), &late, &program, &["hang"]);
    assert_eq!(ended.code, Some(66), "{ended:?}");
    assert!(ended.err.contains("time-out after 3 s, and ") && said(&ended, of) == 1, "{ended:?}");
}

#[test]
fn a_node_that_executes_another_program_has_left_in_one_way() {
    let dir = TestDir::new();
    let program = compile(&dir, "executes");
    for who in ["main", "thread"] {
        for what in [&["true"][..], &["sleep", "600"]] {
            let arguments = [&[who], what].concat();
            let ended = run(&launcher(), &Setting::nodes(3), &program, &arguments);
            assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:?}");
            assert!(ended.err.contains("node 1 (pid "), "{arguments:?}: {ended:?}");
            assert!(ended.err.contains(") left without mg_finalize"), "{arguments:?}: {ended:?}");
        }
    }
}

/// It died in the words of Rust's runtime, by SIGABRT.
#[test]
fn a_node_that_is_refused_memory_in_mid_run_ends_with_one_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "exhausted");
    for nodes in [1, 2] {
        let ended = run(&launcher(), &Setting::nodes(nodes), &program, &[]);
        assert_eq!(ended.code, Some(70), "{ended:?}");
        let line = "failed: the library was refused ";
        assert!(ended.err.contains(line) && ended.err.contains("ulimit -v"), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    }
}

/// Each node said so itself, before it knew where its launcher listens.
#[test]
fn nodes_that_are_refused_memory_from_the_first_end_with_one_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "exhausted");
    for limit in [15_000, 20_000, 30_000] {
        let script = format!(
            "ulimit -d {limit}; exec {} run -n 3 {}",
            launcher().display(),
            program.display()
        );
        let ended = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_ne!(ended.status.code(), Some(0), "{limit}: {err}");
        assert_eq!(err.lines().count(), 1, "{limit}: {err}");
        assert!(err.contains("ulimit -d"), "{limit}: {err}");
    }
}

/// The thread was counted, and a node that computed was taken for one that waits; and no call with a deadline went well again.
/// It was the end of the job.
#[test]
fn a_link_waits_for_a_descriptor_that_the_program_has_and_not_for_ever() {
    let dir = TestDir::new();
    let program = compile(&dir, "no_descriptor_left");
    let setting = Setting { transport: "tcp", ..Setting::nodes(9) };
    run_well(&launcher(), &setting, &program, &["1.5"]);
    let ended = run(&launcher(), &setting, &program, &["100"]);
    assert_eq!(ended.code, Some(70), "{ended:?}");
    assert!(ended.err.contains("multigrain: node 5 "), "{ended:?}");
    // Whoever has something to say first, node 5 or a peer of it.
    let lines = ["accept", "socket"].map(|call| {
        format!("failed: cannot make links to other nodes: {call}: Too many open files")
    });
    assert!(lines.iter().any(|line| ended.err.contains(line)), "{ended:?}");
}

/// It waited for the end of that call.
#[test]
fn a_link_is_made_beside_a_call_that_takes_long_to_close() {
    let dir = TestDir::new();
    let program = compile(&dir, "closes_slowly");
    run_well(&launcher(), &Setting::nodes(9), &program, &[]);
}

/// It was said after 30 s, with nothing but `ulimit -n` to do.
#[test]
fn a_program_that_lowers_its_limit_of_descriptors_is_told_so_soon() {
    let dir = TestDir::new();
    let program = compile(&dir, "lowered_limit");
    for transport in ["unix", "tcp"] {
        let setting = Setting { transport, ..Setting::nodes(12) };
        let since = Instant::now();
        let ended = run(&launcher(), &setting, &program, &[]);
        assert_eq!(ended.code, Some(70), "{ended:?}");
        assert!(ended.err.contains("failed: cannot make links to other nodes: "), "{ended:?}");
        assert!(ended.err.contains("its limit allows, 16, and needs one for each"), "{ended:?}");
        assert!(since.elapsed() < Duration::from_secs(8), "{ended:?}");
    }
}

#[test]
fn a_thread_for_deadlines_that_could_not_start_is_no_deadlock_and_starts_later() {
    let dir = TestDir::new();
    let program = compile(&dir, "exhausted");
    for nodes in [1, 2] {
        run_well(&launcher(), &Setting::nodes(nodes), &program, &["timed"]);
    }
}

#[test]
fn a_child_of_a_node_is_outside_of_the_job() {
    let dir = TestDir::new();
    let program = compile(&dir, "fork");
    for &guard in guards() {
        for nodes in [1, 3] {
            run_well(
                &launcher(),
                &Setting { guard, ..Setting::nodes(nodes) },
                &program,
                &["calls"],
            );
        }
    }
    let options = &["--tracking", "scans"];
    let setting = Setting { consistency: "lazy-release", options, ..Setting::nodes(2) };
    run_well(&launcher(), &setting, &program, &["touch"]);
}

#[test]
fn who_forks_before_it_joins_has_one_node_which_is_the_first_that_joins() {
    let dir = TestDir::new();
    let program = compile(&dir, "fork_first");
    for nodes in [1, 3] {
        for how in ["child", "daemon", "both", "both-late"] {
            run_well(&launcher(), &Setting::nodes(nodes), &program, &[how]);
        }
    }
}

/// The launcher took the end of the process that it had started for the node's: a second later the job ended, or at once
/// and well, with nothing computed, if no node had joined.
#[test]
fn a_node_that_is_a_daemon_may_join_late_and_compute_long_and_its_end_is_noticed() {
    let dir = TestDir::new();
    let program = compile(&dir, "fork_first");
    for nodes in [1, 3] {
        let out = run_well(&launcher(), &Setting::nodes(nodes), &program, &["slow"]);
        assert_eq!(out.matches("done").count(), nodes as usize, "{out}");
    }
    let late = Setting { options: &["--boot-timeout", "1"], ..Setting::nodes(1) };
    let ended = run(&launcher(), &late, &program, &["slow"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
    // The job was over as all had left, whatever they ended with.
    for nodes in [1, 2, 3] {
        let ended = run(&launcher(), &Setting::nodes(nodes), &program, &["code"]);
        assert_eq!(ended.code, Some(9), "{ended:?}");
    }
    // Its end was forgotten where it came before that of the process that was started.
    let longer = format!("{} code; sleep 2", program.display());
    let ended = run(&launcher(), &Setting::nodes(2), Path::new("/bin/sh"), &["-c", &longer]);
    assert_eq!(ended.code, Some(9), "{ended:?}");
    for (how, code, what) in [
        ("leaves", 1, ") left without mg_finalize; the job ends"),
        ("aborts", 139, ") was killed by signal 11 (SIGSEGV) at address 0x8"),
    ] {
        let ended = run(&launcher(), &Setting::nodes(3), &program, &[how]);
        assert_eq!(ended.code, Some(code), "{how}: {ended:?}");
        assert!(ended.err.contains("node 1 (pid ") && ended.err.contains(what), "{how}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{how}: {ended:?}");
    }
}

#[test]
fn any_thread_may_join_and_any_may_leave() {
    let dir = TestDir::new();
    let program = compile(&dir, "other_thread");
    for &guard in guards() {
        for nodes in [1, 3] {
            for who in ["main", "other", "exit"] {
                let setting = Setting { guard, ..Setting::nodes(nodes) };
                run_well(&launcher(), &setting, &program, &[who]);
            }
        }
    }
}

#[test]
fn a_child_that_touches_shared_memory_ends_with_one_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "fork");
    for &guard in guards() {
        let ended = run(&launcher(), &Setting { guard, ..Setting::nodes(2) }, &program, &["touch"]);
        assert_eq!(ended.code, Some(0), "the nodes go on: {ended:?}");
        for node in ["node 0", "node 1"] {
            let line = format!("a child process of {node} touched shared memory at 0x1");
            assert_eq!(ended.err.matches(&line).count(), 1, "{ended:?}");
        }
    }
}

#[test]
fn shared_memory_that_is_touched_after_the_end_ends_the_node_with_one_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "after");
    for &guard in guards() {
        for nodes in [1, 3] {
            for who in ["main", "atexit", "thread"] {
                let begin = Instant::now();
                let setting = Setting { guard, ..Setting::nodes(nodes) };
                let ended = run(&launcher(), &setting, &program, &[who]);
                assert!(begin.elapsed() < SOON, "{who}: {ended:?}");
                assert_eq!(ended.code, Some(70), "{who}: {ended:?}");
                assert!(!ended.out.contains("went on"), "{who}: {ended:?}");
                let line = "was touched after this node had left the job";
                assert_eq!(ended.err.matches(line).count(), 1, "{who}: {ended:?}");
            }
        }
    }
}

#[test]
fn threads_that_go_on_do_not_keep_a_process_from_its_end() {
    let dir = TestDir::new();
    let program = compile(&dir, "after");
    for &guard in guards() {
        for nodes in [1, 3] {
            let setting = Setting { guard, ..Setting::nodes(nodes) };
            run_well(&launcher(), &setting, &program, &["beside"]);
        }
    }
}

#[test]
fn a_node_that_waits_for_memory_is_ended_by_sigterm_unless_it_handles_it() {
    let dir = TestDir::new();
    let program = compile(&dir, "terminated");
    for &guard in guards() {
        let setting = Setting { guard, ..Setting::nodes(2) };
        let begin = Instant::now();
        let ended = run(&launcher(), &setting, &program, &[]);
        assert!(begin.elapsed() < SOON, "{ended:?}");
        assert!(ended.code != Some(0) && ended.err.contains("SIGTERM"), "{ended:?}");
        run_well(&launcher(), &setting, &program, &["handler"]);
    }
}

#[test]
fn signals_are_blocked_handled_and_threads_cancelled_beside_accesses() {
    let dir = TestDir::new();
    let program = compile(&dir, "signals");
    for &guard in guards() {
        for how in ["mask", "handler", "cancel", "timer", "inherited"] {
            run_well(&launcher(), &Setting { guard, ..Setting::nodes(2) }, &program, &[how]);
        }
    }
}

#[test]
fn a_signal_that_a_system_call_blocks_is_one_of_the_reasons_that_are_named() {
    let dir = TestDir::new();
    let program = compile(&dir, "signals");
    for &guard in guards() {
        let setting = Setting { guard, ..Setting::nodes(2) };
        let ended = run(&launcher(), &setting, &program, &["blocked"]);
        assert!(ended.code > Some(128), "{guard}: {ended:?}");
        let words = "or the program blocks it in a way of its own (a system call,";
        assert!(ended.err.contains(words), "{guard}: {ended:?}");
    }
}

#[test]
fn atomics_on_release_consistent_memory_are_named_once_a_node() {
    let dir = TestDir::new();
    let program = compile(&dir, "reduce");
    let source = fs::read_to_string(source("reduce.c")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains("the line that is named")).unwrap();
    let place = format!("an atomic instruction at reduce.c:{line} (main)");
    for &guard in guards() {
        for consistency in ["eager-release", "lazy-release", "auto"] {
            let setting = Setting { guard, consistency, ..Setting::nodes(2) };
            let ended = run(&launcher(), &setting, &program, &[]);
            assert_eq!(ended.code, Some(0), "{setting:?}: {ended:?}");
            let said = ended.err.matches(&place).count();
            assert!((1..=2).contains(&said), "{setting:?}: {ended:?}");
            let setting = Setting { options: &["--check-races"], ..setting };
            let ended = run(&launcher(), &setting, &program, &[]);
            assert_eq!(ended.code, Some(66), "{setting:?}: {ended:?}");
            assert!(ended.err.contains(&format!("race: {place}")), "{setting:?}: {ended:?}");
        }
        for setting in [
            Setting { guard, ..Setting::nodes(2) },
            Setting { guard, consistency: "lazy-release", ..Setting::nodes(1) },
        ] {
            let ended = run(&launcher(), &setting, &program, &[]);
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{setting:?}");
        }
    }
}

#[test]
fn locked_memory_is_the_program_s_and_shared_memory_is_protected_by_the_library_alone() {
    let dir = TestDir::new();
    let program = compile(&dir, "lock");
    for &guard in guards() {
        let options = &["--shared", "256M"];
        let setting = Setting { guard, options, ..Setting::nodes(2) };
        for arguments in [&[][..], &["before"]] {
            let ended = run(&launcher(), &setting, &program, arguments);
            assert_eq!(ended.code, Some(0), "{setting:?}: {ended:?}");
            let refused = ended.err.matches("mprotect of shared memory at 0x1").count();
            let locks = !ended.err.contains("mlockall");
            assert!(refused == 2 || !locks, "once a node: {ended:?}");
        }
    }
}

#[test]
fn shared_memory_is_neither_unmapped_nor_replaced_by_a_program_and_what_it_does_anyway_is_named() {
    let dir = TestDir::new();
    let program = compile(&dir, "mappings");
    for &guard in guards() {
        let setting = Setting { guard, ..Setting::nodes(2) };
        let ended = run(&launcher(), &setting, &program, &[]);
        assert_eq!(ended.code, Some(0), "{guard}: {ended:?}");
        let refused = ended.err.matches("munmap of addresses of shared memory at 0x1").count();
        assert_eq!(refused, 2, "once a node: {ended:?}");
        for how in ["unmap", "move", "asked"] {
            let ended = run(&launcher(), &setting, &program, &[how]);
            assert!(ended.code != Some(0) && ended.err.contains("node 0 ("), "{how}: {ended:?}");
            let named = ended.err.contains("by a system call of its own");
            assert!(named && !ended.err.contains("max_map_count"), "{guard}, {how}: {ended:?}");
        }
    }
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_those_of_links_that_are_being_made() {
    let dir = TestDir::new();
    let program = compile(&dir, "closes_links");
    for (nodes, transport) in [(9, "unix"), (16, "unix"), (9, "tcp"), (12, "tcp")] {
        run_well(&launcher(), &Setting { transport, ..Setting::nodes(nodes) }, &program, &[]);
    }
}

/// The child kept a socket that was opened in the moment of the fork: peers did not see the end of the node.
#[test]
fn a_child_has_no_descriptor_of_a_link_that_is_being_made() {
    let strace = Path::new("/usr/bin/strace");
    if !strace.exists() {
        return not_tried("there is no strace");
    }
    let dir = TestDir::new();
    let program = compile(&dir, "forks_links");
    let program = program.to_str().unwrap();
    for (transport, calls) in [("unix", "accept4,socket"), ("tcp", "accept4")] {
        let slow = format!("inject={calls}:delay_exit=5000");
        let words = ["-f", "-qq", "-o", "/dev/null", "-e", &slow, program];
        run_well(&launcher(), &Setting { transport, ..Setting::nodes(9) }, strace, &words);
    }
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_those_of_its_node() {
    let dir = TestDir::new();
    let program = compile(&dir, "closes");
    for &guard in guards() {
        run_well(&launcher(), &Setting { guard, ..Setting::nodes(2) }, &program, &[]);
    }
}

/// The library's handler wrote over what lies below the stack.
#[test]
fn an_alternate_stack_that_has_no_room_for_an_access_is_named() {
    let dir = TestDir::new();
    let program = compile(&dir, "alternate");
    let mut named = 0;
    for &guard in guards() {
        let setting = Setting { guard, ..Setting::nodes(2) };
        for bytes in ["8192", "16384"] {
            let ended = run(&launcher(), &setting, &program, &[bytes]);
            assert_eq!(ended.code, Some(70), "{guard}, {bytes}: {ended:?}");
            let line = format!("on the alternate stack of {bytes} bytes at 0x");
            assert!(ended.err.contains(&line), "{guard}: {ended:?}");
            assert!(ended.err.contains("give sigaltstack 64 KiB at least"), "{guard}: {ended:?}");
        }
        run_well(&launcher(), &setting, &program, &["65536"]);
        // There is room for no handler, for the first one alone, or for the beginning of the second one: how much a handler takes
        // before it runs is the processor's. Which of them can say so is for the kernel.
        for bytes in ["2048", "3000", "4096", "6000"] {
            let ended = run(&launcher(), &setting, &program, &[bytes]);
            let begins = format!("on the alternate stack of {bytes} bytes at 0x");
            if ended.code == Some(70) && ended.err.contains(&begins) {
                named += 1;
                continue;
            }
            assert_eq!(ended.code, Some(139), "{guard}, {bytes}: {ended:?}");
            let small = format!("the alternate stack of {bytes} bytes has no room");
            named += usize::from(ended.err.contains(&small));
            let any = ended.err.contains("an alternate stack had no room for a handler");
            assert!(any || ended.err.contains(&small), "{guard}, {bytes}: {ended:?}");
        }
    }
    assert!(named > 0, "none named its stack");
}

/// What it printed went to shared memory, by the number of a descriptor that was the node's.
#[test]
fn no_descriptor_of_a_node_is_where_stdin_stdout_and_stderr_were_closed() {
    let dir = TestDir::new();
    let program = compile(&dir, "closed");
    for &guard in guards() {
        for mask in ["0", "1", "2", "3", "4", "5", "6", "7"] {
            for transport in ["unix", "tcp"] {
                let setting = Setting { guard, transport, ..Setting::nodes(2) };
                run_well(&launcher(), &setting, &program, &[mask]);
            }
            let mut alone = std::process::Command::new(&program);
            let ended = alone.arg(mask).env("MULTIGRAIN_GUARD", guard).output().unwrap();
            assert!(ended.status.success(), "{guard}, {mask}, without a launcher: {ended:?}");
        }
    }
}

#[test]
fn a_node_whose_descriptors_the_program_closes_behind_its_back_ends_with_a_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "closes");
    let loads = dir.path().join("loaded");
    let mut command = compiler("cc", &["-D_GNU_SOURCE"]);
    must_succeed(command.arg(source("loaded.c")).arg("-ldl").arg("-o").arg(&loads));
    let library = built().join("libmultigrain.so");
    let library = library.to_str().unwrap();
    let what = "the program has closed file descriptors of the library: it may close only those that it has opened";
    for (program, arguments, nodes, who) in [
        (&program, &["raw"][..], 2, "node 1 (pid "),
        // The launcher hears why.
        (&program, &["raw", "but"], 2, "node 1 (pid "),
        // As Python does: the C library's close is not the node's there.
        (&loads, &[library, "1"], 3, "node 1 (pid "),
        (&loads, &[library, "0"], 1, "node 0 (pid "),
    ] {
        let ended = run(&launcher(), &Setting::nodes(nodes), program, arguments);
        assert_eq!(ended.code, Some(70), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(what) && ended.err.contains(who), "{arguments:?}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{arguments:?}: {ended:?}");
    }
    let alone = std::process::Command::new(&loads).args([library, "0"]).output().unwrap();
    assert!(alone.status.success(), "it has nobody to talk to: {alone:?}");
}

#[test]
fn what_a_program_maps_under_an_unlimited_stack_is_its_own() {
    let dir = TestDir::new();
    let program = compile(&dir, "unlimited");
    for (&guard, large) in guards().iter().flat_map(|guard| [(guard, ""), (guard, "large")]) {
        let script = format!("ulimit -s unlimited || exit 77; exec {} {large}", program.display());
        let options: &[&str] = if large.is_empty() { &[] } else { &["--shared", "12T"] };
        let setting = Setting { guard, options, ..Setting::nodes(2) };
        let ended = run(&launcher(), &setting, Path::new("/bin/sh"), &["-c", &script]);
        if ended.code == Some(77) {
            return not_tried("this user may not lift the limit of the stack");
        }
        assert_eq!(ended.code, Some(0), "{ended:?}");
        // It has tried to unmap what is shared.
        assert_eq!(ended.err.matches("is refused").count(), 2, "{ended:?}");
    }
}

#[test]
fn a_limit_of_stacks_that_lets_no_thread_start_is_named() {
    let dir = TestDir::new();
    let program = compile(&dir, "closes");
    let script = format!("ulimit -s 1073741824 || exit 0; exec {}", program.display());
    let ended = run(&launcher(), &Setting::nodes(1), Path::new("/bin/sh"), &["-c", &script]);
    // Where there is room for such stacks, or no such limit may be set, nothing is tested.
    assert!(ended.code == Some(0) || ended.err.contains("lower it (ulimit -s)"), "{ended:?}");
}

/// What it has to send is more than a link holds, or waits for acknowledgements of a node that has left.
#[test]
fn a_node_that_leaves_has_said_all_it_was_asked_for() {
    let dir = TestDir::new();
    let program = compile(&dir, "asked_for_at_the_end");
    for transport in ["unix", "tcp"] {
        for (pages, options) in
            [("20000", &[][..]), ("8", &["--handshake"]), ("512", &["--handshake"])]
        {
            for nodes in [3, 4] {
                let setting = Setting { transport, options, ..Setting::nodes(nodes) };
                run_well(&launcher(), &setting, &program, &[pages]);
            }
        }
    }
}

#[test]
fn one_of_several_threads_joins_that_call_mg_init_at_once() {
    let dir = TestDir::new();
    let program = compile(&dir, "init_at_once");
    for nodes in [1, 3] {
        run_well(&launcher(), &Setting::nodes(nodes), &program, &[]);
    }
}
