//! The protocols of Multigrain as pure state machines.
//!
//! Role: decides what each node does about a minipage, a lock or a barrier. An engine takes one
//! input and names its effects; [`Node::step`] routes inputs to engines and applies the effects
//! through a [`World`]. The same code runs in the runtime (real memory and sockets), in the
//! simulator and in the model checker.
//!
//! - [`access`]: what a thread's instruction holds while it is retried.
//! - [`coherence`]: sequential consistency by single writer / multiple readers (Millipage 3.3,
//!   Figure 3).
//! - [`mgs`]: eager release consistency with many writers (MGS Appendix A).
//! - [`hlrc`]: home-based lazy release consistency with migratory home (ParADE).
//! - [`release`]: what a node owes the others before a release leaves it.
//! - [`sync`]: locks, barriers, counting semaphores and condition variables.
//!
//! Invariants: no I/O, no clock, no threads, no unsafe, no logging. Links between two nodes are
//! FIFO; nothing is assumed of the order across links. Engines name page data and never hold it.

pub mod access;
pub mod coherence;
mod effect;
pub mod hlrc;
mod message;
pub mod mgs;
#[cfg(feature = "mutants")]
pub mod mutants;
mod node;
mod nodeset;
pub mod release;
pub mod sync;
pub mod window;
mod wire;

pub use effect::{Effect, Effects, World};
pub use message::{
    Attach, BarrierMessage, ConditionMessage, HlrcMessage, Kind, LockMessage, Message, MgsMessage,
    PageMessage, SemaphoreMessage, SyncMessage,
};
pub use node::{Cell, Input, Node, OwnedCell, OwnedTables, SyncCell, Tables, Violation};
pub use nodeset::NodeSet;
pub use wire::{WireError, Words};
