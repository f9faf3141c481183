//! The C interface as C programs meet it: compiled against `include/`, linked with the built
//! library, run as jobs of 1, 2 and 4 nodes under every guard and transport. The programs are in
//! `tests/c`; each checks what it does and exits with 0 if all is well.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use support::c::{built, compile, compiler, guards, include, launcher, must_succeed, source};
use support::{Ended, Setting, TestDir, run, run_well, settings};

/// Runs a program on these numbers of nodes in every way.
fn run_in_every_way(name: &str, nodes: &[u32], threads: u32) {
    let dir = TestDir::new();
    let program = compile(&dir, name);
    for setting in settings(nodes, guards()) {
        run_well(&launcher(), &Setting { threads, ..setting }, &program, &[]);
    }
}

/// Names of the functions `multigrain.h` declares.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(include().join("multigrain.h")).unwrap();
    let code: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let name = |text: &str| -> String {
        let letters = text.chars().rev().take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
        letters.collect::<Vec<_>>().into_iter().rev().collect()
    };
    let before_parentheses = code.split('(').map(name);
    before_parentheses.filter(|name| name.starts_with("mg_")).collect()
}

/// Functions of the C library in whose place the program finds the library's.
const INTERPOSED: [&str; 12] = [
    "__sysv_signal",
    "close",
    "close_range",
    "closefrom",
    "dup2",
    "dup3",
    "mlockall",
    "mprotect",
    "pthread_sigmask",
    "sigaction",
    "signal",
    "sigprocmask",
];

#[test]
fn the_library_exports_the_functions_of_the_header_and_what_it_interposes() {
    let library = built().join("libmultigrain.so");
    let nm = must_succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let exported: BTreeSet<String> =
        nm.lines().filter_map(|line| Some(line.split_whitespace().last()?.to_owned())).collect();
    assert!(declared().len() > 30, "{:?}", declared());
    let promised = declared().into_iter().chain(INTERPOSED.map(str::to_owned)).collect();
    assert_eq!(exported, promised);
}

#[test]
fn the_library_has_the_name_of_its_interface() {
    let library = built().join("libmultigrain.so");
    let head = must_succeed(Command::new("readelf").arg("-d").arg(&library));
    assert!(head.contains("soname: [libmultigrain.so.0]"), "{head}");
}

#[test]
fn the_header_is_c11_and_cpp_and_every_function_can_be_linked() {
    let dir = TestDir::new();
    let every: Vec<String> =
        declared().iter().map(|name| format!("(any_function){name},")).collect();
    let template = fs::read_to_string(source("header.c")).unwrap();
    let code = template.replace("EVERY_FUNCTION", &every.join("\n"));
    let c = dir.path().join("header.c");
    let cpp = dir.path().join("header.cpp");
    fs::write(&c, &code).unwrap();
    fs::write(&cpp, &code).unwrap();
    let strict = ["-pedantic-errors", "-Wconversion", "-Wshadow", "-O1"];
    let object = dir.path().join("header.o");
    for (compiler_name, standard, file) in
        [("cc", "-std=c11", &c), ("c++", "-std=c++11", &cpp), ("c++", "-std=c++20", &cpp)]
    {
        let mut command = compiler(compiler_name, &strict);
        must_succeed(command.arg(standard).arg("-c").arg(file).arg("-o").arg(&object));
        let mut link = compiler(compiler_name, &[]);
        link.arg(&object).arg("-L").arg(built()).arg("-lmultigrain");
        must_succeed(link.arg("-o").arg(dir.path().join("header")));
    }
}

#[test]
fn the_static_library_makes_programs_that_need_no_other() {
    let dir = TestDir::new();
    let program = dir.path().join("static");
    let mut command = compiler("cc", &["-std=c11", "-D_GNU_SOURCE"]);
    command.arg(source("outside.c")).arg(built().join("libmultigrain.a"));
    command.args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"]);
    must_succeed(command.arg("-o").arg(&program));
    let needed = must_succeed(Command::new("readelf").arg("-d").arg(&program));
    assert!(!needed.contains("libmultigrain"), "{needed}");
    run_well(&launcher(), &Setting::nodes(2), &program, &[]);
}

