//! Frames, links and the mesh between the nodes of a job.
//!
//! Role: to carry frames (a fixed header and perhaps a payload) from node to node, in order per
//! link, with as few system calls and copies as there can be. A payload goes straight from the
//! sender's memory to the socket (Millipage 2.3.1: no buffer in the middle), and from the socket to the place the
//! receiver names, but for what comes in the same read as its header: up to 8 KiB, which a copy costs less than a
//! system call (ADR 7). What is batched, encoded or encrypted has a buffer.
//!
//! What it must not know: any protocol. Kinds, subjects and values are opaque here.
//!
//! What lies where, from the program down to the wire:
//! - `mesh/`: [`Mesh`], all peers together: `send`, `receive`, `backlog`;
//! - `peer`: one peer, its outbox behind a lock, its link, and leaving in order;
//! - `outbox/`: which frame goes now, which is deferred, batched or merged; queues; [`Payload`];
//! - `tap`: who is told of each frame on a link;
//! - `incoming`: the bytes of a link, cut anywhere, into frames for a [`Sink`] (`sink`);
//! - `link/`: `trait Link`, and one file a backend: `unix`, `tcp`; [`Transport`]: which of them; over any of them `tls`, to which
//!   `credentials` say who a node is, and `emulated`: a slower network, as [`Emulation`] says;
//! - `descriptor`: file descriptors, above the standard ones;
//! - `frame_header`: [`Header`] on the wire; `address`: where nodes listen;
//! - [`interfaces`]: at which addresses hosts reach each other;
//! - `first_links`, `rendezvous`, `handshake`, `unauthenticated`: which links are made, who may join, and how others are turned away;
//!   `mesh/on_demand_links`: links that are made when first used;
//! - `readiness`: sleeping and waking; `suppression`: who is not woken; `timeout`: how long;
//!   `reply_bound`: how much may wait for a peer as answers;
//! - `counters`, `error`, `span` (raw memory), `shim` (locks and sleeps of the real or a tested kind);
//! - for tests and tools alone: `pair`, `shuttle_tests`, `loom_tests`, `mutants`, `hostile_peer`,
//!   `fuzzing`.
//!
//! In a signal handler: [`Mesh::send`], [`Mesh::receive`], [`Mesh::suppress_wakeups`] and their like
//! allocate nothing while a link has a short backlog and place no thread-local; they do write
//! `errno`, which the signal entry must save and restore.

mod address;
mod counters;
mod credentials;
mod descriptor;
mod error;
mod first_links;
mod frame_header;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod hostile_peer;
mod incoming;
pub mod interfaces;
mod link;
#[cfg(all(test, feature = "loom", not(feature = "mutants")))]
mod loom_tests;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod loom_tests;
mod mesh;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod mutants;
mod outbox;
#[cfg(any(feature = "shuttle", feature = "mutants"))]
mod pair;
mod peer;
mod readiness;
mod rendezvous;
mod reply_bound;
mod shim;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests;
mod sink;
mod span;
mod suppression;
mod tap;
mod timeout;
mod unauthenticated;

pub use address::{Address, AddressError, AddressKind, Ports, UnixName};
pub use counters::Counters;
pub use credentials::{Authority, Credentials, CredentialsError, Pin};
pub use error::{LinkError, TransportError};
pub use first_links::{BootConfig, Conditions};
pub use frame_header::{FrameError, Header, LAST_KIND, MAX_BUFFER, MAX_PAYLOAD};
pub use handshake::{PROTOCOL_VERSION, Refusal};
pub use link::{Emulation, EmulationError, Transport, UnknownTransport};
pub use mesh::{LinkEvent, Mesh};
pub use outbox::{MAX_DEFERRED, Payload};
#[cfg(any(feature = "shuttle", feature = "mutants"))]
pub use pair::{pair, pair_over_tcp};
pub use readiness::when_descriptors_are_closed;
pub use sink::{Destination, LostReason, Sink};
pub use suppression::Receiver;
pub use timeout::Timeout;
