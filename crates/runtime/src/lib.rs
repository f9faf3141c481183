//! The runtime: real memory and real sockets under the protocol.
//!
//! Role: the only crate that sees `memory`, `transport` and `protocol`. It turns traps into
//! protocol inputs and protocol effects into protections, frames and wake-ups; it boots a node,
//! keeps the directory of areas, allocates, and starts threads. The C and Rust interfaces are thin
//! layers over [`Runtime`].
//!
//! The path of a fault (no hand-over between threads): trap, [`fault`] -> `Node::step` in the
//! faulting thread -> frames out -> [`wait`]: the same thread receives until its wake-up is there
//! -> the ack -> the instruction is retried.

mod alloc;
mod areas;
mod asked;
mod begin;
mod boot;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod bounds;
mod companions;
mod config;
mod control;
mod error;
mod fault;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod habits;
mod headers;
mod hints;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod hostile;
mod kept;
#[cfg(all(test, feature = "loom", not(feature = "mutants")))]
mod loomed;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod loomed;
#[cfg(feature = "mutants")]
mod mutants;
mod names;
mod parking;
mod pressure;
mod program;
mod races;
mod receive;
mod report;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod schedules;
mod secret;
mod shim;
mod signals;
mod slots;
mod stats;
mod stepping;
mod sync;
mod tables;
mod threads;
mod tsan;
mod turns;
mod wait;
mod world;

pub use alloc::{LARGEST_SINGLE_BYTES, Policy};
pub use boot::{Runtime, runtime};
pub use config::{Config, WaitMode};
pub use error::Error;
pub use program::ThreadFunction;
pub use stats::Stats;
pub use threads::ThreadHandle;
