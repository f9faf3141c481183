//! Programs of System V calls alone (`apps/sysv`), unchanged, as sites of a job.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use support::sites::{launcher, may, moved, plain};
use support::{Setting, TestDir, assert_gone, not_tried, run, workspace};

fn programs(dir: &TestDir) {
    let mut make = Command::new("make");
    make.args(["-s", "-j2", "-C"]).arg(workspace().join("apps/sysv"));
    make.arg(format!("OUT={}", dir.path().display()));
    support::c::must_succeed(make.stdin(Stdio::null()));
}

fn check(dir: &TestDir, options: &[&str]) {
    let mut check = Command::new(workspace().join("apps/sysv/check.sh"));
    check.env("OUT", dir.path()).arg(launcher());
    check.args(["run", "--no-tag-output", "--no-summary", "--sysv"]).args(options);
    let output = check.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.ends_with("check: ok\n"), "{options:?}: {said}");
}

#[test]
fn programs_of_system_v_calls_run_unchanged_on_one_node_and_on_several() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    programs(&dir);
    check(&dir, &["-n", "1"]);
    check(&dir, &["-n", "2", "--transport", "tcp"]);
    check(&dir, &["-n", "4", "--guard", "mprotect"]);
}

#[test]
fn sites_are_on_many_hosts_as_nodes_are() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    programs(&dir);
    // A host is a shell here: it gets the host's name, and a line.
    let host = dir.path().join("host");
    std::fs::write(&host, "#!/bin/sh\nshift; exec sh -c \"$1\"\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&host, mode).unwrap();
    let over = ["--sysv", "-n", "2", "--hosts", "a:1,b:1", "--timeout", "60"];
    let job = |program: &str| {
        let mut job = Command::new(launcher());
        job.arg("run").args(over).arg("--launcher-command").arg(&host);
        job.arg(dir.path().join(program)).args(["-p", "2"]).stdin(Stdio::null());
        job
    };
    for program in ["each_n", "forker", "bounded_buffer", "ring"] {
        let said = support::c::must_succeed(&mut job(program));
        assert!(said.ends_with(": ok\n"), "{said}");
    }
    let missing = job("missing").output().unwrap();
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    // What cannot be a site's program is refused before it runs, and once, as it is on this host alone.
    support::c::compile(&dir, "counts");
    let linked = job("counts").output().unwrap();
    let said = String::from_utf8_lossy(&linked.stderr);
    assert_eq!((linked.status.code(), said.lines().count()), (Some(126), 1), "{said}");
    // Of the host that answers first.
    assert!(said.starts_with("multigrain: host ") && said.contains("is linked with "), "{said}");
}

/// Each site said so itself, and the launcher its code.
#[test]
fn sites_that_a_limit_keeps_from_starting_end_with_one_line() {
    if !may() {
        return;
    }
    for limit in ["-d 30000", "-v 1000000", "-f 0"] {
        let script = format!("ulimit {limit}; exec {} run --sysv -n 2 true", launcher().display());
        let ended =
            Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_ne!(ended.status.code(), Some(0), "{limit}: {err}");
        assert_eq!(err.lines().count(), 1, "{limit}: {err}");
        assert!(err.contains("ulimit"), "{limit}: {err}");
    }
}

#[test]
fn segments_have_the_window_and_the_compression_that_the_user_asks_for() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    programs(&dir);
    let battleship = dir.path().join("battleship");
    // Each of 1,648 turns takes the page from the other player once; the start does as well, and on a busy machine what outlasts its
    // window.
    let (kib, taken) = moved(&battleship, &["--segment-window", "500us"]);
    assert!((1_648.0..2.0 * 1_648.0).contains(&taken), "taken {taken} times");
    let (compressed, _) =
        moved(&battleship, &["--segment-window", "500us", "--segment-compression", "lz4"]);
    assert!(compressed < kib / 2.0, "{compressed} KiB compressed, {kib} raw");
    for wrong in [
        &["--segment-window", "5"][..],
        &["--segment-window", "0us"],
        &["--segment-compression", "gzip"],
    ] {
        let mut job = Command::new(launcher());
        let output = job.args(["run", "--sysv"]).args(wrong).arg(&battleship).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

/// Starts a program on two sites; the launcher when both have said a line.
fn started(program: &Path, arguments: &[&str]) -> std::process::Child {
    let mut command = Command::new(launcher());
    command.args(["run", "--sysv", "-n", "2"]).arg(program).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut launcher = command.spawn().unwrap();
    let out = launcher.stdout.as_mut().unwrap();
    let mut said = Vec::new();
    while said.iter().filter(|byte| **byte == b'\n').count() < 2 {
        let mut byte = [0];
        assert_eq!(std::io::Read::read(out, &mut byte).unwrap(), 1, "{said:?}");
        said.push(byte[0]);
    }
    launcher
}

/// The processes that run a program, or are its sites.
fn processes(of: &str, program: &Path, arguments: &str) -> Vec<i32> {
    let mut found = Command::new("pgrep");
    found.args(["-f", &format!("^{of}{}{arguments}$", program.display())]);
    let out = found.output().unwrap().stdout;
    String::from_utf8(out).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_site_serves_while_its_program_is_stopped() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_stopped");
    for transport in ["unix", "tcp"] {
        let setting = Setting { transport, options: &["--sysv"], ..Setting::nodes(2) };
        let ended = run(&launcher(), &setting, &program, &[]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    }
}

/// Whether the call was made nobody knows: it fails in no way that a program could go on with.
#[test]
fn a_process_that_has_lost_its_site_ends_with_a_line() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_cut");
    let setting = Setting { options: &["--sysv"], ..Setting::nodes(1) };
    let ended = run(&launcher(), &setting, &program, &[]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(75), ""), "{ended:?}");
    assert!(ended.err.contains("has lost its site"), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 2, "{ended:?}");
}

