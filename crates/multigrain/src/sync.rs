//! Locks, barriers, semaphores, condition variables and what runs once. `new` gives them a number that nobody else has;
//! their handles are shared like any other. Any 32-bit number may be used as well, ready to use on
//! every node, as C programs do.

#![expect(unsafe_code, reason = "states which handles mean the same on every node")]

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use multigrain_runtime::{Deadline, Error, WaitLimit, runtime};

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
        LockGuard::take(id, WaitLimit::Endless)
    }

    /// Takes lock `id` if it is free; `None` if any thread holds it, this one too.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn try_lock(&self, id: u32) -> Result<Option<LockGuard<'_>>> {
        had(LockGuard::take(id, WaitLimit::None))
    }

    /// Takes lock `id`, waiting for so long at most; `None` if it was held all the time.
    ///
    /// # Errors
    /// This thread holds it already.
    pub fn try_lock_for(&self, id: u32, wait: Duration) -> Result<Option<LockGuard<'_>>> {
        had(LockGuard::take(id, within(wait)))
    }

    /// Calls `run` once in the whole job, in the first thread that comes with this id; returns when it has
    /// run.
    ///
    /// # Errors
    /// A call inside of `run`.
    pub fn call_once(&self, id: u32, run: impl FnOnce()) -> Result<()> {
        runtime()?.once(id, run)
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

/// None for what others have, or did not come in time.
pub(crate) fn had<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Busy(_) | Error::TimedOut(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Until so much later than now.
pub(crate) fn within(wait: Duration) -> WaitLimit {
    WaitLimit::Until(Deadline::after(wait))
}

/// A number that no other lock, semaphore, condition variable or barrier of the job has.
pub(crate) fn fresh_id(job: &Job) -> Result<u32> {
    job.runtime().new_id()
}

/// A lock held by this thread until dropped.
#[must_use = "the lock is given back when the guard is dropped"]
pub struct LockGuard<'job> {
    id: u32,
    /// A lock is held by a thread: the guard stays there.
    thread: PhantomData<(*const (), &'job Job)>,
}

impl LockGuard<'_> {
    pub(crate) fn take(id: u32, limit: WaitLimit) -> Result<Self> {
        runtime()?.lock_with(id, limit)?;
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

    /// The same, for so long at most: whether a signal came. The lock is held again in any case.
    ///
    /// # Errors
    /// As for [`Condvar::wait`].
    pub fn wait_for(self, guard: &mut impl Locked, wait: Duration) -> Result<bool> {
        let deadline = Deadline::after(wait);
        let waited = runtime()?.condition_wait_until(self.id, guard.lock_id(), deadline);
        Ok(had(waited)?.is_some())
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

    /// Adds units. Not in a signal's handler, which can have interrupted the program's allocator, and this needs that:
    /// [`Semaphore::post_from_handler`] is for handlers.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn post(self, units: u32) -> Result<()> {
        runtime()?.semaphore_post(self.id, units)
    }

    /// The same in a signal's handler, whatever that has interrupted: a thread of the library adds the units, soon. It is the one
    /// call of this crate for handlers.
    ///
    /// # Errors
    /// 1,024 such posts wait.
    pub fn post_from_handler(self, units: u32) -> Result<()> {
        runtime()?.semaphore_post_later(self.id, units)
    }

    /// Waits for a unit and takes it.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn wait(self) -> Result<()> {
        runtime()?.semaphore_wait(self.id)
    }

    /// Takes a unit if there is one: whether there was. One that was just posted elsewhere may be on its
    /// way still.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn try_wait(self) -> Result<bool> {
        Ok(had(runtime()?.semaphore_wait_with(self.id, WaitLimit::None))?.is_some())
    }

    /// Waits for a unit for so long at most, and takes it: whether there was one.
    ///
    /// # Errors
    /// More threads or ids in use than a node may have.
    pub fn wait_for(self, wait: Duration) -> Result<bool> {
        Ok(had(runtime()?.semaphore_wait_with(self.id, within(wait)))?.is_some())
    }
}

/// What runs once in the whole job.
///
/// ```
/// use multigrain::{Job, Once};
///
/// # fn main() -> multigrain::Result<()> {
/// let job = Job::join()?;
/// let begun = job.share("begun", || Once::new(&job))?;
/// let table = job.share("table", || job.alloc(0u64))?;
/// begun.call_once(|| table.set(7))?;
/// assert_eq!(table.get(), 7);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once<'job> {
    id: u32,
    job: PhantomData<&'job Job>,
}

impl<'job> Once<'job> {
    /// One of its own.
    ///
    /// # Errors
    /// All numbers of this node were given out.
    pub fn new(job: &'job Job) -> Result<Self> {
        Ok(Self { id: fresh_id(job)?, job: PhantomData })
    }

    /// Calls `run` in the first thread that comes; all calls return after it has run, and see what it wrote
    /// to shared memory. If it panics, it has not run, and the next that comes runs its own.
    ///
    /// # Errors
    /// A call inside of `run`.
    pub fn call_once(self, run: impl FnOnce()) -> Result<()> {
        runtime()?.once(self.id, run)
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
    Once(id) 1;
    Semaphore(id) 1;
}
