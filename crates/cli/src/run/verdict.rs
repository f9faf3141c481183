//! The verdict: which node is to blame, what the user is told, and the exit code.
//!
//! A pure function of what is known about the job and of the time. The end of a node that lost a peer is a
//! consequence: the verdict names the peer, and waits a moment to learn how that one died.

use super::facts::{End, EndedBy, Facts, Loss, NodeFacts, Status, Succession};
use super::signalfd;
use multigrain_types::exit_codes::{DEADLOCK, FATAL, PEER_LOST, RACES, SIGNALLED, TIME_OUT};
use multigrain_types::phrases::{BEYOND_LIMIT, CLOSED_DESCRIPTORS};
use std::time::Duration;

/// How long a consequence waits for its cause: a node that cannot join hangs up before it says why,
/// and on a busy machine that takes a while.
const CAUSE_WAIT: Duration = Duration::from_secs(1);
/// The same while the host of the node that was lost has not answered since, and is not lost.
pub(super) const LATE_CAUSE_WAIT: Duration = Duration::from_secs(10);
/// How long the others may take to end once a node left without mg_finalize.
const LEAVER_WAIT: Duration = Duration::from_secs(1);
/// Exit code where no node gave one: a node exited with 0 but broke the rules.
const BROKEN_RULES: u8 = 1;

/// How the job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The launcher's exit code.
    pub(super) code: u8,
    /// The one line about it; none after success, or where silence is wanted.
    pub(super) line: Option<String>,
}

/// What [`judge`] finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// All is well so far.
    Running,
    /// Something happened; ask again at this time, or when more is known.
    Wait(Duration),
    /// The job is over, or is to be ended.
    Over(Verdict),
}

/// Decides about a job at time `now` since its start.
pub(super) fn judge(facts: &Facts, now: Duration) -> Decision {
    if let Some(by) = facts.ended_by {
        return Decision::Over(by_launcher(facts, by));
    }
    if let Some(text) = &facts.deadlock {
        return Decision::Over(of_deadlock(text));
    }
    if let Some((rank, end)) = first(facts, NodeFacts::failed_first) {
        // A batch system that ends a step ends agents as well as nodes: then the host is lost, and that is the cause.
        if facts.nodes[rank].may_go_with_host(facts.forwarded) && now < end.at + CAUSE_WAIT {
            return Decision::Wait(end.at + CAUSE_WAIT);
        }
        return Decision::Over(match first_loss(facts) {
            // Why the others cut it off says more than how it took that.
            Some((_, loss)) if loss.rank == rank && loss.is_cut_off() && !end.was_killed() => {
                of_consequence(facts, rank, end.status)
            }
            _ => of_failure(facts, rank, end.status),
        });
    }
    let all_over = facts.all_over();
    let joined = facts.nodes.iter().any(NodeFacts::joins);
    let early = first(facts, |node| node.exited_early(joined).filter(|_| node.lost.is_none()))
        .or_else(|| first(facts, |node| node.exited_early(joined)));
    if let Some(until) = facts.end_is_known_by().filter(|&until| now < until) {
        return Decision::Wait(until);
    }
    if let Some((rank, end)) = first(facts, NodeFacts::failed) {
        // Only consequences so far: look for the cause.
        let late = first_loss(facts).is_some_and(|(_, loss)| facts.is_late(loss.rank, end.at));
        let until = end.at + if late { LATE_CAUSE_WAIT } else { CAUSE_WAIT };
        return match early {
            Some((early, _)) => Decision::Over(of_early_exit(facts, early)),
            None if all_over || now >= until => {
                Decision::Over(of_consequence(facts, rank, end.status))
            }
            None => Decision::Wait(until),
        };
    }
    let some_left = facts.nodes.iter().any(|node| node.left);
    match early {
        // Those who called mg_finalize did not miss it.
        _ if all_over && some_left => Decision::Over(of_success(facts)),
        None if all_over => match facts.may_be_joined_until() {
            Some(until) if now < until => Decision::Wait(until),
            Some(_) | None => Decision::Over(of_success(facts)),
        },
        Some((rank, end)) if now >= end.at + LEAVER_WAIT => {
            Decision::Over(of_early_exit(facts, rank))
        }
        Some((_, end)) => Decision::Wait(end.at + LEAVER_WAIT),
        None => Decision::Running,
    }
}

