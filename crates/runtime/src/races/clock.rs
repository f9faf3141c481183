//! A vector time over nodes: an entry counts the releases of its node that come before.

use multigrain_types::NodeId;

/// Entries past the end are 0. Clocks are compared entry by entry, and are only ever joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    /// Whether it knows of no release at all.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many releases of that node come before.
    pub(super) fn of(&self, node: NodeId) -> u64 {
        self.0.get(node.index()).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, node: NodeId, releases: u64) {
        if self.0.len() <= node.index() {
            self.0.resize(node.index() + 1, 0);
        }
        self.0[node.index()] = releases;
    }

    /// Comes after both from now on.
    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// A count (u32), then the entries (u64), little-endian.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let count = u32::try_from(self.0.len()).expect("nodes are fewer");
        let entries = self.0.iter().flat_map(|entry| entry.to_le_bytes());
        count.to_le_bytes().into_iter().chain(entries).collect()
    }

    /// The clock at the start of a body, and the rest of it; `None` for more entries than nodes.
    pub(super) fn from_bytes(body: &[u8], nodes: u16) -> Option<(Self, &[u8])> {
        let (count, body) = body.split_first_chunk()?;
        let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        if count > usize::from(nodes) {
            return None;
        }
        let (clock, rest) = body.split_at_checked(count * size_of::<u64>())?;
        let (entries, _) = clock.as_chunks();
        Some((Self(entries.iter().map(|entry| u64::from_le_bytes(*entry)).collect()), rest))
    }
}

#[cfg(test)]
impl<const N: usize> From<[u64; N]> for Clock {
    fn from(entries: [u64; N]) -> Self {
        Self(entries.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_survives_its_bytes_and_a_wrong_one_is_refused() {
        let clock = Clock::from([3, 0, u64::MAX]);
        let bytes = clock.to_bytes();
        assert_eq!(Clock::from_bytes(&bytes, 3), Some((clock, &[][..])));
        assert_eq!(Clock::from_bytes(&bytes, 2), None);
        for end in 0..bytes.len() {
            assert_eq!(Clock::from_bytes(&bytes[..end], 3), None, "cut to {end}");
        }
    }

    #[test]
    fn a_join_comes_after_both() {
        let mut one = Clock::from([4, 1]);
        one.join(&Clock::from([2, 3, 5]));
        assert_eq!(one, Clock::from([4, 3, 5]));
        assert_eq!((one.of(NodeId(2)), one.of(NodeId(3))), (5, 0));
    }
}
