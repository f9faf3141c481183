//! The protocols of Multigrain as pure state machines.
//!
//! Role: decides what each node does about a minipage, a lock or a barrier. An engine takes one
//! input and names its effects; [`Node::step`] routes inputs to engines and applies the effects
//! through a [`World`]. The same code runs in the runtime (real memory and sockets), in the
//! simulator and in the model checker.
//!
//! - [`held_accesses`]: what a thread's instruction holds while it is retried.
//! - [`coherence`]: sequential consistency by single writer / multiple readers (Millipage 3.3,
//!   Figure 3).
//! - [`invalidation_tree`]: who passes an invalidation on to whom where there are many copies.
//! - [`mgs`]: eager release consistency with many writers (MGS Appendix A).
//! - [`hlrc`]: home-based lazy release consistency with migratory home (ParADE).
//! - [`release`]: what a release and an acquire of a node wait for.
//! - [`migration`]: homes migrate at barriers.
//! - [`window_length`]: how long a node keeps a contended minipage.
//! - [`send_timing`]: when a message goes: now, deferred, batched or merged.
//! - [`sync`]: locks, read-write locks, barriers, counting semaphores, condition variables and collective operations.
//!
//! Invariants: no I/O (but that a build with mutants reads from the environment which one is on), no clock, no threads, no
//! unsafe, no logging. Links between two nodes are
//! FIFO; nothing is assumed of the order across links. Engines name page data and never hold it.

pub mod coherence;
mod consistency;
mod context;
mod effect;
mod encoding;
pub mod held_accesses;
pub mod hlrc;
pub mod invalidation_tree;
mod message;
pub mod mgs;
pub mod migration;
mod mutant_macro;
#[cfg(feature = "mutants")]
pub mod mutants;
mod node;
mod nodeset;
pub mod release;
pub mod send_timing;
pub mod sync;
mod vector_time;
pub mod window_length;
mod world;

pub use consistency::{EngineKind, Homes};
pub use context::{EngineContext, Illegal};
pub use effect::{AckFrom, Effect, Effects};
pub use encoding::{WireError, Words};
pub use message::{
    Attach, BarrierMessage, ConditionMessage, HlrcMessage, Kind, LockMessage, Message, MgsMessage,
    PageMessage, ReadWriteMessage, SemaphoreMessage, SyncMessage, Turns,
};
pub use node::{Cell, Input, Node, OwnedCell, OwnedTables, SyncCell, Tables, Violation};
pub use nodeset::NodeSet;
pub use world::{ReleaseWorld, World};
