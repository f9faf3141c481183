//! What orders threads of different nodes, and the clock of each such thing.
//!
//! | object | its clock | who follows it |
//! |---|---|---|
//! | lock | of its last unlock; travels with the token | the node that the token comes to |
//! | barrier | join of those who came to this episode, at the manager | who leaves it |
//! | semaphore | join of all posts so far, at the manager | whose wait ends |
//! | condition | none: its lock orders | |
//! | name | of the publication that a look-up finds, at node 0 | who looked it up |
//! | thread | of its start, and of its end | the thread, and who joins it |
//! | freed memory | of the free | who is given it next |
//!
//! A node that only serves (as manager, or as keeper of names) learns nothing by that. The clock of a
//! message is that of the moment at which its engine decided on it: it may have to wait for a flush,
//! and the node goes on meanwhile.

use std::collections::{BTreeMap, VecDeque};

use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{BarrierMessage, LockMessage, SemaphoreMessage, SyncMessage};
use multigrain_types::{NodeId, ThreadId};

use super::clock::Clock;

/// Clocks that may be here before their messages: a node has fewer threads to wait for answers.
const MOST_ARRIVED: usize = 1 << 16;

/// Something whose clock is kept until somebody follows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    /// A lock whose token is here.
    Lock(u32),
    /// A semaphore managed here.
    Semaphore(u32),
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
pub(super) struct Orders {
    clocks: BTreeMap<Object, Clock>,
    barriers: BTreeMap<u32, Episode>,
    /// Of synchronization messages that have not left, or that this node has for itself.
    posted: VecDeque<Posted>,
    /// Of messages that have not been taken yet.
    arrived: BTreeMap<Tag, Clock>,
}

#[derive(Debug)]
struct Posted {
    to: NodeId,
    message: (u32, SyncMessage),
    clock: Clock,
}

/// A barrier at its manager.
#[derive(Debug)]
enum Episode {
    /// Those who came know of this.
    Gathers(Clock),
    /// The same; it has opened, and who comes next begins another.
    Opened(Clock),
}

impl Orders {
    /// The engines have granted what a thread asks for.
    pub(super) fn asks(&mut self, asked: &SyncInput, now: &Clock) {
        match *asked {
            // The lock that a condition gives up is given up a little later, and its thread waits.
            SyncInput::Unlock { id, .. } | SyncInput::ConditionWait { lock: id, .. } => {
                self.keep(Object::Lock(id), now.clone());
            }
            SyncInput::Begin { .. }
            | SyncInput::End
            | SyncInput::Lock { .. }
            | SyncInput::Barrier { .. }
            | SyncInput::SemaphoreWait { .. }
            | SyncInput::SemaphorePost { .. }
            | SyncInput::ConditionSignal { .. } => {}
        }
    }

    /// The engines want a synchronization message sent.
    pub(super) fn posts(&mut self, to: NodeId, id: u32, body: SyncMessage, now: &Clock) {
        let clock = match body {
            SyncMessage::Lock(LockMessage::Grant) => self.give(&Object::Lock(id)),
            SyncMessage::Semaphore(SemaphoreMessage::Grant) => self.give(&Object::Semaphore(id)),
            SyncMessage::Barrier(BarrierMessage::Release { .. }) => self.opened(id),
            SyncMessage::Barrier(BarrierMessage::Arrive { .. })
            | SyncMessage::Semaphore(SemaphoreMessage::Post { .. }) => now.clone(),
            SyncMessage::Lock(
                LockMessage::Request | LockMessage::Recall { .. } | LockMessage::Offer,
            )
            | SyncMessage::Barrier(BarrierMessage::Retract | BarrierMessage::Retracted)
            | SyncMessage::Semaphore(SemaphoreMessage::Request)
            | SyncMessage::Condition(_) => return,
        };
        self.posted.push_back(Posted { to, message: (id, body), clock });
    }

    /// The clock of a synchronization message that leaves now, or that this node takes from itself.
    pub(super) fn leaves(&mut self, to: NodeId, id: u32, body: SyncMessage) -> Clock {
        let same = |posted: &Posted| posted.to == to && posted.message == (id, body);
        let first = self.posted.iter().position(same);
        first
            .and_then(|first| self.posted.remove(first))
            .map(|posted| posted.clock)
            .unwrap_or_default()
    }

    /// A synchronization message is taken; what a thread of this node follows by it.
    pub(super) fn takes(&mut self, id: u32, body: SyncMessage, clock: Clock) -> Option<Clock> {
        match body {
            SyncMessage::Lock(LockMessage::Grant) => {
                self.keep(Object::Lock(id), clock.clone());
                Some(clock)
            }
            SyncMessage::Barrier(BarrierMessage::Release { .. })
            | SyncMessage::Semaphore(SemaphoreMessage::Grant) => Some(clock),
            SyncMessage::Barrier(BarrierMessage::Arrive { .. }) => {
                self.gather(id, clock);
                None
            }
            SyncMessage::Semaphore(SemaphoreMessage::Post { .. }) => {
                self.clocks.entry(Object::Semaphore(id)).or_default().join(&clock);
                None
            }
            SyncMessage::Lock(
                LockMessage::Request | LockMessage::Recall { .. } | LockMessage::Offer,
            )
            | SyncMessage::Barrier(BarrierMessage::Retract | BarrierMessage::Retracted)
            | SyncMessage::Semaphore(SemaphoreMessage::Request)
            | SyncMessage::Condition(_) => None,
        }
    }

    fn gather(&mut self, id: u32, clock: Clock) {
        match self.barriers.get_mut(&id) {
            Some(Episode::Gathers(gathered)) => gathered.join(&clock),
            Some(Episode::Opened(_)) | None => {
                self.barriers.insert(id, Episode::Gathers(clock));
            }
        }
    }

    /// All releases of an episode are posted before anybody's next arrival is taken.
    fn opened(&mut self, id: u32) -> Clock {
        let Some(Episode::Gathers(clock) | Episode::Opened(clock)) = self.barriers.remove(&id)
        else {
            return Clock::default();
        };
        self.barriers.insert(id, Episode::Opened(clock.clone()));
        clock
    }

    /// An object's clock is this from now on.
    pub(super) fn keep(&mut self, object: Object, clock: Clock) {
        self.clocks.insert(object, clock);
    }

    /// The clock of an object, for who follows it. Many can follow a name or a semaphore, one all
    /// others.
    pub(super) fn give(&mut self, object: &Object) -> Clock {
        let clock = match object {
            Object::Name(_) | Object::Semaphore(_) => self.clocks.get(object).cloned(),
            Object::Lock(_) | Object::Start(_) | Object::End(_) | Object::Freed(_) => {
                self.clocks.remove(object)
            }
        };
        clock.unwrap_or_default()
    }

    /// A clock has come, its message has not; false if there are too many such.
    #[must_use]
    pub(super) fn arrives(&mut self, tag: Tag, clock: Clock) -> bool {
        let room = self.arrived.len() < MOST_ARRIVED || self.arrived.contains_key(&tag);
        if room {
            self.arrived.insert(tag, clock);
        }
        room
    }

    /// The clock of a message that has come. Without one, its sender knew of no release.
    pub(super) fn came_with(&mut self, tag: Tag) -> Clock {
        self.arrived.remove(&tag).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "orders_tests.rs"]
mod tests;
