//! The tools that have to find mutants: this same binary, with the mutant in its environment.
//!
//! Each runs as a job of one node, so that the launcher limits its time, ends all it started, and
//! leaves nothing behind whatever happens to this command.

use anyhow::{Context, Result, bail};
use multigrain_protocol::mutants::{Row, VARIABLE};
use multigrain_types::exit_codes::{TIME_OUT, WRONG_USE};
use std::process::{Command, Stdio};

/// What mutants break, and so which tools look for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// Of sequential consistency, of synchronization, and of the runtime below both.
    Sequential,
    /// Of release consistency.
    Release,
    /// Of the order of flags and the bounds of queues.
    Queues,
}

impl Subject {
    pub(super) const ALL: [Self; 3] = [Self::Sequential, Self::Release, Self::Queues];

    pub(super) fn of(row: &Row) -> Self {
        if row.is_of_release() {
            Self::Release
        } else if row.is_of_queues() {
            Self::Queues
        } else {
            Self::Sequential
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Sequential => "Sequential consistency, synchronization and the runtime",
            Self::Release => "Release consistency",
            Self::Queues => "The order of flags, and the bounds of queues",
        }
    }
}

/// A tool.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    arguments: &'static [&'static str],
    pub(super) subject: Subject,
    /// Whether not to end is a finding: it is, for nodes that wait for each other.
    pub(super) may_hang: bool,
}

/// All tools, the quickest of each subject first. Each takes seconds: a few tests of many, a few seeds.
pub(super) const TOOLS: [Tool; 13] = [
    tool("check", &CHECK, Subject::Sequential),
    tool("sim", &["sim", "--seed", "1", "--nodes", "8", "--runs", "8"], Subject::Sequential),
    tool("sim-shares", &["sim", "--shares"], Subject::Sequential),
    Tool { may_hang: true, ..tool("litmus", &LITMUS, Subject::Sequential) },
    tool("check-release", &CHECK_RELEASE, Subject::Release),
    tool("sim-release", &["sim", "--release", "--seed", "1", "--runs", "2000"], Subject::Release),
    Tool { may_hang: true, ..tool("litmus-eager", &litmus_on("eager-release"), Subject::Release) },
    Tool { may_hang: true, ..tool("litmus-lazy", &litmus_on("lazy-release"), Subject::Release) },
    Tool { may_hang: true, ..tool("races", &RACES, Subject::Release) },
    Tool { may_hang: true, ..tool("random", &SWEEPS, Subject::Release) },
    tool("loom", &["scenes", "loom"], Subject::Queues),
    tool("peers", &["scenes", "peers"], Subject::Queues),
    tool("bounds", &["bounds", "--transport", "unix"], Subject::Queues),
];

const fn tool(name: &'static str, arguments: &'static [&'static str], subject: Subject) -> Tool {
    Tool { name, arguments, subject, may_hang: false }
}

/// The groups of configurations without release consistency.
const CHECK: [&str; 15] = [
    "check",
    "--first",
    "barrier",
    "coherence",
    "condition",
    "litmus",
    "lock",
    "prefetch",
    "progress",
    "push",
    "read-write",
    "reclaim",
    "semaphore",
    "timed",
    "try",
];

/// Those on release consistent memory.
const CHECK_RELEASE: [&str; 10] =
    ["check", "--first", "ahead", "auto", "eager", "lazy", "mixed", "starts", "tracked", "trees"];

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

/// The same on release consistent memory.
const fn litmus_on(consistency: &'static str) -> [&'static str; 15] {
    let mut arguments = ["--consistency"; 15];
    let mut at = 0;
    while at < LITMUS.len() {
        arguments[at] = LITMUS[at];
        at += 1;
    }
    arguments[14] = consistency;
    arguments
}

/// Mutants that a tool finds late, and what of it finds them, which is tried first where one catch is enough: together two
/// thirds of the time of all. What finds nothing any more costs its own time alone; then the tool is run whole.
const SEEN_IN: [(&str, &[&str]); 6] = [
    ("fetch-overtakes-diff", &["check", "--first", "auto/a-diff-that-no-later-one-overtakes"]),
    ("late-release-forgotten", &["check", "--first", "eager/posts-that-nobody-waits-for"]),
    ("let-go-acquires-nothing", &["check", "--first", "starts/auto/let-go-before-the-answer"]),
    ("notified-before-queued", &["check", "--first", "starts/auto/two-that-end-at-once"]),
    (
        "opened-ahead-over-a-diff",
        &["check", "--first", "auto/a-diff-that-none-opened-ahead-overtakes"],
    ),
    ("turn-not-told", &["sim", "--shares"]),
];

/// A few jobs whose threads go over the same pages at one time.
const SWEEPS: [&str; 14] = [
    "random",
    "--sweeps",
    "--consistency",
    "lazy-release",
    "--guard",
    "mprotect",
    "--tracking",
    "faults",
    "--threads",
    "4",
    "--seed",
    "1000",
    "--runs",
    "8",
];

/// One job of three nodes.
const RACES: [&str; 5] = ["races", "--nodes", "3", "--consistency", "lazy-release"];

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
    /// Another tool had caught the mutant.
    NotTried,
}

