//! Which thread is likely to take a contended lock again at once (ADR 41).
//!
//! Role: the rule that says at an unlock whether the token may stay for a window
//! ([`multigrain_protocol::sync::SyncInput::UnlockToReacquire`]). A thread that came back to the lock soon after its
//! last unlock is expected to come back soon again. Only a lock that a thread had to wait for is followed, the
//! last one, and no longer than others want it: a lock that nobody else wants costs no look at the clock. A thread that
//! polls under it for what another one is to write (`critical_section`) follows it until that one asks for it, and looks at what
//! has arrived meanwhile: by itself nobody would while a claim is kept, and the service thread would take its processor.

use core::sync::atomic::Ordering;

use crate::shim::{AtomicBool, AtomicU64};

/// A thread comes back soon if it does within so many nanoseconds.
const SOON_NS: u64 = 20_000;
/// And at once if it does within so many: a thread that is awake and waits for the lock would have it no earlier.
const AT_ONCE_NS: u64 = 700;
/// The same if threads have to be woken, which takes 7 to 12 us on two busy processors.
const BEFORE_SLEEPERS_NS: u64 = 5_000;
/// How often a thread that polls looks at what has arrived.
const LOOK_NS: u64 = 3_000;

/// No lock's id.
const NONE: u64 = u64::MAX;
/// Longer than any time.
const LONG: u64 = u64::MAX;

/// The contended lock that a thread used last. Changed by that thread alone.
#[derive(Debug)]
pub(crate) struct Reacquisition {
    lock: AtomicU64,
    /// When it was unlocked.
    unlocked_ns: AtomicU64,
    /// How long after that the thread came back the last time.
    away_ns: AtomicU64,
    /// When the thread last looked at what has arrived.
    looked_ns: AtomicU64,
    /// Whether nobody else wanted it when the thread took it last.
    unwanted: AtomicBool,
    /// Whether its token has stayed for a window at the last unlock.
    kept: AtomicBool,
    /// Whether the thread has it.
    held: AtomicBool,
}

impl Reacquisition {
    pub(super) const fn new() -> Self {
        Self {
            lock: AtomicU64::new(NONE),
            unlocked_ns: AtomicU64::new(0),
            away_ns: AtomicU64::new(LONG),
            looked_ns: AtomicU64::new(0),
            unwanted: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            held: AtomicBool::new(false),
        }
    }

    /// Another thread has the slot now.
    pub(super) fn forget(&self) {
        self.lock.store(NONE, Ordering::Relaxed);
        self.kept.store(false, Ordering::Relaxed);
        self.held.store(false, Ordering::Relaxed);
    }

    /// Whether this is the contended lock that the thread used last.
    pub(crate) fn follows(&self, lock: u64) -> bool {
        self.lock.load(Ordering::Relaxed) == lock
    }

    /// The thread is about to take a lock.
    pub(crate) fn before_lock(&self, lock: u64, now_ns: impl FnOnce() -> u64) {
        if self.follows(lock) {
            let since_ns = now_ns().saturating_sub(self.unlocked_ns.load(Ordering::Relaxed));
            self.away_ns.store(since_ns, Ordering::Relaxed);
        }
    }

    /// It has it; `waited`: not at once; `polls`: its last section changed nothing.
    pub(crate) fn after_lock(&self, lock: u64, waited: bool, polls: impl FnOnce() -> bool) {
        let follows = self.follows(lock);
        // One within the other is taken as often: who follows that would be no match for who follows the outer one.
        if waited && !follows && !self.held.load(Ordering::Relaxed) {
            self.lock.store(lock, Ordering::Relaxed);
            self.away_ns.store(LONG, Ordering::Relaxed);
        } else if follows {
            let unwanted = !waited && !self.kept.load(Ordering::Relaxed);
            // Whether it polls is known from the second section on.
            if unwanted && self.unwanted.load(Ordering::Relaxed) && !polls() {
                self.lock.store(NONE, Ordering::Relaxed);
            }
            self.unwanted.store(unwanted, Ordering::Relaxed);
            self.kept.store(false, Ordering::Relaxed);
        }
        if self.follows(lock) {
            self.held.store(true, Ordering::Relaxed);
        }
    }

    /// It is about to unlock it, and polls under it: whether it is to look at what has arrived first.
    pub(crate) fn looks(&self, lock: u64) -> bool {
        let unlocked_ns = self.unlocked_ns.load(Ordering::Relaxed);
        let came_ns = unlocked_ns.saturating_add(self.away_ns.load(Ordering::Relaxed));
        let since_ns = came_ns.saturating_sub(self.looked_ns.load(Ordering::Relaxed));
        let looks = self.follows(lock) && came_ns != LONG && since_ns >= LOOK_NS;
        if looks {
            self.looked_ns.store(came_ns, Ordering::Relaxed);
        }
        looks
    }