#[test]
fn what_a_program_has_left_has_its_memory_as_long_as_it_lives() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_leftover");
    let wrong = dir.path().join("wrong");
    let setting = Setting { options: &["--sysv"], ..Setting::nodes(2) };
    for _ in 0..10 {
        let ended = run(&launcher(), &setting, &program, &[wrong.to_str().unwrap()]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
        assert!(!wrong.exists(), "a child has found something else");
    }
}

#[test]
fn nobody_finds_other_bytes_when_a_site_is_killed() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_leftover");
    let wrong = dir.path().join("wrong");
    let site = format!("{} site -- ", launcher().display());
    for _ in 0..10 {
        let mut job = started(&program, &[wrong.to_str().unwrap(), "20000"]);
        let of_site = processes(&site, &program, &format!(" {} 20000", wrong.display()));
        let pid = rustix::process::Pid::from_raw(*of_site.first().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        job.wait().unwrap();
        assert_gone(&program);
        assert!(!wrong.exists(), "a process has found something else");
    }
}

/// Killed while a child that has just been forked asks for its guard, which nobody else has yet.
#[test]
fn a_child_goes_nowhere_without_its_guard() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_children");
    let wrong = dir.path().join("wrong");
    let site = format!("{} site -- ", launcher().display());
    for _ in 0..10 {
        let mut job = started(&program, &[wrong.to_str().unwrap()]);
        let of_site = processes(&site, &program, &format!(" {}", wrong.display()));
        let pid = rustix::process::Pid::from_raw(*of_site.first().unwrap()).unwrap();
        for signal in [rustix::process::Signal::STOP, rustix::process::Signal::KILL] {
            sleep(Duration::from_millis(30));
            rustix::process::kill_process(pid, signal).unwrap();
        }
        job.wait().unwrap();
        assert_gone(&program);
        assert!(!wrong.exists(), "a child has found something else");
    }
}

#[test]
fn a_site_without_descriptors_for_children_ends_its_job_with_a_line() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_children");
    let wrong = dir.path().join("wrong");
    for descriptors in ["24", "64", "100", "128"] {
        let mut job = Command::new("prlimit");
        job.arg(format!("--nofile={descriptors}")).arg(launcher());
        job.args(["run", "--sysv", "-n", "2", "--timeout", "60"]).arg(&program);
        let ended = job.arg(&wrong).arg("60").stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(70), "{descriptors}: {said}");
        assert_eq!(said.lines().count(), 1, "{descriptors}: {said}");
        assert!(said.contains("(os error 24); raise ulimit -n; the job ends"), "{said}");
        assert_gone(&program);
        assert!(!wrong.exists(), "a child has found something else");
    }
}

/// A control group of this test that allows so many tasks, of the first version's hierarchy.
struct Tasks(PathBuf);

