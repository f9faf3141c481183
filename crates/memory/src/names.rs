//! Names by which options and errors tell guards and segments apart.

use core::fmt;

/// The guard in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardKind {
    /// userfaultfd with SIGBUS in the faulting thread: protections live in page tables.
    Uffd,
    /// mprotect and SIGSEGV: works everywhere, costs a kernel mapping per change of protection.
    Mprotect,
}

impl fmt::Display for GuardKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Uffd => "uffd",
            Self::Mprotect => "mprotect",
        })
    }
}

/// A segment of a node's memory; [`SegmentId::FIRST`] is there from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub(crate) u8);

impl SegmentId {
    /// The segment that [`crate::Config::shared_bytes`] speaks of.
    pub const FIRST: Self = Self(0);
}
