//! Ids and words shared by every layer of Multigrain.
//!
//! Role: the smallest common vocabulary, so that `memory`, `transport` and `protocol` agree on
//! names without seeing each other. It knows nothing of pages, sockets or messages.

pub mod deadlock;
mod runs;
pub mod sharing;
pub mod sync_id;

pub use runs::in_runs;

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

/// A run of minipages of one shape, allocated together; every node of the job knows every area.
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

/// What a program may rely on when it shares a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Consistency {
    /// Every access in one order all nodes agree on (Millipage 3.3): a program that is right on
    /// one machine is right here.
    #[default]
    Sequential,
    /// Writes are seen after a release has ended, which updates or invalidates all copies (MGS
    /// 3.2); for programs without data races.
    EagerRelease,
    /// Writes are seen after an acquire that follows their release (ParADE, home-based lazy
    /// release consistency); for programs without data races.
    LazyRelease,
    /// As [`Consistency::LazyRelease`], at the grain of the allocation, and adapted by what is
    /// counted at barriers: the home of a minipage whose writers change is dynamic, and
    /// minipages of a page that are used together are fetched together.
    Auto,
}

impl Consistency {
    /// Whether every read returns the last write, without synchronization.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::Sequential)
    }

    /// All of them, the default first.
    pub const ALL: [Self; 4] =
        [Self::Sequential, Self::EagerRelease, Self::LazyRelease, Self::Auto];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::EagerRelease => "eager-release",
            Self::LazyRelease => "lazy-release",
            Self::Auto => "auto",
        }
    }

    /// Whether writes are seen by who acquires after their release: home-based lazy release
    /// consistency, adapted or not.
    #[must_use]
    pub const fn is_lazy(self) -> bool {
        matches!(self, Self::LazyRelease | Self::Auto)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl core::str::FromStr for Consistency {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|consistency| consistency.name() == name)
            .ok_or("a consistency is sequential, eager-release, lazy-release or auto")
    }
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
