//! Locks, barriers, semaphores and condition variables. `new` gives them a number that nobody else has;
//! their handles are shared like any other. Any 32-bit number may be used as well, ready to use on
//! every node, as C programs do.

#![expect(unsafe_code, reason = "states which handles mean the same on every node")]

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};

use multigrain_runtime::{Error, runtime};

use crate::Result;
use crate::job::Job;
use crate::portable::Portable;

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
        pass(id, threads)
    }

    /// Takes lock `id`; dropping the guard gives it back.
    ///
    /// # Errors
    /// This thread holds it already.
    pub fn lock(&self, id: u32) -> Result<LockGuard<'_>> {
        LockGuard::take(id)
    }

    /// Semaphore `id`; its value starts at 0.
    #[must_use]
    pub fn semaphore(&self, id: u32) -> Semaphore<'_> {
        Semaphore { id, job: PhantomData }
    }

    /// Condition variable `id`.
    #[must_use]
    pub fn condvar(&self, id: u32) -> Condvar<'_> {
        Condvar { id, job: PhantomData }
    }
}

/// A number that no other lock, semaphore, condition variable or barrier of the job has.
pub(crate) fn fresh_id(job: &Job) -> Result<u32> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let nodes = u32::try_from(job.nodes()).unwrap_or(u32::MAX);
    let own = u32::try_from(job.node()).unwrap_or(u32::MAX);
    let given = GIVEN.fetch_add(1, Ordering::Relaxed);
    Ok((1 << 31) + given * nodes + own)
}

/// A lock held by this thread until dropped.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct LockGuard<'job> {
    id: u32,
    /// A lock is held by a thread: the guard stays there.
    thread: PhantomData<(*const (), &'job Job)>,
}

impl LockGuard<'_> {
    pub(crate) fn take(id: u32) -> Result<Self> {
        runtime()?.lock(id)?;
        Ok(Self { id, thread: PhantomData })
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        // Only a job that was left has forgotten that this thread holds the lock.
        let _ = runtime().and_then(|runtime| runtime.unlock(self.id));
    }
}

impl fmt::Debug for LockGuard<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LockGuard({})", self.id)
    }
}

/// Guards that hold a lock a [`Condvar`] can give back meanwhile.
pub trait Locked: sealed::Sealed {}

impl Locked for LockGuard<'_> {}

pub(crate) mod sealed {
    /// Its lock's id.
    pub trait Sealed {
        /// The id of the lock that is held.
        fn lock_id(&self) -> u32;
    }

    impl Sealed for super::LockGuard<'_> {
        fn lock_id(&self) -> u32 {
            self.id
        }
    }
}

/// A condition variable of the job.
///
/// ```
/// use multigrain::{Condvar, Job, Mutex};
///
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let queue = Mutex::new(&job, [0u64; 2])?;
/// let filled = Condvar::new(&job)?;
/// queue.lock()?[0] = 3;
/// filled.notify_all()?;
/// let mut guard = queue.lock()?;
/// while guard[0] == 0 {
///     filled.wait(&mut guard)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condvar<'job> {
    id: u32,
    job: PhantomData<&'job Job>,
}

impl<'job> Condvar<'job> {
    /// A condition variable of its own.
    ///
    /// # Errors
    /// All numbers of this node were given out.
    pub fn new(job: &'job Job) -> Result<Self> {
        Ok(job.condvar(fresh_id(job)?))
    }

    /// Gives the lock back, waits for a signal, takes the lock again.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn wait(self, guard: &mut impl Locked) -> Result<()> {
        runtime()?.condition_wait(self.id, guard.lock_id())
    }

    /// Wakes the thread that has waited longest, if one waits.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn notify_one(self) -> Result<()> {
        runtime()?.condition_signal(self.id, false)
    }

    /// Wakes all waiting threads.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn notify_all(self) -> Result<()> {
        runtime()?.condition_signal(self.id, true)
    }
}

/// A counting semaphore of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore<'job> {
    id: u32,
    job: PhantomData<&'job Job>,
}

impl<'job> Semaphore<'job> {
    /// A semaphore of its own; its value is 0.
    ///
    /// # Errors
    /// All numbers of this node were given out.
    pub fn new(job: &'job Job) -> Result<Self> {
        Ok(job.semaphore(fresh_id(job)?))
    }

    /// Adds units.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn post(self, units: u32) -> Result<()> {
        runtime()?.semaphore_post(self.id, units)
    }

    /// Waits for a unit and takes it.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn wait(self) -> Result<()> {
        runtime()?.semaphore_wait(self.id)
    }
}

/// Where so many threads of the job wait for each other.
///
/// ```
/// use multigrain::{Barrier, Job};
///
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let round = job.share("round", || Barrier::new(&job, job.nodes()))?;
/// round.wait()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier<'job> {
    id: u32,
    threads: usize,
    job: PhantomData<&'job Job>,
}

impl<'job> Barrier<'job> {
    /// A barrier of `threads` threads, wherever they run.
    ///
    /// # Errors
    /// All numbers of this node were given out.
    pub fn new(job: &'job Job, threads: usize) -> Result<Self> {
        Ok(Self { id: fresh_id(job)?, threads, job: PhantomData })
    }

    /// Waits until all have come.
    ///
    /// # Errors
    /// A barrier of no threads.
    pub fn wait(self) -> Result<()> {
        pass(self.id, self.threads)
    }
}

fn pass(id: u32, threads: usize) -> Result<()> {
    match u32::try_from(threads) {
        Err(_) | Ok(0) => Err(Error::Invalid(format!("a barrier of {threads} threads"))),
        Ok(threads) => runtime()?.barrier(id, threads),
    }
}

macro_rules! portable {
    ($($handle:ident($($field:ident),*) $words:literal;)*) => {$(
        // SAFETY: the numbers mean the same on every node.
        unsafe impl Portable for $handle<'_> {
            const WORDS: usize = $words;

            fn put(self, words: &mut [u64]) {
                ($(self.$field,)*).put(words);
            }

            unsafe fn take(words: &[u64]) -> Self {
                // SAFETY: numbers, as `put` wrote them.
                let ($($field,)*) = unsafe { Portable::take(words) };
                Self { $($field,)* job: PhantomData }
            }
        }
    )*};
}

portable! {
    Barrier(id, threads) 2;
    Condvar(id) 1;
    Semaphore(id) 1;
}
