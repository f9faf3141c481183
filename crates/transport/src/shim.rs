//! Locks, atomics and the kernel's sleeps, as this crate uses them.
//!
//! With feature `shuttle` (tests only) each of them, and each system call that others can notice,
//! is a point where the test's schedule may switch threads; a sleep that nothing ends is found as a
//! deadlock. The kernel's objects stay the real ones: only the sleeping is the schedule's.

#[cfg(feature = "shuttle")]
pub(crate) use model::{changed, sleep};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(not(feature = "shuttle"))]
pub(crate) use system::{changed, sleep};

use std::sync::PoisonError;

/// Locks; a panic of another holder is no reason to panic again, the states here are never left
/// half changed by one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(feature = "shuttle"))]
mod system {
    use crate::timeout::Timeout;
    use core::mem::MaybeUninit;
    use rustix::event::epoll::{self, Event};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::OwnedFd;

    /// Waits on an epoll set. A signal ends the wait with no event.
    pub(crate) fn sleep<'a>(
        set: &OwnedFd,
        events: &'a mut [MaybeUninit<Event>],
        mut timeout: Timeout,
    ) -> &'a [Event] {
        if let Timeout::Micros(_) = timeout {
            // `epoll_pwait` counts whole milliseconds, and `epoll_pwait2` is not in every kernel.
            let mut set = [PollFd::new(set, PollFlags::IN)];
            if !poll(&mut set, timespec(timeout).as_ref()).is_ok_and(|ready| ready > 0) {
                return &[];
            }
            timeout = Timeout::Now;
        }
        let waited = epoll::wait(set, events, timespec(timeout).as_ref());
        waited.map_or(&[], |(ready, _)| ready)
    }

    fn timespec(timeout: Timeout) -> Option<Timespec> {
        let micros: i64 = match timeout {
            Timeout::Now => 0,
            Timeout::Micros(micros) => micros.into(),
            Timeout::Millis(millis) => i64::from(millis) * 1000,
            Timeout::Forever => return None,
        };
        Some(Timespec { tv_sec: micros / 1_000_000, tv_nsec: micros % 1_000_000 * 1000 })
    }

    /// A system call may have ended somebody's sleep.
    #[inline]
    pub(crate) fn changed() {}
}

#[cfg(feature = "shuttle")]
mod model {
    use crate::timeout::Timeout;
    use core::mem::MaybeUninit;
    use rustix::event::epoll::{self, Event};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::OwnedFd;
    use shuttle::sync::{Condvar, Mutex, MutexGuard};
    use std::sync::PoisonError;

    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

    shuttle::lazy_static! {
        static ref LOCK: Mutex<()> = Mutex::new(());
        static ref CHANGE: Condvar = Condvar::new();
    }

    fn lock() -> MutexGuard<'static, ()> {
        LOCK.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changed() {
        let _held = lock();
        CHANGE.notify_all();
    }

    pub(crate) fn sleep<'a>(
        set: &OwnedFd,
        events: &'a mut [MaybeUninit<Event>],
        timeout: Timeout,
    ) -> &'a [Event] {
        let mut held = lock();
        // A schedule has no clock: a limited wait may end at once.
        while timeout == Timeout::Forever && !is_ready(set) {
            held = CHANGE.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        drop(held);
        if timeout != Timeout::Now {
            shuttle::thread::yield_now();
        }
        epoll::wait(set, events, Some(&NOW)).map_or(&[], |(ready, _)| ready)
    }

    /// Whether a wait on the set would return now; it takes no event.
    fn is_ready(set: &OwnedFd) -> bool {
        poll(&mut [PollFd::new(set, PollFlags::IN)], Some(&NOW)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(all(test, not(any(feature = "shuttle", miri))))]
mod tests {
    use super::sleep;
    use crate::timeout::Timeout;
    use core::mem::MaybeUninit;
    use core::time::Duration;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::{EventfdFlags, eventfd};
    use std::time::Instant;

    /// What a kernel adds to a sleep differs; one that is rounded up to a millisecond never takes less.
    #[test]
    fn microseconds_are_not_rounded_up_to_a_millisecond() {
        let (set, event) = (
            epoll::create(CreateFlags::CLOEXEC).unwrap(),
            eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        );
        epoll::add(&set, &event, EventData::new_u64(7), EventFlags::IN).unwrap();
        let mut room = [const { MaybeUninit::uninit() }; 2];
        let slept = (0..50).map(|_| {
            let since = Instant::now();
            assert!(sleep(&set, &mut room, Timeout::Micros(200)).is_empty());
            since.elapsed()
        });
        let least = slept.min().unwrap();
        assert!(least >= Duration::from_micros(200), "{least:?}");
        assert!(least < Duration::from_millis(1), "{least:?}");
        rustix::io::write(&event, &1u64.to_ne_bytes()).unwrap();
        let ready = sleep(&set, &mut room, Timeout::Micros(200));
        assert_eq!(ready.iter().map(|event| event.data.u64()).collect::<Vec<_>>(), [7]);
    }
}
