//! Barriers: threads of a node gather, one message a node tells the manager, one message a node
//! lets them go (Millipage 4.2 measures them; their protocol is left to the reader there).
//!
//! At a barrier that all threads of the job have come to, homes of lazily consistent minipages migrate
//! (ParADE's migratory home): [`crate::migration`] says who is quiescent, this file sends its messages.

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::sync_id::IdName;
use multigrain_types::{NodeId, ThreadId};

use super::input::SyncError;
use super::site::{SyncSite, SyncState};
use crate::effect::{Effect, Effects};
use crate::message::BarrierMessage;
use crate::migration::{Agreement, Quiescence};
use crate::mutant_macro::mutant;

/// One barrier as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Barrier {
    /// Threads of this node that wait, longest first.
    waiting: VecDeque<ThreadId>,
    /// Of them, those not announced to the manager.
    unannounced: u32,
    /// What this node has declared to the manager in the present episode.
    quiescence: Quiescence,
    /// Threads of this node that run when the manager has retracted that it is quiescent.
    beginning: VecDeque<ThreadId>,
    /// Manager: arrivals of the present episode by node, their sum, and its size.
    arrived: BTreeMap<NodeId, u32>,
    here: u64,
    total: u32,
    /// Manager: whether all nodes that have come are quiescent.
    agreement: Agreement,
}

/// Whom a thread comes with; see [`super::SyncInput::Barrier`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Party {
    pub(super) local: u32,
    pub(super) total: u32,
    pub(super) quiescent: bool,
    /// Threads of this node that have begun and not ended.
    pub(super) threads: u32,
}

impl SyncState for Barrier {
    /// The first state: nobody has come.
    fn new(_: &SyncSite) -> Self {
        Self::default()
    }
}

impl Barrier {
    pub(super) fn arrive(
        &mut self,
        site: &SyncSite,
        thread: ThreadId,
        Party { local, total, quiescent, threads }: Party,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if total == 0 {
            return Err(SyncError::Misuse(format!("barrier {} of no threads", IdName(site.id))));
        }
        if site.is_manager() {
            // Refused before it has come: it goes back to its caller, and must not be woken later.
            self.check(site, self.unannounced + 1, total)?;
        }
        self.waiting.push_back(thread);
        self.unannounced += 1;
        self.quiescence.look(quiescent);
        if self.unannounced >= local {
            let arrivals = core::mem::take(&mut self.unannounced);
            let may = quiescent && local > 0;
            let waits = self.waiting.len();
            let quiescent = mutant!(
                "active-node-migrates-home": local > 0 && self.quiescence.declare(true, 0, 0),
                else self.quiescence.declare(may, waits, threads)
            );
            let message = BarrierMessage::Arrive { arrivals, total, quiescent };
            site.send(site.manager, message.about(site.id), out);
        }
        Ok(())
    }

    /// Whether this node has declared that all its threads wait here.
    pub(super) fn is_declared_quiescent(&self) -> bool {
        self.quiescence.is_declared()
    }

    /// A thread begins on this node, which has declared that all its threads wait here.
    pub(super) fn begin(&mut self, site: &SyncSite, thread: ThreadId, out: &mut Effects) {
        self.beginning.push_back(thread);
        if self.quiescence.begin() {
            site.send(site.manager, BarrierMessage::Retract.about(site.id), out);
        }
    }

    pub(super) fn receive(
        &mut self,
        site: &SyncSite,
        from: NodeId,
        message: BarrierMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        match message {
            BarrierMessage::Arrive { arrivals, total, quiescent }
                if site.is_manager() && arrivals > 0 =>
            {
                self.gather(site, from, (arrivals, total), quiescent, out)
            }
            BarrierMessage::Release { arrivals, .. } if from == site.manager => {
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
            BarrierMessage::Retract if site.is_manager() => {
                self.agreement.retract(self.arrived.contains_key(&from));
                site.send(from, BarrierMessage::Retracted.about(site.id), out);
                Ok(())
            }
            BarrierMessage::Retracted if from == site.manager && self.quiescence.retracted() => {
                out.extend(self.beginning.drain(..).map(|thread| Effect::Wake { thread }));
                Ok(())
            }
            BarrierMessage::Arrive { .. }
            | BarrierMessage::Release { .. }
            | BarrierMessage::Retract
            | BarrierMessage::Retracted => {
                Err(SyncError::Illegal(format!("{message:?} meets {self:?}")))
            }
        }
    }

    /// Manager: whether so many more threads may come to a barrier of `total`.
    fn check(&self, site: &SyncSite, arrivals: u32, total: u32) -> Result<(), SyncError> {
        if !self.arrived.is_empty() && self.total != total {
            return Err(SyncError::Misuse(format!(
                "barrier {}: threads disagree about its size ({} and {total})",
                IdName(site.id),
                self.total
            )));
        }
        let sum = self.here + u64::from(arrivals);
        if sum > u64::from(total) {
            return Err(SyncError::Misuse(format!(
                "barrier {}: {sum} threads came to a barrier of {total}",
                IdName(site.id)
            )));
        }
        Ok(())
    }

    fn gather(
        &mut self,
        site: &SyncSite,
        from: NodeId,
        (arrivals, total): (u32, u32),
        quiescent: bool,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.check(site, arrivals, total)?;
        self.total = total;
        self.agreement.arrive(quiescent);
        self.here += u64::from(arrivals);
        *self.arrived.entry(from).or_insert(0) += arrivals;
        if self.here == u64::from(total) {
            (self.here, self.total) = (0, 0);
            let quiescent = self.agreement.conclude(self.arrived.len(), site.nodes);
            for (to, arrivals) in core::mem::take(&mut self.arrived) {
                site.send(to, BarrierMessage::Release { arrivals, quiescent }.about(site.id), out);
            }
        }
        Ok(())
    }
}
