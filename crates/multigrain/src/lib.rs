//! Many processes, one memory, shared at the grain you choose.
//!
//! A program runs as N *nodes* (`multigrain run -n N ./program`), or by itself as a job of one
//! node. Memory from [`Job::alloc`] and its family lies at the same address on every node and is
//! kept coherent, sequentially consistent unless [asked otherwise](#release-consistency), one
//! *minipage* at a time.
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
//! | a value only reachable under a lock | [`Mutex::new`]; of many readers [`RwLock::new`] |
//! | release consistency, or another grain | [`Job::alloc_with`] and its family: [`Policy`] |
//! | memory under a name, that nodes attach to and detach from | [`Job::create_segment`], [`Job::attach_segment`]: [`Segment`] |
//! | to bring an address to other nodes | [`Job::share`], [`Job::publish`], [`Job::lookup`] |
//! | threads that meet | [`Barrier`], [`Condvar`], [`Semaphore`], [`Once`]; [`Job::barrier`] and [`Job::lock`] by number |
//! | sums and the like over all threads | [`Job::party`]: [`Party`] |
//! | threads elsewhere | [`Job::scope`], [`Job::spawn`] |
//! | to hide latency, to make system calls | [`Region`] |
//!
//! # What is safe, and why
//! Other nodes and threads write shared memory at any time, so no reference to plain data in it is
//! ever given out: [`Shared::get`] and [`Shared::set`] copy, word by word. A word (up to 8 aligned
//! bytes) is never torn, its load acquires and its store releases, as an atomic's do; a larger
//! value may mix words of two writers unless a lock or a barrier orders them. Only [`Shareable`]
//! types are admitted, for which any mixture of bytes is a value. Atomics are shared by reference,
//! and a [`Mutex`] or a [`RwLock`] lends its value out, since
//! nothing else can reach it.
//!
//! Handles are plain addresses: they may be copied, handed to threads of other nodes
//! ([`Job::scope`]) and brought there by name. They borrow the job, so none outlives it; only the
//! unsafe `free` leaves handles to nothing.
//!
//! ```compile_fail,E0505
//! # fn main() -> multigrain::Result<()> {
//! let job = multigrain::Job::join()?;
//! let counter = job.alloc(1u64)?;
//! job.leave()?;
//! println!("{}", counter.get()); // the memory is gone
//! # Ok(()) }
//! ```
//!
//! Futexes do not cross nodes: what sleeps in the kernel until another node has written shared memory (the
//! crate `atomic-wait`, a lock built on futexes) sleeps for ever. Poll, or wait by [`Mutex`], [`Condvar`],
//! [`Semaphore`] or a barrier. A child made by `fork` is outside of the job: calls fail there, and shared
//! memory ends it with one line. A handler of a signal calls nothing of this crate but [`Semaphore::post_from_handler`], and
//! touches no shared memory where it may have interrupted a call.
//!
//! # Release consistency
//! A [`Policy`], or `multigrain run --consistency` for the whole job, asks for memory of
//! [`Consistency::EagerRelease`] or [`Consistency::LazyRelease`]. Many nodes may write to a page of
//! it at the same time. The program keeps to these rules; breaking them costs wrong values, not
//! memory safety:
//!
//! - A write is seen by another node only after a lock (so a [`Mutex`] or a [`Condvar`]), a
//!   barrier, a [`Semaphore`], the start or join of a thread, or a name has ordered it before the read: what was
//!   written before [`Job::publish`] or [`Job::share`] is seen by who looks the name up.
//! - There are no data races: of two accesses to a byte, one of them a write, these put one before
//!   the other. Different bytes may be written at the same time.
//! - Atomics and values that are polled do not communicate through this memory, in spite of what is
//!   said above of single words: allocate them, and what they announce, as
//!   [`Consistency::Sequential`]. The first atomic instruction that a node traps at here is named on stderr
//!   with file and line, and is an error under `multigrain run --check-races`.
//!
//! ```
//! use multigrain::{Consistency, Job, Policy};
//!
//! # fn main() -> multigrain::Result<()> {
//! let job = Job::join()?;
//! let lazy = Policy::new().consistency(Consistency::LazyRelease);
//! let sums = job.share("sums", || job.alloc_slice_with::<u64>(job.nodes(), lazy))?;
//! sums.set(job.node(), 7); // all nodes write to one page
//! job.barrier(0)?;
//! assert_eq!(sums.to_vec().iter().sum::<u64>(), 7 * job.nodes() as u64);
//! # Ok(()) }
//! ```

mod array;
mod atomic_copy;
mod collective;
mod fetch;
mod hints;
mod job;
mod memory;
mod mutex;
mod named_segment;
mod names;

mod pointer;
mod portable;
mod rwlock;
mod shareable;
mod shared;
mod slice;
mod sync;
mod thread;

pub use array::SharedArray;
pub use collective::{Number, Op, Party};
pub use hints::{PageLock, Region};
pub use job::{Job, run};
pub use memory::Grain;
pub use multigrain_runtime::{
    Compressed, Error, Policy, Rights, SegmentOptions, SegmentSharing, SegmentStat, SegmentUses,
    Shares, Stats,
};
pub use multigrain_types::{Access, Compression, Consistency, Placement};
pub use mutex::{Mutex, MutexGuard};
pub use named_segment::Segment;
pub use names::Handle;
pub use portable::Portable;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use shareable::{Atomic, Shareable};
pub use shared::{
    Shared, SharedAtomicI32, SharedAtomicI64, SharedAtomicU32, SharedAtomicU64, SharedAtomicUsize,
};
pub use slice::{Chunks, Iter, SharedSlice};
pub use sync::{Barrier, Condvar, LockGuard, Locked, Once, Semaphore};
pub use thread::{On, Scope, ScopedThread, Thread};

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;
