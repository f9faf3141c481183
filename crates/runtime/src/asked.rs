//! Requests of the runtime that have not been answered yet.
//!
//! A thread waits for its answer before it asks again, so there is at most one request a thread of
//! the job. What is kept for requests (look-ups of names to come, joins of running threads, areas that
//! are being mapped, threads to start) is bounded by that: a node that asks twice breaks the protocol.

use std::collections::BTreeSet;

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants;
use multigrain_protocol::release::EARLY;

use crate::control::Asker;
use crate::slots::MAX_THREADS;

const _: () = assert!(MAX_THREADS <= EARLY as usize, "a bound that a node's threads could break");

/// Who waits for an answer of this node.
#[derive(Debug, Default)]
pub(crate) struct Asked(BTreeSet<(u16, u32)>);

impl Asked {
    /// A request has come; false if its thread does not exist, or waits for an answer already.
    #[must_use]
    pub(crate) fn open(&mut self, asker: Asker) -> bool {
        let exists = usize::try_from(asker.thread.0).is_ok_and(|thread| thread < MAX_THREADS);
        let first = exists && self.0.insert((asker.node.0, asker.thread.0));
        #[cfg(feature = "mutants")]
        let first = first || mutants::on(mutants::Mutant::AskedTwice);
        exists && first
    }

    /// It is about to be answered.
    pub(crate) fn close(&mut self, asker: Asker) {
        self.0.remove(&(asker.node.0, asker.thread.0));
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;
    use multigrain_types::{NodeId, ThreadId};

    #[test]
    fn a_thread_asks_again_when_it_has_its_answer() {
        let asker = |node, thread| Asker { node: NodeId(node), thread: ThreadId(thread) };
        let mut asked = Asked::default();
        assert!(asked.open(asker(1, 0)) && asked.open(asker(1, 4095)) && asked.open(asker(2, 0)));
        assert!(!asked.open(asker(1, 0)), "it waits for its answer");
        assert!(!asked.open(asker(1, 4096)), "no node has such a thread");
        asked.close(asker(1, 0));
        assert!(asked.open(asker(1, 0)));
    }
}
