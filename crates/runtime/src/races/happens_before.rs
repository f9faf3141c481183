//! What orders threads of different nodes, and the clock of each such thing.
//!
//! | object | its clock | the clock goes to |
//! |---|---|---|
//! | lock | of its last unlock; travels with the token | the node that the token comes to |
//! | barrier | join of all arrivals of the episode, at the manager | all that leave it |
//! | semaphore | join of all posts so far, at the manager; posts of other semaphores too, where there are many | a thread whose wait ends |
//! | read-write lock | as a semaphore's, of all unlocks so far | the thread that gets it |
//! | condition | none: its lock orders | |
//! | name | of the publication that a look-up finds, at node 0 | the thread that looked it up |
//! | thread | of its start, and of its end | the thread, and the thread that joins it |
//! | freed memory | of the free | the thread that is given it next |
//!
//! A node that only serves (as manager, or as keeper of names) learns nothing from that. The clock of a
//! message is that of the moment at which its engine decided on it: it may have to wait for a flush,
//! and the node goes on meanwhile.

use std::collections::{BTreeMap, VecDeque};

use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{
    BarrierMessage, LockMessage, ReadWriteMessage, SemaphoreMessage, SyncMessage,
};
use multigrain_types::{NodeId, ThreadId};

use super::clock::Clock;

/// Clocks of a node that may be here before their messages: it has fewer threads to wait for answers.
const MOST_ARRIVED: usize = 1 << 13;
/// Semaphores that have a clock of their own. The others have one together: it orders more than they do,
/// so nobody is accused for it.
const MOST_SEMAPHORES: usize = 1 << 16;

/// Something whose clock is kept until somebody follows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ordered {
    /// A lock whose token is here.
    Lock(u64),
    /// A name, at node 0.
    Name(Vec<u8>),
    /// A thread of this node that is being started.
    Start(u64),
    /// A thread of this node that has ended.
    End(u64),
    /// An allocation of this node that was freed.
    Freed(usize),
}

/// The frame that a clock belongs to: sender, kind, thread. At most one such is under way between two
/// nodes, for a thread asks again when it was answered, and a synchronization message comes right
/// behind its clock.
pub(super) type Tag = (NodeId, u8, ThreadId);

/// The clocks of one node's part in all that.
#[derive(Debug, Default)]
pub(super) struct HappensBefore {
    clocks: BTreeMap<Ordered, Clock>,
    /// Of the semaphores posted here last, and of all others together.
    semaphores: BTreeMap<Counted, Clock>,
    other_semaphores: Clock,
    /// Of barriers managed here: those who have come know of this.
    barriers: BTreeMap<u64, Clock>,
    /// The barrier that has opened last, and what those knew who came to it.
    opened: (u64, Clock),
    /// Of synchronization messages that have not left, or that this node has for itself.
    posted: VecDeque<Posted>,
    /// Of messages that have not been taken yet, by sender.
    arrived: BTreeMap<NodeId, BTreeMap<Tag, Clock>>,
}

/// What follows all that gave to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Semaphore(u64),
    ReadWrite(u64),
}

#[derive(Debug)]
struct Posted {
    to: NodeId,
    message: (u64, SyncMessage),
    clock: Clock,
}

impl HappensBefore {
    /// The engines have granted what a thread asks for.
    pub(super) fn on_request(&mut self, asked: &SyncInput, now: &Clock) {
        match *asked {
            // The lock that a condition gives up is given up a little later, and its thread waits.
            SyncInput::Unlock { id, .. }
            | SyncInput::UnlockToReacquire { id, .. }
            | SyncInput::ConditionWait { lock: id, .. } => {
                self.keep(Ordered::Lock(id), now.clone());
            }
            SyncInput::Begin { .. }
            | SyncInput::End { .. }
            | SyncInput::Pause { .. }
            | SyncInput::Lock { .. }
            | SyncInput::TryLock { .. }
            | SyncInput::TimedLock { .. }
            | SyncInput::LockWindowOver { .. }
            | SyncInput::Barrier { .. }
            | SyncInput::Collective { .. }
            | SyncInput::SemaphoreWait { .. }
            | SyncInput::SemaphoreTry { .. }
            | SyncInput::SemaphorePost { .. }
            | SyncInput::ReadWriteLock { .. }
            | SyncInput::ReadWriteUnlock { .. }
            | SyncInput::Withdraw { .. }
            | SyncInput::ConditionSignal { .. } => {}
        }
    }

