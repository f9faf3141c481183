//! Thread slots: where a thread of this node waits and where its answer lands.
//!
//! A slot is a number the protocol knows as `ThreadId`. A thread takes one at its first call or
//! trap and gives it back when it ends. Nothing here allocates: a trap may come first.

#![expect(unsafe_code, reason = "a thread-exit hook needs pthread keys, which work inside a trap")]

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants;
use multigrain_types::ThreadId;

use crate::companions::Scan;
use crate::shim::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, futex_wait, futex_wake, thread_local,
};

/// Most threads of one node that can wait at the same time.
pub(crate) const MAX_THREADS: usize = 4096;

/// One waiting place.
#[derive(Debug)]
pub(crate) struct Slot {
    taken: AtomicBool,
    /// [`WAITING`], [`PARKED`], [`ASLEEP`], [`WOKEN`] or [`AT_ONCE`]; a futex.
    word: AtomicU32,
    value: AtomicU64,
    code: AtomicI32,
    /// The protocol has told its thread to hold what it resumes for.
    told_to_hold: AtomicBool,
    /// What its thread fetches.
    pub(crate) scan: Scan,
}

const WAITING: u32 = 0;
const PARKED: u32 = 1;
const WOKEN: u32 = 2;
/// As receiver, asleep in the mesh: a local wake-up has to kick the mesh.
const ASLEEP: u32 = 3;
/// Woken by itself.
const AT_ONCE: u32 = 4;

/// What a waker still has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Waking {
    Done,
    KickMesh,
}

static SLOTS: [Slot; MAX_THREADS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        word: AtomicU32::new(WAITING),
        value: AtomicU64::new(0),
        code: AtomicI32::new(0),
        told_to_hold: AtomicBool::new(false),
        scan: Scan::new(),
    }
}; MAX_THREADS];

/// Slots from here on were never taken.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// Pthread key + 1 of the hook that frees a slot when its thread ends; 0 before the first.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Slot index + 1; 0 for none yet. Constant and without destructor: usable in a trap.
    static MINE: Cell<u32> = const { Cell::new(0) };
}

/// Makes the thread-exit hook; call once at start.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: `free_slot` has the signature of a key destructor and `key` is a valid place.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(free_slot)) };
    if failed == 0 {
        EXIT_KEY.store(key + 1, Ordering::Release);
    }
}

unsafe extern "C" fn free_slot(value: *mut c_void) {
    let index = value.addr().wrapping_sub(1);
    if let Some(slot) = SLOTS.get(index) {
        slot.taken.store(false, Ordering::Release);
    }
    MINE.with(|mine| mine.set(0));
}

/// This thread's slot, taken at the first call; `None` when [`MAX_THREADS`] are taken.
pub(crate) fn mine() -> Option<(ThreadId, &'static Slot)> {
    let index = match MINE.with(Cell::get) {
        0 => take()?,
        held => held - 1,
    };
    Some((ThreadId(index), slot(ThreadId(index))?))
}