/// The first node to end among those `ended` picks.
fn first(facts: &Facts, ended: impl Fn(&NodeFacts) -> Option<End>) -> Option<(usize, End)> {
    let ends = facts.nodes.iter().enumerate();
    ends.filter_map(|(rank, node)| Some((rank, ended(node)?))).min_by_key(|(_, end)| end.order)
}

fn by_launcher(facts: &Facts, by: EndedBy) -> Verdict {
    match by {
        EndedBy::Timeout(limit) => {
            let limit = limit.as_secs_f64();
            // A race is a finding, and the more likely cause; that time was short is a suspicion.
            let (code, line) = match races_of(facts) {
                Some(races) => {
                    (RACES, format!("time-out after {limit} s, and {races}; exit code {RACES}"))
                }
                None => {
                    let who = facts.waiting.as_ref().map(|who| format!(" ({who})"));
                    let who = who.unwrap_or_default();
                    (TIME_OUT, format!("time-out after {limit} s{who}; the job ends"))
                }
            };
            Verdict { code, line: Some(line) }
        }
        EndedBy::Signal(signal) => by_signal(signal),
        EndedBy::Unread => Verdict { code: code_of_signal(libc::SIGPIPE), line: None },
    }
}

fn of_deadlock(text: &str) -> Verdict {
    Verdict { code: DEADLOCK, line: Some(format!("deadlock: {text}; the job ends")) }
}

fn by_signal(signal: i32) -> Verdict {
    let line = format!("the job was ended by {}", signalfd::name(signal));
    Verdict { code: code_of_signal(signal), line: Some(line) }
}

fn code_of_signal(signal: i32) -> u8 {
    u8::try_from(i32::from(SIGNALLED).saturating_add(signal)).unwrap_or(u8::MAX)
}

/// Every node ended well; a program that is right only by chance is still wrong.
fn of_success(facts: &Facts) -> Verdict {
    match races_of(facts) {
        Some(races) => Verdict { code: RACES, line: Some(format!("{races}; exit code {RACES}")) },
        None => Verdict { code: 0, line: None },
    }
}

/// That races were reported, in words.
fn races_of(facts: &Facts) -> Option<String> {
    match facts.races {
        0 => None,
        1 => Some("a race was reported".to_owned()),
        races => Some(format!("{races} races were reported")),
    }
}

fn of_failure(facts: &Facts, rank: usize, status: Status) -> Verdict {
    let process = facts.nodes[rank].process();
    match status {
        Status::Killed { signal, .. } if facts.forwarded == Some(signal) => by_signal(signal),
        Status::Killed { signal, core } => {
            let name = signalfd::name(signal);
            let core = if core { ", core dumped" } else { "" };
            let crash = match &facts.nodes[rank].crash {
                Some((of, text)) if *of == signal => format!(" {text}"),
                // The handler that says where is there from mg_init on; it needs a stack, or was never
                // called.
                None if signal == libc::SIGSEGV => match facts.nodes[rank].is_ready() {
                    true => " and could not say where: its stack was full (ulimit -s, ulimit -v) or overrun, or an alternate \
                             stack had no room for a handler (sigaltstack: 64 KiB), or it lay in shared memory, or somebody sent the signal, or the program blocks it in a way of its own (a system call, the mask \
                             of ppoll or pselect)",
                    false => " before mg_init had ended, or without mg_init: by the program itself (calls of the library give \
                              errors and NULL until then), or its stack had no room (ulimit -s, ulimit -v)",
                }
                .to_owned(),
                None if signal == libc::SIGABRT && !facts.nodes[rank].is_ready() => {
                    " before mg_init had ended, or without mg_init: by the program itself, or it was refused memory \
                     (ulimit -v, ulimit -d)"
                        .to_owned()
                }
                None if signal == libc::SIGBUS && facts.nodes[rank].is_ready() => {
                    " and could not say where: somebody sent the signal, or the stack lay in shared memory, or the \
                     program blocks it in a way of its own (a system call, the mask of ppoll or pselect)"
                        .to_owned()
                }
                None if let Some(file) = &facts.nodes[rank].memory_kills => {
                    format!(", perhaps by the system for want of memory: {file} counts more since the start (dmesg says which)")
                }
                Some(_) | None => String::new(),
            };
            let line = format!(
                "node {rank} ({process}) was killed by signal {signal} ({name}){crash}{core}; \
                 the job ends"
            );
            Verdict { code: code_of_signal(signal), line: Some(line) }
        }
        Status::Exited(code) => {
            let node = &facts.nodes[rank];
            let line = match &node.fatal {
                Some(why) => format!("node {rank} ({process}) failed: {why}; the job ends"),
                None if let Some(why) = facts.join_errors.get(&rank) => format!(
                    "node {rank} ({process}) exited with code {code} since its mg_init failed: {why}; the job ends"
                ),
                // Its way to the launcher was closed, too.
                None if code == i32::from(FATAL) && node.is_ready() => format!(
                    "node {rank} ({process}) exited with code {code}; unless that code is its own, {CLOSED_DESCRIPTORS}; the job ends"
                ),
                None => format!("node {rank} ({process}) exited with code {code}; the job ends"),
            };
            Verdict { code: u8::try_from(code).unwrap_or(u8::MAX), line: Some(line) }
        }
        Status::Lost => {
            let why = facts.nodes[rank].fatal.as_deref().unwrap_or_default();
            let line =
                format!("node {rank} ({process}) was lost with its host: {why}; the job ends");
            Verdict { code: PEER_LOST, line: Some(line) }
        }
    }
}

