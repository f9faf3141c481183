//! Threads on chosen nodes.

#![expect(unsafe_code, reason = "a function without captures is made from its type")]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use multigrain_runtime::{ThreadHandle, runtime};

use crate::Result;
use crate::job::Job;
use crate::portable::{Portable, discard, pack, unpack};

/// Exit code of a Rust program whose main thread panicked.
const PANICKED: i32 = 101;

/// Where a thread is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The node of this rank.
    Node(usize),
    /// The nodes in turn.
    AnyNode,
}

impl Job {
    /// Starts threads, and waits for the end of them all: so they may be handed what lives as long
    /// as this job, such as handles of shared memory.
    ///
    /// ```
    /// use multigrain::{Grain, Job, On, Result, SharedSlice};
    ///
    /// fn sum(_: &Job, part: SharedSlice<'_, u64>) -> u64 {
    ///     part.values().sum()
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let job = Job::join()?;
    /// let numbers = job.alloc_slice::<u64>(1000, Grain::Auto)?;
    /// numbers.fill(3);
    /// let total = job.scope(|scope| {
    ///     let parts = numbers.chunks(250);
    ///     let threads: Vec<_> =
    ///         parts.map(|part| scope.spawn(On::AnyNode, sum, part)).collect::<Result<_>>()?;
    ///     threads.into_iter().map(|thread| thread.join()).sum::<Result<u64>>()
    /// })?;
    /// assert_eq!(total, 3000);
    /// # Ok(()) }
    /// ```
    ///
    /// If `body` panics this node ends, for the threads may be waiting for it.
    ///
    /// # Errors
    /// The one of `body`, which is given back when the threads it started have ended.
    pub fn scope<'scope, R>(
        &'scope self,
        body: impl FnOnce(&Scope<'scope>) -> Result<R>,
    ) -> Result<R> {
        let scope = Scope { job: self, unjoined: RefCell::default() };
        let result = body(&scope);
        let ended = scope.join_all();
        result.and_then(|value| ended.map(|()| value))
    }

    /// Starts `function(job, argument)` in a new thread on a node. The function is one of the
    /// program, or a closure that captures nothing; the argument lives on its own, as numbers do:
    /// [`Job::scope`] takes handles as well. A panic of the thread ends its node, and the job.
    ///
    /// ```
    /// use multigrain::{Job, On};
    ///
    /// # fn main() -> multigrain::Result<()> {
    /// let job = Job::join()?;
    /// let power = |_: &Job, (base, exponent): (u64, u32)| base.pow(exponent);
    /// let threads: Vec<_> =
    ///     (0..4).map(|i| job.spawn(On::AnyNode, power, (i, 2))).collect::<Result<_, _>>()?;
    /// let sum = threads.into_iter().map(|thread| thread.join()).sum::<Result<u64, _>>()?;
    /// assert_eq!(sum, 14);
    /// # Ok(()) }
    /// ```
    ///
    /// Handles are lent, so that no thread has them after the job was left:
    ///
    /// ```compile_fail,E0597
    /// # use multigrain::{Job, On, Shared};
    /// # fn main() -> multigrain::Result<()> {
    /// let job = Job::join()?;
    /// let counter = job.alloc(1u64)?;
    /// let _thread = job.spawn(On::AnyNode, |_: &Job, it: Shared<'_, u64>| it.get(), counter)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such node, or one that can start no more threads: 4,096 run there, or 65,536 have ended
    /// that nobody has joined or detached.
    pub fn spawn<F, A, R>(&self, on: On, function: F, argument: A) -> Result<Thread<'_, R>>
    where
        F: Fn(&Job, A) -> R + Copy + Send + Sync + 'static,
        A: Portable + 'static,
        R: Portable + 'static,
    {
        start(self, on, function, argument)
    }
}

/// Where threads are started that end before [`Job::scope`] returns.
pub struct Scope<'scope> {
    job: &'scope Job,
    unjoined: RefCell<Vec<Unjoined>>,
}

/// A thread that was not joined yet, and what gives its result back that nobody wants.
struct Unjoined {
    handle: ThreadHandle,
    discard: fn(u64) -> Result<()>,
}

