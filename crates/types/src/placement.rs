//! Which node manages a minipage.

use crate::{MinipageId, NodeId};

/// Who keeps the directory entry of a minipage (MIRAGE+: the library site).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// Node 0 manages every minipage (Millipage 3.3).
    First,
    /// Minipages are dealt over the nodes in turn.
    Spread,
    /// The node that allocated the minipage manages it.
    #[default]
    Allocator,
}

impl Placement {
    /// Who manages a minipage that this owner has allocated, in a job of so many nodes (at least one).
    #[must_use]
    pub fn manager(self, minipage: MinipageId, owner: NodeId, nodes: u16) -> NodeId {
        match self {
            Self::First => NodeId(0),
            Self::Allocator => owner,
            Self::Spread => {
                let turn = minipage.area().0.wrapping_add(minipage.index()) % u32::from(nodes);
                NodeId(u16::try_from(turn).unwrap_or(0))
            }
        }
    }
}
