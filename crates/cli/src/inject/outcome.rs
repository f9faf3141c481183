//! The outcome of a job: right result, one clear error, or a broken promise.

use super::fault::{Fault, Limit, Target};
use std::fmt;
use std::time::Duration;

/// From a fault that must be noticed, and from an error's first word, to the job's end.
const SOON: Duration = Duration::from_secs(3);
/// From the moment a host is gone without a word to the job's end: the transport's time-outs.
const SILENT_HOST: Duration = Duration::from_secs(45);

/// What the fault came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Struck {
    /// The job ended before it.
    Never,
    /// So long after the job's start.
    At(Duration),
}

/// A job seen from outside. Times are since its start.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) struck: Struck,
    pub(super) end: End,
    pub(super) at: Duration,
    pub(super) out: Vec<String>,
    pub(super) err: Vec<(Duration, String)>,
    /// Processes that outlived the launcher.
    pub(super) orphans: Vec<String>,
    /// Files, sockets, segments.
    pub(super) left: Vec<String>,
}

/// The launcher's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Code(i32),
    Signal(i32),
    /// There was none; what its processes were doing.
    Hang(Vec<String>),
}

/// What a time amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The right result; `early` if it was there before the fault.
    Right { early: bool },
    /// An error, so long after the fault.
    Error { within: Duration, line: String },
    /// The promise is broken.
    Violation { what: String },
    /// The system does not let us do this.
    NotHere { why: String },
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right { early: false } => write!(out, "right result"),
            Self::Right { early: true } => write!(out, "right result, before the fault"),
            Self::Error { within, line } => {
                write!(out, "error within {:.2} s: {line}", within.as_secs_f64())
            }
            Self::Violation { what } => write!(out, "BROKEN PROMISE: {what}"),
            Self::NotHere { why } => write!(out, "cannot be done here: {why}"),
        }
    }
}

/// Compares what was seen with what is promised after such a fault.
pub(super) fn judge(seen: &Seen, fault: Option<&Fault>) -> Outcome {
    match check(seen, fault) {
        Ok(outcome) => outcome,
        Err(what) => {
            let said: Vec<_> = seen.err.iter().map(|(_, line)| line.as_str()).collect();
            Outcome::Violation { what: format!("{what}; stderr: {said:?}") }
        }
    }
}

fn check(seen: &Seen, fault: Option<&Fault>) -> Result<Outcome, String> {
    if let End::Hang(doing) = &seen.end {
        return Err(format!("no end after {:.1} s: {}", seen.at.as_secs_f64(), doing.join(" ")));
    }
    let none = |what: &str, list: &[String]| {
        if list.is_empty() { Ok(()) } else { Err(format!("{what}: {}", list.join(", "))) }
    };
    none("orphans", &seen.orphans)?;
    none("left behind", &seen.left)?;
    let checks: Vec<_> = seen.out.iter().filter_map(|line| line.split_once("check=")).collect();
    if let Some((_, wrong)) = checks.iter().find(|(_, verdict)| !verdict.starts_with("ok")) {
        return Err(format!("wrong result: check={wrong}"));
    }
    if seen.end == End::Code(0) {
        let early = seen.struck == Struck::Never;
        return match checks.len() {
            1 => Ok(Outcome::Right { early }),
            _ => Err("exit code 0 without a result".to_owned()),
        };
    }
    let (Struck::At(struck), Some(fault)) = (seen.struck, fault) else {
        return Err("an error without a fault".to_owned());
    };
    if fault.is_harmless() {
        return Err(format!("an error after what should do no harm ({:?})", seen.end));
    }
    let line = clear_line(seen, fault)?;
    in_time(seen, fault, struck)?;
    // A limit hurts when it is reached, which the first word shows.
    let since = match (fault, seen.err.first()) {
        (Fault::Limit { .. }, Some((said, _))) => *said,
        _ => struck,
    };
    Ok(Outcome::Error { within: seen.at.saturating_sub(since), line })
}

