//! The live threads of this node: those of the program that have begun and not ended, by which the protocol knows
//! which threads may write here. (Who starts and joins them: `threads/`.)
//!
//! A thread begins at its first call or trap, or before it runs if it is started through Multigrain.
//! If this node has said at a barrier that nothing runs here, that is taken back first
//! ([`SyncInput::Begin`]): homes migrate at barriers that find the whole job quiescent.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Once;

use multigrain_protocol::Input;
use multigrain_protocol::sync::SyncInput;
use multigrain_types::ThreadId;
use multigrain_types::limits::MAX_THREADS;

use super::{Driver, WaitReason};
use crate::error::Error;
use crate::receiver::slots::{self, Slot};
use crate::stats;
use crate::time_windows::now_ns;

/// What a thread holds at its end is named one by one up to so many.
const MOST_NAMED: usize = 16;

/// Threads of the program on this node.
#[derive(Debug, Default)]
pub(super) struct ThreadCounts {
    /// Those that have begun and not ended.
    begun: AtomicU32,
    /// Of them, those that do not run yet.
    starting: AtomicU32,
    /// Threads of the process that are the runtime's own.
    own: AtomicU32,
    /// How often one has begun or ended.
    changes: AtomicU64,
}

/// The threads that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownThreads {
    changes: u64,
    starting: u32,
    begun: u32,
    own: u32,
}

impl ThreadCounts {
    fn count(&self) -> KnownThreads {
        let changes = self.changes.load(Ordering::SeqCst);
        let [starting, begun, own] =
            [&self.starting, &self.begun, &self.own].map(|count| count.load(Ordering::SeqCst));
        KnownThreads { changes, starting, begun, own }
    }

    fn begins(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    fn ends(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_sub(1, Ordering::SeqCst);
    }
}

impl KnownThreads {
    /// Whether these are all threads of the process, whose directory of threads had so many links in
    /// between. If one began or ended meanwhile, the numbers are of different moments.
    fn has_all(&self, links: u64, after: &Self) -> bool {
        // A directory has two links more than it has directories in it, here one for each thread.
        let known = u64::from(self.begun) + u64::from(self.own);
        self == after && self.starting == 0 && links == known + 2
    }
}

impl Driver {
    /// This thread's slot; at its first call the thread begins. `None` when all slots are taken.
    pub(crate) fn own_slot(&self) -> Option<(ThreadId, &'static Slot)> {
        if let Some(known) = slots::known() {
            return Some(known);
        }
        let (thread, slot) = slots::mine()?;
        self.begin(thread, slot);
        Some((thread, slot))
    }

    /// The slot of a thread that calls the runtime.
    ///
    /// # Errors
    /// [`Error::Limit`] when all slots are taken.
    pub(crate) fn my_slot(&self) -> Result<(ThreadId, &'static Slot), Error> {
        self.forget_access();
        self.own_slot().ok_or_else(|| {
            // A C program sees the code alone.
            static TOLD: Once = Once::new();
            let limit = MAX_THREADS;
            let line = format!(
                "the limit is {limit} threads of a node that use shared memory; let some end first"
            );
            TOLD.call_once(|| self.platform().launcher().warn(&line));
            Error::Limit(line)
        })
    }

    /// A thread with this slot begins before it runs: [`Driver::has_started`] follows.
    pub(crate) fn begin_starting(&self, thread: ThreadId, slot: &Slot) {
        self.threads.starting.fetch_add(1, Ordering::SeqCst);
        self.begin(thread, slot);
    }

    /// It runs now, or will not.
    pub(crate) fn has_started(&self) {
        self.threads.starting.fetch_sub(1, Ordering::SeqCst);
    }

    /// A thread of the runtime's own has been started.
    pub(crate) fn has_helper(&self) {
        self.threads.own.fetch_add(1, Ordering::SeqCst);
    }

