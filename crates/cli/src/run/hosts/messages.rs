//! What the launcher and the agent of a host say to each other: [`Request`]s one way, [`AgentEvent`]s the other.
//!
//! Both ends are of one build, which [`BANNER`] ensures before the first message: so there are no versions here.
//! Their form on the channel is `hosts/frame.rs`'s.

use super::super::facts::Status;
use crate::host::{Finding, Needs};
use multigrain_transport::interfaces::HostAddresses;
use multigrain_transport::{Ports, Transport};
use multigrain_types::exit_codes::LAUNCHER_FAILED;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// What an agent says first: all that comes before is what a shell says at login. The build of the agent
/// follows, and a line end.
pub(super) const BANNER: &str = "multigrain agent, ";

/// How long an agent that looks whether another host is reached waits for an answer.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Of the node's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Stream {
    Out,
    Err,
}

/// What a launcher asks of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Request {
    /// To say how the host is: answered by [`AgentEvent::Examined`].
    Examine(Examination),
    /// To listen at one port, as a node of a job on so many hosts would: answered by [`AgentEvent::Listening`].
    Listen { at: IpAddr, ports: Option<Ports>, hosts: u32 },
    /// To connect to where others listen: answered by [`AgentEvent::Connected`].
    Connect { to: Vec<String> },
    /// To look at the host, and to stand ready there: answered by [`AgentEvent::Prepared`].
    Prepare(JobDescription),
    /// To bind the listening sockets of its nodes: answered by [`AgentEvent::Bound`].
    Bind { transport: Transport, unix: bool, tcp: Option<IpAddr>, ports: Option<Ports> },
    /// To start its nodes: answered by [`AgentEvent::Started`]. One address a node of the job, by rank, and what
    /// its own prove themselves with, by rank, if they are to.
    Start { peers: Vec<String>, secret: String, credentials: Vec<String> },
    /// This signal for all its nodes.
    Signal(i32),
    /// To say how this process ends, once the one that was started as this node has: [`AgentEvent::SuccessorEnded`].
    AwaitSuccessor { rank: u32, pid: i32 },
    /// The question what the threads of a node wait for.
    Ask { rank: u32, question: u64 },
    /// Input for node 0.
    Input(Vec<u8>),
    /// There is no more input for node 0.
    EndOfInput,
    /// To read no output of its nodes, or to go on.
    Pause(bool),
    /// The launcher is there; its time comes back in [`AgentEvent::Heartbeat`].
    Heartbeat { stamp: u64 },
    /// To kill what its nodes have left: answered by the ends of all streams, and [`AgentEvent::Swept`].
    Sweep,
    /// To go.
    Leave,
}

/// What an agent has to know of its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct JobDescription {
    pub(super) id: String,
    /// Nodes in the job; those on this host have the ranks from `first` up to, but not, `end`.
    pub(super) nodes: u32,
    pub(super) first: u32,
    pub(super) end: u32,
    /// The launcher's, in bytes of the system; so the words of the command.
    pub(super) directory: Vec<u8>,
    pub(super) command: Vec<Vec<u8>>,
    pub(super) variables: Vec<(String, String)>,
    /// Whether node 0 gets input.
    pub(super) input: bool,
}

/// The variable that marks the processes of an agent, where several have the same machine.
pub(super) const PART: &str = "MULTIGRAIN_PART";

impl JobDescription {
    /// The name of this host's part.
    pub(super) fn part(&self) -> String {
        format!("{}-{}", self.id, self.first)
    }

    /// What all processes of this host's part carry in their environment.
    pub(super) fn mark(&self) -> String {
        format!("{PART}={}", self.part())
    }
}