/// The line that tells the user what happened.
fn clear_line(seen: &Seen, fault: &Fault) -> Result<String, String> {
    if let End::Signal(signal) = seen.end {
        let meant = *fault == Fault::Kill(Target::Launcher) && signal == libc::SIGKILL;
        return match meant {
            true => Ok("the launcher is gone, and all of its job".to_owned()),
            false => of_dying_launcher(seen, signal),
        };
    }
    let said = || seen.err.iter().map(|(_, line)| line.as_str());
    if let Some(panic) = said().find(|line| line.contains("panicked at") && !is_before_main(line)) {
        return Err(format!("a panic instead of an error: {panic}"));
    }
    let own: Vec<&str> = said().filter_map(|line| line.strip_prefix("multigrain: ")).collect();
    let verdicts: Vec<&&str> = own.iter().filter(|line| line.ends_with("; the job ends")).collect();
    let verdict = match (verdicts.as_slice(), own.as_slice()) {
        ([verdict], _) => **verdict,
        // The launcher could not even start it.
        ([], [only]) => return Ok((*only).to_owned()),
        _ => return Err(format!("not one clear line but {own:?}")),
    };
    let rank = rank_in(verdict).ok_or_else(|| format!("a line that names no node: {verdict}"))?;
    let mut words = said().filter_map(|line| {
        line.strip_prefix(&format!("[{rank}] "))
            .or_else(|| line.strip_prefix(&format!("multigrain: node {rank}: ")))
    });
    // Some ends explain themselves, others need a word of the node.
    let explains_itself = ["was lost by", "(SIGKILL)", "failed: ", "ulimit -"]
        .iter()
        .any(|how| verdict.contains(how));
    let line = match words.next() {
        Some(word) => format!("{verdict} [{word}]"),
        None if explains_itself => verdict.to_owned(),
        None => return Err(format!("a line that names no cause: {verdict}")),
    };
    if names_the_victim(&line, rank, fault) {
        Ok(line)
    } else {
        Err(format!("a line that blames somebody else: {line}"))
    }
}

/// Whether Rust's runtime panics that it was refused its signal stack: before a program's `main`,
/// so before any code of ours. The line of the job's end names the limits.
fn is_before_main(panic: &str) -> bool {
    panic.contains("thread 'main'") && panic.contains("/std/src/sys/pal/unix/stack_overflow.rs:")
}

/// A launcher that a limit ends says so, too.
fn of_dying_launcher(seen: &Seen, signal: i32) -> Result<String, String> {
    match seen.err.first() {
        Some((_, line)) if !line.contains("panicked") => Ok(format!("signal {signal}: {line}")),
        Some(_) | None => Err(format!("the launcher died of signal {signal}")),
    }
}

/// The N of `node N (pid P) ...`.
fn rank_in(verdict: &str) -> Option<u32> {
    verdict.strip_prefix("node ")?.split_once(" (pid ")?.0.parse().ok()
}

/// A node that is killed, or has no room to start, is to blame itself; a cut connection has two ends.
fn names_the_victim(line: &str, rank: u32, fault: &Fault) -> bool {
    match fault {
        Fault::Kill(Target::Node(node)) => rank == *node && line.contains("SIGKILL"),
        Fault::Limit { target: Target::Node(node), limit: Limit::Start(_), .. } => rank == *node,
        Fault::Cut { node, .. } | Fault::Silence { node, .. } => {
            let (one, other) = (format!("node {node} "), format!("node {node}:"));
            line.contains(&one) || line.contains(&other) || is_missing(*node, line)
        }
        Fault::Kill(_)
        | Fault::Stop(_)
        | Fault::Unauthenticated { .. }
        | Fault::Shm
        | Fault::Limit { .. } => true,
    }
}

/// Whether a node that waited in vain for others names this one.
fn is_missing(node: u32, line: &str) -> bool {
    let ranks = line.split_once("still missing: ").map(|(_, ranks)| ranks.trim_end_matches(']'));
    ranks.is_some_and(|ranks| ranks.split(", ").any(|rank| rank.parse() == Ok(node)))
}

fn in_time(seen: &Seen, fault: &Fault, struck: Duration) -> Result<(), String> {
    let within = |what: &str, since: Duration, limit: Duration| {
        let took = seen.at.saturating_sub(since).as_secs_f64();
        let late = took > limit.as_secs_f64();
        if late { Err(format!("the end came {took:.1} s after {what}")) } else { Ok(()) }
    };
    match fault {
        Fault::Kill(_) | Fault::Cut { .. } => within("the fault", struck, SOON)?,
        Fault::Silence { .. } => within("the fault", struck, SILENT_HOST)?,
        Fault::Stop(_) | Fault::Unauthenticated { .. } | Fault::Shm | Fault::Limit { .. } => {}
    }
    match seen.err.first() {
        Some((said, _)) => within("the first word of it", *said, SOON),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