impl Tasks {
    fn new() -> Option<Self> {
        let hierarchy = Path::new("/sys/fs/cgroup/pids");
        let group = hierarchy.join(format!("multigrain-test-{}", std::process::id()));
        std::fs::create_dir(&group).is_ok().then_some(Self(group))
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // The last of them may be about to be reaped.
        let end = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_site_without_a_thread_says_so_and_does_not_panic() {
    if !may() {
        return;
    }
    let Some(group) = Tasks::new() else {
        return not_tried("no control group that limits tasks can be made");
    };
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_children");
    let (wrong, place) = (dir.path().join("wrong"), group.0.display());
    let mut failed = 0;
    for tasks in (16..40).step_by(2).chain(23..29) {
        std::fs::write(group.0.join("pids.max"), tasks.to_string()).unwrap();
        let mut job = Command::new("sh");
        job.args(["-c", &format!("echo $$ > {place}/cgroup.procs && exec \"$@\""), "sh"]);
        job.arg(launcher()).args(["run", "--sysv", "-n", "2", "--timeout", "60"]).arg(&program);
        let ended = job.arg(&wrong).arg("20").stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        let enough = ended.status.success() && said.is_empty();
        assert!(enough || said.contains("raise "), "{tasks}: {:?} {said}", ended.status);
        assert!(!said.contains("panicked"), "{tasks}: {said}");
        assert!(!wrong.exists(), "{tasks}: a child has found something else");
        assert_gone(&program);
        failed += u32::from(!enough);
    }
    assert!(failed > 0, "no limit was too low");
}

#[test]
fn the_end_of_a_program_is_noticed_where_sigchld_is_ignored_and_the_program_ignores_what_its_site_does()
 {
    if !may() {
        return;
    }
    let job = |program: &[&str]| {
        let mut job = Command::new("env");
        job.arg("--ignore-signal=CHLD,PIPE").arg(launcher());
        job.args(["run", "--sysv", "-n", "1", "--no-tag-output", "--timeout", "20"]);
        job.args(program).stdin(Stdio::null()).output().unwrap()
    };
    let ended = job(&["sh", "-c", "exit 3"]);
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let ended = job(&["grep", "SigIgn", "/proc/self/status"]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let said = String::from_utf8(ended.stdout).unwrap();
    let ignored = u64::from_str_radix(said.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    for signal in [libc::SIGCHLD, libc::SIGPIPE] {
        assert_ne!(ignored & 1 << (signal - 1), 0, "{signal}: {said}");
    }
}

#[test]
fn what_a_program_does_to_its_group_and_environment_leaves_its_site_alone() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_group");
    for nodes in [1, 2] {
        let setting = Setting { options: &["--sysv"], ..Setting::nodes(nodes) };
        let ended = run(&launcher(), &setting, &program, &[]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    }
}

#[test]
fn nothing_is_left_whoever_is_killed() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    let program = plain(&dir, "sysv_endless");
    let kill = |pid: i32, signal| {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal)
            .unwrap();
    };
    let site = format!("{} site -- ", launcher().display());
    let cases = [
        ("launcher", rustix::process::Signal::KILL, ""),
        ("launcher", rustix::process::Signal::TERM, "the job was ended by SIGTERM"),
        (site.as_str(), rustix::process::Signal::KILL, "was killed by signal 9 (SIGKILL)"),
        ("", rustix::process::Signal::KILL, "was killed by signal 9 (SIGKILL) as its program"),
    ];
    for (whom, signal, line) in cases {
        let mut job = started(&program, &[]);
        let began = Instant::now();
        if whom == "launcher" {
            kill(i32::try_from(job.id()).unwrap(), signal);
        } else {
            // The first that was started: of a site's program that is the one itself.
            kill(*processes(whom, &program, "").first().unwrap(), signal);
        }
        let mut said = String::new();
        std::io::Read::read_to_string(job.stderr.as_mut().unwrap(), &mut said).unwrap();
        job.wait().unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "{whom:?}: {said}");
        assert!(said.contains(line), "{whom:?}: {said}");
        assert_gone(&program);
        let deadline = Instant::now() + Duration::from_secs(2);
        while !processes(&site, &program, "").is_empty() {
            assert!(Instant::now() < deadline, "sites are left");
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn how_a_site_s_program_ends_is_how_its_node_does() {
    if !may() {
        return;
    }
    let sh = Path::new("/bin/sh");
    let setting = Setting { options: &["--sysv"], ..Setting::nodes(2) };
    let ended = run(&launcher(), &setting, sh, &["-c", "exit 7"]);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    let ended = run(&launcher(), &setting, sh, &["-c", "kill -SEGV $$"]);
    assert_eq!(ended.code, Some(139), "{ended:?}");
    assert!(ended.err.contains("(SIGSEGV) as its program /bin/sh (pid "), "{ended:?}");
    let ended = run(&launcher(), &setting, Path::new("/bin/no-such-program"), &[]);
    assert_eq!(ended.code, Some(127), "{ended:?}");
    // What does not load the library has objects of its own, and none of the host's.
    // Known by their sizes, as other tests make objects of the host meanwhile.
    let ended = run(&launcher(), &setting, sh, &["-c", "env -i /usr/bin/ipcmk -M 5003 -S 29 -Q"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let objects = String::from_utf8(Command::new("ipcs").output().unwrap().stdout).unwrap();
    let size = |line: &&str| matches!(line.split_whitespace().nth(4), Some("5003" | "29"));
    assert_eq!(objects.lines().filter(size).collect::<Vec<_>>(), [""; 0], "left on the host");
    let dir = TestDir::new();
    let program = dir.path().join("static");
    let mut compiler = support::c::compiler("cc", &["-static", "-std=c11", "-D_GNU_SOURCE"]);
    compiler.arg(support::c::source("sysv_endless.c")).arg("-o").arg(&program);
    support::c::must_succeed(&mut compiler);
    let ended = run(&launcher(), &setting, &program, &[]);
    assert_eq!(ended.code, Some(126), "{ended:?}");
    assert!(ended.err.contains("is linked statically"), "{ended:?}");
}
