//! Deadlines of waits: a helper thread withdraws waits whose time is over.
//!
//! The thread that waits does so as always; the withdrawal wakes it. A wait is withdrawn under the lock
//! of [`Deadlines`], and its thread takes the lock again before it waits for anything else: no withdrawal
//! meets a later wait.

use core::num::NonZeroU32;
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;

use multigrain_protocol::sync::{SyncInput, Withdrawable};
use multigrain_types::ThreadId;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::driver::Driver;
use crate::error::Error;
use crate::pthread;
use crate::shim::{Mutex, lock};

/// A time of `CLOCK_REALTIME`, until which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    seconds: i64,
    nanoseconds: i64,
}

impl Deadline {
    /// So many seconds, and nanoseconds below 10^9, after the epoch.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn new(seconds: i64, nanoseconds: i64) -> Result<Self, Error> {
        if !(0..1_000_000_000).contains(&nanoseconds) {
            let text = format!("a deadline with {nanoseconds} nanoseconds, not 0 to 999,999,999");
            return Err(Error::Invalid(text));
        }
        Ok(Self { seconds, nanoseconds })
    }

    /// So much later than now.
    #[must_use]
    pub fn after(wait: core::time::Duration) -> Self {
        let now = clock_gettime(ClockId::Realtime);
        let nanoseconds = now.tv_nsec + i64::from(wait.subsec_nanos());
        let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
        let seconds =
            now.tv_sec.saturating_add(seconds).saturating_add(nanoseconds / 1_000_000_000);
        Self { seconds, nanoseconds: nanoseconds % 1_000_000_000 }
    }

    fn is_over(self) -> bool {
        let now = clock_gettime(ClockId::Realtime);
        self <= Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec }
    }

    /// A time before the epoch is over, and the kernel takes none.
    fn timespec(self) -> Timespec {
        Timespec { tv_sec: self.seconds.max(0), tv_nsec: self.nanoseconds }
    }
}

/// The waits of a node that have a deadline.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    waits: Mutex<BTreeMap<(Deadline, ThreadId), Withdrawable>>,
    /// Changes when the helper has to look anew; a futex.
    rescan: core::sync::atomic::AtomicU32,
    /// Whether there is one.
    helper: Mutex<bool>,
}

impl Deadlines {
    /// The thread is withdrawn from there at its deadline, unless [`Deadlines::remove`] comes first.
    ///
    /// # Errors
    /// [`Error::System`] if the helper cannot be started.
    pub(crate) fn add(
        &'static self,
        driver: &'static Driver,
        thread: ThreadId,
        (deadline, from): (Deadline, Withdrawable),
    ) -> Result<(), Error> {
        let mut has_helper = lock(&self.helper);
        if !*has_helper {
            driver.has_helper();
            pthread::spawn_helper("mg-deadlines", || self.keep(driver))
                .inspect_err(|_| driver.helper_ends())?;
            *has_helper = true;
        }
        drop(has_helper);
        let mut waits = lock(&self.waits);
        waits.insert((deadline, thread), from);
        if waits.first_key_value().is_some_and(|(&first, _)| first == (deadline, thread)) {
            self.rescan.fetch_add(1, Ordering::Release);
            let _ = futex::wake(&self.rescan, futex::Flags::PRIVATE, 1);
        }
        Ok(())
    }

    /// The thread's wait is over.
    pub(crate) fn remove(&self, thread: ThreadId, deadline: Deadline) {
        lock(&self.waits).remove(&(deadline, thread));
    }

    /// The helper: sleeps until the first deadline, withdraws whose time is over.
    fn keep(&self, driver: &Driver) {
        loop {
            let seen = self.rescan.load(Ordering::Acquire);
            let until = self.withdraw_due(driver).map(Deadline::timespec);
            let flags = futex::Flags::PRIVATE | futex::Flags::CLOCK_REALTIME;
            let _ = futex::wait_bitset(&self.rescan, flags, seen, until.as_ref(), NonZeroU32::MAX);
        }
    }

    /// The next deadline.
    fn withdraw_due(&self, driver: &Driver) -> Option<Deadline> {
        let mut waits = lock(&self.waits);
        while let Some(first) = waits.first_entry() {
            let (deadline, thread) = *first.key();
            if !deadline.is_over() {
                return Some(deadline);
            }
            let from = first.remove();
            driver.tell_sure(SyncInput::Withdraw { thread, from });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_times_and_come_in_order() {
        assert!(Deadline::new(0, 1_000_000_000).is_err() && Deadline::new(0, -1).is_err());
        let past = Deadline::new(-5, 7).unwrap();
        assert!(past.is_over() && past.timespec().tv_sec == 0);
        let soon = Deadline::after(core::time::Duration::from_secs(1000));
        assert!(past < soon && !soon.is_over());
        assert!(soon < Deadline::new(i64::MAX, 0).unwrap());
        assert!(!Deadline::after(core::time::Duration::MAX).is_over());
    }
}
