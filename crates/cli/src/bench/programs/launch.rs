//! One run of an application.

use super::rows::Row;
use crate::bench::options::Transport;
use crate::bench::result::ResultLine;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use core::fmt;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// The names are those of `run --consistency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Consistency {
    /// Every access in one order.
    Sequential,
    /// As MGS has it.
    EagerRelease,
    /// As ParADE has it.
    LazyRelease,
    /// Lazy, and adapted at barriers.
    Auto,
}

impl fmt::Display for Consistency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sequential => "sequential",
            Self::EagerRelease => "eager-release",
            Self::LazyRelease => "lazy-release",
            Self::Auto => "auto",
        })
    }
}

/// A build of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// The sequential one.
    Sequential,
    /// As many threads as the job has, in one process.
    Threads,
    /// Nodes.
    Multigrain(Consistency, Transport),
}

/// Where the applications are, and with which inputs they run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch<'a> {
    pub(super) apps: &'a Path,
    pub(super) quick: bool,
    /// Whether the program checks its result, which takes time after the measured section.
    pub(super) check: bool,
}

impl Launch<'_> {
    /// Runs it once.
    pub(super) fn run(self, row: &Row, build: Build) -> Result<ResultLine> {
        let suffix = match build {
            Build::Sequential => "seq",
            Build::Threads => "pthreads",
            Build::Multigrain(..) => "mg",
        };
        let program = self.apps.join(format!("{}-{suffix}", row.app));
        ensure!(
            program.is_file(),
            "there is no {}; `make apps` builds it where the source is, --apps-dir says where",
            program.display()
        );
        let mut command = match build {
            Build::Sequential | Build::Threads => Command::new(&program),
            Build::Multigrain(consistency, transport) => {
                let mut command = launcher(row, consistency, transport)?;
                command.arg(&program);
                command
            }
        };
        command.args(if self.quick { row.quick } else { row.input });
        if build == Build::Threads {
            command.args(["-t", &(row.nodes * row.threads).to_string()]);
        }
        if !self.check {
            command.arg("--no-check");
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let place = || format!("{} for {}", program.display(), row.name);
        let output = output.with_context(place)?;
        ensure!(output.status.success(), "{} ended with {}", place(), output.status);
        ResultLine::find(&String::from_utf8_lossy(&output.stdout)).with_context(place)
    }
}

fn launcher(row: &Row, consistency: Consistency, transport: Transport) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["run", "--no-tag-output", "--no-summary", "--timeout", "300"]);
    command.args(["-n", &row.nodes.to_string(), "-t", &row.threads.to_string()]);
    command.args(["--transport", &transport.to_string()]);
    command.args(["--consistency", &consistency.to_string(), "--"]);
    Ok(command)
}
