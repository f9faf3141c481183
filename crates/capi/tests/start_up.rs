//! How nodes come up: the secret, the builds of the program, listening descriptors, peers that do not come.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use support::c::{built, compile, compiler, launcher, must_succeed, source};
use support::{Ended, Setting, TestDir, run};

#[test]
fn the_secret_is_in_no_environment_and_its_pipe_is_closed_as_a_node_joins() {
    let dir = TestDir::new();
    let program = compile(&dir, "environment");
    let plain = Setting { options: &["-x", "EXPECTED=nothing"], ..Setting::nodes(2) };
    let encrypt = &["--encrypt", "on", "-x", "EXPECTED=credentials"];
    let encrypted = Setting { transport: "tcp", options: encrypt, ..Setting::nodes(2) };
    for setting in [plain, encrypted] {
        let ended = run(&launcher(), &setting, &program, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let line = "a node started this program, and only `multigrain run` makes nodes";
        assert_eq!(ended.err.matches(line).count(), 2, "one line a child: {ended:?}");
    }
}

#[test]
fn a_misspelt_variable_is_named_once_with_or_without_a_launcher() {
    let dir = TestDir::new();
    let program = compile(&dir, "probe");
    let line = "MULTIGRAIN_GAURD is no variable of Multigrain; MULTIGRAIN_GUARD may be meant\n";
    let options = &["-x", "MULTIGRAIN_GAURD=uffd", "-x", "MULTIGRAIN_INPUT_FILE=a"];
    let ended = run(&launcher(), &Setting { options, ..Setting::nodes(3) }, &program, &[]);
    assert_eq!((ended.code, ended.err), (Some(0), format!("multigrain: {line}")));
    let mut alone = Command::new(&program);
    let output = alone.env("MULTIGRAIN_GAURD", "uffd").env("MULTIGRAIN_SHARED", "1G").output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said), (Some(0), format!("multigrain: node 0: {line}")));
}

#[test]
fn a_number_of_nodes_that_nobody_has_made_is_named() {
    let dir = TestDir::new();
    let program = compile(&dir, "probe");
    let output = Command::new(&program).env("MULTIGRAIN_NODES", "3").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let line = "multigrain: node 0: MULTIGRAIN_NODES=3 makes no nodes, and this job has one: start it with `multigrain run -n 3`\n";
    assert_eq!((output.status.code(), said.as_str()), (Some(0), line));
}

