//! Hints a program may give: prefetch, push, and access ahead of a system call.

use multigrain_protocol::{Input, Kind};
use multigrain_types::{Access, MinipageId, ThreadId};

use crate::boot::Runtime;
use crate::error::Error;
use crate::slots::Slot;
use crate::stepping::For;

impl Runtime {
    /// Asks for copies of the minipages in `bytes` from `address`, without waiting for them (Millipage
    /// 4.3.1, the prefetch calls of LU).
    ///
    /// # Errors
    /// [`Error::NotShared`].
    pub fn prefetch(&self, address: usize, bytes: usize, kind: Kind) -> Result<(), Error> {
        self.each_minipage(address, bytes, |minipage| {
            self.step_sure(Input::Prefetch { minipage, kind });
            self.relieve_all();
        })
    }

    /// Hands read copies of the minipages to every node (Millipage 4.3.1, TSP), without waiting
    /// for them.
    ///
    /// # Errors
    /// [`Error::NotShared`].
    pub fn push(&self, address: usize, bytes: usize) -> Result<(), Error> {
        self.each_minipage(address, bytes, |minipage| {
            self.step_sure(Input::Push { minipage });
            self.relieve_all();
        })
    }

    /// Returns once this node has held every minipage for `kind` of access: what a system call
    /// needs, for the kernel does not trap but fails.
    ///
    /// # Errors
    /// [`Error::NotShared`].
    pub fn touch(&self, address: usize, bytes: usize, kind: Kind) -> Result<(), Error> {
        let (thread, slot) = self.my_slot()?;
        let mut wishes = Vec::new();
        self.each_minipage(address, bytes, |minipage| wishes.push((minipage, kind)))?;
        self.obtain(thread, slot, &wishes);
        Ok(())
    }

    /// Asks for all of these at once, then waits for each.
    pub(crate) fn obtain(&self, thread: ThreadId, slot: &Slot, wishes: &[(MinipageId, Kind)]) {
        for &(minipage, kind) in wishes {
            self.step_gathered(Input::Prefetch { minipage, kind });
        }
        self.mesh.flush_deferred();
        for &(minipage, kind) in wishes {
            let access = self.tables.lend(minipage).access();
            let enough = match kind {
                Kind::Read => access != Access::NoAccess,
                Kind::Write => access == Access::ReadWrite,
            };
            // A watched minipage may be closed though its engine has access.
            if !enough || self.races.is_some() {
                self.fetch((thread, slot), minipage, kind, For::Call);
            }
        }
    }

    fn each_minipage(
        &self,
        address: usize,
        bytes: usize,
        mut act: impl FnMut(MinipageId),
    ) -> Result<(), Error> {
        if self.memory.translate(address).is_none_or(|minipage| !self.tables.knows(minipage)) {
            return Err(Error::NotShared(address));
        }
        self.memory.translate_range(address, bytes).for_each(&mut act);
        Ok(())
    }
}
