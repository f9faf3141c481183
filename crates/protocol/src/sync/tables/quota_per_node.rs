//! How much of this node's tables each node keeps in use, and how much it may.
//!
//! A state that is back at rest is dropped, so what counts is what rests nowhere: tokens that are away
//! from their manager, units of semaphores that nobody has taken, threads that wait. A program makes up
//! ids as it likes and a peer may be hostile; a manager keeps state for both, so both have a bound.

use multigrain_types::NodeId;

use super::super::context::SyncContext;
use super::super::input::SyncError;
use super::super::small_map::SmallMap;
use crate::effect::Effect;
use crate::message::{
    BarrierMessage, ConditionMessage, Message, ReadWriteMessage, SemaphoreMessage, SyncMessage,
};
use multigrain_types::limits::MAX_THREADS;

/// Ids that one node may have in use at one manager, and locks that the threads of a node may have in
/// use there: held, waited for, or idle.
pub const MOST_IDS: u32 = 1 << 20;
/// Threads of one node that may wait at one manager: no node has more.
const MOST_WAITS: u32 = MAX_THREADS;

/// The ids and threads of all nodes that have any.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct QuotaPerNode(SmallMap<NodeId, Use>);

/// Those of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Use {
    ids: u32,
    waits: u32,
}

impl QuotaPerNode {
    /// An id's user may have changed.
    #[inline]
    pub(super) fn change(&mut self, before: Option<NodeId>, after: Option<NodeId>) {
        if before != after {
            self.changed(before, after);
        }
    }

    fn changed(&mut self, before: Option<NodeId>, after: Option<NodeId>) {
        if let Some(node) = before {
            self.0.update(node, |of| of.ids = of.ids.saturating_sub(1));
        }
        if let Some(node) = after {
            self.0.update(node, |of| of.ids += 1);
        }
    }

    /// A message of a node was taken at its manager: threads of that node wait now.
    pub(super) fn came(&mut self, from: NodeId, message: SyncMessage) {
        let waits = match message {
            SyncMessage::Barrier(BarrierMessage::Arrive { arrivals, .. }) => arrivals,
            // A thread of the node itself waits in each.
            SyncMessage::Barrier(BarrierMessage::Combine { .. })
            | SyncMessage::Semaphore(
                SemaphoreMessage::Request { .. } | SemaphoreMessage::Try { .. },
            )
            | SyncMessage::Condition(ConditionMessage::Enqueue { .. })
            | SyncMessage::ReadWrite(
                ReadWriteMessage::Request { .. } | ReadWriteMessage::Try { .. },
            ) => 1,
            SyncMessage::Lock(_)
            | SyncMessage::Barrier(
                BarrierMessage::Release { .. }
                | BarrierMessage::Open { .. }
                | BarrierMessage::Retract
                | BarrierMessage::Retracted,
            )
            | SyncMessage::Semaphore(
                SemaphoreMessage::Grant { .. }
                | SemaphoreMessage::Post { .. }
                | SemaphoreMessage::Withdraw { .. }
                | SemaphoreMessage::Refused { .. },
            )
            | SyncMessage::Condition(
                ConditionMessage::Queued { .. }
                | ConditionMessage::Signal { .. }
                | ConditionMessage::Wake { .. }
                | ConditionMessage::Withdraw { .. }
                | ConditionMessage::Refused { .. },
            )
            | SyncMessage::ReadWrite(
                ReadWriteMessage::Grant { .. }
                | ReadWriteMessage::Refused { .. }
                | ReadWriteMessage::Release { .. },
            ) => return,
        };
        self.0.update(from, |of| of.waits = of.waits.saturating_add(waits));
    }

    /// What the manager does about it lets threads go.
    pub(super) fn answered(&mut self, effects: &[Effect]) {
        for effect in effects {
            let &Effect::Send { to, message: Message::Sync { body, .. } } = effect else {
                continue;
            };
            let waits = match body {
                SyncMessage::Barrier(BarrierMessage::Release { arrivals, .. }) => arrivals,
                SyncMessage::Barrier(BarrierMessage::Open { .. })
                | SyncMessage::Semaphore(
                    SemaphoreMessage::Grant { .. } | SemaphoreMessage::Refused { .. },
                )
                | SyncMessage::Condition(
                    ConditionMessage::Wake { .. } | ConditionMessage::Refused { .. },
                )
                | SyncMessage::ReadWrite(
                    ReadWriteMessage::Grant { .. } | ReadWriteMessage::Refused { .. },
                ) => 1,
                SyncMessage::Lock(_)
                | SyncMessage::Barrier(
                    BarrierMessage::Arrive { .. }
                    | BarrierMessage::Combine { .. }
                    | BarrierMessage::Retract
                    | BarrierMessage::Retracted,
                )
                | SyncMessage::Semaphore(
                    SemaphoreMessage::Request { .. }
                    | SemaphoreMessage::Try { .. }
                    | SemaphoreMessage::Withdraw { .. }
                    | SemaphoreMessage::Post { .. },
                )
                | SyncMessage::Condition(
                    ConditionMessage::Enqueue { .. }
                    | ConditionMessage::Queued { .. }
                    | ConditionMessage::Withdraw { .. }
                    | ConditionMessage::Signal { .. },
                )
                | SyncMessage::ReadWrite(
                    ReadWriteMessage::Request { .. }
                    | ReadWriteMessage::Try { .. }
                    | ReadWriteMessage::Release { .. },
                ) => continue,
            };
            self.0.update(to, |of| of.waits = of.waits.saturating_sub(waits));
        }
    }

    /// Whether a thread of this node may begin to use one more id.
    ///
    /// # Errors
    /// [`SyncError::Limit`].
    pub(super) fn check_own(&self, me: NodeId) -> Result<(), SyncError> {
        if self.0.get(me).ids < MOST_IDS {
            return Ok(());
        }
        Err(SyncError::Limit(format!("this node uses {MOST_IDS} synchronization ids, {RULE}")))
    }

    /// Whether another node keeps no more than it may.
    ///
    /// # Errors
    /// [`SyncError::Limit`].
    pub(super) fn check_peer(&self, context: &SyncContext, from: NodeId) -> Result<(), SyncError> {
        let Use { ids, waits } = self.0.get(from);
        if from == context.me {
            return Ok(());
        }
        if ids > MOST_IDS {
            let text = format!("it uses more than {MOST_IDS} synchronization ids, {RULE}");
            return Err(SyncError::Limit(text));
        }
        if waits > MOST_WAITS {
            let text = format!("more than {MOST_WAITS} threads of it wait, the most a node has");
            return Err(SyncError::Limit(text));
        }
        Ok(())
    }
}

/// The bound, in errors.
const RULE: &str = "the most that a node may have in use at one manager: locks that are held, semaphores with units";