#[test]
fn variables_take_what_the_manual_says() {
    let dir = TestDir::new();
    let program = compile(&dir, "probe");
    for (name, value, good) in [
        ("MULTIGRAIN_CHECK_RACES", "all", true),
        ("MULTIGRAIN_CHECK_RACES", "on", true),
        ("MULTIGRAIN_CHECK_RACES", "some", false),
        ("MULTIGRAIN_LEARN", "off", true),
        ("MULTIGRAIN_LEARN", "all", false),
    ] {
        let ended = Command::new(&program).env(name, value).output().unwrap();
        assert_eq!(ended.status.success(), good, "{name}={value}: {ended:?}");
    }
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

/// What was out was said to be a peer, or nothing was said of what to do.
#[test]
fn a_node_without_descriptors_names_its_own_limit_and_no_peer() {
    let dir = TestDir::new();
    let program = compile(&dir, "probe");
    let script = dir.path().join("limited");
    let mut failed = 0;
    for (transport, limit) in (5..15).flat_map(|limit| [("unix", limit), ("tcp", limit)]) {
        let lower = format!("[ $MULTIGRAIN_RANK = 1 ] && ulimit -n {limit}");
        fs::write(&script, format!("#!/bin/sh\n{lower}\nexec {}\n", program.display())).unwrap();
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let ended = run(&launcher(), &Setting { transport, ..Setting::nodes(2) }, &script, &[]);
        if ended.code == Some(0) {
            continue;
        }
        failed += 1;
        assert!(ended.err.contains("node 1 (pid "), "{limit}: {ended:?}");
        assert!((ended.out.clone() + &ended.err).contains("(ulimit -n)"), "{limit}: {ended:?}");
        assert!(!ended.err.contains(" was lost "), "{limit}: {ended:?}");
    }
    assert!(failed > 2, "no limit is too low");
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
fn a_node_whose_secret_is_closed_or_another_thing_says_so_at_once() {
    let dir = TestDir::new();
    let program = compile(&dir, "probe");
    let closes = compile(&dir, "closes_all");
    let script = dir.path().join("wrong");
    for (fd, line) in [
        ("", format!("exec {}", closes.display())),
        ("0", format!("echo x | MULTIGRAIN_SECRET_FD=0 {}", program.display())),
        ("0", format!("MULTIGRAIN_SECRET_FD=0 {} < /dev/null", program.display())),
        ("77", format!("MULTIGRAIN_SECRET_FD=77 {}", program.display())),
    ] {
        fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let ended = run(&launcher(), &Setting::nodes(2), &script, &[]);
        assert!(ended.code != Some(0), "{ended:?}");
        let named = format!("MULTIGRAIN_SECRET_FD: descriptor {fd}");
        let help = "let nothing close it, nor any other that it has not opened, before mg_init";
        assert!(ended.err.contains(&named) && ended.err.contains(help), "{ended:?}");
    }
}

#[test]
fn shells_and_others_may_lie_between_the_launcher_and_a_node_and_start_several_one_by_one() {
    let dir = TestDir::new();
    let program = compile(&dir, "counts");
    let script = dir.path().join("wrapper");
    let again = format!("env A=b sh -c '{0} && {0}' && exec nice {0}", program.display());
    fs::write(&script, format!("#!/bin/sh\n{again}\n")).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let encrypted =
        Setting { transport: "tcp", options: &["--encrypt", "on"], ..Setting::nodes(2) };
    for setting in [Setting::nodes(2), encrypted] {
        let ended = run(&launcher(), &setting, &script, &[]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
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
    command.env("MULTIGRAIN_JOB", "1").env("MULTIGRAIN_SECRET_FD", "0");
    command.env("MULTIGRAIN_PEERS", format!("tcp:{peers},tcp:{own}"));
    let (secret, mut end) = std::io::pipe().unwrap();
    end.write_all(format!("{}\n\n", "07".repeat(32)).as_bytes()).unwrap();
    drop(end);
    let ended = command.stdin(secret).output().unwrap();
    // If the node never came, this does.
    let _ = std::net::TcpStream::connect(peers);
    hangs_up.join().unwrap();
    assert!(ended.status.success(), "{ended:?}");
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

/// A launcher that may not make a system call without which a job cannot be ended.
#[test]
fn a_system_call_that_a_filter_refuses_is_named_before_a_node_starts() {
    let dir = TestDir::new();
    let filter = dir.path().join("filter");
    must_succeed(compiler("cc", &["-std=c11"]).arg(source("filter.c")).arg("-o").arg(&filter));
    let mut calls = vec![
        (libc::SYS_kill, "kill"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_accept4, "accept4"),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.push((libc::SYS_dup2, "dup2"));
    for (number, name) in calls {
        let start = std::time::Instant::now();
        let mut command = Command::new(&filter);
        command.arg(number.to_string()).arg(launcher());
        let output = command.args(["run", "-n", "2", "sleep", "60"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let line = format!("multigrain: {name}, which this system or a filter of it refuses: ");
        assert!(output.status.code() == Some(125) && said.starts_with(&line), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{name}");
    }
}

/// `tests/c/deadlock.c` starts threads on every node in turn, on two nodes of a launcher that may not turn address
/// randomization off, built so.
fn with_random_addresses(flags: &[&str]) -> Ended {
    let dir = TestDir::new();
    let filter = dir.path().join("filter");
    must_succeed(compiler("cc", &["-std=c11"]).arg(source("filter.c")).arg("-o").arg(&filter));
    compile(&dir, "deadlock");
    let program = dir.path().join("joins");
    let mut command = compiler("cc", &["-std=c11", "-D_GNU_SOURCE", "-O1"]);
    command.args(flags).arg(source("deadlock.c")).arg("-o").arg(&program);
    command.arg("-L").arg(built()).arg("-lmultigrain");
    must_succeed(command.arg(format!("-Wl,-rpath,{}", dir.path().display())));
    let mut command = Command::new(&filter);
    command.arg(libc_personality()).arg(launcher()).args([
        "run",
        "-n",
        "2",
        "--timeout",
        "60",
        "--",
    ]);
    let output = command.arg(program).arg("joins").stdin(Stdio::null()).output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The number of personality(2).
fn libc_personality() -> &'static str {
    if cfg!(target_arch = "x86_64") { "135" } else { "92" }
}

#[test]
fn where_addresses_are_random_who_starts_a_thread_elsewhere_is_told_why_and_nobody_blamed() {
    let ended = with_random_addresses(&["-fpie", "-pie"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let cause = "cannot start a thread: functions of the program lie elsewhere there, for addresses are random";
    assert!(ended.err.contains(cause) && !ended.err.contains("protocol"), "{ended:?}");
    let ended = with_random_addresses(&["-fno-pie", "-no-pie"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Each node said it, and the launcher that one of them had ended.
#[test]
fn nodes_that_cannot_join_for_one_reason_have_one_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "ignores_init");
    for (argument, code, says) in
        [("cares", 3, " since its mg_init failed: "), ("", 0, " and 2 more: ")]
    {
        let limited = format!("ulimit -v 30000000; exec {} {argument}", program.display());
        let ended = run(&launcher(), &Setting::nodes(3), Path::new("/bin/sh"), &["-c", &limited]);
        let why =
            "68719476736 shared bytes are more than `ulimit -v` allows: say `ulimit -v unlimited`";
        assert_eq!((ended.code, ended.err.matches(why).count()), (Some(code), 1), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
    }
}
