//! Messages that arrive early: from nodes that have switched to an epoch of which this node has not yet received the
//! plan.

use std::collections::BTreeMap;

use multigrain_types::{MinipageId, NodeId};

use crate::mutant_macro::mutant;
use crate::nodeset::NodeSet;
use multigrain_types::limits::MAX_THREADS;

/// What must wait until this node knows of the migrations that its sender knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are those of the messages")]
pub enum EarlyMessage {
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

/// Fetches and diffs that wait for the next migration plan, in the order they came, with who sent them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct EarlyMessages {
    queue: Vec<(MinipageId, NodeId, EarlyMessage)>,
    /// What of that came from which node.
    sent: BTreeMap<(MinipageId, NodeId), Sent>,
}

/// What came early about one minipage from one node, perhaps on its way from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Sent {
    /// The nodes that ask for the contents; a node asks once until it has them.
    requesters: NodeSet,
    /// Diffs: every thread of a node waits for the end of one release at most.
    diffs: u32,
}

impl EarlyMessages {
    /// Something about a minipage that a node sent; false if no correct one sends so much, whoever wrote
    /// it or asks for it.
    #[must_use]
    pub fn push(&mut self, minipage: MinipageId, from: NodeId, early: EarlyMessage) -> bool {
        let sent = self.sent.entry((minipage, from)).or_default();
        let room = match early {
            EarlyMessage::Fetch { requester, .. } => sent.requesters.insert(requester),
            EarlyMessage::Diff { .. } => {
                sent.diffs += 1;
                sent.diffs <= MAX_THREADS
            }
        };
        let room = mutant!("early-without-end": true, else room);
        if room {
            self.queue.push((minipage, from, early));
        }
        room
    }

    /// Diffs of a minipage that wait.
    #[must_use]
    pub fn diffs(&self, minipage: MinipageId) -> usize {
        let diff =
            |&&(of, _, early): &&_| of == minipage && matches!(early, EarlyMessage::Diff { .. });
        self.queue.iter().filter(diff).count()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// All of it.
    pub fn take(&mut self) -> Vec<(MinipageId, NodeId, EarlyMessage)> {
        self.sent.clear();
        core::mem::take(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: MinipageId = MinipageId(0);
    const N: MinipageId = MinipageId(1);

    #[test]
    fn what_comes_ahead_has_a_bound_for_each_sender_and_minipage() {
        let mut queue = EarlyMessages::default();
        let fetch = |node| EarlyMessage::Fetch { requester: NodeId(node), waits: true };
        let diff = EarlyMessage::Diff { writer: NodeId(1), flush: 1 };
        let [one, two] = [NodeId(1), NodeId(2)];
        assert!((0..MAX_THREADS).all(|_| queue.push(M, one, diff)));
        assert!(!queue.push(M, one, diff), "no node has so many threads");
        assert!(queue.push(M, one, fetch(1)) && queue.push(M, one, fetch(2)));
        assert!(!queue.push(M, one, fetch(2)), "who asks has not been answered");
        // What one node says of another, or in its name, costs the other nothing.
        assert!(queue.push(M, two, diff) && queue.push(M, two, fetch(2)));
        assert!(queue.push(N, one, diff) && queue.push(N, one, fetch(1)));
        assert_eq!(queue.diffs(M), MAX_THREADS as usize + 1);
        assert_eq!(queue.take().len(), MAX_THREADS as usize + 6);
        assert!(queue.is_empty() && queue.push(M, one, diff), "what waited has been served");
    }
}
