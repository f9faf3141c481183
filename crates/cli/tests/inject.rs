//! The short form of `multigrain inject`, on its built-in program; and that it notices what breaks
//! the promise.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

fn inject(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multigrain"));
    command.arg("inject").args(arguments.split_whitespace()).output().unwrap()
}

/// Runs it; how many ended with a right result and with an error, by its own table.
fn survive(arguments: &str) -> (u32, u32) {
    let Output { status, stdout, stderr } = inject(arguments);
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{out}{err}");
    let all = out.lines().find(|line| line.starts_with("all ")).unwrap();
    let count = |column| all.split_whitespace().nth(column).unwrap().parse::<u32>().unwrap();
    (count(2), count(4))
}

#[test]
fn what_is_killed_or_cut_ends_with_one_clear_error() {
    for fault in ["kill", "cut"] {
        // By design not all: the job may be over when a fault comes, or do without what is hit (its watchdog). What each
        // of them promises the command itself judges.
        let (right, errors) = survive(&format!("--only {fault} --times 3"));
        assert!(errors >= 1, "{fault}: {right} right results, {errors} errors");
    }
}

#[test]
fn a_result_for_programs_says_whether_a_promise_was_broken() {
    let Output { status, stdout, stderr } = inject("--only kill --times 1 --json");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let found: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(found["results"][0]["broken"], false);
}

#[test]
fn connections_full_disks_and_limits_leave_a_right_result_or_a_clear_error() {
    // All faults come in turn; these are the six from connections to descriptors, twice.
    let (right, errors) = [4, 14]
        .map(|seed| survive(&format!("--times 6 --seed {seed}")))
        .into_iter()
        .fold((0, 0), |(right, errors), more| (right + more.0, errors + more.1));
    // Which are which depends on when a limit is reached; what each promises the command itself judges.
    assert!(right >= 2 && errors >= 1, "{right} right results, {errors} errors");
}

#[test]
fn who_was_stopped_for_ten_seconds_goes_on_and_is_right() {
    assert_eq!(survive("--only stop --times 1").1, 0);
}

#[test]
fn a_host_that_falls_silent_is_noticed() {
    // Of these seeds the moment comes early, and the program takes ten seconds if nothing befalls it. A job may be over
    // before the moment, and only then is it right.
    let Output { status, stdout, stderr } = inject("--only silence --times 2 --seed 46");
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    let all = out.lines().find(|line| line.starts_with("all ")).unwrap_or_default();
    let counts: Vec<u32> = all.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    let [_, right, before, errors, ..] = counts[..] else { panic!("{out}{err}") };
    assert!(
        status.success() && right == before && errors == 2 - before && errors >= 1,
        "{out}{err}"
    );
}

#[test]
fn a_limit_in_which_nothing_was_tried_is_no_success() {
    let Output { status, stderr, .. } = inject("--only silence --times 1 --within 5");
    let err = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{err}");
    assert!(err.contains("no such job ends in so short a time"), "{err}");
    // The first that comes in turn takes longer than that.
    let Output { status, stdout, .. } = inject("--within 5 --seed 10");
    let out = String::from_utf8(stdout).unwrap();
    assert!(status.success() && out.contains("seed "), "{out}");
}

/// A directory with a shell script in place of an application.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str, script: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("sor-mg");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    /// What is found to be wrong with it.
    fn complaint(&self) -> String {
        let output = inject(&format!("--apps {} --app sor --times 1", self.0.display()));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_wrong_result_no_result_and_a_leftover_are_noticed() {
    let result = "[ $MULTIGRAIN_RANK != 0 ] || echo result";
    for (name, script, complaint) in [
        ("wrong", format!("{result} check=FAILED"), "wrong result: check=FAILED"),
        ("none", result.to_owned(), "exit code 0 without a result"),
        ("left", format!("touch $TMPDIR/left; {result} check=ok"), "left behind: file /"),
        ("error", "exit 3".to_owned(), "an error without a fault"),
    ] {
        let said = Fake::new(name, &script).complaint();
        assert!(said.contains(complaint), "{said}");
    }
}

#[test]
fn applications_that_are_not_there_are_named() {
    let output = inject("--apps /nowhere");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.starts_with("multigrain: inject: sor: no such program; `make apps`"), "{said}");
}
