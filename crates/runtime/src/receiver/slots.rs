//! Thread slots: where a thread of this node waits and where its answer is stored.
//!
//! A slot is a number the protocol knows as `ThreadId`. A thread that Multigrain starts has one
//! before it runs ([`reserve`]); any other takes one at its first call or trap. It gives the slot
//! back when it ends. Nothing here allocates: a trap may come first.
//!
//! The life of a slot: *taken*, *held* by its thread (or reserved for one that is starting), *begun* for the
//! protocol, *ended* there, held by nobody, free. A free slot is held by nobody, and so is one that has ended
//! while a handler of its thread could run.

#![expect(unsafe_code, reason = "a thread-exit hook needs pthread keys, which work inside a trap")]

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use multigrain_protocol::Turns;
use multigrain_types::ThreadId;
use multigrain_types::deadlock::{BlockingCall, Waiter};
use multigrain_types::limits::MAX_THREADS;

use super::awaited::Awaited;
use super::lock_window::Reacquisition;
use super::parking::{WAITING, Word};
use crate::child;
use crate::shim::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, thread_local};
use crate::signal_reentrancy::Inside;
use crate::signals::{SignalMask, stack};
use crate::uncancellable::Uncancellable;

/// One for each thread that can wait.
pub(crate) const SLOT_COUNT: usize = MAX_THREADS as usize;

/// In [`Slot::tell_to_hold`]: beyond all counts of turns.
const URGENT: u64 = 1 << 17;

/// There: above them, how long the longest of these turns was.
const LONGEST: u32 = 18;

/// One waiting place.
#[derive(Debug)]
pub(crate) struct Slot {
    taken: AtomicBool,
    /// When its thread began, as far as the protocol knows, in nanoseconds; 0 if it has not, or has ended.
    begun_ns: AtomicU64,
    pub(crate) word: Word,
    value: AtomicU64,
    code: AtomicI32,
    /// What its thread waits for is not to be had.
    refused: AtomicBool,
    /// The protocol has told its thread to hold what it resumes for: 0 if not, else [`URGENT`] and, plus
    /// 1, the turns of others and, from bit [`LONGEST`] on, the longest of them.
    told_to_hold: AtomicU64,
    /// Its thread's way with contended locks.
    pub(crate) reacquisition: Reacquisition,
    /// What its thread waits for, where that is another thread of the job.
    awaited: Awaited,
}

static SLOTS: [Slot; SLOT_COUNT] = [const {
    Slot {
        taken: AtomicBool::new(false),
        begun_ns: AtomicU64::new(0),
        word: Word(AtomicU32::new(WAITING)),
        value: AtomicU64::new(0),
        code: AtomicI32::new(0),
        refused: AtomicBool::new(false),
        told_to_hold: AtomicU64::new(0),
        reacquisition: Reacquisition::new(),
        awaited: Awaited::new(),
    }
}; SLOT_COUNT];

/// Slots from here on were never taken.
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// Pthread key + 1 of the hook that frees a slot when its thread ends; 0 before the first.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Slot index + 1; 0 for none yet. Constant and without destructor: usable in a trap.
    static MINE: Cell<u32> = const { Cell::new(0) };
    /// When this thread joined the job, if it did and has not begun; 0 if not. As above.
    static JOINED_NS: Cell<u64> = const { Cell::new(0) };
}

/// What the runtime does before a slot becomes free, mostly in the thread that had it.
pub(crate) type AtEnd = fn(ThreadId, &Slot);

static AT_END: OnceLock<AtEnd> = OnceLock::new();

/// Which round of the destructors of thread-specific data it is for a thread that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The thread keeps its slot for the next.
    Another,
    Last,
}

/// What a thread with a slot does in each round of its end.
pub(crate) type BeforeEnd = fn() -> Round;

static BEFORE_END: OnceLock<BeforeEnd> = OnceLock::new();

/// What an allocator of this library alone does when a thread has done its last: see [`when_threads_have_ended`].
static ALLOCATOR_DONE: OnceLock<fn()> = OnceLock::new();

