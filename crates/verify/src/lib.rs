//! Verification of Multigrain's protocols: the real [`multigrain_protocol::Node`] in worlds made
//! for finding faults.
//!
//! - [`check`]: the model checker, all interleavings of small programs.
//! - [`release`]: release consistency, all interleavings of small programs and random large ones.
//! - [`sim`]: the simulator, random programs on up to 10,000 nodes over links of all kinds.
//! - [`scale`]: the applications' sharing patterns, projected to clusters that do not exist here.

pub mod check;
mod lock_windows;
pub mod release;
pub mod scale;
pub mod sim;

pub use lock_windows::LockWindows;
