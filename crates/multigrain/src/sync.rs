//! Locks, barriers, semaphores and condition variables. Ids are any 32-bit numbers, ready to use
//! on every node.

use core::fmt;
use core::marker::PhantomData;

use multigrain_runtime::{Error, runtime};

use crate::Result;
use crate::job::Job;

impl Job {
    /// Waits until all threads of the job have come: [`Job::threads`] on each node.
    ///
    /// # Errors
    /// Threads that disagree about the number.
    pub fn barrier(&self, id: u32) -> Result<()> {
        self.runtime().barrier(id, 0)
    }

    /// Waits until `threads` threads of the job have come, wherever they run.
    ///
    /// # Errors
    /// No threads, or threads that disagree about the number.
    pub fn barrier_of(&self, id: u32, threads: usize) -> Result<()> {
        match u32::try_from(threads) {
            Err(_) | Ok(0) => Err(Error::Invalid(format!("a barrier of {threads} threads"))),
            Ok(threads) => self.runtime().barrier(id, threads),
        }
    }

    /// Takes lock `id`; dropping the guard gives it back.
    ///
    /// # Errors
    /// This thread holds it already.
    pub fn lock(&self, id: u32) -> Result<LockGuard> {
        LockGuard::take(id)
    }

    /// Semaphore `id`; its value starts at 0.
    #[must_use]
    pub fn semaphore(&self, id: u32) -> Semaphore {
        Semaphore { id }
    }

    /// Condition variable `id`.
    #[must_use]
    pub fn condvar(&self, id: u32) -> Condvar {
        Condvar { id }
    }
}

/// A lock held by this thread until dropped.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct LockGuard {
    id: u32,
    /// A lock is held by a thread: the guard stays there.
    thread: PhantomData<*const ()>,
}

impl LockGuard {
    pub(crate) fn take(id: u32) -> Result<Self> {
        runtime()?.lock(id)?;
        Ok(Self { id, thread: PhantomData })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // Only a job that was left has forgotten that this thread holds the lock.
        let _ = runtime().and_then(|runtime| runtime.unlock(self.id));
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LockGuard({})", self.id)
    }
}

/// Guards that hold a lock a [`Condvar`] can give back meanwhile.
pub trait Locked: sealed::Sealed {}

impl Locked for LockGuard {}

pub(crate) mod sealed {
    /// Its lock's id.
    pub trait Sealed {
        /// The id of the lock that is held.
        fn lock_id(&self) -> u32;
    }

    impl Sealed for super::LockGuard {
        fn lock_id(&self) -> u32 {
            self.id
        }
    }
}

/// A condition variable of the job.
///
/// ```
/// # fn main() -> multigrain::Result<()> {
/// let job = multigrain::Job::join()?;
/// let queue = job.mutex(1, [0u64; 2])?;
/// let filled = job.condvar(1);
/// queue.lock()?[0] = 3;
/// filled.notify_all()?;
/// let mut guard = queue.lock()?;
/// while guard[0] == 0 {
///     filled.wait(&mut guard)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condvar {
    id: u32,
}

impl Condvar {
    /// Gives the lock back, waits for a signal, takes the lock again.
    ///
    /// # Errors
    /// After the job was left.
    pub fn wait(self, guard: &mut impl Locked) -> Result<()> {
        runtime()?.condition_wait(self.id, guard.lock_id())
    }

    /// Wakes the thread that has waited longest, if one waits.
    ///
    /// # Errors
    /// After the job was left.
    pub fn notify_one(self) -> Result<()> {
        runtime()?.condition_signal(self.id, false)
    }

    /// Wakes all waiting threads.
    ///
    /// # Errors
    /// After the job was left.
    pub fn notify_all(self) -> Result<()> {
        runtime()?.condition_signal(self.id, true)
    }
}

/// A counting semaphore of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore {
    id: u32,
}

impl Semaphore {
    /// Adds units.
    ///
    /// # Errors
    /// After the job was left.
    pub fn post(self, units: u32) -> Result<()> {
        runtime()?.semaphore_post(self.id, units)
    }

    /// Waits for a unit and takes it.
    ///
    /// # Errors
    /// After the job was left.
    pub fn wait(self) -> Result<()> {
        runtime()?.semaphore_wait(self.id)
    }
}
