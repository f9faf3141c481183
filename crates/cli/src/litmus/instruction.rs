//! Single instructions on shared memory, in program order.
//!
//! A litmus test is about instructions, so each function here is one: a relaxed load or store of
//! 8 aligned bytes is a plain `mov` on x86-64, the others are `mfence` and the `lock`ed
//! instructions. The compiler may reorder relaxed accesses of different places, which would test
//! the compiler; a compiler fence behind each access, which emits nothing, keeps them in order.
//! Assembly would do the same for one architecture only.
#![expect(unsafe_code, reason = "shared memory is reached by pointer")]

use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// On x86-64 plain `mov`s. Elsewhere instructions that are stronger than TSO, so that the verdicts
/// hold there too, though less is tested.
const PLAIN: Ordering =
    if cfg!(target_arch = "x86_64") { Ordering::Relaxed } else { Ordering::SeqCst };

/// A word of shared memory that stays allocated as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word(&'static AtomicU64);

impl Word {
    /// The word at an address of live shared memory, aligned to 8 bytes.
    ///
    /// # Safety
    ///
    /// The memory is never given back.
    pub(super) unsafe fn at(address: usize) -> Self {
        let place = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: aligned and live for ever, says the caller; every access of it is atomic.
        Self(unsafe { AtomicU64::from_ptr(place) })
    }

    /// A word of a test's own memory.
    #[cfg(test)]
    pub(super) fn of(place: &'static AtomicU64) -> Self {
        Self(place)
    }

    /// Its address, the same on every node.
    pub(super) fn address(self) -> usize {
        self.0.as_ptr().addr()
    }

    #[inline(always)]
    pub(super) fn store(self, value: u64) {
        self.0.store(value, PLAIN);
        compiler_fence(Ordering::SeqCst);
    }

    #[inline(always)]
    pub(super) fn load(self) -> u64 {
        let value = self.0.load(PLAIN);
        compiler_fence(Ordering::SeqCst);
        value
    }

    /// `lock xadd`: what was there before.
    #[inline(always)]
    pub(super) fn add(self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::SeqCst)
    }

    /// `xchg`: what was there before.
    #[inline(always)]
    pub(super) fn swap(self, value: u64) -> u64 {
        self.0.swap(value, Ordering::SeqCst)
    }

    /// `lock cmpxchg`: what was there before; it is replaced if it was `old`.
    #[inline(always)]
    pub(super) fn compare_exchange(self, old: u64, new: u64) -> u64 {
        let order = Ordering::SeqCst;
        self.0.compare_exchange(old, new, order, order).unwrap_or_else(|found| found)
    }
}

/// `mfence`, or what serves as one.
#[inline(always)]
pub(super) fn mfence() {
    fence(Ordering::SeqCst);
}