    /// It is about to unlock it: whether it is likely to come back soon, and if so, whether at once. `sleepers`: waiting
    /// threads of this node are asleep.
    pub(crate) fn expected(&self, lock: u64, sleepers: impl FnOnce() -> bool) -> Option<bool> {
        let away_ns = self.away_ns.load(Ordering::Relaxed);
        (self.follows(lock) && away_ns < SOON_NS)
            .then(|| away_ns < AT_ONCE_NS || (away_ns < BEFORE_SLEEPERS_NS && sleepers()))
    }

    /// It has unlocked it.
    pub(crate) fn after_unlock(&self, lock: u64, now_ns: impl FnOnce() -> u64) {
        if self.follows(lock) {
            self.unlocked_ns.store(now_ns(), Ordering::Relaxed);
            self.held.store(false, Ordering::Relaxed);
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

    fn never_polls() -> bool {
        panic!("it is not asked whether the thread polls")
    }

    fn never_asked() -> bool {
        panic!("nobody is expected")
    }

    /// Takes the lock and gives it back: whether it may stay free for a window.
    fn section(history: &Reacquisition, lock: u64, waited: bool, now_ns: u64) -> bool {
        history.before_lock(lock, || now_ns);
        history.after_lock(lock, waited, || false);
        let likely = history.expected(lock, || false).is_some();
        history.after_unlock(lock, || now_ns + 1000);
        likely
    }

    #[test]
    fn a_lock_that_nobody_else_wants_costs_no_look_at_the_clock() {
        let history = Reacquisition::new();
        history.before_lock(7, never);
        history.after_lock(7, false, never_polls);
        history.after_unlock(7, never);
        assert!(!section(&history, 7, true, 0));
        // It had to wait once, and nobody wants it any more.
        section(&history, 7, false, 2000);
        section(&history, 7, false, 4000);
        history.before_lock(7, never);
        history.after_lock(7, false, never_polls);
        assert_eq!(history.expected(7, never_asked), None);
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
    fn a_thread_that_polls_follows_the_lock_and_looks_now_and_then() {
        let history = Reacquisition::new();
        section(&history, 7, true, LOOK_NS);
        let looks = (2..12).map(|count| {
            history.before_lock(7, || LOOK_NS * count / 2);
            history.after_lock(7, false, || true);
            let looks = history.looks(7);
            history.after_unlock(7, || LOOK_NS * count / 2);
            looks
        });
        assert_eq!(looks.filter(|looks| *looks).count(), 5);
        history.after_lock(7, false, || false);
        assert!(!history.follows(7), "it has written, and nobody else wants the lock");
    }

    #[test]
    fn who_came_back_before_anybody_could_wake_is_expected_at_once() {
        let history = Reacquisition::new();
        section(&history, 7, true, 0);
        let expected = |away_ns, sleepers| {
            history.after_unlock(7, || 0);
            history.before_lock(7, || away_ns);
            history.expected(7, || sleepers)
        };
        assert_eq!(expected(AT_ONCE_NS - 1, false), Some(true));
        assert_eq!(expected(AT_ONCE_NS, false), Some(false));
        assert_eq!(expected(BEFORE_SLEEPERS_NS - 1, true), Some(true));
        assert_eq!(expected(BEFORE_SLEEPERS_NS, true), Some(false));
        assert_eq!(expected(SOON_NS, true), None);
    }

    #[test]
    fn a_lock_within_another_does_not_take_its_place() {
        let history = Reacquisition::new();
        history.after_lock(8, true, never_polls);
        history.after_unlock(8, || 0);
        for _ in 0..2 {
            history.before_lock(7, || 0);
            history.after_lock(7, true, never_polls);
            history.after_lock(8, true, never_polls);
            history.after_unlock(8, || 0);
            assert!(history.follows(7), "the outer one");
            history.after_unlock(7, || 0);
        }
        history.after_lock(8, true, never_polls);
        assert!(history.follows(8), "outside of it");
    }

    #[test]
    fn another_lock_begins_anew_and_what_was_kept_is_given_up_once() {
        let history = Reacquisition::new();
        section(&history, 7, true, 0);
        assert!(section(&history, 7, true, 2000));
        history.keep();
        assert_eq!((history.take_kept(), history.take_kept()), (Some(7), None));
        assert!(!section(&history, 8, true, 3000) && history.expected(7, never_asked).is_none());
    }
}
