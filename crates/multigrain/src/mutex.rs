//! A value in shared memory that only the holder of its lock can reach.

#![expect(unsafe_code, reason = "lends shared memory out under its lock")]

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use multigrain_runtime::{Policy, WaitLimit};

use crate::Result;
use crate::job::Job;
use crate::portable::Portable;
use crate::shareable::Shareable;
use crate::shared::Shared;
use crate::sync::sealed::Sealed;
use crate::sync::{LockGuard, Locked, fresh_id, had, within};

/// A value in shared memory under a lock of the job. The handle may be copied.
///
/// ```
/// use multigrain::{Job, Mutex};
///
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let totals = job.share("totals", || Mutex::new(&job, [0u64; 4]))?;
/// totals.lock()?[job.node() % 4] += 1;
/// assert_eq!(totals.lock()?[0], 1);
/// # Ok(()) }
/// ```
pub struct Mutex<'job, T> {
    id: u32,
    value: Shared<'job, T>,
}

impl<'job, T: Shareable> Mutex<'job, T> {
    /// A value under a lock of its own.
    ///
    /// # Errors
    /// No room.
    pub fn new(job: &'job Job, value: T) -> Result<Self> {
        Self::new_with(job, value, Policy::new())
    }

    /// A value under a lock of its own, where a policy wants it. As for [`Job::alloc_with`],
    /// something has to bring the first value to other nodes before they take the lock: the name that they look up, or a
    /// barrier.
    ///
    /// # Errors
    /// No room, or a grain of 0.
    pub fn new_with(job: &'job Job, value: T, policy: Policy) -> Result<Self> {
        Self::numbered(job, fresh_id(job)?, value, policy)
    }

    /// A value under lock `id`, as C programs number them. Several values may share a lock; one
    /// thread then holds one of them at a time.
    ///
    /// # Errors
    /// No room, or a grain of 0.
    pub fn numbered(job: &'job Job, id: u32, value: T, policy: Policy) -> Result<Self> {
        Ok(Self { id, value: job.alloc_with(value, policy)? })
    }

    /// Takes the lock; dropping the guard gives it back.
    ///
    /// # Errors
    /// This thread holds the lock already.
    pub fn lock(&self) -> Result<MutexGuard<'_, T>> {
        Ok(self.guard(LockGuard::take(self.id, WaitLimit::Endless)?))
    }

    /// Takes the lock if it is free; `None` if any thread holds it, this one too.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn try_lock(&self) -> Result<Option<MutexGuard<'_, T>>> {
        Ok(had(LockGuard::take(self.id, WaitLimit::None))?.map(|lock| self.guard(lock)))
    }

    /// Takes the lock, waiting for so long at most; `None` if it was held all the time.
    ///
    /// # Errors
    /// This thread holds the lock already.
    pub fn try_lock_for(&self, wait: Duration) -> Result<Option<MutexGuard<'_, T>>> {
        Ok(had(LockGuard::take(self.id, within(wait)))?.map(|lock| self.guard(lock)))
    }

    fn guard<'a>(&'a self, lock: LockGuard<'a>) -> MutexGuard<'a, T> {
        MutexGuard { lock, value: self.value, mutex: PhantomData }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No thread of any node uses this value any more, through any handle.
    ///
    /// # Errors
    /// Free already.
    pub unsafe fn free(self) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.value.free() }
    }

    pub(crate) fn value(&self) -> Shared<'job, T> {
        self.value
    }
}

// SAFETY: lock and address are all there is.
unsafe impl<T: Shareable> Portable for Mutex<'_, T> {
    const WORDS: usize = 2;

    fn put(self, words: &mut [u64]) {
        (self.id, self.value).put(words);
    }

    unsafe fn take(words: &[u64]) -> Self {
        // SAFETY: as `put` wrote them; the value is live, as the caller says.
        let (id, value) = unsafe { Portable::take(words) };
        Self { id, value }
    }
}

impl<T> Clone for Mutex<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Mutex<'_, T> {}

impl<T> fmt::Debug for Mutex<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Mutex({}, {:?})", self.id, self.value)
    }
}

/// The value of a locked [`Mutex`], until dropped.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct MutexGuard<'a, T> {
    lock: LockGuard<'a>,
    value: Shared<'a, T>,
    mutex: PhantomData<&'a mut T>,
}

impl<T: Shareable> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: live memory; it can be reached through mutexes of this lock alone, and this
        // thread is the one of all nodes' that holds it.
        unsafe { &*self.value.as_ptr() }
    }
}

impl<T: Shareable> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed mutably.
        unsafe { &mut *self.value.as_ptr() }
    }
}

impl<T> Locked for MutexGuard<'_, T> {}

impl<T> Sealed for MutexGuard<'_, T> {
    fn lock_id(&self) -> u32 {
        self.lock.lock_id()
    }
}

impl<T: Shareable + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "MutexGuard({:?}, {:?})", self.lock, **self)
    }
}
