//! Many processes, one memory, shared at the grain you choose.
//!
//! A program runs as N *nodes* (`multigrain run -n N ./program`), or by itself as a job of one
//! node. Memory from [`Job::alloc`] and its family lies at the same address on every node and is
//! kept coherent, sequentially consistent, one *minipage* at a time.
//!
//! ```
//! use multigrain::{Job, Result, SharedAtomicU64};
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! fn main() -> Result<()> {
//!     let job = Job::join()?;
//!     // Node 0 makes the counter, the others find it under its name.
//!     let counter: SharedAtomicU64 = job.share("hits", || job.alloc(AtomicU64::new(0)))?;
//!     counter.fetch_add(1, Ordering::SeqCst);
//!     job.barrier(0)?;
//!     assert_eq!(counter.load(Ordering::SeqCst), job.nodes() as u64);
//!     job.leave()
//! }
//! ```
//!
//! | want | take |
//! |---|---|
//! | one variable, one minipage | [`Job::alloc`]: [`Shared`] |
//! | a contiguous block, cut into minipages | [`Job::alloc_slice`]: [`SharedSlice`] |
//! | many elements, a minipage each | [`Job::alloc_array`]: [`SharedArray`] |
//! | a value only reachable under a lock | [`Job::mutex`]: [`Mutex`] |
//! | to bring an address to other nodes | [`Job::share`], [`Job::publish`], [`Job::lookup`] |
//! | threads elsewhere | [`Job::spawn`] |
//! | to hide latency, to make system calls | [`Region`] |
//!
//! # What is safe, and why
//! Other nodes and threads write shared memory at any time, so no reference to plain data in it is
//! ever given out: [`Shared::get`] and [`Shared::set`] copy, word by word. A word (up to 8 aligned
//! bytes) is never torn, its load acquires and its store releases, as an atomic's do; a larger
//! value may mix words of two writers unless a lock or a barrier orders them. Only [`Shareable`]
//! types are admitted, for which any mixture of bytes is a value. Atomics are shared by reference,
//! and a [`Mutex`] lends its value out, since nothing else can reach it.
//!
//! Handles are plain addresses: they may be copied, and outlive the job's memory management only
//! through the unsafe `free`.

mod array;
mod hints;
mod job;
mod memory;
mod mutex;
mod names;
mod shareable;
mod shared;
mod slice;
mod sync;
mod thread;
mod words;

pub use array::SharedArray;
pub use hints::Region;
pub use job::{Job, run};
pub use memory::Grain;
pub use multigrain_runtime::{Error, Stats};
pub use mutex::{Mutex, MutexGuard};
pub use names::Handle;
pub use shareable::{Atomic, Shareable};
pub use shared::{
    Shared, SharedAtomicI32, SharedAtomicI64, SharedAtomicU32, SharedAtomicU64, SharedAtomicUsize,
};
pub use slice::SharedSlice;
pub use sync::{Condvar, LockGuard, Locked, Semaphore};
pub use thread::{On, Thread};

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;
