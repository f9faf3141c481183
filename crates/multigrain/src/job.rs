//! Joining and leaving a job; this node's place in it.

use core::fmt;
use core::mem::ManuallyDrop;
use std::io::Write;
use std::process::ExitCode;
use std::thread;

use multigrain_runtime::{Entered, Error, Runtime, Stats, runtime};

use crate::Result;

/// A joined job. Dropping it waits for all nodes and leaves; [`run`] and [`Job::leave`] do the
/// same and say whether it worked.
///
/// A node that fails must not wait for the others, which may be waiting for it: return the error
/// from [`run`], or exit the process. A panic ends the node without waiting.
pub struct Job {
    runtime: &'static Runtime,
}

/// The name under which the first node of a program says where its code lies, with that node's rank.
const CODE: &str = "\0code";

/// Joins the job, runs `body` and leaves; what a program's `main` returns.
///
/// If `body` fails the error is printed and the node exits with code 1 without waiting: the
/// launcher then ends the others.
///
/// ```
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     multigrain::run(|job| {
///         job.barrier(0)?;
///         println!("node {} of {}", job.node(), job.nodes());
///         Ok::<(), multigrain::Error>(())
///     })
/// }
/// ```
pub fn run<E: fmt::Display + From<Error>>(
    body: impl FnOnce(&Job) -> core::result::Result<(), E>,
) -> ExitCode {
    let joined = Job::join();
    if joined.as_ref().is_err_and(Runtime::tell_of) {
        return ExitCode::FAILURE;
    }
    let ended = joined.map_err(E::from).and_then(|job| {
        let job = ManuallyDrop::new(job);
        body(&job)?;
        ManuallyDrop::into_inner(job).leave().map_err(E::from)
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One write: in pieces, a kill in between would cut the line.
            let _ = std::io::stderr().write_all(format!("{error}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

impl Job {
    /// Joins the job that `multigrain run` started; without the launcher, a job of one node. Once
    /// in a process, while no other thread uses the environment: where the job's secret is found leaves it, so a
    /// program that a node starts cannot join in its turn.
    ///
    /// # Errors
    /// Joined before; a system that lacks what is needed; peers that do not come.
    pub fn join() -> Result<Self> {
        let job = ManuallyDrop::new(Self { runtime: Runtime::join()? });
        job.compare_code()?;
        Ok(ManuallyDrop::into_inner(job))
    }

    /// The job this process has joined, for threads that [`Job::spawn`] starts.
    pub(crate) fn current() -> Result<ManuallyDrop<Self>> {
        Ok(ManuallyDrop::new(Self { runtime: *runtime()? }))
    }

    /// Threads are started by the address of their function: it must be the same on every node.
    fn compare_code(&self) -> Result<()> {
        let ranks = self.runtime.ranks_of_program();
        if ranks.len() == 1 {
            return Ok(());
        }
        let name = format!("{CODE} {}", ranks.start);
        let here = (Self::join as fn() -> Result<Self> as *const ()).addr();
        if self.node() == usize::from(ranks.start) {
            return self.runtime().publish(name.as_bytes(), here);
        }
        if self.runtime().lookup(name.as_bytes())? == here {
            return Ok(());
        }
        Err(Error::System(
            "this program's code is not where its first node has it: start all its nodes with the same binary \
             through `multigrain run`, and allow it to turn address randomization off"
                .into(),
        ))
    }

    /// Waits for all nodes, then leaves. No handle is left then: they borrow the job.
    ///
    /// # Errors
    /// This node is leaving already.
    pub fn leave(self) -> Result<()> {
        ManuallyDrop::new(self).runtime().leave()
    }

    /// This node's rank, from 0.
    #[must_use]
    pub fn node(&self) -> usize {
        self.runtime.rank().index()
    }

    /// Nodes in the job.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.runtime.node_count().into()
    }

    /// Threads each node is meant to run (`multigrain run -t`), at least 1.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.runtime.threads_per_node() as usize
    }

    /// This node's counters since it joined; `multigrain.h` says what each counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.runtime().stats()
    }

    /// Shows `done` of `total` steps in the launcher's progress line; cheap, may be called often.
    pub fn progress(&self, done: u64, total: u64) {
        self.runtime().progress(done, total);
    }

    /// For one call.
    pub(crate) fn runtime(&self) -> Entered {
        self.runtime.enter()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !thread::panicking() {
            // Only a node that is leaving already is refused, and it is on its way.
            let _ = self.runtime().leave();
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Job(node {} of {})", self.node(), self.nodes())
    }
}
