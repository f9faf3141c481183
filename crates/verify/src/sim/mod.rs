//! The simulator: random programs on a virtual cluster of up to 10,000 nodes, each run made from a
//! seed alone.
//!
//! Role: tests the real `Node::step` for longer, and in larger jobs, than the model checker can.
//! [`cluster`] is the world: real codec, links that stall, nodes that stop and die, clocks that
//! drift; it asserts the invariants of shared memory at every step. The rest runs programs in it
//! and checks what the threads see: the [`history`] is sequentially consistent, locks exclude,
//! barriers hold all, sums are right, no thread waits for ever, nothing is open at the end.
//!
//! Invariants: no clock, no randomness except the seed's, no order taken from a hash map; so a plan
//! determines a run step by step, and a failure is reproduced whenever its plan is run.

pub mod cluster;
pub mod contention;
mod heap;
pub mod history;
mod network_model;
mod operation;
mod plan;
mod program;
mod report;
pub mod rng;
mod simulation;
mod thread_steps;
mod threads;
mod verdict;

pub use network_model::NetworkModel;
pub use plan::{Deaths, FEWEST_MINIPAGES, MOST_NODES, Plan, nanoseconds};
pub use report::{Failure, Report, run};