/// Has this called in each thread with a slot but the main one, after all that the runtime does in it. A thread tells its end in the last round of
/// destructors; the allocator's own has been called in that round already, and would not know what is allocated after it.
pub fn when_threads_have_ended(done: fn()) {
    let _ = ALLOCATOR_DONE.set(done);
}

/// Makes the thread-exit hook, which calls `before_end` and then `at_end`; call once at start.
///
/// # Errors
/// The system's error number if the process has no pthread key left.
pub(crate) fn prepare(before_end: BeforeEnd, at_end: AtEnd) -> Result<(), i32> {
    let _ = AT_END.set(at_end);
    let _ = BEFORE_END.set(before_end);
    let mut key = 0;
    // SAFETY: `at_thread_end` has the signature of a key destructor and `key` is a valid place.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(at_thread_end)) };
    if failed != 0 {
        return Err(failed);
    }
    EXIT_KEY.store(key + 1, Ordering::Release);
    Ok(())
}

unsafe extern "C" fn at_thread_end(value: *mut c_void) {
    if child::is_one() {
        return;
    }
    let Ok(index) = u32::try_from(value.addr().wrapping_sub(1)) else { return };
    // As others of the program's may, a destructor can be the place where a thread is cancelled.
    let _uncancellable = Uncancellable::new();
    let _inside = Inside::new();
    if BEFORE_END.get().is_some_and(|before_end| before_end() == Round::Another) {
        at_exit_free(value);
    } else if held() == Some(ThreadId(index)) {
        give_back(index);
    }
    if let Some(done) = ALLOCATOR_DONE.get().filter(|_| !is_main_thread()) {
        done();
    }
}

fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// A slot for a thread that is about to start; free again when dropped, unless the thread has
/// adopted it.
#[derive(Debug)]
pub(crate) struct Reserved(u32);

/// Takes a slot for a thread to come; `None` when [`MAX_THREADS`] are taken.
pub(crate) fn reserve() -> Option<Reserved> {
    take().map(Reserved)
}

impl Reserved {
    /// The slot, in the name of the thread to come.
    pub(crate) fn place(&self) -> (ThreadId, &'static Slot) {
        (ThreadId(self.0), &SLOTS[self.0 as usize])
    }

    /// The slot is this thread's from now on, until the thread ends or [`leave`]s it.
    pub(crate) fn adopt(self) -> (ThreadId, &'static Slot) {
        let place = self.place();
        hold(self.0);
        core::mem::forget(self);
        place
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        end(self.0);
        free(self.0);
    }
}

/// This thread's slot, taken at the first call; `None` when [`MAX_THREADS`] are taken.
pub(crate) fn mine() -> Option<(ThreadId, &'static Slot)> {
    let thread = match held() {
        Some(thread) => thread,
        None => {
            let index = take()?;
            hold(index);
            ThreadId(index)
        }
    };
    Some((thread, slot(thread)?))
}

/// This thread's slot, if it has one.
pub(crate) fn known() -> Option<(ThreadId, &'static Slot)> {
    let thread = held()?;
    Some((thread, slot(thread)?))
}

/// The slot this thread has already, if any.
pub(crate) fn held() -> Option<ThreadId> {
    MINE.with(Cell::get).checked_sub(1).map(ThreadId)
}

/// Gives this thread's slot back before the thread ends.
pub(crate) fn leave() {
    if let Some(ThreadId(index)) = held() {
        give_back(index);
    }
}

/// Takes this thread's slot from it as the thread ends, for another thread to end it.
pub(crate) fn disown() -> Option<Reserved> {
    let ThreadId(index) = held()?;
    stack::take_back();
    at_exit_free(core::ptr::null());
    MINE.with(|mine| mine.set(0));
    Some(Reserved(index))
}

/// The one place where slots are taken.
fn take() -> Option<u32> {
    let found = SLOTS.iter().position(|slot| {
        slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })?;
    HIGHEST.fetch_max(found + 1, Ordering::AcqRel);
    SLOTS[found].reacquisition.forget();
    SLOTS[found].awaited.set_handle(0);
    u32::try_from(found).ok()
}

/// This thread's slot becomes free. Its handlers do not run meanwhile: they would find a slot that has
/// ended, or is another thread's by now.
fn give_back(index: u32) {
    give_back_after(index, end);
}

