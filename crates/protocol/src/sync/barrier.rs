//! Barriers: threads of a node gather, one message a node tells the manager, one message a node
//! lets them go (Millipage 4.2 measures them; their protocol is left to the reader there).
//!
//! In a job with a tree ([`multigrain_types::tree`]) a barrier of all its threads ([`multigrain_types::sync_id::WHOLE`])
//! goes by that and has no manager: a node gathers its own threads and those of the nodes below it, tells the node above
//! when all of them have come, and passes on to those below what lets them go (ADR 49).
//!
//! At a barrier that all threads of the job have come to, homes of lazily consistent minipages migrate
//! (ParADE's migratory home): [`crate::migration`] says who is quiescent, this file sends its messages. What a node takes
//! back goes the way of its arrival, so that the answer comes behind a release that was under way.

use std::collections::VecDeque;

use multigrain_types::sync_id::IdName;
use multigrain_types::tree::Tree;
use multigrain_types::{NodeId, ThreadId};

use super::barrier_arrivals::{Came, Gathering};
use super::context::{SyncContext, SyncState};
use super::input::SyncError;
use crate::effect::{Effect, Effects};
use crate::message::BarrierMessage;
use crate::migration::Quiescence;
use crate::mutant_macro::mutant;

/// One barrier as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Barrier {
    /// Threads of this node that wait, longest first.
    waiting: VecDeque<ThreadId>,
    /// Of them, those not announced.
    unannounced: u32,
    /// What this node has declared in the present episode.
    quiescence: Quiescence,
    /// Threads of this node that run when it has been taken back that it is quiescent.
    beginning: VecDeque<ThreadId>,
    /// Manager: who comes.
    gathering: Gathering,
    /// Node of the tree: its own threads, and those of the nodes below.
    below: Gathering,
    /// Node of the tree: who came to the episodes that the node above was told of and has not ended, longest first.
    told: VecDeque<Came>,
    /// Node of the tree: who takes back something that the node above was told, longest first.
    retracting: VecDeque<NodeId>,
}

/// Whom a thread comes with; see [`super::SyncInput::Barrier`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) local: u32,
    pub(super) total: u32,
    pub(super) quiescent: bool,
    /// Threads of this node that have begun and not ended.
    pub(super) threads: u32,
}

/// Boxed in the tables: it is large, and comes and goes with each episode.
impl SyncState for Box<Barrier> {
    /// The first state: nobody has come.
    fn new(_: &SyncContext) -> Self {
        Self::default()
    }

    fn is_at_rest(&self, _: &SyncContext) -> bool {
        **self == Barrier::default()
    }
}

impl Barrier {
    /// Threads of this node that wait here.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the node above has been told of an episode that it has not ended.
    pub(super) fn awaits_above(&self) -> bool {
        !self.told.is_empty()
    }

    pub(super) fn arrive(
        &mut self,
        context: &SyncContext,
        thread: ThreadId,
        Arrival { local, total, quiescent, threads }: Arrival,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if total == 0 {
            return Err(SyncError::Misuse(format!("barrier {} of no threads", IdName(context.id))));
        }
        // Refused before it has come: it goes back to its caller, and must not be woken later.
        let more = (self.unannounced + 1, total);
        let tree = context.tree();
        if let Some(tree) = tree {
            self.check_below(context, tree, context.me, more)?;
        } else if context.is_manager() {
            self.gathering.check(context.id, more, total.into())?;
        }
        self.waiting.push_back(thread);
        self.unannounced += 1;
        self.quiescence.look(quiescent);
        if self.unannounced >= local {
            let arrivals = core::mem::take(&mut self.unannounced);
            let waits = self.waiting.len();
            let all = mutant!(
                "active-node-migrates-home": local > 0 && self.quiescence.declare(true, 0, 0),
                else self.quiescence.declare(quiescent, waits, threads)
            );
            let quiescent = if all { u32::try_from(waits).unwrap_or(0) } else { 0 };
            let (to, message) = match tree {
                Some(_) => {
                    (context.me, BarrierMessage::Combine { arrivals, total, quiescent: all })
                }
                None => (context.manager, BarrierMessage::Arrive { arrivals, total, quiescent }),
            };
            context.send(to, message.about(context.id), out);
        }
        Ok(())
    }