impl Verdict {
    /// Whether the mutant is dead.
    pub(super) fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::Hangs)
    }
}

impl Tool {
    /// Runs it against a mutant, or without any, for so many seconds at most.
    ///
    /// # Errors
    /// It cannot be started, or does not understand its arguments.
    pub(super) fn run(&self, mutant: Option<&str>, limit: u64) -> Result<Verdict> {
        self.run_with(self.arguments, mutant, limit)
    }

    /// Runs what of it is known to find a mutant; none if that is not known.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(super) fn run_where_seen(&self, mutant: &str, limit: u64) -> Option<Result<Verdict>> {
        let (_, arguments) = SEEN_IN.iter().find(|(name, _)| *name == mutant)?;
        let is_its = arguments[0] == self.arguments[0] && arguments[1] == self.arguments[1];
        is_its.then(|| self.run_with(arguments, Some(mutant), limit))
    }

    fn run_with(&self, arguments: &[&str], mutant: Option<&str>, limit: u64) -> Result<Verdict> {
        let this = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(&this);
        command.args(["run", "-n", "1", "--no-tag-output", "--no-summary", "--timeout"]);
        command.arg(limit.to_string()).arg("--").arg(&this).args(arguments);
        match mutant {
            Some(name) => command.env(VARIABLE, name),
            None => command.env_remove(VARIABLE),
        };
        let ended = command.stdin(Stdio::null()).output().context("starting a tool")?;
        let text = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
        Ok(match ended.status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(0) => Verdict::Passed,
            Some(TIME_OUT) if self.may_hang => Verdict::Hangs,
            Some(TIME_OUT) => Verdict::TimedOut,
            Some(WRONG_USE) => bail!("{} {}: {text}", self.name, arguments.join(" ")),
            Some(_) | None => Verdict::Caught(finding(arguments[0], &text)),
        })
    }
}

/// What a tool found: the property that does not hold, or its first complaint. The launcher's own,
/// about a process that ended, says less; and atomics on release consistent memory are warned of always.
fn finding(command: &str, text: &str) -> String {
    let beside = ["(pid ", ": an atomic instruction at "];
    let lines = || text.lines().filter(|line| !beside.iter().any(|words| line.contains(words)));
    let after = |prefix: &str| lines().find_map(|line| line.strip_prefix(prefix));
    let line = after("does not hold: ").or_else(|| after("multigrain: ")).unwrap_or("fails");
    let own = line.strip_prefix(command).and_then(|rest| rest.strip_prefix(": "));
    own.unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_protocol::mutants::MUTANTS;
    use multigrain_verify::{check, release};
    use std::collections::BTreeSet;

    #[test]
    fn the_model_checkers_of_a_subject_have_every_group_of_configurations() {
        let group = |name: &'static str| name.split('/').next().unwrap_or(name);
        let sequential = check::configurations(check::Form::Short);
        let sequential: BTreeSet<_> = sequential.iter().map(|row| group(row.name)).collect();
        assert!(sequential.into_iter().eq(CHECK[2..].iter().copied()));
        let release = release::configurations();
        let release: BTreeSet<_> = release.iter().map(|row| group(row.name)).collect();
        assert!(release.into_iter().eq(CHECK_RELEASE[2..].iter().copied()));
    }

    #[test]
    fn what_is_tried_first_is_there() {
        let release = release::configurations();
        for (mutant, arguments) in SEEN_IN {
            let subject = MUTANTS.iter().find(|row| row.name == mutant).map(Subject::of);
            let tool = |tool: &&Tool| tool.arguments[..2] == arguments[..2];
            assert!(
                TOOLS.iter().filter(tool).any(|tool| Some(tool.subject) == subject),
                "{mutant}"
            );
            if let Some(name) = arguments.get(2) {
                assert!(release.iter().any(|row| row.name == *name), "{name}");
            }
        }
    }

    #[test]
    fn the_property_is_told_before_the_first_complaint() {
        let text = "multigrain: check: 1 of 3\nx\ndoes not hold: no deadlock\n";
        assert_eq!(finding("check", text), "no deadlock");
        let text = "multigrain: node 2 (pid 7) fails\nmultigrain: litmus: SB: forbidden\n";
        assert_eq!(finding("litmus", text), "SB: forbidden");
        let text =
            "multigrain: node 2: an atomic instruction at a.rs:1 (f) works on memory\n".to_owned();
        assert_eq!(
            finding("litmus", &(text + "multigrain: litmus: MP: forbidden\n")),
            "MP: forbidden"
        );
    }
}
