//! Collective operations: a barrier's steps, and what is done with operands before and after each.

use std::sync::Arc;

use multigrain_types::sync_id::COLLECTIVE;
use multigrain_types::{NodeId, ThreadId};

use super::super::barrier::{Arrival, Barrier, is_below};
use super::super::collective::Collective;
use super::super::context::SyncContext;
use super::super::input::SyncError;
use super::super::operand::{MOST_SHARE_BYTES, Operand};
use super::{SyncTables, with};
use crate::effect::{Effect, Effects};
use crate::message::{BarrierMessage, Message, SyncMessage};
use multigrain_types::limits::MAX_THREADS;

/// Bytes of operands that one node may have sent ahead of its threads: what all of them can bring.
const MOST_EARLY: usize = MAX_THREADS as usize * (MOST_SHARE_BYTES + OVERHEAD);
/// Bytes that any operand takes beside its values.
const OVERHEAD: usize = 64;

/// What one step leaves for the world: nothing when it is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Collected {
    /// Operands for managers and results for nodes, each ahead of its message.
    pub(crate) sent: Vec<(NodeId, u64, Operand)>,
    /// Results of threads that are about to be woken.
    pub(crate) results: Vec<(ThreadId, Arc<[u8]>)>,
}

impl SyncTables {
    /// What the step so far leaves for the world, if anything.
    #[inline]
    pub(crate) fn take_collected(&mut self) -> Option<Collected> {
        let collected = &mut self.collectives.collected;
        let nothing = collected.sent.is_empty() && collected.results.is_empty();
        (!nothing).then(|| core::mem::take(collected))
    }

    /// A thread comes to a barrier.
    pub(super) fn arrive(
        &mut self,
        context: SyncContext,
        thread: ThreadId,
        arrival: Arrival,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let arrive = |barrier: &mut Box<Barrier>, context: &SyncContext| {
            barrier.arrive(context, thread, arrival, out)
        };
        with(&mut self.barriers, &mut self.uses, context, arrive)
    }

    /// A thread comes to a collective operation.
    pub(super) fn collect(
        &mut self,
        context: SyncContext,
        thread: ThreadId,
        (arrival, operand): (Arrival, &Operand),
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if let Some(collective) = self.collectives.open.get(&context.id) {
            collective.check(context.id, operand)?;
        }
        let before = out.len();
        self.arrive(context, thread, arrival, out)?;
        let collective = self.collectives.open.entry(context.id).or_default();
        collective.bring(operand.clone());
        if let Some(&Effect::Send { to, .. }) = out.get(before) {
            let operand = collective.announce();
            self.collectives
                .collected
                .sent
                .extend(operand.map(|operand| (to, context.id, operand)));
            self.forget_collective(context.id);
        }
        Ok(())
    }

    /// An operand or a result has come, ahead of its message.
    ///
    /// # Errors
    /// [`SyncError`] when nobody can have sent it.
    pub(crate) fn receive_operand(
        &mut self,
        context: &SyncContext,
        from: NodeId,
        operand: Operand,
    ) -> Result<(), SyncError> {
        if context.id & COLLECTIVE == 0 {
            return Err(SyncError::Illegal(
                "an operand for what is no collective operation".into(),
            ));
        }
        let context = &context.with_fan(self.here.fan);
        let collective = self.collectives.open.entry(context.id).or_default();
        let barrier = self.barriers.get(&context.id);
        let waiting = barrier.map_or(0, |barrier| barrier.waiting());
        let tree = context.tree();
        let above = tree.and_then(|tree| tree.parent(context.me)) == Some(from);
        // The manager, and the root of a tree, take their own result at once: see `collected`.
        if above && barrier.is_some_and(|barrier| barrier.awaits_above()) {
            collective.result(operand, waiting)
        } else if context.is_manager() || tree.is_some_and(|tree| is_below(tree, context.me, from))
        {
            let nodes = tree.map_or(1, |tree| tree.size(from));
            let early = self.collectives.early.entry(from).or_default();
            *early += operand.size().1 + OVERHEAD;
            if from != context.me && *early > MOST_EARLY.saturating_mul(nodes.into()) {
                return Err(SyncError::Illegal("more operands than its threads can bring".into()));
            }
            collective.come_ahead(from, operand);
            Ok(())
        } else if from == context.manager {
            collective.result(operand, waiting)
        } else {
            Err(SyncError::Illegal("an operand for another node".into()))
        }
    }

    /// A message of a barrier.
    pub(super) fn barrier_step(
        &mut self,
        context: SyncContext,
        from: NodeId,
        message: BarrierMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let collects = context.id & COLLECTIVE != 0;
        if collects
            && let BarrierMessage::Arrive { arrivals, .. }
            | BarrierMessage::Combine { arrivals, .. } = message
        {
            let collective: &mut Collective = self.collectives.open.entry(context.id).or_default();
            let bytes = collective.arrive(context.id, from, arrivals)? + OVERHEAD;
            let left =
                self.collectives.early.get(&from).map_or(0, |early| early.saturating_sub(bytes));
            let _ = match left {
                0 => self.collectives.early.remove(&from),
                left => self.collectives.early.insert(from, left),
            };
        }
        let before = out.len();
        with(
            &mut self.barriers,
            &mut self.uses,
            context,
            |barrier: &mut Box<Barrier>, context| barrier.receive(context, from, message, out),
        )?;
        if collects {
            self.collected(&context, message, &out[before..])?;
        }
        Ok(())
    }

    /// What a barrier's step did means for its operands.
    fn collected(
        &mut self,
        context: &SyncContext,
        message: BarrierMessage,
        done: &[Effect],
    ) -> Result<(), SyncError> {
        let Some(collective) = self.collectives.open.get_mut(&context.id) else { return Ok(()) };
        let sent = &mut self.collectives.collected.sent;
        let of = |result: &Operand, takes| {
            if takes { result.clone() } else { Operand::nothing(result.shape()) }
        };
        let first = done.iter().find_map(|effect| {
            let Effect::Send { to, message: Message::Sync { body, .. } } = effect else {
                return None;
            };
            let SyncMessage::Barrier(body) = body else { return None };
            Some((*to, *body))
        });
        let arrives =
            matches!(message, BarrierMessage::Arrive { .. } | BarrierMessage::Combine { .. });
        match first {
            Some((above, BarrierMessage::Combine { .. })) => {
                sent.extend(collective.combine().map(|operand| (above, context.id, operand)));
            }
            Some(_) if arrives => {
                let Some((result, takers)) = collective.conclude() else { return Ok(()) };
                for (to, takes) in takers {
                    if to == context.me {
                        collective.result(of(&result, takes), usize::MAX)?;
                    } else {
                        sent.push((to, context.id, of(&result, takes)));
                    }
                }
            }
            Some(_) | None => {}
        }
        if let BarrierMessage::Release { .. } | BarrierMessage::Open { .. } = message {
            let result = collective.release()?;
            let below = collective.pass_on().into_iter().filter(|&(to, _)| to != context.me);
            sent.extend(below.map(|(to, takes)| (to, context.id, of(&result, takes))));
            let result: Arc<[u8]> = result.into_values().into();
            for effect in done {
                if let Effect::Wake { thread } = effect {
                    self.collectives.collected.results.push((*thread, Arc::clone(&result)));
                }
            }
        }
        self.forget_collective(context.id);
        Ok(())
    }

    fn forget_collective(&mut self, id: u64) {
        if self.collectives.open.get(&id).is_some_and(|rests| *rests == Collective::default()) {
            self.collectives.open.remove(&id);
        }
    }
}
