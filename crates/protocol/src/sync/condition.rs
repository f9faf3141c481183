//! Condition variables: the manager queues waiting nodes, first come first woken.
//!
//! A waiter is in the manager's queue before its lock is released (`ConditionQueued`), so a signal
//! sent by whoever takes the lock next cannot be lost.

use std::collections::VecDeque;

use multigrain_types::{NodeId, ThreadId};

use super::input::SyncError;
use super::site::{SyncSite, SyncState};
use crate::effect::Effects;
use crate::message::ConditionMessage;

/// One condition variable as one node sees it. Threads are kept with the lock they gave up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Condition {
    /// Still holding the lock until the manager has queued them.
    enqueueing: VecDeque<(ThreadId, u32)>,
    /// Queued at the manager, lock released.
    waiting: VecDeque<(ThreadId, u32)>,
    /// Manager: nodes with waiting threads, once per thread.
    queue: VecDeque<NodeId>,
}

impl SyncState for Condition {
    /// The first state: nobody waits.
    fn new(_: &SyncSite) -> Self {
        Self::default()
    }
}

impl Condition {
    pub(super) fn wait(
        &mut self,
        site: &SyncSite,
        thread: ThreadId,
        lock: u32,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.enqueueing.push_back((thread, lock));
        site.send(site.manager, ConditionMessage::Enqueue.about(site.id), out);
        Ok(())
    }

    /// Manager: one more thread of `from` waits.
    pub(super) fn enqueue(&mut self, site: &SyncSite, from: NodeId, out: &mut Effects) {
        self.queue.push_back(from);
        site.send(from, ConditionMessage::Queued.about(site.id), out);
    }

    /// Manager: the longest waiting thread, or all, shall go on.
    pub(super) fn signal(&mut self, site: &SyncSite, all: bool, out: &mut Effects) {
        let woken = if all { self.queue.len() } else { self.queue.len().min(1) };
        for to in self.queue.drain(..woken) {
            site.send(to, ConditionMessage::Wake.about(site.id), out);
        }
    }

    /// The manager has queued the first thread that asked; its lock can go.
    pub(super) fn queued(&mut self) -> Option<(ThreadId, u32)> {
        let waiter = self.enqueueing.pop_front()?;
        self.waiting.push_back(waiter);
        Some(waiter)
    }

    /// The longest waiting thread shall take its lock again.
    pub(super) fn woken(&mut self) -> Option<(ThreadId, u32)> {
        self.waiting.pop_front()
    }
}
