//! Which segment of a node.

/// A segment of a node's memory; [`SegmentId::FIRST`] is there from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub(crate) u8);

impl SegmentId {
    /// The segment that [`crate::Config::shared_bytes`] speaks of.
    pub const FIRST: Self = Self(0);
}
