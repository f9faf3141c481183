//! Diffs that arrived before they may be merged, oldest first: those of a round of eager release for which other
//! answers are missing (MGS arc 33), and of writers that have passed a barrier which this node has not.

use std::collections::BTreeMap;

use multigrain_types::{MinipageId, NodeId};

/// Bytes that a peer may have pending here beside what minipages allow.
const SLACK: usize = 64 << 20;
/// How often the longest diff of every minipage: a node that goes on releasing is not known to be wrong.
const TIMES: usize = 4;
/// What a diff costs beside its bytes.
const COST: usize = 128;

/// Diffs by minipage, in the order they came, and how much of them is whose.
#[derive(Debug, Default)]
pub(super) struct PendingDiffs {
    diffs: BTreeMap<MinipageId, Vec<(NodeId, Vec<u8>)>>,
    bytes: BTreeMap<NodeId, usize>,
    /// What all minipages there are allow each peer.
    allowed: usize,
}

impl PendingDiffs {
    /// There are so many more minipages, with diffs of at most so many bytes.
    pub(super) fn allow(&mut self, minipages: usize, longest: usize) {
        self.allowed = self.allowed.saturating_add(bytes_of(minipages, longest));
    }

    /// So many are no more.
    pub(super) fn disallow(&mut self, minipages: usize, longest: usize) {
        self.allowed = self.allowed.saturating_sub(bytes_of(minipages, longest));
    }

    /// Keeps a diff that a node has sent; false if no correct node sends so much.
    #[must_use]
    pub(super) fn keep(&mut self, from: NodeId, minipage: MinipageId, diff: &[u8]) -> bool {
        let bytes = self.bytes.entry(from).or_default();
        *bytes += diff.len() + COST;
        let room = *bytes <= self.allowed.saturating_add(SLACK);
        if room {
            self.diffs.entry(minipage).or_default().push((from, diff.to_vec()));
        }
        room
    }

    /// All of a minipage, oldest first.
    pub(super) fn take(&mut self, minipage: MinipageId) -> Vec<Vec<u8>> {
        let pending = self.diffs.remove(&minipage).unwrap_or_default();
        pending.into_iter().map(|(from, diff)| self.released(from, diff)).collect()
    }

    /// The oldest of a minipage; an empty one if there is none.
    pub(super) fn take_oldest(&mut self, minipage: MinipageId) -> Vec<u8> {
        let Some(pending) = self.diffs.get_mut(&minipage) else { return Vec::new() };
        let (from, oldest) = pending.remove(0);
        if pending.is_empty() {
            self.diffs.remove(&minipage);
        }
        self.released(from, oldest)
    }

    fn released(&mut self, from: NodeId, diff: Vec<u8>) -> Vec<u8> {
        if let Some(bytes) = self.bytes.get_mut(&from) {
            *bytes -= diff.len() + COST;
        }
        diff
    }
}

/// What may wait of the diffs of so many minipages, bytes.
fn bytes_of(minipages: usize, longest: usize) -> usize {
    (longest + COST).saturating_mul(TIMES).saturating_mul(minipages)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const M: MinipageId = MinipageId(7);

    #[test]
    fn a_peer_has_so_many_bytes_of_diffs_kept_and_no_more() {
        let (mut pending, [one, two]) = (PendingDiffs::default(), [1, 2].map(NodeId));
        let diff = vec![7; 1 << 20];
        let fill =
            |pending: &mut PendingDiffs| (0..).take_while(|_| pending.keep(one, M, &diff)).count();
        assert_eq!(fill(&mut pending), 63, "with what each costs");
        assert!(pending.keep(two, M, &diff), "another is not to blame");
        assert_eq!(pending.take(M).len(), 64);
        let mut pending = PendingDiffs::default();
        pending.allow(2, diff.len());
        assert_eq!(fill(&mut pending), 63 + TIMES * 2);
        assert_eq!(pending.take_oldest(M), diff);
        assert_eq!(fill(&mut pending), 0, "what was refused counts, for its sender is lost");
        assert_eq!(pending.take(M).len(), 62 + TIMES * 2);
        assert!(pending.take_oldest(M).is_empty() && pending.take(M).is_empty());
        let empty = (0..).take_while(|_| pending.keep(two, M, &[])).count();
        assert_eq!(empty, (SLACK + pending.allowed) / COST, "an empty diff costs as well");
    }
}
