//! Barriers: threads of a node gather, one message a node tells the manager, one message a node
//! lets them go (Millipage 4.2 measures them; their protocol is left to the reader there).

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::{NodeId, ThreadId};

use super::{SyncError, SyncSite};
use crate::effect::{Effect, Effects};
use crate::message::BarrierMessage;

/// One barrier as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Barrier {
    /// Threads of this node that wait, longest first.
    waiting: VecDeque<ThreadId>,
    /// Of them, those the manager has not been told of.
    untold: u32,
    /// Manager: arrivals of the present episode by node, their sum, and its size.
    arrived: BTreeMap<NodeId, u32>,
    here: u64,
    total: u32,
    /// Manager: whether some node that has come has threads that run on.
    loud: bool,
}

/// Whom a thread comes with; see [`super::SyncInput::Barrier`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Party {
    pub(super) local: u32,
    pub(super) total: u32,
    pub(super) quiet: bool,
}

impl Barrier {
    /// The first state: nobody has come.
    pub(super) fn new(_: &SyncSite) -> Self {
        Self::default()
    }

    pub(super) fn arrive(
        &mut self,
        site: &SyncSite,
        thread: ThreadId,
        Party { local, total, quiet }: Party,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if total == 0 {
            return Err(SyncError::Misuse(format!("barrier {} of no threads", site.id)));
        }
        if site.is_manager() {
            // Refused before it has come: it goes back to its caller, and must not be woken later.
            self.check(site, self.untold + 1, total)?;
        }
        self.waiting.push_back(thread);
        self.untold += 1;
        if self.untold >= local {
            let arrivals = core::mem::take(&mut self.untold);
            let message = BarrierMessage::Arrive { arrivals, total, quiet: quiet && local > 0 };
            site.send(site.manager, message.about(site.id), out);
        }
        Ok(())
    }

    pub(super) fn receive(
        &mut self,
        site: &SyncSite,
        from: NodeId,
        message: BarrierMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        match message {
            BarrierMessage::Arrive { arrivals, total, quiet }
                if site.is_manager() && arrivals > 0 =>
            {
                self.gather(site, from, (arrivals, total), quiet, out)
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
                Ok(())
            }
            BarrierMessage::Arrive { .. } | BarrierMessage::Release { .. } => {
                Err(SyncError::Illegal(format!("{message:?} meets {self:?}")))
            }
        }
    }

    /// Manager: whether so many more threads may come to a barrier of `total`.
    fn check(&self, site: &SyncSite, arrivals: u32, total: u32) -> Result<(), SyncError> {
        if !self.arrived.is_empty() && self.total != total {
            return Err(SyncError::Misuse(format!(
                "barrier {}: threads disagree about its size ({} and {total})",
                site.id, self.total
            )));
        }
        let sum = self.here + u64::from(arrivals);
        if sum > u64::from(total) {
            return Err(SyncError::Misuse(format!(
                "barrier {}: {sum} threads came to a barrier of {total}",
                site.id
            )));
        }
        Ok(())
    }

    fn gather(
        &mut self,
        site: &SyncSite,
        from: NodeId,
        (arrivals, total): (u32, u32),
        quiet: bool,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.check(site, arrivals, total)?;
        self.total = total;
        self.loud |= !quiet;
        self.here += u64::from(arrivals);
        *self.arrived.entry(from).or_insert(0) += arrivals;
        if self.here == u64::from(total) {
            (self.here, self.total) = (0, 0);
            let all = self.arrived.len() == usize::from(site.nodes);
            let quiet = !core::mem::take(&mut self.loud) && all;
            for (to, arrivals) in core::mem::take(&mut self.arrived) {
                site.send(to, BarrierMessage::Release { arrivals, quiet }.about(site.id), out);
            }
        }
        Ok(())
    }
}
