//! One job of four nodes: started through `multigrain run`, read line by line.

use super::LitmusArgs;
use super::plan::{Configuration, NODES, Run, name_of};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// What node 0 reports of a run, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) rounds: u64,
    /// Outcomes and how often each came.
    pub(super) states: Vec<(Vec<u64>, u64)>,
    /// Sums over all nodes.
    pub(super) moves: Moves,
}

/// That pages moved while a test ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moves {
    pub(super) faults: u64,
    pub(super) invalidations: u64,
}

impl core::ops::AddAssign for Moves {
    fn add_assign(&mut self, other: Self) {
        self.faults += other.faults;
        self.invalidations += other.invalidations;
    }
}

/// Longest silence; a lock that gives up does so long before.
const SILENCE: Duration = Duration::from_secs(180);

/// Runs everything in one configuration.
pub(super) fn run(
    args: &LitmusArgs,
    configuration: Configuration,
    runs: &[Run],
    mut found: impl FnMut(&Run, &Record),
) -> Result<()> {
    let mut child = start(args, configuration)?;
    let lines = lines_of(&mut child)?;
    for run in runs {
        let place = || format!("{}: {configuration} {run}", run.test.name);
        match lines.recv_timeout(SILENCE) {
            Ok(line) => {
                let record = serde_json::from_str(&line);
                found(run, &record.with_context(|| format!("{}: not a record: {line}", place()))?);
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("{}: the job ended with {}", place(), child.wait()?);
            }
            Err(RecvTimeoutError::Timeout) => {
                // The launcher ends its nodes, all of them.
                kill_process(Pid::from_child(&child), Signal::TERM)?;
                child.wait()?;
                bail!("{}: nothing for {} s: it hangs", place(), SILENCE.as_secs());
            }
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{configuration}: after the last test the job ended with {status}");
    Ok(())
}

fn start(args: &LitmusArgs, configuration: Configuration) -> Result<Child> {
    let this = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(&this);
    command.args(["run", "-n", &NODES.to_string(), "--guard", &name_of(&configuration.guard)]);
    command.args(["--transport", &name_of(&configuration.transport)]);
    command.args(["--manager", &name_of(&configuration.manager), "--chunk", "1"]);
    command.args(["--consistency", &name_of(&args.consistency)]);
    command.args(["--no-tag-output", "--no-summary", "--"]).arg(&this).args(args.of_node());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.spawn().context("starting the job")
}

/// The lines a job prints, as they come.
fn lines_of(child: &mut Child) -> Result<mpsc::Receiver<String>> {
    let out = BufReader::new(child.stdout.take().context("the job has no output")?);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}
