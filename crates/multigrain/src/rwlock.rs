//! A value in shared memory that many may read or one may change.

#![expect(unsafe_code, reason = "lends shared memory out under its lock")]

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use multigrain_protocol::Kind;
use multigrain_runtime::{Policy, runtime};

use crate::Result;
use crate::job::Job;
use crate::portable::Portable;
use crate::shareable::Shareable;
use crate::shared::Shared;
use crate::sync::{fresh_id, had};

/// A value in shared memory under a read-write lock of the job, first come first served. The handle may be
/// copied.
///
/// ```
/// use multigrain::{Job, RwLock};
///
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let table = job.share("table", || RwLock::new(&job, [0u64; 100]))?;
/// table.write()?[7] = 49;
/// assert_eq!(table.read()?[7], 49);
/// # Ok(()) }
/// ```
pub struct RwLock<'job, T> {
    id: u32,
    value: Shared<'job, T>,
}

impl<'job, T: Shareable> RwLock<'job, T> {
    /// A value under a lock of its own.
    ///
    /// # Errors
    /// No room.
    pub fn new(job: &'job Job, value: T) -> Result<Self> {
        Self::numbered(job, fresh_id(job)?, value, Policy::new())
    }

    /// A value under read-write lock `id`, as C programs number them, where a policy wants it. As for
    /// [`Job::alloc_with`], something has to bring the first value to other nodes.
    ///
    /// # Errors
    /// No room, or a grain of 0.
    pub fn numbered(job: &'job Job, id: u32, value: T, policy: Policy) -> Result<Self> {
        Ok(Self { id, value: job.alloc_with(value, policy)? })
    }

    /// Waits until this thread may read; dropping the guard gives that back. A thread that reads already
    /// may read once more at once.
    ///
    /// # Errors
    /// This thread writes; more threads or ids in use than a node may have.
    pub fn read(&self) -> Result<RwLockReadGuard<'_, T>> {
        let lock = Held::take(self.id, Kind::Read, false)?;
        Ok(RwLockReadGuard { lock, value: self.value })
    }

    /// Waits until this thread alone has the value; dropping the guard gives it back.
    ///
    /// # Errors
    /// This thread reads or writes already; more threads or ids in use than a node may have.
    pub fn write(&self) -> Result<RwLockWriteGuard<'_, T>> {
        let lock = Held::take(self.id, Kind::Write, false)?;
        Ok(RwLockWriteGuard { lock, value: self.value, only: PhantomData })
    }

    /// [`RwLock::read`] without waiting; `None` if others write, or came before.
    ///
    /// # Errors
    /// As for [`RwLock::read`].
    pub fn try_read(&self) -> Result<Option<RwLockReadGuard<'_, T>>> {
        let lock = had(Held::take(self.id, Kind::Read, true))?;
        Ok(lock.map(|lock| RwLockReadGuard { lock, value: self.value }))
    }

    /// [`RwLock::write`] without waiting; `None` if others have it.
    ///
    /// # Errors
    /// As for [`RwLock::write`].
    pub fn try_write(&self) -> Result<Option<RwLockWriteGuard<'_, T>>> {
        let lock = had(Held::take(self.id, Kind::Write, true))?;
        Ok(lock.map(|lock| RwLockWriteGuard { lock, value: self.value, only: PhantomData }))
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
}

// SAFETY: lock and address are all there is.
unsafe impl<T: Shareable> Portable for RwLock<'_, T> {
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

impl<T> Clone for RwLock<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RwLock<'_, T> {}

impl<T> fmt::Debug for RwLock<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RwLock({}, {:?})", self.id, self.value)
    }
}

/// A read-write lock that this thread has, until dropped.
struct Held<'a> {
    id: u32,
    /// A lock is held by a thread: the guard stays there.
    thread: PhantomData<(*const (), &'a ())>,
}

impl Held<'_> {
    fn take(id: u32, kind: Kind, tries: bool) -> Result<Self> {
        runtime()?.read_write_lock(id, kind, tries)?;
        Ok(Self { id, thread: PhantomData })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Only a job that was left has forgotten that this thread has the lock.
        let _ = runtime().and_then(|runtime| runtime.read_write_unlock(self.id));
    }
}

/// The value of a [`RwLock`] that this thread may read, until dropped.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct RwLockReadGuard<'a, T> {
    lock: Held<'a>,
    value: Shared<'a, T>,
}

/// The value of a [`RwLock`] that this thread alone has, until dropped.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T> {
    lock: Held<'a>,
    value: Shared<'a, T>,
    only: PhantomData<&'a mut T>,
}

impl<T: Shareable> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: live memory; it can be reached through locks of this id alone, and no thread of any
        // node has it to write as long as this guard lives.
        unsafe { &*self.value.as_ptr() }
    }
}

impl<T: Shareable> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: live memory; it can be reached through locks of this id alone, and this thread is the
        // only one of all nodes' that has it.
        unsafe { &*self.value.as_ptr() }
    }
}

impl<T: Shareable> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed mutably.
        unsafe { &mut *self.value.as_ptr() }
    }
}

impl<T: Shareable + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RwLockReadGuard({}, {:?})", self.lock.id, **self)
    }
}

impl<T: Shareable + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RwLockWriteGuard({}, {:?})", self.lock.id, **self)
    }
}
