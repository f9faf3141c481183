//! First touches: a minipage that nobody has written is closed and given away without contents. Those of a run are
//! closed by one change of protection, before its steps look at each.

use std::collections::BTreeSet;

use multigrain_protocol::World as _;
use multigrain_types::{Access, MinipageId};

use super::RealWorld;
use crate::minipage_run::{Run, runs_of};

/// Minipages of a run that are zero, and that no thread of this node can reach, though by their states they are
/// writable: their steps have yet to close them.
#[derive(Debug, Default)]
pub(super) struct ClosedZeros(BTreeSet<MinipageId>);

impl RealWorld<'_> {
    /// Closes those of these minipages that are zero; they are in order, writable by their states, and locked until
    /// [`RealWorld::reopen_zeros`].
    pub(in crate::engine) fn close_zeros(&mut self, minipages: impl Iterator<Item = MinipageId>) {
        let runs: Vec<Run> =
            runs_of(minipages.filter(|&minipage| self.is_zero(minipage))).collect();
        for run in runs {
            self.change_protection(run, Access::ReadWrite, Access::NoAccess);
            if let Some(gathered) = &mut self.gathered {
                gathered.zeros.0.extend(run.minipages());
            }
        }
    }

    /// A step closes a minipage if it is zero; whether it is. One of a run was not, unless it is closed already.
    pub(super) fn close_zero(&mut self, minipage: MinipageId) -> bool {
        let (read_write, none) = (Access::ReadWrite, Access::NoAccess);
        match self.gathered.as_mut().map(|gathered| gathered.zeros.0.remove(&minipage)) {
            Some(true) => self.count_change(minipage, read_write, none),
            None if self.is_zero(minipage) => self.protect(minipage, read_write, none),
            Some(false) | None => return false,
        }
        // A thread may have written between the look and the closing.
        let zero = self.is_zero(minipage);
        if !zero {
            self.protect(minipage, none, read_write);
        }
        zero
    }

    /// The steps have been made: those that no step has closed are as before.
    pub(in crate::engine) fn reopen_zeros(&mut self) {
        let Some(gathered) = &mut self.gathered else { return };
        for minipage in core::mem::take(&mut gathered.zeros.0) {
            self.change_protection(Run::one(minipage), Access::NoAccess, Access::ReadWrite);
        }
    }
}
