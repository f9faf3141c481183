//! The C interface of Multigrain: `include/multigrain.h`, function by function.
//!
//! Role: checks pointers, calls the runtime, turns errors into codes. It knows no protocol. The
//! library has an allocator of its own: a trap may come while the program is inside malloc's
//! callers, and the runtime must never wait for the program's heap.

#![expect(unsafe_code, reason = "the foreign interface")]

mod allocator;
pub mod atomics;
pub mod collective;
mod forgotten_init;
pub mod io;
pub mod job;
pub mod memory;
pub mod named_segments;
pub mod status;
pub mod sync;
pub mod threads;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;
