//! Frames, links and the mesh between the nodes of a job.
//!
//! Role: to carry frames (a fixed header and perhaps a payload) from node to node, in order per
//! link, with as few system calls and copies as there can be. A payload goes straight from the
//! sender's memory to the socket and from the socket to the place the receiver names (Millipage
//! 2.3.1: no buffer in the middle).
//!
//! What it must not know: any protocol. Kinds, subjects and values are opaque here.
//!
//! Where things are: [`Header`] in `frame`, addresses and listeners in `address`, who may join in
//! `handshake` and `boot`, what is sent in `piece` and `bundle`, what waits in `queue`, who
//! has kept frames in `kept`, one link's outgoing half in `outgoing` and its
//! incoming half in `incoming`, who gets the frames in `sink`, all links together in `mesh`,
//! sleeping and waking in `waiting`, who is woken by arrivals in `claims`, how much may wait for a peer
//! in `room`, raw system calls in `sys`.
//!
//! In a signal handler: [`Mesh::send`], [`Mesh::receive`], [`Mesh::claim`] and their like
//! allocate nothing while a link has a short backlog and place no thread-local; they do write
//! `errno`, which the signal entry must save and restore.

mod address;
mod boot;
mod bundle;
mod claims;
mod counters;
mod error;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod hostile;
mod incoming;
mod kept;
mod late;
#[cfg(all(test, feature = "loom", not(feature = "mutants")))]
mod loomed;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod loomed;
mod mesh;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub mod mutants;
mod outgoing;
#[cfg(any(feature = "shuttle", feature = "mutants"))]
mod pair;
mod piece;
mod queue;
mod room;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod schedules;
mod shim;
mod sink;
mod sys;
mod waiting;

pub use address::{Address, UnixName, bind};
pub use boot::BootConfig;
pub use claims::Receiver;
pub use counters::Counters;
pub use error::{FrameError, LinkError, TransportError};
pub use frame::{Header, LAST_KIND, MAX_PAYLOAD};
pub use handshake::{PROTOCOL_VERSION, Refusal};
pub use mesh::Mesh;
#[cfg(any(feature = "shuttle", feature = "mutants"))]
pub use pair::pair;
pub use piece::Payload;
pub use sink::{LostReason, MAX_BUFFER, Place, Sink};
pub use waiting::Timeout;
