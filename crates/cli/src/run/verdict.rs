//! The verdict: which node is to blame, what the user is told, and the exit code.
//!
//! A pure function of what is known about the job and of the time. The end of a node that lost a peer is a
//! consequence: the verdict names the peer, and waits a moment to learn how that one died.

use super::signalfd;
use multigrain_types::exit_codes::{DEADLOCK, FATAL, PEER_LOST, RACES, SIGNALLED, TIME_OUT};
use multigrain_types::phrases::{BEYOND_LIMIT, BROKE_PROTOCOL, CLOSED_DESCRIPTORS, NOT_ALL_CAME};
use rustix::process::WaitIdStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Status {
    /// With this exit code.
    Exited(i32),
    /// Killed by a signal, perhaps with a core file.
    Killed { signal: i32, core: bool },
    /// Nobody knows: its host is lost.
    Lost,
}

impl Status {
    /// Whether SIGKILL ended it, as it does where the system wants memory.
    pub(super) fn is_sigkill(self) -> bool {
        matches!(self, Self::Killed { signal: libc::SIGKILL, .. })
    }

    /// As the system tells it.
    pub(super) fn of(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Killed { signal, core: status.dumped() },
            // waitid reports ends only; what else it may say is no success.
            (None, None) => Self::Exited(i32::from(u8::MAX)),
        }
    }
}

/// A node's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Since the start of the job.
    pub(super) at: Duration,
    /// 0 for the first node that ended, 1 for the next, ...
    pub(super) order: usize,
    pub(super) status: Status,
}

/// A node's word that a peer is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loss {
    /// By the launcher's monotonic clock; at the end of all times if the node did not say.
    pub(super) at: Duration,
    /// The peer.
    pub(super) rank: usize,
    /// How the node noticed.
    pub(super) text: String,
}

impl Loss {
    /// Whether the peer was cut off for what it sent.
    fn is_cut_off(&self) -> bool {
        self.text.starts_with(BROKE_PROTOCOL) || self.text.starts_with(BEYOND_LIMIT)
    }

    /// Whether it was waited for in vain, by a node that could not know why.
    fn has_not_come(&self) -> bool {
        self.text.starts_with(NOT_ALL_CAME)
    }
}

impl End {
    fn was_killed(&self) -> bool {
        matches!(self.status, Status::Killed { .. })
    }
}

/// How far the mg_init of a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Init {
    #[default]
    NotBegun,
    /// By this process: that which was started, or one that this has started in turn.
    Begun {
        by: i32,
    },
    Done {
        by: i32,
    },
}

/// What is known about one node.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeFacts {
    pub(super) pid: i32,
    /// Where it runs, if that is not the launcher's host.
    pub(super) host: Option<String>,
    /// How far its mg_init is.
    pub(super) init: Init,
    /// mg_finalize is done.
    pub(super) left: bool,
    /// The first peer it lost.
    pub(super) lost: Option<Loss>,
    /// It has closed its control channel: it ends, or is another program by now.
    pub(super) closed: bool,
    /// Why it ends, in its own words.
    pub(super) fatal: Option<String>,
    /// The last signal that was about to end it, and where its access went.
    pub(super) crash: Option<(i32, String)>,
    /// The file in which the system has counted a process that it killed for want of memory, if a SIGKILL ended this one.
    pub(super) memory_kills: Option<String>,
    pub(super) end: Option<End>,
}

/// Why the launcher itself ends the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// The limit of --timeout is over.
    Timeout(Duration),
    /// A second Ctrl-C, or a SIGTERM that did not end the nodes.
    Signal(i32),
    /// Nobody reads the launcher's stdout any more.
    Unread,
}

/// What is known about the job.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// By rank.
    pub(super) nodes: Vec<NodeFacts>,
    pub(super) ended_by: Option<EndedBy>,
    /// Who waits where, of a job that can never go on.
    pub(super) deadlock: Option<String>,
    /// Which nodes wait, and where, of a job that its limit of time has ended.
    pub(super) waiting: Option<String>,
    /// Races that nodes have reported.
    pub(super) races: usize,
    /// The last signal that was handed on to the nodes.
    pub(super) forwarded: Option<i32>,
    /// How long processes that nodes have left may take to be the nodes, if no node has joined.
    pub(super) join_wait: Duration,
    /// By rank, of nodes on other hosts: when that was asked what it has answered last. What happened there before is known.
    pub(super) heard: BTreeMap<usize, Duration>,
}

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

impl NodeFacts {
    /// The process: `pid 7`, or `pid 7 on b`.
    fn process(&self) -> String {
        match &self.host {
            Some(host) => format!("pid {} on {host}", self.pid),
            None => format!("pid {}", self.pid),
        }
    }

    fn failed(&self) -> Option<End> {
        self.end.filter(|end| end.status != Status::Exited(0))
    }

