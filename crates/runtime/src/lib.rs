//! The runtime: real memory and real sockets under the protocol.
//!
//! Role: the only crate that joins `memory`, `transport` and `protocol` to a node (`cli` sees them too, for what
//! a host offers and for its tools). It turns traps into
//! protocol inputs and protocol effects into protections, frames and wake-ups; it boots a node,
//! keeps the directory of areas, allocates, and starts threads. The C and Rust interfaces are thin
//! layers over [`Runtime`].
//!
//! Modules see those of their row and below alone (`cli/tests/modules.rs` reads this drawing):
//!
//! ```text
//! job  process_manager  trap                         : joining, leaving, and the calls of a program; faults come in
//! unsupported_atomics                                : looks at the instructions that trap
//! collective  sync  deadlines  deadlock  atomics     : services: what is asked of this node
//! prefetch  threads  named_segments  heap           : the same
//! directory                                          : the same
//! driver                                             : a step and what it waits for; requests between nodes
//! engine                                             : the protocol's effects become protections, frames, wake-ups
//! races  false_sharing  write_sharing                : what the engines stand on
//! allocation_sites                                   : the same
//! platform  stats  state_tables  compression         : the same: memory, links, states of minipages, counters
//! config  program  node_programs  secret             : the same: what a node is told, and which program it runs
//! receiver  time_windows  membership  frames         : the same: waiting, windows, who is in the job, formats
//! area  minipage_run  segment_sharing  live_items    : what the tables hold
//! atomic_op  deferred_posts                          : what is asked of a word, and what handlers ask for
//! out_of_memory  closed_descriptors                  : the end of a node whose allocator has nothing, or descriptors
//! interposed_mmap  interposed_mprotect  child        : between the program and the C library
//! interposed_close  signals  pthread  errno          : the same
//! launcher  crash  error  error_code  shim  tsan     : what all of them use
//! source_location                                    : the same
//! signal_reentrancy  uncancellable  time_slice       : the same
//! ```
//!
//! The path of a fault: [`trap`] -> [`prefetch`] -> [`driver`] -> `Node::step` in the faulting thread -> frames out -> [`receiver`]: the
//! same thread receives until its wake-up is there, unless another has the receiver's role and wakes it -> the ack ->
//! the instruction is retried.

mod allocation_sites;
mod area;
mod atomic_op;
mod atomics;
mod child;
mod closed_descriptors;
mod collective;
mod compression;
mod config;
mod crash;
mod deadlines;
mod deadlock;
mod deferred_posts;
mod directory;
mod driver;
mod engine;
#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
mod errno;
mod error;
pub mod error_code;
mod false_sharing;
mod frames;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod heap;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod hostile_peer;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod hostile_tests;
mod interposed_close;
#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
mod interposed_mmap;
#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
mod interposed_mprotect;
mod job;
mod launcher;
mod live_items;
#[cfg(all(test, feature = "loom", not(feature = "mutants")))]
mod loom_tests;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod loom_tests;
mod membership;
mod minipage_run;
#[cfg(feature = "mutants")]
mod mutants;
mod named_segments;
mod node_programs;
pub mod out_of_memory;
mod platform;
mod prefetch;
mod process_manager;
mod program;
mod pthread;
mod races;
mod receiver;
mod secret;
mod segment_sharing;
mod shim;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests;
mod signal_reentrancy;
mod signals;
mod source_location;
mod state_tables;
mod stats;
mod sync;
mod threads;
pub mod time_slice;
mod time_windows;
mod trap;
mod tsan;
mod uncancellable;
mod unsupported_atomics;
mod write_sharing;

pub use atomic_op::{AtomicAction, AtomicOp};
pub use collective::{Collective, Combine, Party};
pub use compression::Compressed;
pub use config::{Config, Launch};
pub use deadlines::Deadline;
pub use deadlock::{handled_signals, joined_thread};
pub use error::{Error, Unavailable};
pub use heap::Policy;
pub use job::{Entered, Here, Runtime, SiteHandler, runtime};
pub use multigrain_memory::allocation_reserve;
pub use named_segments::{Rights, SegmentOptions, SegmentSharing, SegmentStat, SegmentUses};
pub use node_programs::Programs;
pub use program::ThreadFunction;
pub use receiver::slots::when_threads_have_ended;
pub use receiver::{ServiceLevel, WaitMode};
pub use segment_sharing::Shares;
pub use signal_reentrancy::Inside;
pub use stats::Stats;
pub use sync::{SyncId, WaitLimit};
pub use threads::{ThreadAttributes, ThreadHandle};
pub use uncancellable::Uncancellable;
