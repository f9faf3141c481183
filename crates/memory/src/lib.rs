//! Views over memory objects, minipage layout and page guards.
//!
//! Role: the memory layer of a node (Millipage section 2: MultiView). Its shared bytes are *segments*,
//! each an [`Object`] with a *privileged view*, which maps it whole and writable for the runtime alone;
//! *areas* map parts of it as application views, one view for each minipage that shares a page. A
//! [guard] (userfaultfd, or mprotect) turns accesses the protocol has not granted into signals. Where
//! several nodes may write a minipage at a time, each keeps a *twin* of it ([`Twins`]) and sends a
//! [`diff`]: the bytes it wrote since. [`TrackingKind`] is how written pages are found.
//!
//! Invariants the caller upholds: one lock per minipage around its state and its protection;
//! data is read for sending only after the restricting call returned, and written before the
//! granting call. What this crate must not know: messages, protocols, nodes.
//!
//! [guard]: GuardKind

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("multigrain-memory needs 64-bit Linux");

mod access_path;
pub mod allocation_reserve;
mod areas;
mod atomic_table;
mod checksum;
mod descriptor;
pub mod diff;
mod discard;
mod error;
mod export;
mod guard;
mod guard_kind;
mod layout;
mod memory;
mod object;
mod privileged;
mod segment;
mod segment_id;
mod segments;
mod shortage;
mod signal_frame;
mod track;
mod twins;

pub use access_path::AccessPath;
pub use areas::Minipages;
pub use error::MemoryError;
pub use export::Export;
pub use guard_kind::{GuardChoice, GuardKind};
pub use layout::{
    Area, GROUP_PAGES, MAX_AREAS, MAX_MINIPAGE_BYTES, MIN_SLOT_BYTES, Shape, VIEW_ALIGN,
    VIEWS_BASE, VIEWS_END,
};
pub use memory::{Config, Memory};
pub use object::{MOST_OBJECT_BYTES, Object};
pub use segment_id::SegmentId;
pub use segments::MAX_SEGMENTS;
pub use signal_frame::{Trap, instruction};
pub use track::TrackingKind;
pub use twins::{Twin, Twins};