fn of_early_exit(facts: &Facts, rank: usize) -> Verdict {
    let node = &facts.nodes[rank];
    if let Some(status) = node.end.and_then(|_| node.status_by_last_words()) {
        return match status == Status::Exited(PEER_LOST.into()) {
            true => of_consequence(facts, rank, status),
            false => of_failure(facts, rank, status),
        };
    }
    let process = node.process();
    let how = match node.joins() {
        true if node.is_another_program() => {
            "left without mg_finalize: it has executed another program (exec), or closed its descriptors"
        }
        true => "left without mg_finalize",
        false => "ended without mg_init, while others joined",
    };
    let line = format!("node {rank} ({process}) {how}; the job ends");
    Verdict { code: BROKEN_RULES, line: Some(line) }
}

/// Nodes lost a peer that did not fail: it hangs, or cannot be reached.
fn of_consequence(facts: &Facts, first: usize, status: Status) -> Verdict {
    let Some((rank, loss)) = first_loss(facts) else {
        return of_failure(facts, first, status);
    };
    let is_none =
        |node: &NodeFacts| node.is_another_program() || node.succession() == Succession::Awaited;
    if facts.nodes.get(loss.rank).is_some_and(is_none) {
        return of_early_exit(facts, loss.rank);
    }
    let pid = match facts.nodes.get(loss.rank) {
        Some(peer) => format!(" ({})", peer.process()),
        None => String::new(),
    };
    let what = match loss.text.strip_prefix(BEYOND_LIMIT) {
        Some(limit) => format!("{BEYOND_LIMIT} at node {rank}{limit}"),
        None if loss.text.is_empty() => format!("was lost by node {rank}"),
        None => format!("was lost by node {rank}: {}", loss.text),
    };
    let line = format!("node {}{pid} {what}; the job ends", loss.rank);
    let code = match status {
        Status::Exited(code) => u8::try_from(code).unwrap_or(u8::MAX),
        Status::Killed { signal, .. } => code_of_signal(signal),
        Status::Lost => PEER_LOST,
    };
    Verdict { code, line: Some(line) }
}

/// A node that lost a peer ends, and so is lost itself: the first of them names the cause, whoever
/// ended first. A peer that broke the protocol is a cause of its own, and may notice that it was cut off
/// before the other has said so; who could not connect knows more than who was waited for in vain. One that has lost
/// nobody comes before one that has, whatever the times say: other hosts' clocks are known to milliseconds only, and a
/// chain of losses takes less.
fn first_loss(facts: &Facts) -> Option<(usize, &Loss)> {
    let has_lost = |loss: &Loss| facts.nodes.get(loss.rank).is_some_and(|peer| peer.lost.is_some());
    let losses = facts.nodes.iter().enumerate();
    losses
        .filter_map(|(rank, node)| Some((rank, node.lost.as_ref()?)))
        .min_by_key(|(_, l)| (!l.is_cut_off(), l.has_not_come(), has_lost(l), l.at))
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
