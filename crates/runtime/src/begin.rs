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
        self.threads_begun.fetch_add(1, Ordering::Relaxed);
        slot.begin();
        slot.arm();
        self.step_sure(Input::Sync(SyncInput::Begin { thread }));
        self.wait_for(slot);
    }

    /// The thread of this slot has ended, if it had begun.
    pub(crate) fn end(&self, slot: &Slot) {
        if slot.end() {
            self.threads_begun.fetch_sub(1, Ordering::Relaxed);
            self.step_sure(Input::Sync(SyncInput::End));
        }
    }

    /// Whether homes may move at a barrier that so many threads of this node come to together. Writes
    /// of threads that have not begun trap, but for those of homes that the kernel watches: there every
    /// thread of the process has to be known.
    pub(crate) fn may_be_quiescent(&self, local: u32) -> bool {
        if local == 0 || !self.tables.is_lazy() {
            return false;
        }
        if !self.memory.watches() {
            return true;
        }
        // A directory has two links more than it has directories in it, here one for each thread.
        let tasks = rustix::fs::stat("/proc/self/task").map_or(0, |stat| stat.st_nlink);
        let begun = u64::from(self.threads_begun.load(Ordering::Relaxed));
        self.unborn.load(Ordering::Relaxed) == 0 && tasks == begun + OWN_THREADS as u64 + 2
    }
}