    /// Whether this node has declared that all its threads wait here.
    pub(super) fn is_declared_quiescent(&self) -> bool {
        self.quiescence.is_declared()
    }

    /// A thread begins on this node, which has declared that all its threads wait here.
    pub(super) fn begin(&mut self, context: &SyncContext, thread: ThreadId, out: &mut Effects) {
        self.beginning.push_back(thread);
        if self.quiescence.begin() {
            let to = if context.tree().is_some() { context.me } else { context.manager };
            context.send(to, BarrierMessage::Retract.about(context.id), out);
        }
    }

    pub(super) fn receive(
        &mut self,
        context: &SyncContext,
        from: NodeId,
        message: BarrierMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        match (message, context.tree()) {
            (BarrierMessage::Arrive { arrivals, total, quiescent }, _)
                if context.is_manager() && arrivals > 0 =>
            {
                self.gather(context, from, (arrivals, total), quiescent, out)
            }
            (BarrierMessage::Combine { arrivals, total, quiescent }, Some(tree))
                if is_below(tree, context.me, from) && arrivals > 0 && total > 0 =>
            {
                self.combine(context, tree, from, (arrivals, total), quiescent, out)
            }
            (BarrierMessage::Release { arrivals, .. }, _) if from == context.manager => {
                self.let_go(arrivals, message, out)
            }
            (BarrierMessage::Open { arrivals, quiescent }, Some(tree)) => {
                let above = tree.parent(context.me);
                if above == Some(from) {
                    self.pass_on(context, (arrivals, quiescent), message, out)
                } else if above.is_none() && from == context.me {
                    self.let_go(arrivals, message, out)
                } else {
                    Err(self.meets(message))
                }
            }
            (BarrierMessage::Retract, None) if context.is_manager() => {
                self.gathering.retract(from);
                context.send(from, BarrierMessage::Retracted.about(context.id), out);
                Ok(())
            }
            (BarrierMessage::Retract, Some(tree)) if is_below(tree, context.me, from) => {
                self.retract(context, tree, from, out);
                Ok(())
            }
            (BarrierMessage::Retracted, None) if from == context.manager => {
                self.retracted(message, out)
            }
            (BarrierMessage::Retracted, Some(tree)) if tree.parent(context.me) == Some(from) => {
                match self.retracting.pop_front() {
                    None => Err(self.meets(message)),
                    Some(own) if own == context.me => self.retracted(message, out),
                    Some(below) => {
                        context.send(below, BarrierMessage::Retracted.about(context.id), out);
                        Ok(())
                    }
                }
            }
            (BarrierMessage::Retracted, Some(_)) if from == context.me => {
                self.retracted(message, out)
            }
            (
                BarrierMessage::Arrive { .. }
                | BarrierMessage::Combine { .. }
                | BarrierMessage::Release { .. }
                | BarrierMessage::Open { .. }
                | BarrierMessage::Retract
                | BarrierMessage::Retracted,
                _,
            ) => Err(self.meets(message)),
        }
    }

    fn meets(&self, message: BarrierMessage) -> SyncError {
        SyncError::Illegal(format!("{message:?} meets {self:?}"))
    }

    /// Threads of this node may go on.
    fn let_go(
        &mut self,
        arrivals: u32,
        message: BarrierMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        for _ in 0..arrivals {
            let Some(thread) = self.waiting.pop_front() else {
                return Err(SyncError::Illegal(format!(
                    "{message:?} frees more threads than wait"
                )));
            };
            out.push(Effect::Wake { thread });
        }
        self.quiescence.release();
        Ok(())
    }

    /// It has been taken back that this node is quiescent.
    fn retracted(&mut self, message: BarrierMessage, out: &mut Effects) -> Result<(), SyncError> {
        if !self.quiescence.retracted() {
            return Err(self.meets(message));
        }
        out.extend(self.beginning.drain(..).map(|thread| Effect::Wake { thread }));
        Ok(())
    }

