//! What is known about a job: how far each node is, how it ended, whom it lost.
//!
//! Filled by the event loop ([`super::events`], [`super::remote_nodes`]), judged by [`super::verdict`].

use multigrain_types::exit_codes::{FATAL, PEER_LOST};
use multigrain_types::phrases::{BEYOND_LIMIT, BROKE_PROTOCOL, NOT_ALL_CAME};
use rustix::process::WaitIdStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// From the end of a node's channel until the system says how its process has ended, on a busy machine.
const END_WAIT: Duration = Duration::from_secs(1);

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
    pub(super) fn is_cut_off(&self) -> bool {
        self.text.starts_with(BROKE_PROTOCOL) || self.text.starts_with(BEYOND_LIMIT)
    }

    /// Whether it was waited for in vain, by a node that could not know why.
    pub(super) fn has_not_come(&self) -> bool {
        self.text.starts_with(NOT_ALL_CAME)
    }
}

impl End {
    pub(super) fn was_killed(&self) -> bool {
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

/// Which process is the node: the one that was started, or one that this has started in turn (fork, daemon), its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Succession {
    /// That which was started.
    None,
    /// This one has called mg_init; it is the node once the other has ended well.
    Possible(i32),
    /// That which was started has ended well without mg_init, and some process has its channel, which may become the node.
    Awaited,
    /// This one, which may work on after mg_finalize, as any node.
    Lives(i32),
    /// This one, whose channel is closed, and how it ended is not known.
    Gone(i32),
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
    /// By rank, why mg_init has failed.
    pub(super) join_errors: BTreeMap<usize, String>,
    /// By rank, how the process has ended that is the node in place of one that may not have ended yet, and where the system
    /// has counted that it killed one for want of memory.
    pub(super) successor_ends: BTreeMap<usize, (Status, Option<String>)>,
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

impl NodeFacts {
    /// The process: `pid 7`, or `pid 7 on b`.
    pub(super) fn process(&self) -> String {
        let pid = self.process_id();
        match &self.host {
            Some(host) => format!("pid {pid} on {host}"),
            None => format!("pid {pid}"),
        }
    }

    pub(super) fn failed(&self) -> Option<End> {
        self.end.filter(|end| end.status != Status::Exited(0))
    }

    /// Ended on another host by a SIGTERM that the launcher knows nothing of.
    pub(super) fn may_go_with_host(&self, forwarded: Option<i32>) -> bool {
        let by_term = |end: End| matches!(end.status, Status::Killed { signal: libc::SIGTERM, .. });
        self.host.is_some() && self.end.is_some_and(by_term) && forwarded != Some(libc::SIGTERM)
    }

    /// Failed for a reason of its own.
    pub(super) fn failed_first(&self) -> Option<End> {
        self.failed().filter(|end| !self.failed_by_peer(end.status))
    }

    pub(super) fn failed_by_peer(&self, status: Status) -> bool {
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
    pub(super) fn status_by_last_words(&self) -> Option<Status> {
        match &self.crash {
            _ if self.may_be_successor().is_none() => None,
            _ if self.fatal.is_some() => Some(Status::Exited(FATAL.into())),
            Some((signal, _)) => Some(Status::Killed { signal: *signal, core: false }),
            None => self.lost.is_some().then_some(Status::Exited(PEER_LOST.into())),
        }
    }

    /// Whether this is a process of the node.
    pub(super) fn is_process(&self, pid: i32) -> bool {
        self.pid == pid || self.joined_by() == Some(pid)
    }

    /// Which process is the node.
    pub(super) fn succession(&self) -> Succession {
        let ended_well = self.end.is_some_and(|end| end.status == Status::Exited(0));
        match self.joined_by().filter(|&by| by != self.pid) {
            Some(pid) if !ended_well => Succession::Possible(pid),
            Some(pid) if self.closed => Succession::Gone(pid),
            Some(pid) => Succession::Lives(pid),
            None if ended_well && !self.joins() && !self.closed => Succession::Awaited,
            None => Succession::None,
        }
    }

    /// Whether a successor lives, or may still come to be one.
    pub(super) fn has_successor(&self) -> bool {
        matches!(self.succession(), Succession::Lives(_) | Succession::Awaited)
    }

    /// The number of a process that is the node, or will be when the one that was started has ended.
    pub(super) fn may_be_successor(&self) -> Option<i32> {
        match self.succession() {
            Succession::Possible(pid) | Succession::Lives(pid) | Succession::Gone(pid) => Some(pid),
            Succession::None | Succession::Awaited => None,
        }
    }

    /// The number of the process that is the node in place of one that has ended well.
    pub(super) fn successor(&self) -> Option<i32> {
        match self.succession() {
            Succession::Lives(pid) | Succession::Gone(pid) => Some(pid),
            Succession::None | Succession::Possible(_) | Succession::Awaited => None,
        }
    }

    /// The number of the process that is the node; 0 if it is not known.
    pub(super) fn process_id(&self) -> i32 {
        self.successor().unwrap_or(self.pid)
    }

    /// Nothing of it is to come.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some() && !matches!(self.succession(), Succession::Lives(_))
    }

    /// Lives, and is no node any more.
    pub(super) fn is_another_program(&self) -> bool {
        self.closed && !self.left && self.end.is_none()
    }

    /// Went quietly, with the others still counting on it. They do so too if they join a job, and it
    /// never did.
    pub(super) fn exited_early(&self, others_join: bool) -> Option<End> {
        let awaited = others_join || self.joins();
        let early = awaited && !self.left && !self.has_successor();
        self.end.filter(|end| early && end.status == Status::Exited(0))
    }
}

impl Facts {
    /// Whether there is such a node, and lives, as far as is known, on a host that has not answered since.
    pub(super) fn is_late(&self, rank: usize, since: Duration) -> bool {
        let heard = self.heard.get(&rank).is_some_and(|&heard| heard >= since);
        let lives = |node: &NodeFacts| node.host.is_some() && !node.is_over();
        self.nodes.get(rank).is_some_and(lives) && !heard
    }

    /// That of the next end.
    pub(super) fn next_order(&self) -> usize {
        self.nodes.iter().filter_map(|node| node.end).map(|end| end.order + 1).max().unwrap_or(0)
    }

    /// Whether every node has ended, whichever process it was.
    pub(super) fn all_over(&self) -> bool {
        self.nodes.iter().all(NodeFacts::is_over)
    }

    /// Until when it is known how nodes ended that are another process than was started, of which only the channels' ends are
    /// seen so far.
    pub(super) fn end_is_known_by(&self) -> Option<Duration> {
        let unknown = |node: &&NodeFacts| matches!(node.succession(), Succession::Gone(_));
        let ends = self.nodes.iter().filter(unknown).filter_map(|node| node.end);
        ends.map(|end| end.at + END_WAIT).max()
    }

    /// Until when processes that nodes have left may become nodes, in a job that none has joined.
    pub(super) fn may_be_joined_until(&self) -> Option<Duration> {
        let any = self.nodes.iter().any(NodeFacts::has_successor);
        let last = self.nodes.iter().filter_map(|node| Some(node.end?.at)).max();
        last.filter(|_| any).map(|last| last + self.join_wait)
    }

    /// Why mg_init has failed, each reason once, but for what a line says.
    pub(super) fn unsaid_join_errors(&self, line: Option<&str>) -> Vec<String> {
        let mut ranks_by_why: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (&rank, why) in &self.join_errors {
            if line.is_none_or(|line| !line.contains(why)) {
                ranks_by_why.entry(why).or_default().push(rank);
            }
        }
        let line = |(why, ranks): (&str, Vec<usize>)| match ranks.len() {
            1 => format!("mg_init of node {}: {why}", ranks[0]),
            many => format!("mg_init of node {} and {} more: {why}", ranks[0], many - 1),
        };
        ranks_by_why.into_iter().map(line).collect()
    }

    /// Whether every node has ended, and said that all is well.
    pub(super) fn ended_well(&self) -> bool {
        let well = |node: &NodeFacts| {
            let exited = node.end.is_some_and(|end| end.status == Status::Exited(0));
            exited && (node.left || node.may_be_successor().is_none())
        };
        self.ended_by.is_none() && self.nodes.iter().all(well)
    }
}
