//! What `multigrain run --sysv` says of programs: why one cannot run, who waits for ever, what a job did; and what `strace` says of it.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::sites::{launcher, may, plain};
use support::{Ended, Setting, TestDir, not_tried, run};

fn on_two(options: &'static [&'static str], program: &Path, arguments: &[&str]) -> Ended {
    run(&launcher(), &Setting { options, ..Setting::nodes(2) }, program, arguments)
}

#[test]
fn a_program_that_is_linked_with_multigrain_is_told_from_one_of_system_v_calls() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let launcher = launcher();
    let program = support::c::compile(&dir, "fresh");
    let ended = on_two(&["--sysv"], &program, &[]);
    assert_eq!(ended.code, Some(126), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(ended.err.contains("is linked with Multigrain, and --sysv is for"), "{ended:?}");
    // What a shell starts says so itself.
    let command = format!("exec {}", program.display());
    let setting = Setting { options: &["--sysv"], ..Setting::nodes(1) };
    let ended = run(&launcher, &setting, Path::new("/bin/sh"), &["-c", &command]);
    assert!(!matches!(ended.code, Some(0)), "{ended:?}");
    assert!(ended.err.contains("`multigrain run --sysv` started it"), "{ended:?}");
}

#[test]
fn processes_that_wait_for_ever_in_system_v_calls_end_their_job_with_a_line_that_names_them() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_waits");
    let of = |node: usize, number: usize| {
        format!(
            "of node {node} has waited {{}} s for semaphore {number} of set 0 (key 0x1234) to reach 1"
        )
    };
    let cases = [
        ("", vec![of(0, 0), of(1, 1)]),
        ("join", vec![of(0, 2), of(1, 2)]),
        ("child", vec![of(0, 0), of(1, 1)]),
        ("end", vec![of(0, 0)]),
        (
            "messages",
            vec![
                "of node 0 has waited {} s for a message of type 5 in queue 0 (key 0x77)".into(),
                "of node 1 has waited {} s for room in queue 0 (key 0x77)".into(),
            ],
        ),
    ];
    for (how, parts) in cases {
        let ended = on_two(&["--sysv", "--timeout", "20"], &program, &[how]);
        assert_eq!(ended.code, Some(35), "{how}: {ended:?}");
        let line = ended.err.trim_end().replace(|letter: char| letter.is_ascii_digit(), "#");
        assert!(line.starts_with("multigrain: deadlock: pid #"), "{how}: {ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{how}: {ended:?}");
        for part in parts {
            let said =
                (0..9).any(|seconds| ended.err.contains(&part.replace("{}", &seconds.to_string())));
            assert!(said, "{how}: {part}: {ended:?}");
        }
    }
}

