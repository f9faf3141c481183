//! Ids and words shared by every layer of Multigrain.
//!
//! Role: the common vocabulary, so that `memory`, `transport` and `protocol` agree on names without seeing each
//! other, and what a node and the launcher say to each other: deadlocks ([`deadlock`], with their proof),
//! false sharing, exit codes. It does nothing with memory or sockets.

mod consistency;
pub mod control;
pub mod deadlock;
pub mod descriptor;
pub mod exit_codes;
pub mod false_sharing;
pub mod limits;
mod number_ranges;
pub mod phrases;
mod placement;
mod segment_policy;
pub mod site_usage;
mod size;
pub mod sync_id;
pub mod sysv;
pub mod tree;

pub use consistency::Consistency;
pub use number_ranges::in_runs;
pub use placement::{Managed, Placement};
pub use segment_policy::{Compression, SegmentPolicy};
pub use size::parse_size;

use core::fmt;

/// Bytes of a virtual memory page, the unit of protection (x86-64 and AArch64 with 4 KiB pages).
pub const PAGE_BYTES: usize = 4096;

/// One process of the job; ranks run from 0 to nodes - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The rank as an index into a table of nodes.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "node {}", self.0)
    }
}

/// One thread of a node, as the protocol knows it: a small number the runtime hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadId(pub u32);

impl fmt::Display for ThreadId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "thread {}", self.0)
    }
}

/// Minipages of one shape, numbered one behind the other, from which allocations are made; every node of the job knows every area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AreaId(pub u32);

/// The unit of coherence (Millipage 2.2): area in the high half, index within it in the low half.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MinipageId(pub u64);

impl MinipageId {
    /// The minipage `index` of `area`.
    #[must_use]
    pub const fn new(area: AreaId, index: u32) -> Self {
        Self(((area.0 as u64) << 32) | index as u64)
    }

    /// The area this minipage lies in.
    #[must_use]
    pub const fn area(self) -> AreaId {
        AreaId((self.0 >> 32) as u32)
    }

    /// The place of this minipage in its area, counted in minipages.
    #[must_use]
    pub const fn index(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }
}

impl fmt::Debug for MinipageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "m{}.{}", self.area().0, self.index())
    }
}

impl fmt::Display for MinipageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "minipage {}.{}", self.area().0, self.index())
    }
}

/// What a node may do with a minipage: the protection of its vpages (Millipage 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Access {
    /// A non-present minipage.
    #[default]
    NoAccess,
    /// A read copy.
    ReadOnly,
    /// The one writable copy.
    ReadWrite,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minipage_id_keeps_its_area_and_index() {
        let id = MinipageId::new(AreaId(7), u32::MAX);
        assert_eq!((id.area(), id.index()), (AreaId(7), u32::MAX));
    }
}
