//! What a synchronization engine knows of its surroundings, and what the tables ask of it.

use multigrain_types::NodeId;

use crate::effect::{Effect, Effects};
use crate::message::Message;

/// What a synchronization engine knows of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct SyncSite {
    /// The node the engine runs on.
    pub me: NodeId,
    /// The synchronization id.
    pub id: u32,
    /// The node that manages it.
    pub manager: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
}

impl SyncSite {
    /// The site of `id` on node `me` of a job of `nodes` nodes.
    #[must_use]
    pub fn new(me: NodeId, nodes: u16, id: u32) -> Self {
        let rank = id % u32::from(nodes.max(1));
        Self { me, id, manager: NodeId(u16::try_from(rank).unwrap_or(0)), nodes }
    }

    pub(super) fn send(&self, to: NodeId, message: Message, out: &mut Effects) {
        debug_assert!(matches!(message, Message::Sync { id, .. } if id == self.id));
        out.push(Effect::Send { to, message });
    }

    /// Whether this node manages the id.
    #[must_use]
    pub fn is_manager(&self) -> bool {
        self.me == self.manager
    }
}

/// What the tables ask of every engine.
pub(super) trait SyncState: PartialEq {
    /// The state of an id at rest, of which nothing is kept.
    fn new(site: &SyncSite) -> Self;

    /// The node that keeps this one in use, apart from its threads that wait.
    fn user(&self, _: &SyncSite) -> Option<NodeId> {
        None
    }

    /// Whether it is a token that nobody uses, away from its manager.
    fn is_idle(&self, _: &SyncSite) -> bool {
        false
    }
}
