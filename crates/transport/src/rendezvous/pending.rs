//! How far this node is with a peer; a connection whose handshake is not over: how far it is, and what of its answer has come.

use crate::handshake::HELLO_BYTES;
use crate::link::Link;
use crate::unauthenticated::receive_bytes;
use multigrain_types::NodeId;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::time::Instant;

/// How far this node is with a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    Absent,
    /// A connection to it is under way, or refused for one of its own. Tried until `silent_until` if its host does not answer,
    /// and `until` if it does not listen.
    Connecting {
        silent_until: Instant,
        until: Instant,
    },
    Connected,
}

/// A connection whose handshake is not over.
pub(super) struct Pending {
    pub(super) link: Box<dyn Link>,
    pub(super) stage: Stage,
    pub(super) said: [u8; HELLO_BYTES],
    pub(super) have: usize,
    /// It was accepted, and is not from a host of the job.
    pub(super) is_outsider: bool,
    /// Its key in the epoll set, and what it is watched for there.
    pub(super) watched: Option<(u64, EventFlags)>,
}

pub(super) enum Stage {
    /// Accepted; its HELLO must be here by then.
    Accepted { until: Instant },
    /// Our connect to this peer is under way; it is given up then.
    Connecting { peer: NodeId, until: Instant },
    /// Connected to it; the link itself finds out who that is.
    Authenticating { peer: NodeId },
    /// Our HELLO to this peer is out.
    Asked { peer: NodeId },
}

/// What became of a pending connection after an event.
pub(super) enum Progress {
    Wait,
    Joined(NodeId),
    Gone,
}

pub(super) enum Received {
    Open,
    Ended,
    /// The kernel has given it up.
    Failed(Errno),
}

impl Pending {
    pub(super) fn new(link: Box<dyn Link>, stage: Stage) -> Self {
        Self { link, stage, said: [0; HELLO_BYTES], have: 0, is_outsider: false, watched: None }
    }

    pub(super) fn until(&self) -> Option<Instant> {
        match self.stage {
            Stage::Accepted { until } => Some(until),
            Stage::Connecting { .. } | Stage::Authenticating { .. } | Stage::Asked { .. } => None,
        }
    }

    /// Until when it may take to be connected to a peer, if it is not.
    pub(super) fn connects_until(&self) -> Option<Instant> {
        match self.stage {
            Stage::Connecting { until, .. } => Some(until),
            Stage::Accepted { .. } | Stage::Authenticating { .. } | Stage::Asked { .. } => None,
        }
    }

    /// The peer that is being reached by it.
    pub(super) fn peer(&self) -> Option<NodeId> {
        match self.stage {
            Stage::Accepted { .. } => None,
            Stage::Connecting { peer, .. }
            | Stage::Authenticating { peer }
            | Stage::Asked { peer } => Some(peer),
        }
    }

    pub(super) fn interest(&self) -> EventFlags {
        match self.stage {
            Stage::Connecting { .. } => EventFlags::OUT,
            Stage::Accepted { .. } | Stage::Authenticating { .. } | Stage::Asked { .. } => {
                EventFlags::IN
            }
        }
    }

    /// Reads what is there, up to `whole` bytes in all.
    pub(super) fn receive(&mut self, whole: usize) -> Received {
        let room = &mut self.said[self.have..whole];
        match receive_bytes(&*self.link, room) {
            Ok(0) => Received::Ended,
            Ok(bytes) => {
                self.have += bytes;
                Received::Open
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Open,
            Err(errno) => Received::Failed(errno),
        }
    }
}

/// Whether no host has answered: it, or the way to it, is gone, or not there yet.
pub(super) fn is_silence(errno: Errno) -> bool {
    [Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::TIMEDOUT].contains(&errno)
}

/// Whether connecting may succeed later: the peer does not listen yet, or the way to it is not up yet.
pub(super) fn may_change(errno: Errno) -> bool {
    [Errno::CONNREFUSED, Errno::NOENT].contains(&errno) || is_silence(errno)
}
