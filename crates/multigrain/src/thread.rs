//! Threads on chosen nodes.

#![expect(unsafe_code, reason = "a function without captures is made from its type")]

use core::ptr::NonNull;

use multigrain_runtime::{ThreadHandle, runtime};

use crate::Result;
use crate::job::Job;

/// Where a thread is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The node of this rank.
    Node(usize),
    /// The nodes in turn.
    AnyNode,
}

impl Job {
    /// Starts `function(job, argument)` in a new thread on a node. The function is one of the
    /// program, or a closure that captures nothing; the argument is a number, perhaps an address
    /// in shared memory. A panic of the thread ends its node, and the job.
    ///
    /// ```
    /// use multigrain::{Job, On};
    ///
    /// # fn main() -> multigrain::Result<()> {
    /// let job = Job::join()?;
    /// let square = |_: &Job, number: u64| number * number;
    /// let threads: Vec<_> =
    ///     (0..4).map(|i| job.spawn(On::AnyNode, square, i)).collect::<Result<_, _>>()?;
    /// let sum = threads.into_iter().map(|thread| thread.join()).sum::<Result<u64, _>>()?;
    /// assert_eq!(sum, 14);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No such node, or one that can start no more threads: 4,096 run there, or 65,536 have ended
    /// that nobody has joined or detached.
    pub fn spawn<F>(&self, on: On, function: F, argument: u64) -> Result<Thread>
    where
        F: Fn(&Job, u64) -> u64 + Copy + Send + Sync + 'static,
    {
        const { assert!(size_of::<F>() == 0, "what a closure captures stays on this node") };
        let _ = function;
        let node = match on {
            On::Node(rank) => i64::try_from(rank).unwrap_or(i64::MAX),
            On::AnyNode => self.runtime().any_node(),
        };
        self.runtime().thread_create(node, enter::<F>, argument).map(|handle| Thread { handle })
    }
}

/// The new thread's first function; the same on every node, since all run the same program.
extern "C" fn enter<F: Fn(&Job, u64) -> u64>(argument: u64) -> u64 {
    let job = Job::current().expect("threads start between joining and leaving");
    // SAFETY: `spawn` had a value of `F`, which is Copy and has no bytes: this is a copy of it.
    let function = unsafe { NonNull::<F>::dangling().as_ref() };
    function(&job, argument)
}

/// A thread somewhere in the job.
#[derive(Debug)]
#[must_use = "join it, or detach it: what it returns is kept until then"]
pub struct Thread {
    handle: ThreadHandle,
}

impl Thread {
    /// Waits for its end; returns its result.
    ///
    /// # Errors
    /// After the job was left.
    pub fn join(self) -> Result<u64> {
        runtime()?.thread_join(self.handle)
    }

    /// Lets the thread go: its node forgets its result when it ends. A result that is neither
    /// joined nor let go is kept for the job's life.
    ///
    /// # Errors
    /// After the job was left.
    pub fn detach(self) -> Result<()> {
        runtime()?.thread_detach(self.handle)
    }
}
