//! How a segment is shared, unless an allocation in it asks for something else.

use crate::{Consistency, Placement};

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
    /// Who manages its minipages; none: as it is best for a job of so many nodes ([`Placement::for_nodes`]).
    pub placement: Option<Placement>,
    /// Sequentially consistent allocations that share a minipage, from 1: the first chunking level
    /// (Millipage 4.4).
    pub chunk: u32,
}

impl Default for SegmentPolicy {
    fn default() -> Self {
        Self { consistency: Consistency::default(), placement: None, chunk: 1 }
    }
}