#[test]
fn what_may_still_go_on_is_no_deadlock() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_waits");
    for how in ["thread", "exit", "orphan", "limit"] {
        let ended = on_two(&["--sysv", "--timeout", "20"], &program, &[how]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{how}: {ended:?}");
    }
    let ended = on_two(&["--sysv", "--timeout", "20"], &program, &["alarm"]);
    assert_eq!(ended.code, Some(128 + 14), "{ended:?}");
    let ended = on_two(&["--sysv", "--timeout", "4"], &program, &["handler"]);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    for part in [
        "multigrain: time-out after 4 s (pid ",
        " s for semaphore 0 of set 0 (key 0x1234) to reach 1; pid ",
        " s for semaphore 1 of set 0 (key 0x1234) to reach 1); the job ends",
    ] {
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn the_summary_has_what_processes_did_with_each_object() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_counts");
    let stats = dir.path().join("stats");
    let mut job = std::process::Command::new(launcher());
    job.args(["run", "--sysv", "-n", "2", "--summary", "--learn", "off", "--stats"]).arg(&stats);
    let output = job.arg(&program).stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    // Node 0 writes eight pages that it has made, one for one, and node 1 reads and then writes each.
    for line in [
        "  segment 0 (key 0x5, 32.0 KiB): 8 read faults, 16 write faults, 8 pages fetched, 8 pages taken away\n",
        "  set 0 (key 0x6, semaphores: 2): 4 semop calls, ",
        "  queue 0 (key 0x7): 1 msgsnd calls, 1 msgrcv calls, 0 of them waited\n",
        "  semaphore /counted: 3 post calls, 1 wait calls, 0 of them waited\n",
    ] {
        assert!(said.contains(line), "{line}{said}");
    }
    let stats = std::fs::read_to_string(&stats).unwrap();
    assert!(stats.contains("\"sysv_segments\"") && stats.contains("\"pages_taken\""), "{stats}");
}

#[test]
fn the_doctor_says_whether_sites_can_run_and_what_to_change() {
    if !may() {
        return;
    }
    let launcher = launcher();
    let doctor = |before: &str| {
        let mut sh = std::process::Command::new("sh");
        let output = sh.args(["-c", &format!("{before} {} doctor --sysv -v", launcher.display())]);
        let output = output.stdin(std::process::Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = doctor("");
    assert_eq!(code, Some(0), "{said}");
    for check in ["sites", "processes of sites", "preloaded library", "IPC namespaces"] {
        assert!(said.contains(&format!("fine:     this host: {check}: ")), "{check}: {said}");
    }
    let (code, said) = doctor("setpriv --bounding-set -sys_ptrace,-sys_admin");
    assert_eq!(code, Some(78), "{said}");
    for line in [
        "prevents: this host: sites: ",
        "; no --sysv; run it as root, or with CAP_SYS_PTRACE\n",
        "limits:   this host: IPC namespaces: may not be made",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn a_library_that_ld_preload_cannot_name_is_refused_at_the_start() {
    if !may() {
        return;
    }
    let (dir, built) = (TestDir::new(), launcher());
    for name in ["a b", "a:b"] {
        let place = dir.path().join(name);
        std::fs::create_dir(&place).unwrap();
        for file in ["multigrain", "libmultigrain_sysv.so"] {
            std::fs::copy(built.with_file_name(file), place.join(file)).unwrap();
        }
        let mut job = std::process::Command::new(place.join("multigrain"));
        let output = job.args(["run", "--sysv", "-n", "2", "true"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains("has a blank or a colon in its name"), "{said}");
    }
}

#[test]
fn a_process_is_believed_of_itself_alone_and_what_is_attached_does_not_grow() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let setting = Setting { options: &["--sysv"], ..Setting::nodes(1) };
    for name in ["sysv_liar", "sysv_grows"] {
        let ended = run(&launcher(), &setting, &plain(&dir, name), &[]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{name}: {ended:?}");
    }
}

#[test]
fn a_library_that_is_bound_to_its_own_libraries_has_the_job_s_objects() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let plugin = dir.path().join("plugin.so");
    let mut compiler = support::c::compiler("cc", &["-D_GNU_SOURCE", "-O1", "-shared", "-fPIC"]);
    compiler.arg(support::c::source("sysv_plugin.c")).arg("-o").arg(&plugin);
    support::c::must_succeed(&mut compiler);
    let program = plain(&dir, "sysv_plugs");
    let ended = on_two(&["--sysv", "--timeout", "20"], &program, &[plugin.to_str().unwrap()]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

/// How often all processes of a job make a system call, of a program that does something `count` times.
fn calls(program: &Path, (what, count): (&str, u32), call: &str) -> f64 {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-e", &format!("trace={call}")]).arg(launcher());
    strace.args(["run", "-n", "2", "--transport", "unix", "--no-summary", "--sysv"]);
    strace.arg(program).args([what, &count.to_string()]);
    let output = strace.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let words = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let lines = words.filter(|words| words.last().is_some_and(|word| call.contains(word)));
    lines.map(|words| words[3].parse::<f64>().unwrap()).sum()
}

#[test]
fn a_fetch_is_two_messages_and_a_semaphore_operation_wakes_two_threads_of_sites() {
    if !may() {
        return;
    }
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return not_tried("there is no strace");
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_fetches");
    let each = |what, call| {
        let [few, many] = [100, 900].map(|count| calls(&program, (what, count), call));
        (many - few) / 800.0
    };
    // The request, with the acknowledgement of the fetch before. (The page goes by sendmsg; pages that
    // the holder wrote one after the other may come as one answer, a seventh of them here.)
    let sent = each("fetches", "sendto");
    assert!((0.7..1.5).contains(&sent), "{sent} a fetch");
    // On either site one sleep of the thread that receives, and a look for processes that have ended.
    let waits = each("operations", "epoll_wait,epoll_pwait,epoll_pwait2");
    assert!((2.7..3.5).contains(&waits), "{waits} an operation");
}
