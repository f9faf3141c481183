//! What a synchronization engine knows of its surroundings, and what the tables ask of it.

use multigrain_types::NodeId;
use multigrain_types::sync_id::{NUMBERS, WHOLE};
use multigrain_types::tree::{Fan, Tree};

use crate::effect::{Effect, Effects};
use crate::message::Message;

/// What a synchronization engine knows of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct SyncContext {
    /// The node the engine runs on.
    pub me: NodeId,
    /// The synchronization id.
    pub id: u64,
    /// The node that manages it.
    pub manager: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
    fan: Fan,
}

impl SyncContext {
    /// The context of `id` on node `me` of a job of `nodes` nodes.
    #[must_use]
    pub fn new(me: NodeId, nodes: u16, id: u64) -> Self {
        // Addresses are multiples of some power of two, as numbers of nodes like to be.
        const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
        let nodes_wide = u64::from(nodes.max(1));
        let rank = if id <= NUMBERS {
            id % nodes_wide
        } else {
            ((id.wrapping_mul(SCATTER) >> 32) * nodes_wide) >> 32
        };
        let manager = NodeId(u16::try_from(rank).unwrap_or(0));
        Self { me, id, manager, nodes, fan: Fan::default() }
    }

    /// The same, where nodes of the job's tree have so many children.
    #[must_use]
    pub fn with_fan(self, fan: Fan) -> Self {
        Self { fan, ..self }
    }

    /// The id of a barrier of all threads of a job of so many nodes: by [`SyncContext::tree`], where the job has one.
    #[must_use]
    pub fn of_all(nodes: u16, id: u64) -> u64 {
        if Tree::new(nodes, Fan::default()).is_flat() { id } else { id | WHOLE }
    }

    /// The tree by which this goes: a barrier of the whole job, if the job is large enough for a tree.
    #[must_use]
    pub fn tree(&self) -> Option<Tree> {
        let tree = Tree::new(self.nodes, self.fan);
        (self.id & WHOLE != 0 && !tree.is_flat()).then_some(tree)
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
    fn new(context: &SyncContext) -> Self;

    /// Whether this is that state.
    fn is_at_rest(&self, context: &SyncContext) -> bool
    where
        Self: Sized,
    {
        *self == Self::new(context)
    }

    /// The node that keeps this one in use, apart from its threads that wait.
    fn user(&self, _: &SyncContext) -> Option<NodeId> {
        None
    }

    /// Whether it is a token that nobody uses, away from its manager.
    fn is_idle(&self, _: &SyncContext) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_managed_in_turn_and_addresses_by_all_nodes() {
        let manager = |id| SyncContext::new(NodeId(0), 4, id).manager.0;
        assert_eq!([0, 1, 5, (1 << 32) - 1].map(manager), [0, 1, 1, 3]);
        for step in [8, 16, 64, 4096] {
            let managers: Vec<_> = (0..64).map(|i| manager((1 << 45) + i * step)).collect();
            assert!((0..4).all(|node| managers.contains(&node)), "{step}: {managers:?}");
        }
    }
}