impl<'scope> Scope<'scope> {
    /// Starts `function(job, argument)` in a new thread on a node. The function is one of the
    /// program, or a closure that captures nothing. A panic of the thread ends its node, and the job.
    ///
    /// # Errors
    /// As [`Job::spawn`].
    pub fn spawn<F, A, R>(
        &self,
        on: On,
        function: F,
        argument: A,
    ) -> Result<ScopedThread<'_, 'scope, R>>
    where
        F: Fn(&Job, A) -> R + Copy + Send + Sync + 'static,
        A: Portable + 'scope,
        R: Portable + 'scope,
    {
        let thread = start(self.job, on, function, argument)?;
        self.unjoined.borrow_mut().push(Unjoined { handle: thread.handle, discard: discard::<R> });
        Ok(ScopedThread { scope: self, thread })
    }

    fn join_all(&self) -> Result<()> {
        let mut ended = Ok(());
        for Unjoined { handle, discard } in self.unjoined.take() {
            let own = runtime().and_then(|runtime| runtime.thread_join(handle)).and_then(discard);
            ended = ended.and(own);
        }
        ended
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(PANICKED);
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Scope({} threads to join)", self.unjoined.borrow().len())
    }
}

/// A thread of a [`Scope`]; if it is not joined, the scope joins it.
#[derive(Debug)]
pub struct ScopedThread<'a, 'scope, R> {
    scope: &'a Scope<'scope>,
    thread: Thread<'scope, R>,
}

impl<R: Portable> ScopedThread<'_, '_, R> {
    /// Waits for its end; returns its result.
    ///
    /// # Errors
    /// More threads in use than a node may have.
    pub fn join(self) -> Result<R> {
        self.scope.unjoined.borrow_mut().retain(|other| other.handle != self.thread.handle);
        self.thread.join()
    }
}

fn start<'job, F, A, R>(job: &'job Job, on: On, function: F, argument: A) -> Result<Thread<'job, R>>
where
    F: Fn(&Job, A) -> R + Copy + Send + Sync + 'static,
    A: Portable,
    R: Portable,
{
    const { assert!(size_of::<F>() == 0, "what a closure captures stays on this node") };
    let _ = function;
    let node = match on {
        On::Node(rank) => i64::try_from(rank).unwrap_or(i64::MAX),
        On::AnyNode => job.runtime().any_node(),
    };
    let packed = pack(argument)?;
    let handle = job.runtime().thread_create(node, enter::<F, A, R>, packed).inspect_err(|_| {
        // The error is why there is no thread; that memory is lost with it is not.
        let _ = discard::<A>(packed);
    })?;
    Ok(Thread { handle, job: PhantomData, result: PhantomData })
}

/// The new thread's first function; the same on every node, since all run the same program.
extern "C" fn enter<F: Fn(&Job, A) -> R, A: Portable, R: Portable>(argument: u64) -> u64 {
    let job = Job::current().expect("threads start between joining and leaving");
    // SAFETY: `start` had a value of `F`, which is Copy and has no bytes: this is a copy of it.
    let function = unsafe { NonNull::<F>::dangling().as_ref() };
    // SAFETY: `start` packed it. Who started this thread has the job borrowed until it ended, or
    // handed on nothing that borrows it.
    let argument = unsafe { unpack(argument) }.expect("a thread's argument is live");
    // Its message is said by then; what called this is C, which no panic goes through.
    let result = catch_unwind(AssertUnwindSafe(|| pack(function(&job, argument))));
    let Ok(packed) = result else { std::process::exit(PANICKED) };
    packed.expect("a thread's result finds room")
}

/// A thread somewhere in the job, which returns an `R`.
#[must_use = "join it, or detach it: what it returns is kept until then"]
pub struct Thread<'job, R> {
    handle: ThreadHandle,
    job: PhantomData<&'job Job>,
    result: PhantomData<fn() -> R>,
}

impl<R: Portable> Thread<'_, R> {
    /// Waits for its end; returns its result.
    ///
    /// # Errors
    /// More threads in use than a node may have.
    pub fn join(self) -> Result<R> {
        let packed = runtime()?.thread_join(self.handle)?;
        // SAFETY: `enter` packed it, a thread is joined once, and the job is borrowed.
        unsafe { unpack(packed) }
    }

    /// Lets the thread go: its node forgets its result when it ends, which must be no more than a
    /// word. A thread that still runs when its node leaves the job must not use it any more.
    ///
    /// # Errors
    /// More threads in use than a node may have.
    pub fn detach(self) -> Result<()> {
        const { assert!(R::WORDS <= 1, "a result of several words would stay in shared memory") };
        runtime()?.thread_detach(self.handle)
    }
}

impl<R> fmt::Debug for Thread<'_, R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Thread({:#x})", self.handle.0)
    }
}
