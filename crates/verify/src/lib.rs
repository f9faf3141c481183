//! Verification of Multigrain's protocols: the real [`multigrain_protocol::Node`] in worlds made
//! for finding faults.
//!
//! - [`check`]: the model checker, all interleavings of small programs.

pub mod check;
