//! Thread slots: where a thread of this node waits and where its answer lands.
//!
//! A slot is a number the protocol knows as `ThreadId`. A thread takes one at its first call or
//! trap and gives it back when it ends. Nothing here allocates: a trap may come first.

#![expect(unsafe_code, reason = "a thread-exit hook needs pthread keys, which work inside a trap")]

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

use multigrain_types::ThreadId;

use crate::companions::Scan;
use crate::parking::{WAITING, Word};
use crate::shim::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, thread_local};

/// Most threads of one node that can wait at the same time.
pub(crate) const MAX_THREADS: usize = 4096;

/// One waiting place.
#[derive(Debug)]
pub(crate) struct Slot {
    taken: AtomicBool,
    pub(crate) word: Word,
    value: AtomicU64,
    code: AtomicI32,
    /// What its thread fetches.
    pub(crate) scan: Scan,
}

static SLOTS: [Slot; MAX_THREADS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        word: Word(AtomicU32::new(WAITING)),
        value: AtomicU64::new(0),
        code: AtomicI32::new(0),
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
    /// Before asking for something that ends in a wake-up.
    pub(crate) fn arm(&self) {
        self.word.arm();
    }

    /// Whether the wake-up has come.
    pub(crate) fn is_woken(&self) -> bool {
        self.word.is_woken()
    }

    /// The answer that came with the wake-up: an error code or 0, and a value.
    pub(crate) fn answer(&self) -> (i32, u64) {
        (self.code.load(Ordering::Acquire), self.value.load(Ordering::Acquire))
    }

    /// Lays down the answer that the next wake-up brings.
    pub(crate) fn set_answer(&self, code: i32, value: u64) {
        self.code.store(code, Ordering::Release);
        self.value.store(value, Ordering::Release);
    }
}

/// No slot was ever taken: every schedule of a test begins so.
#[cfg(test)]
#[cfg(feature = "shuttle")]
pub(crate) fn forget_all() {
    for slot in SLOTS.iter().take(HIGHEST.swap(0, Ordering::Relaxed)) {
        slot.taken.store(false, Ordering::Relaxed);
        slot.word.arm();
    }
}

/// Nudges one parked thread of this node, if there is one.
pub(crate) fn nudge_one() {
    let used = HIGHEST.load(Ordering::Acquire);
    let _ = SLOTS.iter().take(used).any(|slot| slot.word.nudge());
}
