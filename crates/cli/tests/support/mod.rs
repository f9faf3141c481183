//! Runs the real launcher and looks at what it leaves behind.
#![allow(dead_code, reason = "each test binary uses its part of it")]
#![allow(clippy::unwrap_used, reason = "this is test code")]

pub(crate) mod network;
pub(crate) mod script_hosts;

use multigrain::{Job, Mutex, Policy, Result};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// `multigrain run` with these arguments, split at blanks, and a shell script as the program.
pub(crate) fn launcher(options: &str, script: &str) -> Command {
    let mut command = multigrain();
    command.arg("run").args(options.split_whitespace());
    command.args(["--", "bash", "-c", script]);
    command
}

/// The binary; through `env`, since in the background of a script SIGINT would be ignored.
pub(crate) fn multigrain() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_multigrain")]);
    command.stdin(Stdio::null());
    command
}

/// What a launcher that ended said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Ended {
    /// The launcher's own lines on stderr.
    pub(crate) fn own_lines(&self) -> Vec<&str> {
        self.err.lines().filter(|line| line.starts_with("multigrain: ")).collect()
    }

    /// The single line the launcher said.
    pub(crate) fn line(&self) -> &str {
        let lines = self.own_lines();
        assert_eq!(lines.len(), 1, "exactly one line: {self:?}");
        lines[0]
    }
}

/// Whether a command does what it should.
pub(crate) fn does(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let quiet =
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Says that a test cannot be tried here, and why. Not by `eprintln!`, which the harness keeps to itself where a test
/// passes.
pub(crate) fn not_tried(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stderr(), "not tried: {}: {why}", test.name().unwrap_or_default());
}

pub(crate) fn must(command: &str) {
    assert!(does(command), "{command}");
}

/// Runs it to the end.
pub(crate) fn run(command: &mut Command) -> Ended {
    let start = Instant::now();
    let Output { status, stdout, stderr } = command.output().unwrap();
    Ended {
        code: status.code(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
        took: start.elapsed(),
    }
}

/// A launcher that runs, its stdout read line by line.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

/// Starts it.
pub(crate) fn start(command: &mut Command) -> Running {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    Running { child, out }
}

impl Running {
    /// Waits for `count` lines.
    pub(crate) fn lines(&mut self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| {
                let mut line = String::new();
                self.out.read_line(&mut line).unwrap();
                line.trim_end().to_owned()
            })
            .collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends a signal that the launcher takes, and waits until it has: a second one of the kind
    /// would be one with it before.
    pub(crate) fn signal_and_wait(&self, signal: Signal) {
        self.signal(signal);
        let bit = 1_u64 << (signal.as_raw() - 1);
        wait_until("the launcher takes its signal", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
            let pending = status.lines().filter_map(|line| {
                line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))
            });
            let mut pending = pending.map(|set| u64::from_str_radix(set.trim(), 16).unwrap());
            pending.all(|set| set & bit == 0)
        });
    }

    /// Bytes of its stdout that nobody has read.
    pub(crate) fn unread(&self) -> u64 {
        ioctl_fionread(self.out.get_ref()).unwrap() + self.out.buffer().len() as u64
    }

    /// Writes a line to its stdin, which the command has to leave open.
    pub(crate) fn say(&self, line: &str) {
        let mut stdin = self.child.stdin.as_ref().unwrap();
        writeln!(stdin, "{line}").unwrap();
    }

    /// Its process id; of the launcher itself once it runs, for `env` becomes that.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; `took` counts from here.
    pub(crate) fn wait(mut self) -> Ended {
        let start = Instant::now();
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code();
        Ended { code, out, err, took: start.elapsed() }
    }
}

/// The number at the end of the line `[rank] pid N` of this rank.
pub(crate) fn pid_of(rank: usize, lines: &[String]) -> Pid {
    let start = format!("[{rank}] pid ");
    let number = lines.iter().find_map(|line| line.strip_prefix(&start)).unwrap();
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

/// Looks again and again until something is so.
///
/// # Panics
/// With `what` if it is not so after half a minute.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether all processes with this text in their command line sleep in the kernel.
pub(crate) fn asleep(text: &str) -> bool {
    processes(text).all(|process| {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
    })
}

/// The children of a process with this name.
fn children_named(parent: u32, name: &str) -> Vec<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    let named = |pid: &&str| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let named = children.split_whitespace().filter(named);
    named.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// A watchdog of a launcher or an agent, as soon as one is seen: the kernel's list of children may lack some while others end.
pub(crate) fn watchdog(ward: u32) -> Pid {
    let mut found = None;
    wait_until("there is a watchdog", || {
        found = children_named(ward, "mg-watchdog").first().copied();
        found.is_some()
    });
    found.unwrap()
}

/// An argument for `sleep` that no other process has.
pub(crate) fn unique_time() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("3141.{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Live processes with this text in their command line.
pub(crate) fn alive(text: &str) -> Vec<String> {
    processes(text).filter_map(|process| command_line(&process)).collect()
}

/// Directories in /proc of processes with this text in their command line.
pub(crate) fn processes(text: &str) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(move |process| command_line(process).is_some_and(|line| line.contains(text)))
}

fn command_line(process: &Path) -> Option<String> {
    let line = std::fs::read(process.join("cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).replace('\0', " "))
}

/// Waits until no process has this text in its command line.
pub(crate) fn assert_gone_within(limit: Duration, text: &str) {
    let deadline = Instant::now() + limit;
    while !alive(text).is_empty() {
        assert!(Instant::now() < deadline, "still there: {:?}", alive(text));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program of jobs over hosts: each node counts to a hundred in one number under one lock, and prints it.
pub(crate) fn count(job: &Job) -> Result<()> {
    let total = job.share("total", || Mutex::numbered(job, 7, 0u64, Policy::new()))?;
    for _ in 0..100 {
        *total.lock()? += 1;
    }
    job.barrier(1)?;
    println!("the total is {}", *total.lock()?);
    job.barrier(1)
}