    fn gather(
        &mut self,
        context: &SyncContext,
        from: NodeId,
        (arrivals, total): (u32, u32),
        quiescent: u32,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.gathering.check(context.id, (arrivals, total), total.into())?;
        // Of the threads that it says wait here, some may have been let go from an episode before.
        let all = |here| {
            quiescent > 0 && mutant!("threads-of-two-episodes": true, else quiescent == here)
        };
        if self.gathering.come(from, (arrivals, total), all, total.into()) {
            let (came, quiescent) = self.gathering.conclude(context.nodes);
            for (to, arrivals) in came.iter() {
                context.send(
                    to,
                    BarrierMessage::Release { arrivals, quiescent }.about(context.id),
                    out,
                );
            }
        }
        Ok(())
    }

    /// Whether so many more threads of this node, or of a node right below and all below that, may come.
    fn check_below(
        &self,
        context: &SyncContext,
        tree: Tree,
        from: NodeId,
        (arrivals, total): (u32, u32),
    ) -> Result<(), SyncError> {
        let nodes = u32::from(context.nodes);
        if !total.is_multiple_of(nodes) {
            return Err(SyncError::Misuse(format!(
                "barrier {}: {total} threads are not as many on each of {nodes} nodes",
                IdName(context.id)
            )));
        }
        let size = |node| u64::from(total / nodes) * u64::from(tree.size(node));
        self.below.check(context.id, (arrivals, total), size(context.me))?;
        let part = if from == context.me { u64::from(total / nodes) } else { size(from) };
        let sum = u64::from(self.below.of(from)) + u64::from(arrivals);
        if sum > part {
            return Err(SyncError::Misuse(format!(
                "barrier {}: {sum} threads came where {part} of its {total} are",
                IdName(context.id)
            )));
        }
        Ok(())
    }

    /// Threads of this node have come, or all of a node right below and those below that.
    fn combine(
        &mut self,
        context: &SyncContext,
        tree: Tree,
        from: NodeId,
        (arrivals, total): (u32, u32),
        quiescent: bool,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.check_below(context, tree, from, (arrivals, total))?;
        let arrivals_here = total / u32::from(context.nodes) * u32::from(tree.size(context.me));
        if !self.below.come(from, (arrivals, total), |_| quiescent, arrivals_here.into()) {
            return Ok(());
        }
        let gathered = 1 + tree.children(context.me).count();
        let (came, quiescent) = self.below.conclude(u16::try_from(gathered).unwrap_or(u16::MAX));
        if let Some(above) = tree.parent(context.me) {
            self.told.push_back(came);
            let message = BarrierMessage::Combine { arrivals: arrivals_here, total, quiescent };
            context.send(above, message.about(context.id), out);
            return Ok(());
        }
        for (to, arrivals) in came.iter() {
            context.send(to, BarrierMessage::Open { arrivals, quiescent }.about(context.id), out);
        }
        Ok(())
    }

    /// The node above lets all go who have come to the episode that it was told of first.
    fn pass_on(
        &mut self,
        context: &SyncContext,
        (arrivals, quiescent): (u32, bool),
        message: BarrierMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let Some(came) = self.told.pop_front() else { return Err(self.meets(message)) };
        if came.iter().map(|(_, some)| u64::from(some)).sum::<u64>() != u64::from(arrivals) {
            return Err(SyncError::Illegal(format!("{message:?} for {came:?}")));
        }
        for (to, arrivals) in came.iter().filter(|&(to, _)| to != context.me) {
            context.send(to, BarrierMessage::Open { arrivals, quiescent }.about(context.id), out);
        }
        self.let_go(came.get(context.me), message, out)
    }

    /// This node, or one right below for itself or one below it, is not quiescent any more.
    fn retract(&mut self, context: &SyncContext, tree: Tree, from: NodeId, out: &mut Effects) {
        let waits = |came: &Came| came.get(from) > 0;
        let told = self.told.iter().any(waits);
        let told = mutant!("tree-answers-alone": false, else told);
        if !self.below.retract(from)
            && told
            && let Some(above) = tree.parent(context.me)
        {
            self.retracting.push_back(from);
            context.send(above, BarrierMessage::Retract.about(context.id), out);
        } else {
            context.send(from, BarrierMessage::Retracted.about(context.id), out);
        }
    }
}

/// Whether a node tells this one of its threads: it, and those right below.
pub(super) fn is_below(tree: Tree, me: NodeId, from: NodeId) -> bool {
    from == me || tree.parent(from) == Some(me)
}
