//! One value in shared memory.

#![expect(unsafe_code, reason = "shared memory is reached by pointer")]

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic;

use multigrain_runtime::runtime;

use crate::Result;
use crate::atomic_copy;
use crate::job::Job;
use crate::pointer::pointer_of;
use crate::portable::Portable;
use crate::shareable::{Atomic, Shareable};

/// A value in shared memory, a minipage of its own if it comes from [`Job::alloc`] in a sequential
/// job.
///
/// The handle is an address: copies of it, on any node, mean the same value. None outlives the job.
///
/// ```
/// # fn main() -> multigrain::Result<()> {
/// let job = multigrain::Job::join()?;
/// let best = job.alloc(f64::INFINITY)?;
/// best.set(12.5);
/// assert_eq!(best.get(), 12.5);
/// # Ok(()) }
/// ```
///
/// [`Job::alloc`]: crate::Job::alloc
pub struct Shared<'job, T> {
    place: NonNull<T>,
    job: PhantomData<&'job Job>,
}

/// A 32-bit counter in shared memory.
pub type SharedAtomicU32<'job> = Shared<'job, atomic::AtomicU32>;
/// A 64-bit counter in shared memory.
pub type SharedAtomicU64<'job> = Shared<'job, atomic::AtomicU64>;
/// A signed 32-bit counter in shared memory.
pub type SharedAtomicI32<'job> = Shared<'job, atomic::AtomicI32>;
/// A signed 64-bit counter in shared memory.
pub type SharedAtomicI64<'job> = Shared<'job, atomic::AtomicI64>;
/// A word-sized counter in shared memory.
pub type SharedAtomicUsize<'job> = Shared<'job, atomic::AtomicUsize>;

impl<'job, T: Shareable> Shared<'job, T> {
    /// The value at an address that came from [`Shared::as_ptr`], perhaps on another node.
    ///
    /// # Safety
    /// `place` is live shared memory of a `T`, aligned, and under no [`Mutex`](crate::Mutex).
    #[must_use]
    pub unsafe fn from_ptr(_: &'job Job, place: NonNull<T>) -> Self {
        // SAFETY: the caller's promise; the job is borrowed.
        unsafe { Self::new(place) }
    }

    /// # Safety
    /// As [`Shared::from_ptr`], for as long as the job that the lifetime borrows.
    pub(crate) unsafe fn new(place: NonNull<T>) -> Self {
        Self { place, job: PhantomData }
    }

    /// The address, the same on every node. What it points to may change at any time.
    #[must_use]
    pub fn as_ptr(self) -> *mut T {
        self.place.as_ptr()
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No thread of any node uses this value any more, through any handle.
    ///
    /// # Errors
    /// Not the start of an allocation, or free already.
    pub unsafe fn free(self) -> Result<()> {
        runtime()?.free(self.place.addr().get())
    }
}

impl<T: Shareable + Copy> Shared<'_, T> {
    /// A copy of the value as it is now.
    #[inline]
    #[must_use]
    pub fn get(self) -> T {
        // SAFETY: the handle is live shared memory of a `T`: who makes or frees handles says so.
        unsafe { atomic_copy::load(self.place.as_ptr()) }
    }

    /// Replaces the value.
    #[inline]
    pub fn set(self, value: T) {
        // SAFETY: the handle is live shared memory of a `T`: who makes or frees handles says so.
        unsafe { atomic_copy::store(self.place.as_ptr(), value) };
    }
}

impl<A: Atomic> Deref for Shared<'_, A> {
    type Target = A;

    fn deref(&self) -> &A {
        // SAFETY: live shared memory of an `A`, which processes may share by reference.
        unsafe { self.place.as_ref() }
    }
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

impl<T> PartialEq for Shared<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<T> Eq for Shared<'_, T> {}

impl<T> fmt::Debug for Shared<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Shared({:p})", self.place)
    }
}

// SAFETY: the value is only copied word by word or reached as an atomic, from any thread.
unsafe impl<T: Shareable> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Shared<'_, T> {}

// SAFETY: the address is all there is.
unsafe impl<T: Shareable> Portable for Shared<'_, T> {
    const WORDS: usize = 1;

    fn put(self, words: &mut [u64]) {
        words[0] = self.place.addr().get() as u64;
    }

    unsafe fn take(words: &[u64]) -> Self {
        // SAFETY: the address of a handle of this type, live as the caller says.
        unsafe { Self::new(pointer_of(words[0])) }
    }
}
