//! What a rendezvous begins with, and what comes of it.

use crate::address::Address;
use crate::handshake::Identity;
use crate::link::Emulation;
use crate::link::{Backends, Link};
use multigrain_types::NodeId;
use std::time::Instant;

/// Which peers connect to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connects {
    /// All links are made at boot, each by its higher rank.
    HigherRank,
    /// Whoever has something to say first.
    Either,
}

/// Who takes part in a rendezvous, and how.
pub(crate) struct RendezvousSetup {
    pub(crate) identity: Identity,
    /// Where each node listens; index = rank.
    pub(crate) peers: Vec<Address>,
    pub(crate) backends: Backends,
    pub(crate) network: Option<Emulation>,
    pub(crate) connects: Connects,
    /// When boot's time is over.
    pub(crate) end: Instant,
}

/// A link with a peer, as it is made.
pub(crate) type Connected = (NodeId, Box<dyn Link>);
