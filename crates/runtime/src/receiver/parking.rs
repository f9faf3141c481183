//! Parking: how threads that wait agree on which one receives, so that no wake-up is lost.
//!
//! One thread has the [`Role`] of the receiver; the others park on the [`Word`] of their slot. Two
//! pairs of steps decide, each a store followed by a load of what the other one stores:
//!
//! - A thread that parks announces it in its word, then looks whether the role is free. A thread that gives the
//!   role back frees it, then looks for waiting threads and for announced words. Release and acquire let both
//!   looks miss the other's store (the litmus shape SB, allowed on x86 and on ARM alike); so a fence
//!   stands between store and look on both sides ([`Role::is_free`], [`Role::give_back`]), and one of
//!   the two sees the other.
//! - A word itself is only changed by read-modify-writes while others look at it, so a wake-up finds the
//!   announcement, or the announcement the wake-up.
//!
//! A nudge may reach a thread that is woken before it looks around. That thread leaves without the role, so
//! every thread that leaves after having parked passes the nudge on if the role is still free.
//!
//! `loom_tests.rs` checks this file with loom's atomics in the place of `shim`'s.

use core::sync::atomic::Ordering;

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants;

use super::shim::{AtomicBool, AtomicU32, AtomicUsize, fence, futex_wait, futex_wake};

/// Nothing has come yet: the first state of a [`Word`].
pub(crate) const WAITING: u32 = 0;
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

/// Where a thread waits: [`WAITING`], [`PARKED`], [`ASLEEP`], [`WOKEN`] or [`AT_ONCE`]; a futex.
#[derive(Debug)]
pub(crate) struct Word(pub(crate) AtomicU32);

impl Word {
    /// Before asking for something that ends in [`Word::wake`].
    pub(crate) fn arm(&self) {
        self.0.store(WAITING, Ordering::Release);
    }

    /// Whether the wake-up has come.
    pub(crate) fn is_woken(&self) -> bool {
        matches!(self.0.load(Ordering::Acquire), WOKEN | AT_ONCE)
    }

    /// Whether the thread has woken itself: what it asked for was here. Before it waits.
    pub(crate) fn is_woken_at_once(&self) -> bool {
        self.0.load(Ordering::Acquire) == AT_ONCE
    }

    /// Wakes the thread, which may be the caller.
    pub(crate) fn wake(&self, by_itself: bool) -> Waking {
        let word = if by_itself { AT_ONCE } else { WOKEN };
        match self.0.swap(word, Ordering::AcqRel) {
            #[cfg(feature = "mutants")]
            PARKED if mutants::on(mutants::Mutant::named("parked-thread-forgotten")) => {
                Waking::Done
            }
            PARKED => {
                futex_wake(&self.0);
                Waking::Done
            }
            ASLEEP => Waking::KickMesh,
            _ => Waking::Done,
        }
    }

    /// Says that the thread is about to sleep in the mesh; false if the wake-up has come already.
    pub(crate) fn announce_sleep(&self) -> bool {
        self.0.compare_exchange(WAITING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Awake again, for whatever reason.
    pub(crate) fn end_sleep(&self) {
        let _ = self.0.compare_exchange(ASLEEP, WAITING, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Makes a parked thread look around, for the receiver's role is free.
    pub(crate) fn nudge(&self) -> bool {
        let parked =
            self.0.compare_exchange(PARKED, WAITING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if parked {
            futex_wake(&self.0);
        }
        parked
    }

    /// Says that the thread is about to park; false if the wake-up has come already.
    fn announce_park(&self) -> bool {
        self.0.compare_exchange(WAITING, PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Sleeps until woken or nudged.
    fn park(&self) {
        while self.0.load(Ordering::Acquire) == PARKED {
            futex_wait(&self.0, PARKED);
        }
    }

    /// Takes the announcement back.
    fn unpark(&self) {
        let _ = self.0.compare_exchange(PARKED, WAITING, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The receiver's role of a node.
#[derive(Debug, Default)]
pub(crate) struct Role {
    receiving: AtomicBool,
    /// Threads inside [`Role::wait`].
    waiting: AtomicUsize,
}

/// How a thread has spent its time while another receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoodBy {
    /// Awake.
    Awake,
    /// It could be nudged.
    Parked,
}

impl Role {
    /// One that somebody has already.
    pub(crate) fn taken() -> Self {
        Self { receiving: AtomicBool::new(true), waiting: AtomicUsize::default() }
    }

    pub(crate) fn try_take(&self) -> bool {
        let taken = &self.receiving;
        !taken.load(Ordering::Relaxed)
            && taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The caller looks for parked threads after it.
    pub(crate) fn give_back(&self) {
        self.receiving.store(false, Ordering::Release);
        #[cfg(feature = "mutants")]
        if mutants::on(mutants::Mutant::named("role-freed-unfenced")) {
            return;
        }
        fence(Ordering::SeqCst);
    }

    /// Asked by a thread that has announced that it parks.
    fn is_free(&self) -> bool {
        #[cfg(feature = "mutants")]
        if mutants::on(mutants::Mutant::named("parked-unfenced")) {
            return !self.receiving.load(Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        !self.receiving.load(Ordering::Relaxed)
    }

    /// Whether more than `known` threads wait.
    pub(crate) fn waits_for_more_than(&self, known: usize) -> bool {
        self.waiting.load(Ordering::Relaxed) > known
    }

    /// Waits until the word is woken: with the role in `receive`, which gives it back, else in
    /// `stand_by`.
    pub(crate) fn wait(
        &self,
        word: &Word,
        mut receive: impl FnMut(),
        stand_by: impl Fn() -> StoodBy,
        nudge_one: impl FnOnce(),
    ) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut last = StoodBy::Awake;
        while !word.is_woken() {
            if self.try_take() {
                receive();
                last = StoodBy::Awake;
            } else if stand_by() == StoodBy::Parked {
                last = StoodBy::Parked;
            }
        }
        let others = self.waiting.fetch_sub(1, Ordering::Relaxed) > 1;
        #[cfg(feature = "mutants")]
        let others = others && !mutants::on(mutants::Mutant::named("nudge-not-passed-on"));
        // A nudge may have come just before the wake-up. If the role is taken, whoever has it nudges.
        if last == StoodBy::Parked && others && self.is_free() {
            nudge_one();
        }
    }

    /// Parks until the word is woken or nudged, unless the role is free.
    pub(crate) fn park(&self, word: &Word) -> StoodBy {
        if !word.announce_park() {
            return StoodBy::Awake;
        }
        if self.is_free() {
            word.unpark();
        } else {
            word.park();
        }
        StoodBy::Parked
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", feature = "mutants"))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_whether_it_has_woken_itself() {
        let word = Word(AtomicU32::new(WAITING));
        assert!(!word.is_woken() && !word.is_woken_at_once());
        assert_eq!(word.wake(false), Waking::Done);
        assert!(
            word.is_woken() && !word.is_woken_at_once(),
            "another thread's answer took a message"
        );
        word.arm();
        assert_eq!(word.wake(true), Waking::Done);
        assert!(word.is_woken() && word.is_woken_at_once(), "what it asked for was here");
        word.arm();
        assert!(word.announce_sleep());
        assert_eq!(word.wake(false), Waking::KickMesh);
        word.end_sleep();
    }
}
