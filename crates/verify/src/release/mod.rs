//! Release consistency checked: the real `Node::step` of every node over minipages of all four
//! consistencies, driven by programs without data races.
//!
//! The main property: a read returns the last write that happens before it. Since
//! conflicting accesses of such a program are ordered by its synchronization, that is the last
//! write in the order of the run, whichever run it is; see [`state::State::latest`].
//!
//! - [`program`]: what the threads do. [`configurations`]: the table of checked jobs.
//! - [`state`], [`step`], `world`: a state of the whole job, its steps, and the memories, twins and
//!   links the nodes act on. Page tables are the world's own, so what a thread may do is never
//!   asked of the engine under test. [`unqueued_notices`]: write notices that a step has not queued yet.
//! - `properties`: the other properties. [`model`]: all interleavings of small jobs, by stateright;
//!   `graph`: livelock.
//! - [`generate`], [`simulation`]: one random interleaving of one random job, both from a seed.
//! - [`races`]: that the programs have no data races. `trace`: counterexamples as text.

pub mod action;
mod collectives;
pub mod configurations;
pub mod generate;
mod graph;
pub mod model;
pub mod packet;
pub mod program;
mod properties;
pub mod races;
pub mod simulation;
pub mod state;
pub mod step;
mod threads;
mod trace;
pub mod unqueued_notices;
mod unqueued_notices_steps;
mod world;

pub use configurations::{Configuration, configurations};
pub use model::check;
pub use program::{Job, Op};
pub use simulation::{Failure, Run, simulate};