    /// Ended on another host by a SIGTERM that the launcher knows nothing of.
    pub(super) fn may_go_with_host(&self, forwarded: Option<i32>) -> bool {
        let by_term = |end: End| matches!(end.status, Status::Killed { signal: libc::SIGTERM, .. });
        self.host.is_some() && self.end.is_some_and(by_term) && forwarded != Some(libc::SIGTERM)
    }

    /// Failed for a reason of its own.
    fn failed_first(&self) -> Option<End> {
        self.failed().filter(|end| !self.failed_by_peer(end.status))
    }

    fn failed_by_peer(&self, status: Status) -> bool {
        self.lost.is_some() || (self.is_ready() && status == Status::Exited(PEER_LOST.into()))
    }

    /// mg_init is done.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.init, Init::Done { .. })
    }

    /// mg_init has begun, or is done.
    pub(super) fn joins(&self) -> bool {
        self.init != Init::NotBegun
    }

    /// The process that has called mg_init, by its own number.
    pub(super) fn joined_by(&self) -> Option<i32> {
        match self.init {
            Init::NotBegun => None,
            Init::Begun { by } | Init::Done { by } => Some(by),
        }
    }

    /// How the node ended, if that is another process than was started, whose status is not to be had.
    fn status_by_last_words(&self) -> Option<Status> {
        match &self.crash {
            _ if !self.is_another_process() => None,
            _ if self.fatal.is_some() => Some(Status::Exited(FATAL.into())),
            Some((signal, _)) => Some(Status::Killed { signal: *signal, core: false }),
            None => self.lost.is_some().then_some(Status::Exited(PEER_LOST.into())),
        }
    }

    /// Whether this is a process of the node.
    pub(super) fn is_process(&self, pid: i32) -> bool {
        self.pid == pid || self.joined_by() == Some(pid)
    }

    /// A process has called mg_init that the one which was started has started in turn.
    fn is_another_process(&self) -> bool {
        self.joined_by().is_some_and(|by| by != self.pid)
    }

    /// The process that was started has ended well and was not the node: one that it has started in turn (fork,
    /// daemon) has the channel, and is the node or may become it.
    pub(super) fn has_successor(&self) -> bool {
        let by_another = self.is_another_process() || !self.joins();
        let well = self.end.is_some_and(|end| end.status == Status::Exited(0));
        well && by_another && !self.closed
    }

    /// The node is another process than that which was started and has ended; it may work on after mg_finalize, as any node.
    pub(super) fn lives_on(&self) -> bool {
        self.has_successor() && self.joins()
    }

    /// Nothing of it is to come.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some() && !self.lives_on()
    }

    /// Lives, and is no node any more.
    fn is_another_program(&self) -> bool {
        self.closed && !self.left && self.end.is_none()
    }

    /// Went quietly, with the others still counting on it. They do so too if they join a job, and it
    /// never did.
    fn exited_early(&self, others_join: bool) -> Option<End> {
        let awaited = others_join || self.joins();
        let early = awaited && !self.left && !self.has_successor();
        self.end.filter(|end| early && end.status == Status::Exited(0))
    }
}

impl Facts {
    /// Whether a node lives, as far as is known, on a host that has not answered since.
    fn is_late(&self, rank: usize, since: Duration) -> bool {
        let node = &self.nodes[rank];
        let heard = self.heard.get(&rank).is_some_and(|&heard| heard >= since);
        node.host.is_some() && node.end.is_none() && !heard
    }

    /// That of the next end.
    pub(super) fn next_order(&self) -> usize {
        self.nodes.iter().filter_map(|node| node.end).map(|end| end.order + 1).max().unwrap_or(0)
    }

    /// Whether every node has ended, whichever process it was.
    pub(super) fn all_over(&self) -> bool {
        self.nodes.iter().all(NodeFacts::is_over)
    }

    /// Until when processes that nodes have left may become nodes, in a job that none has joined.
    fn may_be_joined_until(&self) -> Option<Duration> {
        let any = self.nodes.iter().any(NodeFacts::has_successor);
        let last = self.nodes.iter().filter_map(|node| Some(node.end?.at)).max();
        last.filter(|_| any).map(|last| last + self.join_wait)
    }

    /// Whether every node has ended, and said that all is well.
    pub(super) fn ended_well(&self) -> bool {
        let well = |node: &NodeFacts| {
            let exited = node.end.is_some_and(|end| end.status == Status::Exited(0));
            exited && (node.left || !node.is_another_process())
        };
        self.ended_by.is_none() && self.nodes.iter().all(well)
    }
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
    u8::try_from(i32::from(SIGNALLED) + signal).unwrap_or(u8::MAX)
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
            let line = match &facts.nodes[rank].fatal {
                Some(why) => format!("node {rank} ({process}) failed: {why}; the job ends"),
                // Its way to the launcher was closed, too.
                None if code == i32::from(FATAL) && facts.nodes[rank].is_ready() => format!(
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
        |node: &NodeFacts| node.is_another_program() || (node.has_successor() && !node.joins());
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
