//! Release consistency of a whole node: what it owes the others before a release leaves it, and
//! what it has to forget before an acquire ends.
//!
//! The [`Ledger`] keeps the delayed update queue (MGS 3.2.2), one for all threads of the node: they
//! share a page table, so nobody can say which of them wrote. A *flush* empties it: every minipage's
//! engine sends what was written, and the messages that carry the release wait in the ledger until
//! all of it, and all of older flushes, is acknowledged. Messages to one node stay in order.
//!
//! The [`Chronicle`] in it is for lazy release consistency alone: how far this node has heard of
//! every other (a vector time over nodes, not threads, so that threads of one node never invalidate
//! each other), and which minipages were written in which interval.

mod chronicle;
mod news;

use std::collections::{BTreeSet, VecDeque};

pub use chronicle::Chronicle;
use multigrain_types::{MinipageId, NodeId, ThreadId};
pub use news::{News, NewsError, Notice, Turn};

use crate::message::{Message, SyncMessage};

/// What a node owes the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Ledger {
    /// The delayed update queue.
    dirty: BTreeSet<MinipageId>,
    /// Number of the last flush begun.
    begun: u32,
    /// Flushes not ended, oldest first; the last may be one that has not begun.
    flushes: VecDeque<Flush>,
    /// What waits for flushes, in the order it came.
    held: VecDeque<Held>,
    /// What may go now.
    ready: VecDeque<Ready>,
    /// Fetches from nodes that know of more moves of homes than this one; they wait for its turn.
    early: Vec<(MinipageId, NodeId)>,
    /// What this node knows of lazily consistent writes.
    pub chronicle: Chronicle,
}

/// Some minipages' writes on their way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flush {
    number: u32,
    awaited: u32,
    noticed: Vec<MinipageId>,
}

/// Something that waits until flush `after`, and all before it, has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    after: u32,
    what: Ready,
}

/// What a release lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "a message and its receiver, or a thread")]
pub enum Ready {
    /// A synchronization message, perhaps to this node itself.
    Send { to: NodeId, id: u32, body: SyncMessage },
    /// A thread that waits for its release.
    Wake { thread: ThreadId },
}

impl Ready {
    /// The message as it travels, and to whom.
    #[must_use]
    pub fn message(self) -> Option<(NodeId, Message)> {
        match self {
            Self::Send { to, id, body } => Some((to, Message::Sync { id, body })),
            Self::Wake { .. } => None,
        }
    }
}

impl Ledger {
    /// The ledger of node `me`, which owes nothing.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self { chronicle: Chronicle::new(me), ..Self::default() }
    }

    /// A fetch for `requester` that must wait until this node knows of the moves it knows of.
    pub fn defer(&mut self, minipage: MinipageId, requester: NodeId) {
        self.early.push((minipage, requester));
    }

    /// The fetches that waited.
    pub fn take_deferred(&mut self) -> Vec<(MinipageId, NodeId)> {
        core::mem::take(&mut self.early)
    }

    /// A minipage is about to be opened for writes.
    pub fn dirty(&mut self, minipage: MinipageId) {
        self.dirty.insert(minipage);
    }

    /// A minipage's writes are on their way.
    pub fn clean(&mut self, minipage: MinipageId) {
        self.dirty.remove(&minipage);
    }

    /// The number of the next flush, for writes that leave before it begins.
    #[must_use]
    pub fn next_flush(&self) -> u32 {
        self.begun.wrapping_add(1)
    }

    /// Begins a flush if there is anything to flush: its number, and the minipages of the queue.
    /// [`Ledger::acked`] has to be called once when all of them have been flushed.
    #[must_use]
    pub fn begin(&mut self) -> Option<(u32, Vec<MinipageId>)> {
        let early = self.flushes.back().is_some_and(|flush| flush.number == self.next_flush());
        if self.dirty.is_empty() && !early {
            return None;
        }
        self.begun = self.next_flush();
        self.flush(self.begun).awaited += 1;
        Some((self.begun, core::mem::take(&mut self.dirty).into_iter().collect()))
    }

    /// A minipage's writes go with that flush; see [`crate::Effect::Flushed`].
    pub fn flushed(&mut self, minipage: MinipageId, number: u32, awaited: bool, notice: bool) {
        self.dirty.remove(&minipage);
        let flush = self.flush(number);
        flush.awaited += u32::from(awaited);
        if notice {
            flush.noticed.push(minipage);
        }
    }

    /// One of a flush's messages was acknowledged; false if none was awaited.
    #[must_use]
    pub fn acked(&mut self, number: u32) -> bool {
        let Some(flush) = self.flushes.iter_mut().find(|flush| flush.number == number) else {
            return false;
        };
        let Some(left) = flush.awaited.checked_sub(1) else { return false };
        flush.awaited = left;
        while let Some(flush) = self.flushes.pop_front_if(|flush| {
            // A flush that has not begun may still grow.
            flush.awaited == 0 && flush.number <= self.begun
        }) {
            self.chronicle.close_interval(flush.noticed);
        }
        let open = self.flushes.front().map_or(u32::MAX, |flush| flush.number);
        while let Some(held) = self.held.pop_front_if(|held| held.after < open) {
            self.ready.push_back(held.what);
        }
        true
    }

    /// Something that must not go before all flushes begun so far have ended.
    pub fn hold(&mut self, what: Ready) {
        let open = self.flushes.front().is_some_and(|flush| flush.number <= self.begun);
        if open {
            self.held.push_back(Held { after: self.begun, what });
        } else {
            self.ready.push_back(what);
        }
    }

    /// A message that carries no release: it goes after those held for the same node.
    pub fn follow(&mut self, what: Ready) {
        let to = what.message().map(|(to, _)| to);
        let before =
            self.held.iter().rev().find(|held| held.what.message().map(|(to, _)| to) == to);
        match before.map(|held| held.after) {
            Some(after) => {
                // Keep the queue ordered by what it waits for.
                let place = self.held.partition_point(|held| held.after <= after);
                self.held.insert(place, Held { after, what });
            }
            None => self.ready.push_back(what),
        }
    }

    /// The next thing that may go.
    pub fn pop_ready(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// Whether nothing is owed and nothing waits.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.flushes.is_empty() && self.held.is_empty() && self.ready.is_empty()
    }

    /// Minipages in the delayed update queue.
    #[must_use]
    pub fn queue(&self) -> &BTreeSet<MinipageId> {
        &self.dirty
    }

    fn flush(&mut self, number: u32) -> &mut Flush {
        let place = self.flushes.iter().position(|flush| flush.number == number);
        let place = place.unwrap_or_else(|| {
            let flush = Flush { number, awaited: 0, noticed: Vec::new() };
            self.flushes.push_back(flush);
            self.flushes.len() - 1
        });
        &mut self.flushes[place]
    }
}
