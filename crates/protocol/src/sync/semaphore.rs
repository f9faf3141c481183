//! Counting semaphores: the manager holds the value and a queue of waiting threads.
//!
//! A thread that withdraws has a unit or is out of the queue when its manager has answered: either its grant
//! was on its way, or it is refused.

use std::collections::{BTreeSet, VecDeque};

use multigrain_types::{NodeId, ThreadId};

use super::context::{SyncContext, SyncState};
use super::input::SyncError;
use crate::effect::{Effect, Effects};
use crate::message::SemaphoreMessage;

/// One semaphore as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Semaphore {
    /// Threads of this node that the manager has not answered.
    waiting: BTreeSet<ThreadId>,
    /// Manager: units nobody has taken, and threads that wait for one.
    value: u64,
    queue: VecDeque<(NodeId, ThreadId)>,
    /// Manager: who posted last, while there are units.
    giver: Option<NodeId>,
}

impl SyncState for Semaphore {
    /// The first state: no units.
    fn new(_: &SyncContext) -> Self {
        Self::default()
    }

    fn user(&self, _: &SyncContext) -> Option<NodeId> {
        self.giver
    }
}

impl Semaphore {
    /// `tries`: the thread does not wait for a unit.
    pub(super) fn wait(
        &mut self,
        context: &SyncContext,
        thread: ThreadId,
        tries: bool,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if !self.waiting.insert(thread) {
            return Ok(());
        }
        let message = match tries {
            true => SemaphoreMessage::Try { thread },
            false => SemaphoreMessage::Request { thread },
        };
        context.send(context.manager, message.about(context.id), out);
        Ok(())
    }

    pub(super) fn withdraw(&mut self, context: &SyncContext, thread: ThreadId, out: &mut Effects) {
        if self.waiting.contains(&thread) {
            context.send(
                context.manager,
                SemaphoreMessage::Withdraw { thread }.about(context.id),
                out,
            );
        }
    }

    pub(super) fn receive(
        &mut self,
        context: &SyncContext,
        from: NodeId,
        message: SemaphoreMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let refuse = |thread, out: &mut Effects| {
            context.send(from, SemaphoreMessage::Refused { thread }.about(context.id), out);
        };
        match message {
            SemaphoreMessage::Request { thread } if context.is_manager() => {
                self.queue.push_back((from, thread));
                self.serve(context, out);
            }
            SemaphoreMessage::Try { thread } if context.is_manager() => {
                if self.value == 0 {
                    refuse(thread, out);
                }
                self.queue.extend((self.value > 0).then_some((from, thread)));
                self.serve(context, out);
            }
            SemaphoreMessage::Withdraw { thread } if context.is_manager() => {
                let queued = self.queue.iter().position(|&waiter| waiter == (from, thread));
                if queued.and_then(|place| self.queue.remove(place)).is_some() {
                    refuse(thread, out);
                }
            }
            SemaphoreMessage::Post { count } if context.is_manager() => {
                self.value = self.value.saturating_add(count.into());
                self.giver = Some(from);
                self.serve(context, out);
            }
            SemaphoreMessage::Grant { thread }
                if from == context.manager && self.waiting.remove(&thread) =>
            {
                out.push(Effect::Wake { thread });
            }
            SemaphoreMessage::Refused { thread }
                if from == context.manager && self.waiting.remove(&thread) =>
            {
                out.extend([Effect::Refuse { thread }, Effect::Wake { thread }]);
            }
            SemaphoreMessage::Request { .. }
            | SemaphoreMessage::Try { .. }
            | SemaphoreMessage::Withdraw { .. }
            | SemaphoreMessage::Post { .. }
            | SemaphoreMessage::Grant { .. }
            | SemaphoreMessage::Refused { .. } => {
                return Err(SyncError::Illegal(format!("{message:?} meets {self:?}")));
            }
        }
        Ok(())
    }

    fn serve(&mut self, context: &SyncContext, out: &mut Effects) {
        while self.value > 0 {
            let Some((to, thread)) = self.queue.pop_front() else { return };
            self.value -= 1;
            context.send(to, SemaphoreMessage::Grant { thread }.about(context.id), out);
        }
        self.giver = None;
    }
}
