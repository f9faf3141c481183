//! A lock of a few instructions or one call, for what no lock of the C library may be waited for in: in a child of fork, whose other
//! threads are gone, and where none may be allocated.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whoever cannot have it at once yields until it is free.
pub(crate) struct SpinLock(AtomicBool);

impl SpinLock {
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(crate) fn lock(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            // SAFETY: takes nothing.
            unsafe { libc::sched_yield() };
        }
    }

    /// Also of a child, of what a thread held that it does not have.
    pub(crate) fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce() -> T) -> T {
        self.lock();
        let result = act();
        self.unlock();
        result
    }
}