fn give_back_after(index: u32, end: impl FnOnce(u32)) {
    let masked = SignalMask::block_all();
    end(index);
    at_exit_free(core::ptr::null());
    MINE.with(|mine| mine.set(0));
    stack::take_back();
    free(index);
    drop(masked);
}

fn end(index: u32) {
    if let (Some(at_end), Some(slot)) = (AT_END.get(), slot(ThreadId(index))) {
        at_end(ThreadId(index), slot);
    }
}

/// The one place where slots become free. The thread that had it does not know it any more.
fn free(index: u32) {
    if let Some(slot) = slot(ThreadId(index)) {
        slot.taken.store(false, Ordering::Release);
    }
}

/// Makes a taken slot this thread's.
fn hold(index: u32) {
    MINE.with(|mine| mine.set(index + 1));
    at_exit_free(core::ptr::without_provenance(index as usize + 1));
    stack::lend();
}

/// What [`at_thread_end`] gets; nothing for NULL.
fn at_exit_free(value: *const c_void) {
    let key = EXIT_KEY.load(Ordering::Acquire);
    if key != 0 {
        // SAFETY: the key was created by `prepare` and is never deleted.
        unsafe { libc::pthread_setspecific(key - 1, value) };
    }
}

/// The slot of a thread by its number.
pub(crate) fn slot(thread: ThreadId) -> Option<&'static Slot> {
    SLOTS.get(usize::try_from(thread.0).ok()?)
}

impl Slot {
    /// When its thread began, as far as the protocol knows; 0 if it has not.
    pub(crate) fn begun_ns(&self) -> u64 {
        self.begun_ns.load(Ordering::Relaxed)
    }

    /// Its thread begins, in the thread itself or before it runs. The time is that now; the thread that
    /// joined the job has been there since.
    pub(crate) fn begin(&self, now_ns: u64) {
        let since_ns = match JOINED_NS.with(|joined| joined.replace(0)) {
            0 => now_ns,
            joined_ns => joined_ns,
        };
        self.begun_ns.store(since_ns.max(1), Ordering::SeqCst);
    }

    /// Its thread ends; when it began, if it had.
    pub(crate) fn end(&self) -> Option<u64> {
        Some(self.begun_ns.swap(0, Ordering::SeqCst)).filter(|&since_ns| since_ns > 0)
    }

    /// Before asking for something that ends in a wake-up.
    pub(crate) fn arm(&self) {
        self.refused.store(false, Ordering::Relaxed);
        self.word.arm();
    }

    /// What its thread waits for is not to be had; the wake-up comes later.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Whether the wake-up that has come was a refusal.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the wake-up has come.
    pub(crate) fn is_woken(&self) -> bool {
        self.word.is_woken()
    }

    /// The answer that came with the wake-up: an error code or 0, and a value.
    pub(crate) fn answer(&self) -> (i32, u64) {
        (self.code.load(Ordering::Acquire), self.value.load(Ordering::Acquire))
    }

    /// What its thread waits for.
    pub(crate) fn awaited(&self) -> &Awaited {
        &self.awaited
    }

    /// Where its thread waits, whether a time ends that, and in which turn; none if it runs or is about to.
    fn waits(&self) -> Option<(BlockingCall, bool, u64)> {
        self.awaited.call(|| self.begun_ns.load(Ordering::SeqCst) > 0 && !self.is_woken())
    }

    /// The thread shall hold the minipage it resumes for. In its own step.
    pub(crate) fn tell_to_hold(&self, turns: Turns, urgent: bool) {
        let count = u64::from(turns.count) + 1 + if urgent { URGENT } else { 0 };
        let told = u64::from(turns.longest_us) << LONGEST | count;
        self.told_to_hold.store(told, Ordering::Relaxed);
    }

