//! What comes ahead: from nodes that have switched to an epoch that this node will learn of soon.

use std::collections::BTreeMap;

use multigrain_types::{MinipageId, NodeId};

use crate::bend::mutant;
use crate::site::MOST_THREADS;

/// What must wait until this node knows of the migrations that its sender knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are those of the messages")]
pub enum Ahead {
    Fetch {
        requester: NodeId,
        waits: bool,
    },
    /// The diff itself is buffered already.
    Diff {
        writer: NodeId,
        flush: u64,
    },
}

/// Fetches and diffs that wait for the next migration plan, in the order they came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct AheadQueue {
    queue: Vec<(MinipageId, Ahead)>,
    /// How much of that is whose.
    count_of: BTreeMap<(MinipageId, NodeId), u32>,
}

impl AheadQueue {
    /// Something about a minipage; false if no correct node asks for so much: every thread of it waits
    /// for one copy, or for the end of one release, at most.
    #[must_use]
    pub fn push(&mut self, minipage: MinipageId, ahead: Ahead) -> bool {
        let (Ahead::Fetch { requester: node, .. } | Ahead::Diff { writer: node, .. }) = ahead;
        let count = self.count_of.entry((minipage, node)).or_default();
        if *count == mutant!("early-without-end": u32::MAX, else MOST_THREADS) {
            return false;
        }
        *count += 1;
        self.queue.push((minipage, ahead));
        true
    }

    /// Diffs of a minipage that wait.
    #[must_use]
    pub fn diffs(&self, minipage: MinipageId) -> usize {
        let diff = |&&(of, ahead): &&_| of == minipage && matches!(ahead, Ahead::Diff { .. });
        self.queue.iter().filter(diff).count()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// All of it.
    pub fn take(&mut self) -> Vec<(MinipageId, Ahead)> {
        self.count_of.clear();
        core::mem::take(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: MinipageId = MinipageId(0);
    const N: MinipageId = MinipageId(1);

    #[test]
    fn what_comes_ahead_has_a_bound_for_each_node_and_minipage() {
        let mut queue = AheadQueue::default();
        let fetch = |node| Ahead::Fetch { requester: NodeId(node), waits: true };
        for flush in 0..MOST_THREADS {
            let diff = Ahead::Diff { writer: NodeId(1), flush: flush.into() };
            assert!(queue.push(M, if flush % 2 == 0 { diff } else { fetch(1) }));
        }
        assert!(!queue.push(M, fetch(1)), "no node has so many threads");
        assert!(queue.push(N, fetch(1)) && queue.push(M, fetch(2)));
        assert_eq!(queue.diffs(M), MOST_THREADS as usize / 2);
        assert_eq!(queue.take().len(), MOST_THREADS as usize + 2);
        assert!(queue.is_empty() && queue.push(M, fetch(1)), "what waited has been served");
    }
}