fn take() -> Option<u32> {
    let found = SLOTS.iter().position(|slot| {
        slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    HIGHEST.fetch_max(found + 1, Ordering::AcqRel);
    SLOTS[found].scan.forget();
    let index = u32::try_from(found).ok()?;
    MINE.with(|mine| mine.set(index + 1));
    let key = EXIT_KEY.load(Ordering::Acquire);
    if key != 0 {
        let value = core::ptr::without_provenance::<c_void>(found + 1);
        // SAFETY: the key was created by `prepare` and is never deleted.
        unsafe { libc::pthread_setspecific(key - 1, value) };
    }
    Some(index)
}

/// The slot of a thread by its number.
pub(crate) fn slot(thread: ThreadId) -> Option<&'static Slot> {
    SLOTS.get(usize::try_from(thread.0).ok()?)
}

impl Slot {
    /// Before asking for something that ends in [`Slot::wake`].
    pub(crate) fn arm(&self) {
        self.word.store(WAITING, Ordering::Release);
    }

    /// Whether the wake-up has come.
    pub(crate) fn is_woken(&self) -> bool {
        matches!(self.word.load(Ordering::Acquire), WOKEN | AT_ONCE)
    }

    /// Whether the thread has woken itself: what it asked for was here. Before it waits.
    pub(crate) fn is_woken_at_once(&self) -> bool {
        self.word.load(Ordering::Acquire) == AT_ONCE
    }

    /// The answer that came with the wake-up: an error code or 0, and a value.
    pub(crate) fn answer(&self) -> (i32, u64) {
        (self.code.load(Ordering::Acquire), self.value.load(Ordering::Acquire))
    }

    /// Wakes the thread, which may be the caller.
    pub(crate) fn wake(&self, by_itself: bool) -> Waking {
        let word = if by_itself { AT_ONCE } else { WOKEN };
        match self.word.swap(word, Ordering::AcqRel) {
            #[cfg(feature = "mutants")]
            PARKED if mutants::on(mutants::Mutant::ParkedThreadForgotten) => Waking::Done,
            PARKED => {
                futex_wake(&self.word);
                Waking::Done
            }
            ASLEEP => Waking::KickMesh,
            _ => Waking::Done,
        }
    }

    /// The thread shall hold the minipage it resumes for. In its own step.
    pub(crate) fn tell_to_hold(&self) {
        self.told_to_hold.store(true, Ordering::Relaxed);
    }

    /// Whether the step just done told the thread to hold.
    pub(crate) fn take_told_to_hold(&self) -> bool {
        let told = self.told_to_hold.load(Ordering::Relaxed);
        self.told_to_hold.store(false, Ordering::Relaxed);
        told
    }

    /// Lays down the answer that the next wake-up brings.
    pub(crate) fn set_answer(&self, code: i32, value: u64) {
        self.code.store(code, Ordering::Release);
        self.value.store(value, Ordering::Release);
    }

    /// Says that the thread is about to sleep in the mesh; false if the wake-up has come already.
    pub(crate) fn announce_sleep(&self) -> bool {
        self.word.compare_exchange(WAITING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Awake again, for whatever reason.
    pub(crate) fn end_sleep(&self) {
        let _ = self.word.compare_exchange(ASLEEP, WAITING, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Makes a parked thread look around, for the receiver's role is free.
    pub(crate) fn nudge(&self) -> bool {
        let parked = self
            .word
            .compare_exchange(PARKED, WAITING, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if parked {
            futex_wake(&self.word);
        }
        parked
    }

    /// Says that the thread is about to park; false if the wake-up has come already.
    pub(crate) fn announce_park(&self) -> bool {
        self.word.compare_exchange(WAITING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sleeps until woken or nudged.
    pub(crate) fn park(&self) {
        while self.word.load(Ordering::Acquire) == PARKED {
            futex_wait(&self.word, PARKED);
        }
    }

    /// Takes the announcement back.
    pub(crate) fn unpark(&self) {
        let _ = self.word.compare_exchange(PARKED, WAITING, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// No slot was ever taken: every schedule of a test begins so.
#[cfg(test)]
#[cfg(feature = "shuttle")]
pub(crate) fn forget_all() {
    for slot in SLOTS.iter().take(HIGHEST.swap(0, Ordering::Relaxed)) {
        slot.taken.store(false, Ordering::Relaxed);
        slot.word.store(WAITING, Ordering::Relaxed);
    }
}

/// Nudges one parked thread of this node, if there is one.
pub(crate) fn nudge_one() {
    let used = HIGHEST.load(Ordering::Acquire);
    let _ = SLOTS.iter().take(used).any(Slot::nudge);
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_whether_it_has_woken_itself() {
        let slot = &SLOTS[MAX_THREADS - 1];
        slot.arm();
        assert!(!slot.is_woken() && !slot.is_woken_at_once());
        assert_eq!(slot.wake(false), Waking::Done);
        assert!(
            slot.is_woken() && !slot.is_woken_at_once(),
            "another thread's answer took a message"
        );
        slot.arm();
        assert_eq!(slot.wake(true), Waking::Done);
        assert!(slot.is_woken() && slot.is_woken_at_once(), "what it asked for was here");
        slot.arm();
        assert!(slot.announce_sleep());
        assert_eq!(slot.wake(false), Waking::KickMesh);
        slot.end_sleep();
    }
}