    /// The engines want a synchronization message sent.
    pub(super) fn on_send(&mut self, to: NodeId, id: u64, body: SyncMessage, now: &Clock) {
        let clock = match body {
            SyncMessage::Lock(LockMessage::Grant) => self.give(&Ordered::Lock(id)),
            SyncMessage::Semaphore(SemaphoreMessage::Grant { .. }) => {
                self.counted(Counted::Semaphore(id))
            }
            SyncMessage::ReadWrite(ReadWriteMessage::Grant { .. }) => {
                self.counted(Counted::ReadWrite(id))
            }
            SyncMessage::Barrier(BarrierMessage::Release { .. } | BarrierMessage::Open { .. }) => {
                self.opened(id)
            }
            // What this node's threads know, or those of the nodes below it as well.
            SyncMessage::Barrier(BarrierMessage::Combine { .. }) => {
                let mut all = self.barriers.remove(&id).unwrap_or_default();
                all.join(now);
                all
            }
            SyncMessage::Barrier(BarrierMessage::Arrive { .. })
            | SyncMessage::Semaphore(SemaphoreMessage::Post { .. })
            | SyncMessage::ReadWrite(ReadWriteMessage::Release { .. }) => now.clone(),
            SyncMessage::Lock(_)
            | SyncMessage::Barrier(_)
            | SyncMessage::Semaphore(_)
            | SyncMessage::Condition(_)
            | SyncMessage::ReadWrite(_) => return,
        };
        self.posted.push_back(Posted { to, message: (id, body), clock });
    }

    /// The clock of a synchronization message that leaves now, or that this node takes from itself.
    pub(super) fn on_departure(&mut self, to: NodeId, id: u64, body: SyncMessage) -> Clock {
        let same = |posted: &Posted| posted.to == to && posted.message == (id, body);
        let first = self.posted.iter().position(same);
        first
            .and_then(|first| self.posted.remove(first))
            .map(|posted| posted.clock)
            .unwrap_or_default()
    }

    /// A synchronization message is taken; what a thread of this node follows by it.
    pub(super) fn on_receive(&mut self, id: u64, body: SyncMessage, clock: Clock) -> Option<Clock> {
        match body {
            SyncMessage::Lock(LockMessage::Grant) => {
                self.keep(Ordered::Lock(id), clock.clone());
                Some(clock)
            }
            SyncMessage::Barrier(BarrierMessage::Open { .. }) => {
                // Those below this node follow it, too.
                self.opened = (id, clock.clone());
                Some(clock)
            }
            SyncMessage::Barrier(BarrierMessage::Release { .. })
            | SyncMessage::Semaphore(SemaphoreMessage::Grant { .. })
            | SyncMessage::ReadWrite(ReadWriteMessage::Grant { .. }) => Some(clock),
            SyncMessage::Barrier(
                BarrierMessage::Arrive { .. } | BarrierMessage::Combine { .. },
            ) => {
                self.gather(id, clock);
                None
            }
            SyncMessage::Semaphore(SemaphoreMessage::Post { .. }) => {
                self.count(Counted::Semaphore(id), &clock);
                None
            }
            SyncMessage::ReadWrite(ReadWriteMessage::Release { .. }) => {
                self.count(Counted::ReadWrite(id), &clock);
                None
            }
            SyncMessage::Lock(_)
            | SyncMessage::Barrier(_)
            | SyncMessage::Semaphore(_)
            | SyncMessage::Condition(_)
            | SyncMessage::ReadWrite(_) => None,
        }
    }

    fn count(&mut self, id: Counted, clock: &Clock) {
        let mut posts = self.counted(id);
        posts.join(clock);
        self.semaphores.insert(id, posts);
        while self.semaphores.len() > MOST_SEMAPHORES {
            let Some((_, rests)) = self.semaphores.pop_first() else { break };
            self.other_semaphores.join(&rests);
        }
    }

    fn gather(&mut self, id: u64, clock: Clock) {
        self.barriers.entry(id).or_default().join(&clock);
    }

    /// All releases of an episode are posted before anybody's next arrival is taken, at any barrier.
    fn opened(&mut self, id: u64) -> Clock {
        if let Some(clock) = self.barriers.remove(&id) {
            self.opened = (id, clock);
        }
        if self.opened.0 == id { self.opened.1.clone() } else { Clock::default() }
    }

    /// Of all posts so far.
    fn counted(&self, id: Counted) -> Clock {
        self.semaphores.get(&id).unwrap_or(&self.other_semaphores).clone()
    }

    /// An object's clock is this from now on.
    pub(super) fn keep(&mut self, object: Ordered, clock: Clock) {
        self.clocks.insert(object, clock);
    }

    /// The clock of an object, for its acquirer. A name has many acquirers, anything else one.
    pub(super) fn give(&mut self, object: &Ordered) -> Clock {
        let clock = match object {
            Ordered::Name(_) => self.clocks.get(object).cloned(),
            Ordered::Lock(_) | Ordered::Start(_) | Ordered::End(_) | Ordered::Freed(_) => {
                self.clocks.remove(object)
            }
        };
        clock.unwrap_or_default()
    }

    /// A clock has come, its message has not; false if there are too many such of that node.
    #[must_use]
    pub(super) fn arrives(&mut self, tag: Tag, clock: Clock) -> bool {
        let arrived = self.arrived.entry(tag.0).or_default();
        let room = arrived.len() < MOST_ARRIVED || arrived.contains_key(&tag);
        if room {
            arrived.insert(tag, clock);
        }
        room
    }

    /// The clock of a message that has come. Without one, its sender knew of no release.
    pub(super) fn came_with(&mut self, tag: Tag) -> Clock {
        self.arrived.get_mut(&tag.0).and_then(|of| of.remove(&tag)).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "happens_before_tests.rs"]
mod tests;