    /// Whether the step just done told the thread to hold: after how many turns of others, and whether
    /// that is urgent.
    pub(crate) fn take_told_to_hold(&self) -> Option<(Turns, bool)> {
        let told = self.told_to_hold.load(Ordering::Relaxed);
        self.told_to_hold.store(0, Ordering::Relaxed);
        let count = u16::try_from((told % URGENT).checked_sub(1)?).ok()?;
        let longest_us = u32::try_from(told >> LONGEST).ok()?;
        Some((Turns { count, longest_us }, told & URGENT != 0))
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
        slot.begun_ns.store(0, Ordering::Relaxed);
        slot.word.arm();
    }
}

/// This thread has joined the job at this time: what it does from now on counts.
pub(crate) fn has_joined(now_ns: u64) {
    JOINED_NS.with(|joined| joined.set(now_ns));
}

/// How many slots were ever taken, from the first one on.
pub(crate) fn used() -> usize {
    HIGHEST.load(Ordering::Acquire)
}

/// For how long threads have been there that have begun and not ended, in sum.
pub(crate) fn lived_ns(until_ns: u64) -> u64 {
    let used = SLOTS.iter().take(HIGHEST.load(Ordering::Acquire));
    let since = used.map(|slot| slot.begun_ns.load(Ordering::Acquire)).filter(|&since| since > 0);
    since.map(|since_ns| until_ns.saturating_sub(since_ns)).sum()
}

/// Threads of this node that wait for other threads of the job, without the locks they hold.
pub(crate) fn waiters() -> Vec<Waiter> {
    let used = SLOTS.iter().take(HIGHEST.load(Ordering::Acquire));
    let waiter = |(thread, slot): (u32, &Slot)| {
        let (call, timed, wait) = slot.waits()?;
        let is_barrier = matches!(call, BlockingCall::Barrier(_));
        let (expected, whole) = if is_barrier { slot.awaited.expected() } else { (0, false) };
        let named = matches!(call, BlockingCall::Name | BlockingCall::Segment);
        let name = if named { slot.awaited.name() } else { String::new() };
        let holds = slot.awaited.own_end().into_iter().collect();
        Some(Waiter { thread, wait, call, timed, holds, expected, whole, name })
    };
    (0..).zip(used).filter_map(waiter).collect()
}

/// Nudges one parked thread of this node, if there is one.
pub(crate) fn nudge_one() {
    let used = HIGHEST.load(Ordering::Acquire);
    let _ = SLOTS.iter().take(used).any(|slot| slot.word.nudge());
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_slot_is_adopted_or_free_again() {
        let taken = |index: u32| SLOTS[index as usize].taken.load(Ordering::Acquire);
        let reserved = reserve().unwrap();
        let index = reserved.0;
        assert!(taken(index));
        drop(reserved);
        assert!(!taken(index), "nobody adopted it");
        std::thread::spawn(move || {
            assert_eq!(held(), None);
            let (thread, _) = reserve().unwrap().adopt();
            assert_eq!((held(), mine().unwrap().0), (Some(thread), thread));
            leave();
            assert_eq!(held(), None);
            assert!(!taken(thread.0), "left");
        })
        .join()
        .unwrap();
    }

    /// A handler that comes at the worst moment: the slot has ended and is not free yet.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    #[expect(unsafe_code, reason = "a handler, and a signal to this thread")]
    fn a_handler_of_a_thread_that_ends_finds_no_slot() {
        const NOT_RUN: u64 = u64::MAX;
        static FOUND: AtomicU64 = AtomicU64::new(NOT_RUN);
        extern "C" fn handler(_: libc::c_int) {
            FOUND.store(held().map_or(0, |thread| u64::from(thread.0) + 1), Ordering::SeqCst);
        }
        let ending = std::thread::spawn(|| {
            let (thread, _) = mine().unwrap();
            // SAFETY: the handler stores a number, and no other test uses this signal.
            unsafe { libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t) };
            give_back_after(thread.0, |_| {
                // SAFETY: a signal to this thread, which has a handler for it.
                unsafe { libc::raise(libc::SIGUSR2) };
                assert_eq!(FOUND.load(Ordering::SeqCst), NOT_RUN, "not before the slot is free");
            });
            assert_eq!(held(), None);
        });
        ending.join().unwrap();
        assert_eq!(FOUND.load(Ordering::SeqCst), 0, "it ran, and found none");
    }
}
