//! What is kept of a minipage outside of this process.
//!
//! Role: a program that knows nothing of this library has its own mapping of an area's bytes, in another memory object,
//! which somebody above this crate guards ([`Export`]). What the protocol takes away from this node is taken from
//! there first.

use core::fmt::Debug;
use core::ops::Range;

use multigrain_types::{Access, AreaId};

use crate::error::MemoryError;

/// Copies of areas that processes beside this one map ([`Memory::export_with`]).
///
/// [`Memory::export_with`]: crate::Memory::export_with
pub trait Export: Debug + Send + Sync {
    /// The access of this node to so many bytes of an area, from its first one on, goes from one to another; the locks of their
    /// minipages are held. When this returns no process beside this one can do more with them, and what any has written is at
    /// `contents`, their place in the privileged view. False if the area is not exported: nothing was done.
    ///
    /// # Errors
    /// A failing system call.
    fn change(
        &self,
        area: AreaId,
        bytes: Range<u64>,
        contents: *mut u8,
        from_to: [Access; 2],
    ) -> Result<bool, MemoryError>;
}
