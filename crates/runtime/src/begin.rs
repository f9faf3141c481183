//! Threads of the program begin and end: what the protocol knows of who may write here.
//!
//! A thread begins at its first call or trap, or before it runs if it is started through Multigrain.
//! If this node has said at a barrier that nothing runs here, that is taken back first
//! ([`SyncInput::Begin`]): homes of minipages move at barriers that find the whole job quiet.

use core::sync::atomic::Ordering;

use multigrain_protocol::Input;
use multigrain_protocol::sync::SyncInput;
use multigrain_types::ThreadId;

use crate::boot::{OWN_THREADS, Runtime};
use crate::slots::{self, Slot};

impl Runtime {
    /// This thread's slot; at its first call the thread begins. `None` when all slots are taken.
    pub(crate) fn own_slot(&self) -> Option<(ThreadId, &'static Slot)> {
        if let Some(known) = slots::known() {
            return Some(known);
        }
        let (thread, slot) = slots::mine()?;
        self.begin(thread, slot);
        Some((thread, slot))
    }

    /// A thread with this slot begins; it may run when this returns. The caller waits in its place.
    pub(crate) fn begin(&self, thread: ThreadId, slot: &Slot) {
        self.thread_changes.fetch_add(1, Ordering::SeqCst);
        self.threads_begun.fetch_add(1, Ordering::SeqCst);
        slot.begin();
        slot.arm();
        self.step_sure(Input::Sync(SyncInput::Begin { thread }));
        self.wait_for(slot);
    }

    /// The thread of this slot has ended, if it had begun.
    pub(crate) fn end(&self, slot: &Slot) {
        if slot.end() {
            self.thread_changes.fetch_add(1, Ordering::SeqCst);
            self.threads_begun.fetch_sub(1, Ordering::SeqCst);
            self.step_sure(Input::Sync(SyncInput::End));
        }
    }

    /// Whether homes may move at a barrier that so many threads of this node come to together. Writes
    /// of threads that have not begun trap, but for those of homes that the kernel watches: there every
    /// thread of the process has to be known.
    pub(crate) fn may_be_quiet(&self, local: u32) -> bool {
        if local == 0 || !self.tables.is_lazy() {
            return false;
        }
        if !self.memory.watches() {
            return true;
        }
        let before = self.census();
        // A directory has two links more than it has directories in it, here one for each thread.
        let links = rustix::fs::stat("/proc/self/task").map_or(0, |stat| stat.st_nlink);
        before.has_all(links, &self.census())
    }

    fn census(&self) -> Census {
        let changes = self.thread_changes.load(Ordering::SeqCst);
        let unborn = self.unborn.load(Ordering::SeqCst);
        Census { changes, unborn, begun: self.threads_begun.load(Ordering::SeqCst) }
    }
}

/// The threads of the program that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Census {
    changes: u64,
    unborn: u32,
    begun: u32,
}

impl Census {
    /// Whether these are all threads of the process, which had so many in between. If one began or ended
    /// meanwhile, the numbers are of different moments.
    fn has_all(&self, links: u64, after: &Self) -> bool {
        self == after && self.unborn == 0 && links == u64::from(self.begun) + OWN_THREADS as u64 + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_while_none_begins_or_ends() {
        let known = Census { changes: 9, unborn: 0, begun: 3 };
        let links = OWN_THREADS as u64 + 2 + 3;
        assert!(known.has_all(links, &known));
        assert!(!known.has_all(links + 1, &known), "one is unknown");
        let unborn = Census { unborn: 1, ..known };
        assert!(!unborn.has_all(links, &unborn), "one that does not run yet stands for another");
        // One was unknown when they were counted, and another has begun since.
        let begun = Census { changes: 10, begun: 4, ..known };
        assert!(!known.has_all(links + 1, &begun) && !begun.has_all(links + 1, &known));
        let came_and_went = Census { changes: 11, ..known };
        assert!(!known.has_all(links, &came_and_went));
    }
}