/// What an agent tells its launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum AgentEvent {
    Examined(Examined),
    /// Where it listens, or why it cannot.
    Listening(Result<String, String>),
    /// What came of connecting to each, or why nothing did.
    Connected(Vec<Result<(), String>>),
    Prepared(Found),
    /// Addresses of its nodes, by rank, as their neighbours see them and as other hosts do.
    Bound {
        near: Vec<String>,
        far: Vec<String>,
    },
    /// It does what takes long, and answers nothing meanwhile.
    Busy,
    /// Process ids of its nodes, by rank.
    Started {
        pids: Vec<i32>,
    },
    /// What was asked for cannot be had: the launcher's exit code, and why.
    Failed {
        code: u8,
        why: String,
    },
    /// What a node has written.
    Output {
        rank: u32,
        stream: Stream,
        bytes: Vec<u8>,
    },
    /// A node writes nothing there any more.
    EndOfOutput {
        rank: u32,
        stream: Stream,
    },
    /// What a node tells its launcher, as it stands on its control channel.
    Control {
        rank: u32,
        bytes: Vec<u8>,
    },
    /// A node is dead, and all that it said on its control channel is told.
    Ended {
        rank: u32,
        status: Status,
        /// As of a node of the launcher's own host.
        memory_kills: Option<String>,
    },
    /// The process is dead that is the node in place of another, or would have been.
    SuccessorEnded {
        rank: u32,
        status: Status,
        memory_kills: Option<String>,
    },
    /// So many bytes of input are taken.
    Taken {
        bytes: usize,
    },
    /// The agent is there: the launcher's time, and its own, in nanoseconds of the monotonic clocks.
    Heartbeat {
        stamp: u64,
        now: u64,
    },
    /// Nothing of its nodes is left.
    Swept,
}

impl AgentEvent {
    /// What a launcher is told whose words do not arrive.
    pub(super) fn unaddressed() -> Self {
        let why = "the standard input of its agent has ended at once: what leads there has to pass it on (leave out ssh -n \
                   and < /dev/null)";
        Self::Failed { code: LAUNCHER_FAILED, why: why.to_owned() }
    }

    /// How its host is, if it says that.
    pub(super) fn examined(self) -> Option<Examined> {
        if let Self::Examined(examined) = self { Some(examined) } else { None }
    }

    /// Where it listens, if it says that.
    pub(super) fn listening(self) -> Option<Result<String, String>> {
        if let Self::Listening(address) = self { Some(address) } else { None }
    }

    /// Whom it has reached, if it says that.
    pub(super) fn connected(self) -> Option<Vec<Result<(), String>>> {
        if let Self::Connected(answers) = self { Some(answers) } else { None }
    }

    /// What an agent has found, if it says that.
    pub(super) fn prepared(self) -> Option<Found> {
        if let Self::Prepared(found) = self { Some(found) } else { None }
    }

    /// The addresses of its nodes, near and far, if it says that.
    pub(super) fn bound(self) -> Option<(Vec<String>, Vec<String>)> {
        if let Self::Bound { near, far } = self { Some((near, far)) } else { None }
    }

    /// The process ids of its nodes, if it says that.
    pub(super) fn started(self) -> Option<Vec<i32>> {
        if let Self::Started { pids } = self { Some(pids) } else { None }
    }
}

/// What an agent is to look at where nothing is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Examination {
    pub(super) needs: Needs,
    /// The launcher's, in bytes of the system; so the program, if one is named.
    pub(super) directory: Vec<u8>,
    pub(super) program: Option<Vec<u8>>,
    /// What the program is given by `-x`.
    pub(super) variables: Vec<(String, String)>,
}

/// What it has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Examined {
    pub(super) findings: Vec<Finding>,
    pub(super) addresses: HostAddresses,
    /// Of the program, if one is named: files that have to be the same on all hosts, and remarks; or why there are none.
    pub(super) files: Result<(Vec<Built>, Vec<Finding>), String>,
    /// Since 1970, by the host's clock.
    pub(super) time: Duration,
}

/// What an agent finds on its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Found {
    pub(super) addresses: HostAddresses,
    /// Files that have to be the same on all hosts: what each is, its path, and its build.
    pub(super) files: Vec<Built>,
    /// The directory of its control group, if it has one.
    pub(super) group: Option<String>,
}

/// A file, and which build it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Built {
    /// `program` or `library`.
    pub(super) what: String,
    pub(super) path: String,
    pub(super) build: String,
}
