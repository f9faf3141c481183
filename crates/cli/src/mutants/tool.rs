//! The tools that shall find mutants: this same binary, with the mutant in its environment.
//!
//! Each runs as a job of one node, so that the launcher limits its time, ends all it started, and
//! leaves nothing behind whatever happens to this command.

use anyhow::{Context, Result, bail};
use multigrain_protocol::mutants::VARIABLE;
use std::process::{Command, Stdio};

/// A tool.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    arguments: &'static [&'static str],
    /// Whether not to end is a finding: it is, for nodes that wait for each other.
    pub(super) may_hang: bool,
}

/// All tools, the quickest first. Each takes seconds: a few tests of many, a few seeds.
pub(super) const TOOLS: [Tool; 3] = [
    Tool { name: "check", arguments: &["check", "--first"], may_hang: false },
    Tool { name: "sim", arguments: &SIM, may_hang: false },
    Tool { name: "litmus", arguments: &LITMUS, may_hang: true },
];

const SIM: [&str; 7] = ["sim", "--seed", "1", "--nodes", "8", "--runs", "8"];

/// One configuration, that of every kernel; tests without loops, which would hang where these show
/// what is wrong.
const LITMUS: [&str; 13] = [
    "litmus",
    "fetch-add",
    "MP",
    "CoRR",
    "2+2W",
    "--rounds",
    "32",
    "--guard",
    "mprotect",
    "--transport",
    "unix",
    "--manager",
    "spread",
];

/// What a tool said about a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Found, and how it was told.
    Caught(String),
    /// It did not end, which is a finding.
    Hangs,
    /// All was well.
    Passed,
    /// It did not end, which says nothing.
    TimedOut,
}

impl Verdict {
    /// Whether the mutant is dead.
    pub(super) fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::Hangs)
    }
}

/// The exit codes of `multigrain run` after a time-out, and of wrong usage.
const TIMED_OUT: i32 = 124;
const USAGE: i32 = 2;

impl Tool {
    /// Runs it against a mutant, or without any, for so many seconds at most.
    ///
    /// # Errors
    /// It cannot be started, or does not understand its arguments.
    pub(super) fn run(&self, mutant: Option<&str>, limit: u64) -> Result<Verdict> {
        let this = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(&this);
        command.args(["run", "-n", "1", "--no-tag-output", "--no-summary", "--timeout"]);
        command.arg(limit.to_string()).arg("--").arg(&this).args(self.arguments);
        match mutant {
            Some(name) => command.env(VARIABLE, name),
            None => command.env_remove(VARIABLE),
        };
        let ended = command.stdin(Stdio::null()).output().context("starting a tool")?;
        let text = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        Ok(match ended.status.code() {
            Some(0) => Verdict::Passed,
            Some(TIMED_OUT) if self.may_hang => Verdict::Hangs,
            Some(TIMED_OUT) => Verdict::TimedOut,
            Some(USAGE) => bail!("{} {}: {text}", self.name, self.arguments.join(" ")),
            Some(_) | None => Verdict::Caught(finding(self.name, &text)),
        })
    }
}

/// What a tool found: the property that does not hold, or its first complaint. The launcher's own,
/// about a process that ended, says less.
fn finding(tool: &str, text: &str) -> String {
    let lines = || text.lines().filter(|line| !line.contains("(pid "));
    let after = |prefix: &str| lines().find_map(|line| line.strip_prefix(prefix));
    let line = after("does not hold: ").or_else(|| after("multigrain: ")).unwrap_or("fails");
    let own = line.strip_prefix(tool).and_then(|rest| rest.strip_prefix(": "));
    own.unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_is_told_before_the_first_complaint() {
        let text = "multigrain: check: 1 of 3\nx\ndoes not hold: no deadlock\n";
        assert_eq!(finding("check", text), "no deadlock");
        let text = "multigrain: node 2 (pid 7) fails\nmultigrain: litmus: SB: forbidden\n";
        assert_eq!(finding("litmus", text), "SB: forbidden");
    }
}
