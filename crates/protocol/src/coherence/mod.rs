//! Sequential consistency by single writer / multiple readers (Millipage 3.3, Figure 3).
//!
//! Two roles per minipage: every node is a [`Holder`]; one node keeps the directory [`Entry`] as
//! its manager. The manager serves one request at a time and queues what competes, so a holder is
//! never asked for a minipage it is still acquiring or has given away (section 3.3).
//!
//! Beyond the paper: an upgrade moves no data; invalidations go to all readers at once; prefetch,
//! push and reclaim are transactions like any other.

mod holder;
mod manager;

pub use holder::{Holder, HolderEvent, Want};
pub use manager::{Entry, ManagerEvent};

use multigrain_types::{MinipageId, NodeId};

/// What an engine knows of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The node the engine runs on.
    pub me: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
    /// The minipage.
    pub minipage: MinipageId,
    /// The node that keeps its directory entry.
    pub manager: NodeId,
    /// After so many moves of the home at barriers it goes from hand to hand; never if `None`.
    pub dynamic_after: Option<u8>,
    /// The home's threads write it without a trap, and the world finds what they wrote.
    pub tracked: bool,
}

/// An event that the state does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// The role that was asked.
    pub role: &'static str,
    /// Its state.
    pub state: String,
}
