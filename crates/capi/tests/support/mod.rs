//! Builds the command and the C library, and runs programs as jobs under the real launcher. Used by
//! the tests of the C and of the Rust interface.
#![allow(dead_code, reason = "each test binary uses its part of it")]

pub(crate) mod c;
pub(crate) mod sites;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No job of the tests takes longer, unless it hangs.
const JOB_SECONDS: u32 = 120;

/// Says that a test cannot be tried here, and why. Not by `eprintln!`, which the harness keeps to itself where a test
/// passes.
pub(crate) fn not_tried(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stderr(), "not tried: {}: {why}", test.name().unwrap_or_default());
}

/// Where this test's profile is built: the directory above the one of the test itself.
pub(crate) fn profile_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps").to_owned()
}

/// Builds these packages in the profile of the test, once a process; cargo sees what is fresh.
pub(crate) fn build(packages: &'static [&'static str]) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let directory = profile_dir();
    BUILT.get_or_init(|| {
        let profile = match directory.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--profile", profile]);
        cargo.arg("--manifest-path").arg(workspace().join("Cargo.toml"));
        cargo.arg("--target-dir").arg(directory.parent().unwrap());
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
        let status = cargo.stdin(Stdio::null()).status().unwrap();
        assert!(status.success(), "{packages:?} cannot be built");
    });
    directory
}

/// The top of the source tree.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A directory that is gone when the test ends, however it ends.
#[derive(Debug)]
pub(crate) struct TestDir(PathBuf);

impl TestDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a job is run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) nodes: u32,
    pub(crate) guard: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) threads: u32,
    pub(crate) consistency: &'static str,
    /// More options of `multigrain run`.
    pub(crate) options: &'static [&'static str],
}

impl Setting {
    pub(crate) fn nodes(nodes: u32) -> Self {
        let (guard, transport, consistency) = ("auto", "unix", "sequential");
        Self { nodes, guard, transport, threads: 1, consistency, options: &[] }
    }
}

/// Every combination of node count, guard and transport.
pub(crate) fn settings(nodes: &[u32], guards: &[&'static str]) -> Vec<Setting> {
    let mut all = Vec::new();
    for &nodes in nodes {
        for &guard in guards {
            // A job of one node sends nothing.
            let transports: &[&str] = if nodes == 1 { &["unix"] } else { &["unix", "tcp"] };
            for &transport in transports {
                all.push(Setting { guard, transport, ..Setting::nodes(nodes) });
            }
        }
    }
    all
}

/// What a job said and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a program as a job to its end, and sees to it that no process of it is left.
pub(crate) fn run(launcher: &Path, setting: &Setting, program: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(launcher);
    command.arg("run").args(["--no-summary", "--guard", setting.guard]);
    if !setting.options.contains(&"--learn") {
        // Counts and failing system calls are asserted: nothing may be fetched ahead.
        command.args(["--learn", "off"]);
    }
    command.args(["--transport", setting.transport, "--consistency", setting.consistency]);
    command.args(setting.options);
    command.args(["-n", &setting.nodes.to_string(), "-t", &setting.threads.to_string()]);
    if !setting.options.contains(&"--timeout") {
        command.args(["--timeout", &JOB_SECONDS.to_string()]);
    }
    command.arg("--").arg(program).args(arguments);
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    assert_gone(program);
    Ended {
        code: status.code(),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Runs a job that must end well; its output.
pub(crate) fn run_well(
    launcher: &Path,
    setting: &Setting,
    program: &Path,
    arguments: &[&str],
) -> String {
    let ended = run(launcher, setting, program, arguments);
    let program = program.display();
    assert_eq!(ended.code, Some(0), "{program} {arguments:?} as {setting:?}:\n{}", ended.err);
    ended.out
}

/// Waits a little for processes of this program to be gone.
pub(crate) fn assert_gone(program: &Path) {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let left: Vec<PathBuf> = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|process| fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program))
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "processes left: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
