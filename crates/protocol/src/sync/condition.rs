//! Condition variables: the manager queues waiting threads, first come first woken.
//!
//! A waiter is in the manager's queue before its lock is released ([`ConditionMessage::Queued`]), so a signal
//! sent by whoever takes the lock next cannot be lost. One that withdraws is taken out of the queue by the
//! manager, which then wakes another for the next signal; if it was signalled already it is not refused.

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::{NodeId, ThreadId};

use super::context::{SyncContext, SyncState};
use super::input::SyncError;
use crate::effect::Effects;
use crate::message::ConditionMessage;

/// One condition variable as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Condition {
    waiting: BTreeMap<ThreadId, Waiter>,
    /// Manager: threads that wait.
    queue: VecDeque<(NodeId, ThreadId)>,
}

/// A thread of this node that waits, and the lock it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    lock: u64,
    /// The manager has it in its queue, and the lock is released.
    queued: bool,
    /// It withdraws as soon as it is queued.
    withdraws: bool,
}

impl SyncState for Condition {
    /// The first state: nobody waits.
    fn new(_: &SyncContext) -> Self {
        Self::default()
    }
}

impl Condition {
    pub(super) fn wait(
        &mut self,
        context: &SyncContext,
        thread: ThreadId,
        lock: u64,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if self.waiting.contains_key(&thread) {
            return Ok(());
        }
        self.waiting.insert(thread, Waiter { lock, queued: false, withdraws: false });
        context.send(context.manager, ConditionMessage::Enqueue { thread }.about(context.id), out);
        Ok(())
    }

    pub(super) fn withdraw(&mut self, context: &SyncContext, thread: ThreadId, out: &mut Effects) {
        let Some(waiter) = self.waiting.get_mut(&thread) else { return };
        waiter.withdraws = true;
        if waiter.queued {
            context.send(
                context.manager,
                ConditionMessage::Withdraw { thread }.about(context.id),
                out,
            );
        }
    }

    /// Manager: one more thread of `from` waits.
    pub(super) fn enqueue(
        &mut self,
        context: &SyncContext,
        (from, thread): (NodeId, ThreadId),
        out: &mut Effects,
    ) {
        self.queue.push_back((from, thread));
        context.send(from, ConditionMessage::Queued { thread }.about(context.id), out);
    }

    /// Manager: a thread of `from` waits no longer, unless it was woken.
    pub(super) fn dequeue(
        &mut self,
        context: &SyncContext,
        (from, thread): (NodeId, ThreadId),
        out: &mut Effects,
    ) {
        let queued = self.queue.iter().position(|&waiter| waiter == (from, thread));
        if queued.and_then(|place| self.queue.remove(place)).is_some() {
            context.send(from, ConditionMessage::Refused { thread }.about(context.id), out);
        }
    }

    /// Manager: the longest waiting thread, or all, shall go on.
    pub(super) fn signal(&mut self, context: &SyncContext, all: bool, out: &mut Effects) {
        let woken = if all { self.queue.len() } else { self.queue.len().min(1) };
        for (to, thread) in self.queue.drain(..woken) {
            context.send(to, ConditionMessage::Wake { thread }.about(context.id), out);
        }
    }

    /// The manager has queued a thread; its lock can go.
    pub(super) fn queued(
        &mut self,
        context: &SyncContext,
        thread: ThreadId,
        out: &mut Effects,
    ) -> Option<u64> {
        let waiter = self.waiting.get_mut(&thread).filter(|waiter| !waiter.queued)?;
        waiter.queued = true;
        if waiter.withdraws {
            context.send(
                context.manager,
                ConditionMessage::Withdraw { thread }.about(context.id),
                out,
            );
        }
        Some(waiter.lock)
    }

    /// A waiting thread shall take its lock again.
    pub(super) fn woken(&mut self, thread: ThreadId) -> Option<u64> {
        self.waiting.get(&thread).filter(|waiter| waiter.queued)?;
        self.waiting.remove(&thread).map(|waiter| waiter.lock)
    }
}
