//! What can go wrong, with the operands.

use crate::address::{Address, Ports};
use crate::credentials::CredentialsError;
use crate::frame_header::FrameError;
use crate::handshake::Refusal;
use core::time::Duration;
use multigrain_types::phrases::NOT_ALL_CAME;
use multigrain_types::{NodeId, in_runs};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::net::IpAddr;

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer died, left or was cut off, or this node has left the job itself.
    #[error("the link to {to} is gone")]
    Gone {
        /// The peer.
        to: NodeId,
    },
    /// There is no link to that rank: it is this node's own, or out of range.
    #[error("there is no link to {to}")]
    NoLink {
        /// The rank asked for.
        to: NodeId,
    },
    /// The header cannot go over the wire.
    #[error("frame to {to} not sent: {error}")]
    Frame {
        /// The peer.
        to: NodeId,
        /// What is wrong with it.
        error: FrameError,
    },
}

/// Why there is no mesh.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No listening socket at that address.
    #[error("cannot listen at {address}: {errno}")]
    Bind {
        /// The address.
        address: Address,
        /// The kernel's reason.
        errno: Errno,
    },
    /// All ports that a node may listen at are taken.
    #[error("no port of {ports} is free at {at}: give a wider range")]
    NoPort {
        /// The address.
        at: IpAddr,
        /// The ports.
        ports: Ports,
    },
    /// No connection to a peer.
    #[error("cannot connect to {peer} at {address}: {errno}")]
    Connect {
        /// The peer.
        peer: NodeId,
        /// Its address.
        address: Address,
        /// The kernel's reason.
        errno: Errno,
    },
    /// A peer turned this node down.
    #[error("{peer} refused this node: {reason}")]
    Refused {
        /// The peer.
        peer: NodeId,
        /// Its reason.
        reason: Refusal,
    },
    /// What listens where a peer should does not prove to be that peer, or does not take this node for one of the job.
    #[error("{peer} is not to be trusted: {reason}")]
    Untrusted {
        /// The peer.
        peer: NodeId,
        /// What is wrong.
        reason: Refusal,
    },
    /// This node's own credentials are of no use.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// A peer closed the connection, or answered what no node of this job answers.
    #[error("{peer} broke off the handshake: {why}")]
    Handshake {
        /// The peer.
        peer: NodeId,
        /// What it did.
        why: String,
    },
    /// The deadline passed before all peers were there.
    #[error(
        "{NOT_ALL_CAME} in {} s; still missing: {}{}",
        waited.as_secs_f64(), ranks(missing), expected(at.as_ref())
    )]
    Missing {
        /// The ranks that did not come.
        missing: Vec<NodeId>,
        /// Where those of other hosts would have come, if there are some among them.
        at: Option<Address>,
        /// The deadline.
        waited: Duration,
    },
    /// Rank and number of peers do not go together.
    #[error("rank {rank} in a job of {nodes} nodes (1 to 65535 nodes can be)")]
    Config {
        /// The rank asked for.
        rank: u16,
        /// Peers given.
        nodes: usize,
    },
    /// A system call that should not fail did.
    #[error("{call}: {errno}{}", what_to_do(*errno))]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's reason.
        errno: Errno,
    },
}

impl TransportError {
    /// What a user may do, to be put behind the error; empty where that says it all.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "; `multigrain run --boot-timeout` gives them longer",
            Self::Connect { errno: Errno::NETUNREACH, .. } => {
                "; no way leads there: name another --interface (MULTIGRAIN_INTERFACE)"
            }
            // That the peer is dead, a launcher finds out, and that is the cause then.
            Self::Connect { address, .. } if address.kind().leave_host() => {
                "; a firewall may drop that: let --ports through; or no way leads there: name another --interface \
                 (MULTIGRAIN_PORTS, MULTIGRAIN_INTERFACE)"
            }
            Self::Bind { .. }
            | Self::NoPort { .. }
            | Self::Connect { .. }
            | Self::Refused { .. }
            | Self::Untrusted { .. }
            | Self::Credentials(_)
            | Self::Handshake { .. }
            | Self::Config { .. }
            | Self::System { .. } => "",
        }
    }

    /// The peer that was not there, or not any more, where that is the reason; one of several.
    #[must_use]
    pub fn lost_peer(&self) -> Option<NodeId> {
        match self {
            Self::Connect { peer, .. } | Self::Handshake { peer, .. } => Some(*peer),
            Self::Missing { missing, .. } => missing.first().copied(),
            Self::Bind { .. }
            | Self::Refused { .. }
            | Self::Untrusted { .. }
            | Self::Credentials(_)
            | Self::Config { .. }
            | Self::NoPort { .. }
            | Self::System { .. } => None,
        }
    }

    /// The peer to which this is the end of the way.
    pub(crate) fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Connect { peer, .. }
            | Self::Refused { peer, .. }
            | Self::Untrusted { peer, .. }
            | Self::Handshake { peer, .. } => Some(*peer),
            Self::Bind { .. }
            | Self::NoPort { .. }
            | Self::Credentials(_)
            | Self::Missing { .. }
            | Self::Config { .. }
            | Self::System { .. } => None,
        }
    }

    /// A `map_err` argument: `call` failed.
    pub(crate) fn system(call: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::System { call, errno }
    }
}

/// Behind the kernel's reason, where it is a limit of this process.
fn what_to_do(errno: Errno) -> String {
    match errno {
        Errno::MFILE => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            format!(
                ": this node has all file descriptors that its limit allows, {limit}, and needs one for each node that it talks to: \
                 raise the limit (ulimit -n), or let the program leave more of it (setrlimit)"
            )
        }
        Errno::NFILE => {
            ": the system's limit of file descriptors is too low (fs.file-max)".to_owned()
        }
        _ => String::new(),
    }
}

fn expected(at: Option<&Address>) -> String {
    at.map(|at| format!(", which connect to {at} from other hosts")).unwrap_or_default()
}

fn ranks(missing: &[NodeId]) -> String {
    in_runs(&missing.iter().map(|node| node.index()).collect::<Vec<_>>())
}
