//! Where time windows begin that the program asked for, and where windows of minipages and of locks end before or at
//! their time (ADR 17, 41 and 51).

use multigrain_protocol::sync::SyncInput;
use multigrain_types::{Access, MinipageId, ThreadId};

use super::Driver;
use crate::error::Error;
use crate::receiver::slots::Slot;
use crate::time_windows::EndedWindow;

impl Driver {
    /// Whether a window that the program asked for keeps what a thread was granted (Delta). The grant has the
    /// thread's pin then until the window ends, and is not resumed before. Not for a pinned retry, whose instruction
    /// may have to give it up for another.
    pub(super) fn keep_as_asked(&self, thread: ThreadId, minipage: MinipageId) -> bool {
        let Some(sharing) = self.tables().segment_sharing(minipage.area()) else { return false };
        let delta_ns = sharing.delta_ns(minipage.index());
        if delta_ns == 0 {
            return false;
        }
        let Some(over) = self.engine.windows().keep(thread, minipage, delta_ns) else {
            return false;
        };
        sharing.count_window();
        self.retire_ended(over);
        true
    }

    /// Whether this node thrashes, and keeps in its turn what a thread was granted to write that it has wanted since then,
    /// with this access before. The thread's pin, too, stays until the window ends.
    pub(super) fn keep_in_turn(
        &self,
        (thread, minipage): (ThreadId, MinipageId),
        before: Access,
        since_ns: u64,
    ) -> bool {
        if !self.tables().is_sequential(minipage.area()) {
            return false;
        }
        let turn = (self.me().index() as u64, self.nodes().into());
        let windows = self.engine.windows();
        let over = windows.keep_in_turn((thread, minipage), before, since_ns, turn);
        over.is_some_and(|over| {
            self.retire_ended(over);
            true
        })
    }

    /// A thread of this node wants to write a minipage, or has lost it, or an instruction gives it up.
    pub(crate) fn end_windows_on(&self, minipage: MinipageId) {
        self.retire_ended(self.engine.windows().end_on(minipage));
    }

    /// The helper: ends windows when they are over, until this node leaves.
    pub(crate) fn keep_time(&self) {
        while !self.membership().is_leaving() {
            self.engine.windows().sleep();
            for id in self.engine.windows().locks_due() {
                self.end_lock_window(id);
            }
            self.retire_ended(self.engine.windows().end_due());
        }
    }

    pub(super) fn retire_ended(&self, ended: Vec<EndedWindow>) {
        for EndedWindow { thread, minipage, urgent } in ended {
            self.retire(thread, minipage, urgent);
        }
    }

    /// Whether threads of this node are asleep that wait.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.receiver.has_sleepers()
    }

    /// A thread gives a lock back and is likely to take it again soon, or at once: if others wait for it, it stays free for
    /// a window.
    pub(crate) fn unlock_to_reacquire(
        &self,
        slot: &Slot,
        (thread, id): (ThreadId, u64),
        at_once: bool,
    ) -> Result<(), Error> {
        self.tell(SyncInput::UnlockToReacquire { thread, id, at_once })?;
        if self.tables().keeps_lock(id) {
            slot.reacquisition.keep();
            if !self.engine.windows().keep_lock(id) {
                self.end_kept_lock(slot);
            }
        }
        Ok(())
    }

    /// A thread is about to wait for something else, or ends: it does not come back to a lock soon.
    pub(crate) fn end_kept_lock(&self, slot: &Slot) {
        if let Some(id) = slot.reacquisition.take_kept() {
            self.end_lock_window(id);
        }
    }

    fn end_lock_window(&self, id: u64) {
        self.tell_sure(SyncInput::LockWindowOver { id });
    }
}
