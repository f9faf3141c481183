//! The applications as jobs, and what they cost under release consistency.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use support::{Setting, TestDir, run_well, workspace};

/// The Multigrain build of an application, and the launcher.
fn build(dir: &TestDir, name: &str) -> (PathBuf, PathBuf) {
    let built = support::build(&["multigrain-capi", "multigrain-cli"]);
    for link in ["libmultigrain.so", "libmultigrain.so.0"] {
        symlink(built.join("libmultigrain.so"), dir.path().join(link)).unwrap();
    }
    let program = dir.path().join(format!("{name}-mg"));
    let mut make = Command::new("make");
    // This `make` takes no part in one that runs the tests.
    make.env_remove("MAKEFLAGS").arg("--silent").arg("-C").arg(workspace().join("apps"));
    make.arg(format!("MULTIGRAIN_LIB={}", dir.path().display()));
    make.arg(format!("OUT={}", dir.path().display())).arg(&program);
    assert!(make.stdin(Stdio::null()).status().unwrap().success(), "{make:?}");
    (built.join("multigrain"), program)
}

/// A number of the result line.
fn number(out: &str, key: &str) -> u64 {
    assert!(out.contains(" check=ok "), "{out}");
    let result = out.lines().find(|line| line.contains("result ")).unwrap();
    let value = result.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {key}: {out}")).parse().unwrap()
}

/// Molecules that share a page have many writers: sequentially the page goes back and forth, unless
/// each has a minipage of its own, and then each is a message.
#[test]
fn water_sends_fewer_messages_under_lazy_release_than_sequentially() {
    let dir = TestDir::new();
    let (launcher, water) = build(&dir, "water");
    let messages = |consistency| {
        let setting = Setting { consistency, ..Setting::nodes(4) };
        let input = ["--molecules", "64", "--steps", "2", "--chunk", "1"];
        number(&run_well(&launcher, &setting, &water, &input), "messages")
    };
    let (sequential, lazy) = (messages("sequential"), messages("lazy-release"));
    eprintln!("water, 64 molecules, 4 nodes: {sequential} messages, {lazy} under lazy release");
    assert!(lazy < sequential, "{lazy} messages under lazy release, {sequential} sequentially");
}