    /// One of them is about to end.
    pub(crate) fn helper_ends(&self) {
        self.threads.own.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether all threads of the program have ended. The main one, which the system shows to the end, is
    /// known to have.
    pub(crate) fn has_no_thread(&self) -> bool {
        let before = self.threads.count();
        let alone = KnownThreads { begun: 1, ..before };
        let ended = match rustix::fs::stat("/proc/self/task") {
            Ok(stat) => alone.has_all(stat.st_nlink, &alone),
            Err(_) => before.begun == 0 && before.starting == 0,
        };
        ended && before == self.threads.count()
    }

    /// A thread with this slot begins; it may run when this returns. The caller waits in its place.
    fn begin(&self, thread: ThreadId, slot: &Slot) {
        self.threads.begins();
        slot.begin(now_ns());
        slot.arm();
        self.step_sure(Input::Sync(SyncInput::Begin { thread }));
        self.wait_for(slot, WaitReason::Other);
    }

    /// A thread goes on that has paused ([`Driver::pause`]), when this returns: where its node has declared itself quiescent
    /// meanwhile, when that is taken back.
    pub(super) fn go_on(&self, thread: ThreadId, slot: &Slot) {
        slot.arm();
        self.step_sure(Input::Sync(SyncInput::Begin { thread }));
        self.wait_for(slot, WaitReason::Other);
    }

    /// A thread waits for what no barrier gives it: it counts as none, and keeps none from finding the job quiescent.
    pub(crate) fn pause(&self, thread: ThreadId) {
        self.step_sure(Input::Sync(SyncInput::Pause { thread }));
    }

    /// The thread of this slot ends, if it had begun; called before the slot is free.
    pub(crate) fn end(&self, thread: ThreadId, slot: &Slot) {
        if slots::held() == Some(thread) {
            // It may end in the middle of an instruction that holds something, by a jump.
            self.end_access();
        }
        self.end_kept_lock(slot);
        self.unlock_pages_of(thread);
        if let Some(since_ns) = slot.end() {
            self.counters().add(stats::Count::EndedThreads, now_ns().saturating_sub(since_ns));
            self.threads.ends();
            self.warn_of_held(thread, "a thread ended");
            self.step_sure(Input::Sync(SyncInput::End { thread }));
        }
    }

    /// Names what a thread holds that comes to its end so.
    pub(crate) fn warn_of_held(&self, thread: ThreadId, how: &str) {
        let held = self.tables().held_by(thread);
        for held in held.iter().take(MOST_NAMED) {
            let line = format!("{how} holding {held}: nobody can unlock it any more");
            self.platform().launcher().warn(&line);
        }
        if let Some(others @ 1..) = held.len().checked_sub(MOST_NAMED) {
            self.platform().launcher().warn(&format!("{how} holding {others} more"));
        }
    }

    /// How often a thread of the program has begun or ended, and how many threads of the process run, given
    /// that `waiting` of them wait; None while the set of threads changes.
    pub(crate) fn threads_but(&self, waiting: u64) -> Option<(u64, u64)> {
        let before = self.threads.count();
        let tasks = rustix::fs::stat("/proc/self/task").ok()?.st_nlink.checked_sub(2)?;
        let known = u64::from(before.own) + waiting;
        let steady = before.starting == 0 && before == self.threads.count();
        steady.then_some((before.changes, tasks.checked_sub(known)?))
    }

    /// Whether homes may move at a barrier that so many threads of this node come to together. Writes
    /// of threads that have not begun trap, but for those of homes that the kernel watches: there every
    /// thread of the process has to be known.
    pub(crate) fn may_be_quiescent(&self, local: u32) -> bool {
        if !self.tables().is_lazy() {
            return false;
        }
        if !self.memory().tracks() {
            return true;
        }
        // Who comes alone has looked at another moment than the others.
        if local == 0 {
            return false;
        }
        let before = self.threads.count();
        let links = rustix::fs::stat("/proc/self/task").map_or(0, |stat| stat.st_nlink);
        before.has_all(links, &self.threads.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_while_none_begins_or_ends() {
        let known = KnownThreads { changes: 9, starting: 0, begun: 3, own: 4 };
        let links = 2 + 4 + 3;
        assert!(known.has_all(links, &known));
        assert!(!known.has_all(links + 1, &known), "one is unknown");
        let starting = KnownThreads { starting: 1, ..known };
        assert!(
            !starting.has_all(links, &starting),
            "one that does not run yet stands for another"
        );
        // One was unknown when they were counted, and another has begun since.
        let begun = KnownThreads { changes: 10, begun: 4, ..known };
        assert!(!known.has_all(links + 1, &begun) && !begun.has_all(links + 1, &known));
        let came_and_went = KnownThreads { changes: 11, ..known };
        assert!(!known.has_all(links, &came_and_went));
    }
}