#[test]
fn threads_start_in_programs_without_any_shared_object() {
    let dir = TestDir::new();
    let program = dir.path().join("threads");
    let mut command = compiler("cc", &["-static", "-std=c11", "-D_GNU_SOURCE"]);
    command.arg(source("threads.c")).arg(built().join("libmultigrain.a"));
    command.args(["-lgcc_eh", "-lpthread", "-lm", "-ldl", "-lc"]);
    must_succeed(command.arg("-o").arg(&program));
    let dynamic = must_succeed(Command::new("readelf").arg("-d").arg(&program));
    assert!(dynamic.contains("no dynamic section"), "{dynamic}");
    run_well(&launcher(), &Setting { threads: 3, ..Setting::nodes(2) }, &program, &[]);
}

#[test]
fn threads_start_in_libraries_of_the_program() {
    let dir = TestDir::new();
    let program = compile(&dir, "plugin");
    let library = dir.path().join("libplugin.so");
    let mut command = compiler("cc", &["-shared", "-fPIC", "-DPLUGIN"]);
    command.arg(source("plugin.c")).arg("-L").arg(built()).arg("-lmultigrain");
    must_succeed(command.arg("-o").arg(&library));
    run_well(&launcher(), &Setting::nodes(2), &program, &[library.to_str().unwrap()]);
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
fn memory_is_coherent_whatever_its_kind_and_history() {
    run_in_every_way("memory", &[1, 2, 4], 1);
}

#[test]
fn the_rest_of_mallocs_family_is_as_mallocs_is() {
    run_in_every_way("malloc", &[1, 2], 1);
    let dir = TestDir::new();
    let program = compile(&dir, "malloc");
    for consistency in ["eager-release", "lazy-release", "auto"] {
        run_well(&launcher(), &Setting { consistency, ..Setting::nodes(2) }, &program, &[]);
    }
}

#[test]
fn fresh_memory_costs_no_fault_and_is_counted_with_two_threads_as_well() {
    run_in_every_way("fresh", &[1, 2], 2);
}

#[test]
fn memory_of_every_consistency_is_what_its_rules_promise() {
    run_in_every_way("consistency", &[1, 2, 4], 1);
}

#[test]
fn a_job_sets_what_memory_promises_that_asks_for_nothing() {
    let dir = TestDir::new();
    let program = compile(&dir, "consistency");
    for consistency in ["sequential", "eager-release", "lazy-release", "auto"] {
        let setting = Setting { consistency, ..Setting::nodes(2) };
        run_well(&launcher(), &setting, &program, &[consistency]);
    }
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
fn what_homes_write_is_found_by_faults_or_without() {
    let dir = TestDir::new();
    let program = compile(&dir, "tracking");
    let faults = Setting::nodes(2);
    run_well(&launcher(), &faults, &program, &["faults"]);
    let options = &["--tracking", "scans"];
    run_well(&launcher(), &Setting { options, ..faults }, &program, &["scans"]);
}

#[test]
fn a_flush_of_many_pages_gets_one_answer() {
    run_in_every_way("flush", &[2], 1);
}

/// What `share` says of each thread: its node, what it did, and the faults of its node.
fn shares(setting: &Setting, arguments: &[&str]) -> Vec<[u64; 3]> {
    let dir = TestDir::new();
    let program = compile(&dir, "share");
    let out = run_well(&launcher(), setting, &program, arguments);
    println!("{setting:?} {arguments:?}:\n{out}");
    let number = |line: &str, name: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|word| word.parse().ok())
    };
    let mut all: Vec<[u64; 3]> = out
        .lines()
        .filter_map(|line| {
            Some([number(line, "node")?, number(line, "done")?, number(line, "faults")?])
        })
        .collect();
    all.sort_unstable();
    all
}

