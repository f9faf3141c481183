//! Locks, atomics, yields and futexes, as the waiting, receiving and queueing code uses them.
//!
//! With feature `shuttle` (tests only) each is a point where the test's schedule may switch
//! threads, and a sleep that nobody ends is found as a deadlock; see `shuttle_tests.rs`.

use std::sync::PoisonError;

#[cfg(feature = "shuttle")]
pub(crate) use model::{fence, futex_wait, futex_wake};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
    thread_local,
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use system::{futex_wait, futex_wake};
#[cfg(not(feature = "shuttle"))]
pub(crate) use {
    core::hint::spin_loop,
    core::sync::atomic::{
        AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    },
    std::sync::{Mutex, MutexGuard},
    std::thread::yield_now,
    std::thread_local,
};

/// A panic elsewhere must not stop the node from telling its peers: take the lock all the same.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(feature = "shuttle"))]
mod system {
    use core::sync::atomic::AtomicU32;
    use rustix::thread::futex::{Flags, wait, wake};

    /// Sleeps while `word` is `expected`, until [`futex_wake`] or for no reason.
    pub(crate) fn futex_wait(word: &AtomicU32, expected: u32) {
        let _ = wait(word, Flags::PRIVATE, expected, None);
    }

    /// Ends one thread's sleep.
    pub(crate) fn futex_wake(word: &AtomicU32) {
        let _ = wake(word, Flags::PRIVATE, 1);
    }
}

#[cfg(feature = "shuttle")]
mod model {
    use core::sync::atomic::Ordering;
    use shuttle::sync::atomic::AtomicU32;
    use shuttle::sync::{Condvar, Mutex, MutexGuard};
    use std::collections::BTreeMap;
    use std::sync::PoisonError;

    shuttle::lazy_static! {
        /// Wake-ups so far of each futex.
        static ref WAKES: Mutex<BTreeMap<usize, u64>> = Mutex::new(BTreeMap::new());
        static ref CHANGE: Condvar = Condvar::new();
    }

    /// Every atomic is as if `SeqCst`.
    pub(crate) fn fence(_: Ordering) {}

    fn wakes() -> MutexGuard<'static, BTreeMap<usize, u64>> {
        WAKES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(word: &AtomicU32) -> usize {
        core::ptr::from_ref(word).addr()
    }

    pub(crate) fn futex_wait(word: &AtomicU32, expected: u32) {
        let mut held = wakes();
        if word.load(Ordering::SeqCst) != expected {
            return;
        }
        let before = held.get(&name(word)).copied();
        while held.get(&name(word)).copied() == before {
            held = CHANGE.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn futex_wake(word: &AtomicU32) {
        *wakes().entry(name(word)).or_default() += 1;
        CHANGE.notify_all();
    }
}
