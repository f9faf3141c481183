//! How a segment is shared, unless an allocation in it asks for something else.

use crate::{Consistency, MinipageId, NodeId};

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

/// How the contents of minipages are compressed on their way to another node (MIRAGE+ 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// As runs of a repeated word of 8 bytes, the paper's code (MIRAGE+ 4.8).
    RunLength,
    /// As LZ4 blocks.
    Lz4,
    /// As Zstandard frames of level 1.
    Zstd,
}

impl Compression {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::RunLength, Self::Lz4, Self::Zstd];
}

/// What holds for all of a segment. It says nothing of where the segment's bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPolicy {
    /// Consistency of allocations that ask for none.
    pub consistency: Consistency,
    /// Who manages its minipages.
    pub placement: Placement,
    /// Sequentially consistent allocations that share a minipage, from 1: the first chunking level
    /// (Millipage 4.4).
    pub chunk: u32,
}

impl Default for SegmentPolicy {
    fn default() -> Self {
        Self { consistency: Consistency::default(), placement: Placement::default(), chunk: 1 }
    }
}