/// What nodes do comes within a factor of 2 on a quiet machine; where nodes are more than processors, and
/// others want those as well, a factor of 4 stands for who starves. In its turn a node does as much as it
/// has threads that run beside each other: at most `beside`.
fn assert_nobody_starves(shares: &[[u64; 3]], threads: usize, beside: u64) {
    assert_eq!(shares.len(), threads);
    let mut nodes = BTreeMap::<u64, u64>::new();
    for [node, done, _] in shares {
        *nodes.entry(*node).or_default() += done;
    }
    let most = nodes.values().max().copied().unwrap_or_default();
    assert!(nodes.values().all(|done| *done >= most / (4 * beside)), "{shares:?}");
}

#[test]
fn nodes_that_compete_for_a_word_get_their_shares() {
    for &guard in guards() {
        for (nodes, transport, options) in [
            (4, "unix", &[][..]),
            (4, "tcp", &[]),
            (2, "unix", &["--wait", "spin"]),
            (4, "unix", &["--wait", "block"]),
        ] {
            let setting = Setting { guard, transport, options, ..Setting::nodes(nodes) };
            for (mode, think) in [("add", "0"), ("add", "50"), ("mix", "50")] {
                let shares = shares(&setting, &[mode, "700", think]);
                assert_nobody_starves(&shares, nodes as usize, 1);
            }
        }
    }
}

#[test]
fn threads_of_one_node_against_one_thread_all_get_their_shares() {
    let shares = shares(&Setting::nodes(2), &["add", "1000", "0", "8"]);
    assert_nobody_starves(&shares, 9, 8);
}

#[test]
fn a_handler_in_the_middle_of_a_held_instruction_may_hold_as_well() {
    let dir = TestDir::new();
    let program = compile(&dir, "nested");
    for &guard in guards() {
        run_well(&launcher(), &Setting { guard, ..Setting::nodes(2) }, &program, &[]);
    }
}

#[test]
fn a_thread_that_ends_in_the_middle_of_a_held_instruction_holds_it_no_longer() {
    let dir = TestDir::new();
    let program = compile(&dir, "leaves");
    for &guard in guards() {
        run_well(&launcher(), &Setting { guard, ..Setting::nodes(3) }, &program, &[]);
    }
}

#[test]
fn a_breakpoint_of_the_program_ends_it() {
    let dir = TestDir::new();
    let program = compile(&dir, "breakpoint");
    for arguments in [&[][..], &["raise"]] {
        let ended = run(&launcher(), &Setting::nodes(1), &program, arguments);
        assert!(!ended.out.contains("went on"), "{ended:?}");
        assert!(ended.err.contains("SIGTRAP"), "{ended:?}");
    }
}

