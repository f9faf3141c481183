//! Homes migrate at barriers in which all threads of the job wait (ParADE's migratory home): which nodes are
//! quiescent, which homes migrate, and in which order.
//!
//! One sequence, from the first arrival to the last node:
//! 1. *Quiescent* ([`Quiescence`]; asked by [`crate::sync::Barrier`]): a node whose threads all wait declares that
//!    with its last arrival, and has flushed before. (One that waits for another one's end, or to leave the job, is
//!    none until it goes on: [`crate::sync::SyncInput::Pause`].) It stays so until its release, since nothing
//!    runs there; a thread that begins or goes on does not run before the manager has taken the declaration back
//!    (*retract*), or has decided before. The barrier is quiescent if every node of the job is, and has all its threads
//!    in this very episode.
//! 2. *Flush, decide, switch* (at the manager, before any release leaves): what the manager itself has
//!    written is flushed; of every minipage with one writer since the last such barrier, the writer
//!    becomes the home (`sole_writers`, [`migrates`]). It has the contents: nobody else
//!    has written them, and its copy equals the home's. That is the [`MigrationPlan`] of a new *epoch*.
//! 3. *Tell*: the plan travels with the write notices of the releases. Who tells has switched before: what it sends may
//!    be answered, and the answer received by another of its threads, before its step is done.
//! 4. *Switch* (at every node, before its release wakes anybody): the homes migrate, then messages that arrived
//!    early, from nodes that have switched already, are served ([`EarlyMessages`]).
//!
//! `node::migrate` runs steps 2 to 4; all it decides is decided here.
//!
//! A home that migrates too often becomes *dynamic*: [`DYNAMIC_AFTER`].
//!
//! Invariant: no two nodes are the home of a minipage at the same epoch.

mod early_messages;
mod plan;
mod quiescence;

pub use early_messages::{EarlyMessage, EarlyMessages};
pub(crate) use plan::sole_writers;
pub use plan::{DYNAMIC_AFTER, MigrationPlan, Migrations, migrates};
pub use quiescence::Quiescence;
