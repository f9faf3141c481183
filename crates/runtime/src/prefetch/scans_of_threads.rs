//! What each thread scans, by its number. Not in thread-local storage: the library's part of that has to fit into what the C
//! library leaves for one that is loaded by a running program (`dlopen`), which is some 1,600 bytes for all of them.

use std::sync::{Mutex, OnceLock, PoisonError};

use multigrain_types::ThreadId;

use super::block_faults::BlockFaults;
use super::page_scans::Scans;
use super::streams::Streams;
use crate::receiver::slots::{SLOT_COUNT, Slot};

/// The scans of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadScans {
    pub(super) scans: Scans,
    pub(super) streams: Streams,
    pub(super) block_faults: BlockFaults,
    /// When the thread began whose they are.
    begun_ns: u64,
    /// Whether there may be any.
    any: bool,
}

impl ThreadScans {
    const NONE: Self = Self {
        scans: Scans::NONE,
        streams: Streams::NONE,
        block_faults: BlockFaults::NONE,
        begun_ns: 0,
        any: false,
    };

    /// The thread has passed a barrier: what it fetched says nothing about what comes.
    fn forget(&mut self) {
        if core::mem::take(&mut self.any) {
            self.scans = Scans::NONE;
            self.streams.forget();
            self.block_faults = BlockFaults::NONE;
        }
    }
}

/// Each is its thread's alone, so that no one waits. Made when a thread of the number needs it first: megabytes of data would
/// count against limits (`ulimit -d`).
static OF_THREADS: [OnceLock<Box<Mutex<ThreadScans>>>; SLOT_COUNT] =
    [const { OnceLock::new() }; SLOT_COUNT];

/// With those of the calling thread.
pub(super) fn with<R>(of_thread: (ThreadId, &Slot), act: impl FnOnce(&mut ThreadScans) -> R) -> R {
    with_all(of_thread, |of_thread| {
        of_thread.any = true;
        act(of_thread)
    })
}

fn with_all<R>((thread, slot): (ThreadId, &Slot), act: impl FnOnce(&mut ThreadScans) -> R) -> R {
    let of_thread =
        OF_THREADS[thread.0 as usize].get_or_init(|| Mutex::new(ThreadScans::NONE).into());
    let of_thread = of_thread.lock();
    let mut of_thread = of_thread.unwrap_or_else(PoisonError::into_inner);
    let begun_ns = slot.begun_ns();
    if of_thread.begun_ns != begun_ns {
        *of_thread = ThreadScans { begun_ns, ..ThreadScans::NONE };
    }
    act(&mut of_thread)
}

/// This thread has passed a barrier.
pub(super) fn forget(of_thread: (ThreadId, &Slot)) {
    with_all(of_thread, ThreadScans::forget);
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use multigrain_types::{AreaId, MinipageId};

    use super::*;
    use crate::receiver::slots;

    #[test]
    fn a_thread_begins_with_no_scan_whoever_had_its_number_and_a_barrier_ends_all() {
        let (thread, slot) = slots::mine().unwrap();
        let read = |index| {
            let minipage = MinipageId::new(AreaId(3), index);
            with((thread, slot), |of| of.scans.reads(7, minipage))
        };
        assert_eq!([read(0), read(1)], [0, 1], "the second of a page");
        forget((thread, slot));
        assert_eq!([read(2), read(3)], [0, 1]);
        slot.begin(77);
        assert_eq!([read(4), read(5)], [0, 1]);
    }
}