#[test]
fn instructions_across_two_minipages_take_few_faults() {
    for &guard in guards() {
        for nodes in [3, 4] {
            for mode in ["cross", "store"] {
                let setting = Setting { guard, ..Setting::nodes(nodes) };
                let shares = shares(&setting, &[mode, "700", "0"]);
                assert_nobody_starves(&shares, nodes as usize, 1);
                let few = |&[_, done, faults]: &[u64; 3]| faults <= 5 * done;
                assert!(shares.iter().all(few), "{shares:?}");
            }
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

#[test]
#[ignore = "takes half a minute; the books' own test counts as far"]
fn a_node_keeps_65536_results_and_starts_again_when_they_are_asked_for() {
    let dir = TestDir::new();
    let program = compile(&dir, "limits");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &["unjoined"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = "65,536 threads that ended and were never joined; join or detach them";
    assert_eq!(ended.err.matches(line).count(), 1, "said once: {ended:?}");
}

#[test]
fn the_secret_leaves_the_environment_and_nothing_else_does() {
    let dir = TestDir::new();
    let program = compile(&dir, "environment");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = "a node started this program, and only `multigrain run` makes nodes";
    assert_eq!(ended.err.matches(line).count(), 2, "one line a child: {ended:?}");
}

/// Two nodes that run `tests/c/build.c`, built with these flags and number 1, or with 2 on node 1.
fn two_builds(flags: &[&str], second: u32) -> Ended {
    let dir = TestDir::new();
    let library = built();
    let link = dir.path().join("libmultigrain.so.0");
    std::os::unix::fs::symlink(library.join("libmultigrain.so"), &link).unwrap();
    let programs = [1, second].map(|number| {
        let program = dir.path().join(format!("build{number}"));
        let mut command = compiler("cc", &["-std=c11", "-D_GNU_SOURCE", "-O1"]);
        command.arg(format!("-DNUMBER={number}")).arg(source("build.c")).arg("-o").arg(&program);
        command.arg("-L").arg(&library).arg("-lmultigrain").args(flags);
        must_succeed(command.arg(format!("-Wl,-rpath,{}", dir.path().display())));
        program
    });
    let lengths = programs.each_ref().map(|program| fs::metadata(program).unwrap().len());
    assert_eq!(lengths[0], lengths[1], "a length tells nothing");
    let pick = dir.path().join("pick");
    let [first, second] = programs.each_ref().map(|program| program.display());
    let script = format!("#!/bin/sh\n[ $MULTIGRAIN_RANK = 0 ] && exec {first}\nexec {second}\n");
    fs::write(&pick, script).unwrap();
    fs::set_permissions(&pick, PermissionsExt::from_mode(0o755)).unwrap();
    run(&launcher(), &Setting::nodes(2), &pick, &[])
}

#[test]
fn programs_of_one_length_that_differ_in_a_byte_do_not_join() {
    for flags in [["-Wl,--build-id"], ["-Wl,--build-id=none"]] {
        let same = two_builds(&flags, 1);
        assert_eq!(same.code, Some(0), "{flags:?}: {same:?}");
        let ended = two_builds(&flags, 2);
        assert_ne!(ended.code, Some(0), "{flags:?}: {ended:?}");
        let line = "node 0 refused this node: it runs another build of the program";
        assert!(ended.err.contains(line), "{flags:?}: {ended:?}");
    }
}

#[test]
fn a_system_that_maps_no_more_areas_is_named_and_the_job_goes_on() {
    let dir = TestDir::new();
    let program = compile(&dir, "areas");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("raise vm.max_map_count"), "{ended:?}");
}

#[test]
fn hints_and_system_calls_on_shared_buffers_work() {
    run_in_every_way("hints", &[1, 2, 4], 1);
}

#[test]
fn system_calls_and_stdio_on_memory_that_is_elsewhere_lose_nothing() {
    run_in_every_way("io", &[1, 2], 1);
}

#[test]
fn freed_memory_goes_back_to_the_system_and_to_all_nodes() {
    let dir = TestDir::new();
    let program = compile(&dir, "room");
    for &guard in guards() {
        let options = &["--shared", "64M"];
        let setting = Setting { guard, options, ..Setting::nodes(2) };
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn a_tebibyte_is_freed_at_once_and_is_no_minipage() {
    let dir = TestDir::new();
    let program = compile(&dir, "room");
    let options = &["--shared", "2T"];
    let ended = run(&launcher(), &Setting { options, ..Setting::nodes(2) }, &program, &["huge"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("has at most 1 GiB; choose a smaller grain"), "{ended:?}");
}

#[test]
fn touches_that_are_far_apart_cost_little() {
    let dir = TestDir::new();
    let program = compile(&dir, "sparse");
    let options = &["--shared", "128G"];
    run_well(&launcher(), &Setting { options, ..Setting::nodes(2) }, &program, &[]);
}

#[test]
fn a_million_minipages_work() {
    run_in_every_way("million", &[2], 1);
}

#[test]
fn faults_cost_the_messages_the_paper_says() {
    run_in_every_way("counts", &[2], 1);
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
        assert!(line("wild").contains("(SIGSEGV) at address 0x123456789000"));
        assert!(line("unallocated").contains("at address 0x1fff00000040, where shared memory"));
        assert!(line("far").contains("at an address that cannot be: a damaged pointer"));
    }
}

#[test]
fn a_listening_descriptor_that_is_none_is_named_at_once() {
    let dir = TestDir::new();
    let program = compile(&dir, "probe");
    let script = dir.path().join("wrong");
    // A pipe, a file, and nothing.
    for (fd, source) in [(0, "true |"), (0, ""), (77, "")] {
        let line = format!("{source} MULTIGRAIN_LISTEN_FD={fd} {}", program.display());
        fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let start = std::time::Instant::now();
        let ended = run(&launcher(), &Setting::nodes(2), &script, &[]);
        assert!(ended.code != Some(0), "{ended:?}");
        let named = format!("MULTIGRAIN_LISTEN_FD: descriptor {fd} is not the listening socket");
        assert!(ended.err.contains(&named), "{ended:?}");
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "{ended:?}");
    }
}

#[test]
fn a_peer_that_does_not_come_is_an_error_of_its_own() {
    let dir = TestDir::new();
    let program = compile(&dir, "peer");
    let peer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let [peers, own] = [&peer, &own].map(|listener| listener.local_addr().unwrap());
    let hangs_up = std::thread::spawn(move || drop(peer.accept()));
    let mut command = Command::new(&program);
    command.env("MULTIGRAIN_RANK", "1").env("MULTIGRAIN_NODES", "2");
    command.env("MULTIGRAIN_JOB", "1").env("MULTIGRAIN_SECRET", "07".repeat(32));
    command.env("MULTIGRAIN_PEERS", format!("tcp:{peers},tcp:{own}"));
    let ended = command.stdin(Stdio::null()).output().unwrap();
    // If the node never came, this does.
    let _ = std::net::TcpStream::connect(peers);
    hangs_up.join().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn the_end_of_a_job_says_where_its_time_went_and_counts_what_the_program_did() {
    let dir = TestDir::new();
    let program = compile(&dir, "times");
    let file = dir.path().join("stats.json");
    let mut command = Command::new(launcher());
    command.args(["run", "-n", "2", "--summary", "--timeout", "60", "--stats"]).arg(&file);
    let ended = command.arg(&program).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    let titles = "  seconds         compute   fault wait    lock wait barrier wait   other wait\n";
    assert!(said.contains(titles), "{said}");
    assert!(said.contains("           4 barrier calls            2 lock calls"), "{said}");
    assert!(!said.contains("_"), "raw names: {said}");
    for zeros in ["release", " other "] {
        assert!(!said.contains(&format!("\n  {zeros}")), "{zeros}: {said}");
    }
    let stats = fs::read_to_string(&file).unwrap();
    assert!(stats.contains("\"barriers\": 4"), "in sum, without mg_finalize's: {stats}");
    assert_eq!(stats.matches("\"lock_wait_ns\": ").count(), 3, "of nodes and in sum: {stats}");
}

#[test]
fn a_node_that_does_not_come_is_named_when_the_time_for_it_is_over() {
    let dir = TestDir::new();
    let program = compile(&dir, "probe");
    let script = dir.path().join("late");
    let line = format!("[ $MULTIGRAIN_RANK = 0 ] && exec {}; exec sleep 60", program.display());
    fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let setting = Setting { options: &["--boot-timeout", "0.5"], ..Setting::nodes(4) };
    let ended = run(&launcher(), &setting, &script, &[]);
    let why = "not all nodes came up in 0.5 s; still missing: 1 to 3; \
               `multigrain run --boot-timeout` gives them longer; the job ends\n";
    assert!(ended.code == Some(75) && ended.err.ends_with(why), "{ended:?}");
}
