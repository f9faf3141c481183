//! Pages that a thread keeps from a write lock to its end (MIRAGE+ 5.4).
//!
//! A lock is a pinned write grant whose pin goes with the unlock: nobody takes the page meanwhile, and who wants it
//! waits at its manager as for any grant. Pages are locked one after the other, in ascending order.

use multigrain_protocol::{Input, Kind};
use multigrain_types::{MinipageId, ThreadId};

use super::{Driver, WaitReason};
use crate::error::Error;

impl Driver {
    /// Brings minipages here to be written, in ascending order, and keeps each until it is unlocked as often.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub(crate) fn lock_pages(
        &self,
        minipages: impl Iterator<Item = MinipageId>,
    ) -> Result<(), Error> {
        let (thread, slot) = self.my_slot()?;
        for minipage in minipages {
            self.end_windows_on(minipage);
            slot.arm();
            let kind = Kind::Write;
            self.step_sure(Input::PinnedRetry { thread, minipage, kind });
            self.wait_for(slot, WaitReason::Fault);
            self.engine.windows().lock_page(thread, minipage);
        }
        Ok(())
    }

    /// Lets minipages go that this thread has locked; false, and nothing is done, if it has not locked all of them.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub(crate) fn unlock_pages(
        &self,
        minipages: impl Iterator<Item = MinipageId> + Clone,
    ) -> Result<bool, Error> {
        let (thread, _) = self.my_slot()?;
        let locked = |minipage| self.engine.windows().has_locked(thread, minipage);
        if !minipages.clone().all(locked) {
            return Ok(false);
        }
        for minipage in minipages {
            self.engine.windows().unlock_page(thread, minipage);
            self.step_sure(Input::Retired { thread, minipage, turn_us: 0 });
        }
        Ok(true)
    }

    /// A thread ends, or its node leaves: it has nothing locked any more.
    pub(crate) fn unlock_pages_of(&self, thread: ThreadId) {
        for minipage in self.engine.windows().unlock_pages_of(thread) {
            self.step_sure(Input::Retired { thread, minipage, turn_us: 0 });
        }
    }
}
