//! One job: started through `multigrain run`, which ends it at its time limit.

use super::RandomArgs;
use super::setting::Setting;
use anyhow::{Context, Result};
use multigrain_types::exit_codes::{DEADLOCK, TIME_OUT};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How much longer than a job its launcher may take.
const GRACE: Duration = Duration::from_secs(20);
/// Lines of a job that failed which are shown.
const LINES: usize = 12;

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All was as expected.
    Right,
    /// Something else was found, or a node failed: what the nodes said.
    Wrong(String),
    /// It did not end by itself: in time, or ever, for its launcher proved a deadlock.
    Hang(String),
}

/// Runs the program of a setting as a job.
pub(super) fn run(args: &RandomArgs, setting: &Setting) -> Result<End> {
    let limit = Duration::from_secs(args.limit);
    let this = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(&this);
    command.arg("run").args(setting.of_launcher());
    command.arg(format!("--timeout={}", limit.as_secs_f64()));
    command.args(["--no-summary", "--"]).arg(&this).args(["random", "--node"]);
    command.args(setting.of_node());
    command.args(args.length.map(|phrases| format!("--length={phrases}")));
    command
        .args(args.faults.spoil.then_some("--spoil"))
        .args(args.faults.stall.then_some("--stall"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().context("starting the job")?;
    wait(child, limit + GRACE)
}

/// Waits for the launcher, which ends its nodes; it gets a second chance to do so.
fn wait(child: Child, limit: Duration) -> Result<End> {
    let launcher = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    let waiter = thread::spawn(move || {
        // Nobody listens any more only if this process is ending.
        let _ = sender.send(child.wait_with_output());
    });
    let mut output = ended.recv_timeout(limit);
    let in_time = output.is_ok();
    for signal in [Signal::TERM, Signal::KILL] {
        if !matches!(output, Err(RecvTimeoutError::Timeout)) {
            break;
        }
        kill_process(launcher, signal)?;
        output = ended.recv_timeout(GRACE);
    }
    let output = output.context("the launcher does not end")??;
    // It has sent, so it ends.
    let _ = waiter.join();
    let said = String::from_utf8_lossy(&output.stderr);
    let mut said: String = said.lines().take(LINES).map(|line| format!("  {line}\n")).collect();
    said.truncate(said.trim_end().len());
    Ok(match output.status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(0) if in_time => End::Right,
        Some(TIME_OUT | DEADLOCK) => End::Hang(said),
        _ if !in_time => End::Hang(said),
        _ => End::Wrong(said),
    })
}
