//! Access paths (`multigrain run --path`): jobs behave alike under each, with each guard and each transport; what a
//! system does not allow is one line, and nothing is left when a node is killed.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::c::{compile, guards, launcher};
use support::{Setting, TestDir, assert_gone, not_tried, run_well, settings};

const PATHS: [&[&str]; 4] =
    [&["--path", "memfd"], &["--path", "file"], &["--path", "sysv"], &["--path", "mdup"]];

/// Whether userfaultfd guards what a path has.
fn guarded(path: &str) -> bool {
    match path {
        "memfd" | "mdup" => true,
        // Files of a tmpfs: `files_in_memory_have_every_guard`.
        _ => false,
    }
}

/// Every path with every guard that it has, and every transport.
fn in_every_way(nodes: &[u32], each: impl Fn(&Setting)) {
    for options in PATHS {
        for setting in settings(nodes, guards()) {
            if setting.guard == "mprotect" || guarded(options[1]) {
                each(&Setting { options, ..setting });
            }
        }
    }
}

#[test]
fn jobs_do_not_see_by_which_path_their_pages_are_updated() {
    let dir = TestDir::new();
    let programs = ["paths", "memory"].map(|name| compile(&dir, name));
    in_every_way(&[2], |setting| {
        for program in &programs {
            run_well(&launcher(), setting, program, &[]);
        }
    });
}

#[test]
fn memory_of_every_consistency_is_the_same_by_every_path() {
    let dir = TestDir::new();
    let programs = ["paths", "consistency"].map(|name| compile(&dir, name));
    for path in PATHS {
        for consistency in ["eager-release", "lazy-release", "auto"] {
            for program in &programs {
                let options = [path, &["--learn", "on"]].concat().leak();
                let setting = Setting { consistency, options, ..Setting::nodes(3) };
                let arguments: &[_] =
                    if program.ends_with("consistency") { &[consistency] } else { &[] };
                run_well(&launcher(), &setting, program, arguments);
            }
        }
        let options = [path, &["--tracking", "scans"]].concat().leak();
        let scans = Setting { consistency: "lazy-release", options, ..Setting::nodes(2) };
        run_well(&launcher(), &scans, &programs[0], &[]);
    }
}

/// A job under this path whose environment has these variables.
fn job(program: &Path, options: &[&str], variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(launcher());
    command.args(["run", "--no-summary", "-n", "2", "--timeout", "60"]).args(options);
    command.envs(variables.iter().copied()).arg("--").arg(program).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_gone(program);
    output
}

#[test]
fn files_in_memory_have_every_guard() {
    let dir = TestDir::new();
    let program = compile(&dir, "paths");
    for &guard in guards() {
        for transport in ["unix", "tcp"] {
            let options = ["--path", "file", "--guard", guard, "--transport", transport];
            let output = job(&program, &options, &[("TMPDIR", "/dev/shm")], &[]);
            assert!(output.status.success(), "{guard} {transport}: {output:?}");
        }
    }
}

#[test]
fn a_path_that_cannot_be_had_is_one_line_that_says_what_to_do() {
    let dir = TestDir::new();
    let program = compile(&dir, "paths");
    // What the program says of it, and how it ended, are lines of their own. One line of each node, unless the job ends before
    // its second one has tried.
    let one_line = |output: &Output, words: &[&str]| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let named = said.lines().filter(|line| words.iter().all(|word| line.contains(word)));
        let mut nodes: Vec<_> = named.map(|line| line.split(' ').next()).collect();
        let lines = nodes.len();
        nodes.sort_unstable();
        nodes.dedup();
        assert!(!output.status.success() && lines > 0, "{words:?}: {output:?}");
        assert_eq!(nodes.len(), lines, "{words:?}: {output:?}");
    };
    let output = job(&program, &["--path", "file"], &[("TMPDIR", "/nonexistent")], &[]);
    one_line(&output, &["--path file (open: No such file", "set TMPDIR"]);
    if guards().contains(&"uffd") {
        let output = job(&program, &["--path", "sysv", "--guard", "uffd"], &[], &[]);
        one_line(&output, &["--path sysv", "use --guard mprotect"]);
        // The source tree lies on a disk, or it does not.
        let place = dir.path().to_str().unwrap();
        let options = ["--path", "file", "--guard", "uffd"];
        let output = job(&program, &options, &[("TMPDIR", place)], &[]);
        if !output.status.success() {
            one_line(&output, &["--path file", "use --guard mprotect"]);
        }
    }
    let limit = format!(
        "unshare --ipc sh -c 'echo 1048576 > /proc/sys/kernel/shmmax && {} run -n 2 --path sysv {}'",
        launcher().display(),
        program.display()
    );
    match as_root("the limits of System V segments", &limit) {
        None => {}
        Some(output) => one_line(&output, &["--path sysv (shmget: Invalid", "raise kernel.shmmax"]),
    }
}

/// What a shell says that root of some name spaces has.
fn as_root(why: &str, script: &str) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        not_tried(&format!("{why}: not root"));
        return None;
    }
    Some(Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn a_full_disk_is_memory_that_cannot_be_had_and_the_job_goes_on() {
    let dir = TestDir::new();
    let program = compile(&dir, "paths");
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    for guard in ["auto", "mprotect"] {
        let script = format!(
            "unshare --mount sh -c 'mount -t tmpfs -o size=24m none {disk} && TMPDIR={disk} exec {launcher} run -n 2 \
             --timeout 60 --path file --guard {guard} {program} full 48'",
            disk = disk.display(),
            launcher = launcher().display(),
            program = program.display()
        );
        let Some(output) = as_root("a full disk", &script) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{guard}: {output:?}");
        let words = "by --path file (fallocate: No space left on device (os error 28)): free room on the file system of TMPDIR";
        assert!(said.contains(words), "{guard}: {said}");
    }
}

#[test]
fn a_node_that_is_killed_leaves_no_segment_and_no_file() {
    let dir = TestDir::new();
    let program = compile(&dir, "paths");
    let files = dir.path().join("files");
    fs::create_dir(&files).unwrap();
    let place = files.to_str().unwrap();
    for path in PATHS {
        let output = job(&program, path, &[("TMPDIR", place)], &["killed"]);
        assert_eq!(output.status.code(), Some(128 + 9), "{path:?}: {output:?}");
        assert_eq!(fs::read_dir(&files).unwrap().count(), 0, "{path:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let pids: Vec<&str> =
            said.lines().filter_map(|line| line.rsplit_once("pid ").map(|(_, pid)| pid)).collect();
        assert_eq!(pids.len(), 2, "{said}");
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let creators = segments.lines().filter_map(|line| line.split_whitespace().nth(4));
        assert_eq!(creators.filter(|pid| pids.contains(pid)).count(), 0, "{path:?}: {segments}");
    }
}
