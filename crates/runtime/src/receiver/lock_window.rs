//! Which thread is likely to take a contended lock again at once (ADR 41).
//!
//! Role: the rule that says at an unlock whether the token may stay for a window
//! ([`multigrain_protocol::sync::SyncInput::UnlockToReacquire`]). A thread that came back to the lock soon after its
//! last unlock is expected to come back soon again. Only a lock that a thread had to wait for is followed, the
//! last one, and no longer than others want it: a lock that nobody else wants costs no look at the clock.

use core::sync::atomic::Ordering;

use crate::shim::{AtomicBool, AtomicU64};

/// A thread comes back soon if it does within so many nanoseconds.
const SOON_NS: u64 = 20_000;

/// No lock's id.
const NONE: u64 = u64::MAX;

/// The contended lock that a thread used last. Changed by that thread alone.
#[derive(Debug)]
pub(crate) struct Reacquisition {
    lock: AtomicU64,
    /// When it was unlocked.
    unlocked_ns: AtomicU64,
    /// Whether the thread came back soon the last time.
    soon: AtomicBool,
    /// Whether its token has stayed for a window at the last unlock.
    kept: AtomicBool,
}

impl Reacquisition {
    pub(super) const fn new() -> Self {
        Self {
            lock: AtomicU64::new(NONE),
            unlocked_ns: AtomicU64::new(0),
            soon: AtomicBool::new(false),
            kept: AtomicBool::new(false),
        }
    }

    /// Another thread has the slot now.
    pub(super) fn forget(&self) {
        self.lock.store(NONE, Ordering::Relaxed);
        self.kept.store(false, Ordering::Relaxed);
    }

    /// Whether this is the contended lock that the thread used last.
    pub(crate) fn follows(&self, lock: u64) -> bool {
        self.lock.load(Ordering::Relaxed) == lock
    }

    /// The thread is about to take a lock.
    pub(crate) fn before_lock(&self, lock: u64, now_ns: impl FnOnce() -> u64) {
        if self.follows(lock) {
            let since_ns = now_ns().saturating_sub(self.unlocked_ns.load(Ordering::Relaxed));
            self.soon.store(since_ns < SOON_NS, Ordering::Relaxed);
        }
    }

    /// It has it; `waited`: not at once.
    pub(crate) fn after_lock(&self, lock: u64, waited: bool) {
        let follows = self.follows(lock);
        if waited && !follows {
            self.lock.store(lock, Ordering::Relaxed);
            self.soon.store(false, Ordering::Relaxed);
        } else if follows && !waited && !self.kept.load(Ordering::Relaxed) {
            self.lock.store(NONE, Ordering::Relaxed);
        }
        if follows {
            self.kept.store(false, Ordering::Relaxed);
        }
    }

    /// It is about to unlock it: whether it is likely to come back soon.
    pub(crate) fn is_likely(&self, lock: u64) -> bool {
        self.follows(lock) && self.soon.load(Ordering::Relaxed)
    }

    /// It has unlocked it.
    pub(crate) fn after_unlock(&self, lock: u64, now_ns: impl FnOnce() -> u64) {
        if self.follows(lock) {
            self.unlocked_ns.store(now_ns(), Ordering::Relaxed);
        }
    }

    /// The token has stayed.
    pub(crate) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// The thread does not come back soon: the lock whose token has stayed for it, and need not.
    pub(crate) fn take_kept(&self) -> Option<u64> {
        let kept = self.kept.load(Ordering::Relaxed);
        if kept {
            self.kept.store(false, Ordering::Relaxed);
        }
        kept.then(|| self.lock.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    fn never() -> u64 {
        panic!("the clock is not looked at")
    }

    /// Takes the lock and gives it back: whether the token may stay.
    fn section(history: &Reacquisition, lock: u64, waited: bool, now_ns: u64) -> bool {
        history.before_lock(lock, || now_ns);
        history.after_lock(lock, waited);
        let likely = history.is_likely(lock);
        history.after_unlock(lock, || now_ns + 1000);
        likely
    }

    #[test]
    fn a_lock_that_nobody_else_wants_costs_no_look_at_the_clock() {
        let history = Reacquisition::new();
        history.before_lock(7, never);
        history.after_lock(7, false);
        history.after_unlock(7, never);
        assert!(!section(&history, 7, true, 0));
        // It had to wait once, and nobody wants it any more.
        section(&history, 7, false, 2000);
        history.before_lock(7, never);
        history.after_lock(7, false);
        assert!(!history.is_likely(7));
    }

    #[test]
    fn a_thread_that_came_back_soon_is_expected_again_until_it_does_not() {
        let history = Reacquisition::new();
        assert!(!section(&history, 7, true, 0), "not known yet");
        assert!(section(&history, 7, true, 2000));
        history.keep();
        assert!(section(&history, 7, false, 4000));
        history.keep();
        assert!(!section(&history, 7, false, 5000 + SOON_NS));
    }

    #[test]
    fn another_lock_begins_anew_and_what_was_kept_is_given_up_once() {
        let history = Reacquisition::new();
        section(&history, 7, true, 0);
        assert!(section(&history, 7, true, 2000));
        history.keep();
        assert_eq!((history.take_kept(), history.take_kept()), (Some(7), None));
        assert!(!section(&history, 8, true, 3000) && !history.is_likely(7));
    }
}
