//! Outstanding requests of the runtime, which have not been answered yet, on both sides.
//!
//! A thread waits for its answer before it asks again, so there is at most one request a thread of the job. That
//! bounds what is kept for requests: look-ups of names to come, joins of running threads, areas being mapped,
//! threads to start. A node that asks twice breaks the protocol. So does one that answers an unasked request,
//! since that slot may wait for another node.

use std::collections::{BTreeMap, BTreeSet};

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants;
use multigrain_types::limits::MAX_THREADS;
use multigrain_types::{NodeId, ThreadId};

use crate::frames::Asker;

/// Threads of other nodes that wait for an answer of this one, and threads of this node that wait for one of another.
#[derive(Debug, Default)]
pub(crate) struct OutstandingRequests {
    theirs: BTreeSet<(u16, u32)>,
    ours: BTreeMap<u32, (NodeId, u8)>,
}

impl OutstandingRequests {
    /// A request has come; false if its thread does not exist, or waits for an answer already.
    #[must_use]
    pub(crate) fn open(&mut self, asker: Asker) -> bool {
        let exists = asker.thread.0 < MAX_THREADS;
        let first = exists && self.theirs.insert((asker.node.0, asker.thread.0));
        #[cfg(feature = "mutants")]
        let first = first || mutants::on(mutants::Mutant::named("asked-twice"));
        exists && first
    }

    /// It is about to be answered.
    pub(crate) fn close(&mut self, asker: Asker) {
        self.theirs.remove(&(asker.node.0, asker.thread.0));
    }

    /// A thread of this node is about to ask another node for something of that kind.
    pub(crate) fn ask(&mut self, thread: ThreadId, node: NodeId, kind: u8) {
        self.ours.insert(thread.0, (node, kind));
    }

    /// Whether that thread waits for an answer of that node.
    #[must_use]
    pub(crate) fn awaits(&self, thread: ThreadId, node: NodeId) -> bool {
        self.ours.get(&thread.0).is_some_and(|(asked, _)| *asked == node)
    }

    /// Whether any thread waits for something of that kind.
    #[must_use]
    pub(crate) fn awaits_any(&self, kind: u8) -> bool {
        self.ours.values().any(|(_, awaited)| *awaited == kind)
    }

    /// An answer has come; false if its sender was not asked by that thread.
    #[must_use]
    pub(crate) fn answered(&mut self, thread: ThreadId, by: NodeId) -> bool {
        self.awaits(thread, by) && self.ours.remove(&thread.0).is_some()
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_asks_again_when_it_has_its_answer() {
        let asker = |node, thread| Asker { node: NodeId(node), thread: ThreadId(thread) };
        let mut outstanding = OutstandingRequests::default();
        assert!(
            outstanding.open(asker(1, 0))
                && outstanding.open(asker(1, 4095))
                && outstanding.open(asker(2, 0))
        );
        assert!(!outstanding.open(asker(1, 0)), "it waits for its answer");
        assert!(!outstanding.open(asker(1, 4096)), "no node has such a thread");
        outstanding.close(asker(1, 0));
        assert!(outstanding.open(asker(1, 0)));
    }

    #[test]
    fn an_answer_has_to_be_asked_for_and_comes_once_from_who_was_asked() {
        let mut outstanding = OutstandingRequests::default();
        let (one, other) = (NodeId(1), NodeId(2));
        assert!(!outstanding.answered(ThreadId(3), one), "nobody asked");
        outstanding.ask(ThreadId(3), one, 64);
        assert!(outstanding.awaits_any(64) && !outstanding.awaits_any(65));
        assert!(!outstanding.answered(ThreadId(3), other), "somebody else was asked");
        assert!(!outstanding.answered(ThreadId(4), one), "somebody else asked");
        assert!(outstanding.answered(ThreadId(3), one));
        assert!(!outstanding.answered(ThreadId(3), one), "it has its answer");
    }
}
