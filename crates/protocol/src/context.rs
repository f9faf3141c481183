//! An engine's surroundings: node, minipage and manager; and how it refuses an event.

use crate::invalidation_tree::TreeShape;
use multigrain_types::{MinipageId, NodeId};

/// What an engine knows of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct EngineContext {
    /// The node the engine runs on.
    pub me: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
    /// The minipage.
    pub minipage: MinipageId,
    /// The node that keeps its directory entry.
    pub manager: NodeId,
    /// Sequential: when and how invalidations go by a tree.
    pub invalidations: TreeShape,
    /// Lazy: after so many migrations the home is dynamic; never if `None`.
    pub dynamic_after: Option<u8>,
    /// Lazy: the home's threads write it without a trap, and the world finds what they wrote.
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
