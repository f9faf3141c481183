//! When the timer looks at the windows of a lock, and when one of them is over (ADR 41).
//!
//! A window begins whenever the token of a contended lock stays for a thread that is expected back, at each unlock then, and
//! nearly all end with that thread. So the timer is not set for each: it looks at the lock now and then, and
//! less often while threads come back (ADR 40).
//!
//! Invariant: a lock is looked at again until its last window is over. Then it is forgotten.

/// How long the token of a lock stays for a thread that is expected back: then its window is over, if the timer looks.
const LOCK_WINDOW_NS: u64 = 200_000;
/// The longest time between two looks at a lock whose threads come back: a timer that rings for nothing takes a processor
/// from the threads that hand the lock over.
const LONGEST_LOCK_LOOK_NS: u64 = 800_000;

/// The windows of a lock, which follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockWindows {
    pub(super) id: u64,
    /// When the last one began.
    pub(super) began_ns: u64,
    /// When to look, and how long after the look before.
    pub(super) look_ns: u64,
    period_ns: u64,
}

impl LockWindows {
    pub(super) fn new(id: u64, now_ns: u64) -> Self {
        let period_ns = LOCK_WINDOW_NS;
        Self { id, began_ns: now_ns, look_ns: now_ns + period_ns, period_ns }
    }

    /// The timer has rung: whether the last window is over. Its thread may have come back, and want the lock no longer.
    pub(super) fn look(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.began_ns) >= LOCK_WINDOW_NS {
            return true;
        }
        self.period_ns = (2 * self.period_ns).min(LONGEST_LOCK_LOOK_NS);
        self.look_ns = now_ns + self.period_ns;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_looked_at_less_often_while_its_thread_comes_back() {
        let mut windows = LockWindows::new(7, 0);
        let mut periods_us = Vec::new();
        for _ in 0..5 {
            let now_ns = windows.look_ns;
            windows.began_ns = now_ns - LOCK_WINDOW_NS + 1;
            assert!(!windows.look(now_ns), "{periods_us:?}");
            periods_us.push((windows.look_ns - now_ns) / 1000);
        }
        assert_eq!(periods_us, [400, 800, 800, 800, 800]);
    }

    #[test]
    fn a_window_of_a_lock_that_was_young_at_a_look_is_over_at_the_next_one() {
        for age_ns in [0, 1, LOCK_WINDOW_NS - 1, LOCK_WINDOW_NS] {
            let mut windows = LockWindows::new(7, 0);
            windows.began_ns = windows.look_ns - age_ns;
            let looks = core::iter::repeat_with(|| windows.look(windows.look_ns));
            assert_eq!(
                looks.take_while(|over| !over).count(),
                usize::from(age_ns < LOCK_WINDOW_NS)
            );
        }
    }
}
