//! Duplicates: more mappings of bytes that have no descriptor to map them by (ParADE 4.3, `mdup`).
//!
//! ParADE put a system call into its kernel for it. `mremap` does the same to a shared mapping when it is told that the
//! old size is 0: the mapping stays where it is, and another one of the same pages comes into being.
#![expect(unsafe_code, reason = "duplicates a mapping")]

use core::ffi::c_void;
use core::ops::Range;
use core::ptr::NonNull;
use std::os::fd::RawFd;

use rustix::io::Errno;
use rustix::mm::{
    MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap_fixed, munmap,
};

use super::{Backing, Over, advise_mapping, seal};
use crate::error::MemoryError;
use crate::layout::index;

/// A shared mapping of a whole object that nobody may access, and that is there to be duplicated.
#[derive(Debug)]
pub(super) struct Original {
    start: NonNull<c_void>,
    bytes: u64,
    came_by: Call,
}

/// The call by which a mapping came into being: another one ends it. Its duplicates are mappings of their own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Mmap,
    Shmat,
}

// SAFETY: the pointer names a mapping its owner keeps; only the kernel is given it.
unsafe impl Send for Original {}
// SAFETY: as above.
unsafe impl Sync for Original {}

impl Original {
    /// Closes a mapping that was just made, and keeps it out of children; its duplicates are out of them then, too.
    pub(super) fn new(
        start: NonNull<c_void>,
        bytes: u64,
        came_by: Call,
    ) -> Result<Self, MemoryError> {
        let original = Self { start, bytes, came_by };
        let Range { start: address, end } = original.addresses();
        seal(address, end - address)?;
        advise_mapping(address, end - address)?;
        Ok(original)
    }

    fn addresses(&self) -> Range<usize> {
        let start = self.start.as_ptr().expose_provenance();
        start..start + index(self.bytes)
    }
}

impl Backing for Original {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    fn original(&self) -> Option<Range<usize>> {
        Some(self.addresses())
    }

    /// Maps [offset, offset + bytes) once more, at `address`.
    fn map(
        &self,
        address: usize,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
        over: Over,
    ) -> Result<(), Errno> {
        let place = core::ptr::with_exposed_provenance_mut::<c_void>(address);
        if over == Over::Nothing {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: FIXED_NOREPLACE never replaces a mapping.
            unsafe { mmap_anonymous(place, bytes, ProtFlags::empty(), flags) }?;
        }
        // SAFETY: the caller keeps the offset in the object, which the original has as many bytes as.
        let from = unsafe { self.start.as_ptr().cast::<u8>().add(index(offset)) }.cast();
        // SAFETY: duplicates a shared mapping over one that was made just above, or over itself.
        let mapped = unsafe { mremap_fixed(from, 0, bytes, MremapFlags::MAYMOVE, place) };
        let protected = mapped.and_then(|start| {
            start.expose_provenance();
            let flags = MprotectFlags::from_bits_retain(protection.bits());
            // SAFETY: changes the protection of the mapping made just above.
            unsafe { mprotect(start, bytes, flags) }
        });
        if protected.is_err() && over == Over::Nothing {
            // SAFETY: mapped just above and nobody knows of it.
            let _ = unsafe { munmap(place, bytes) };
        }
        protected
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let (start, bytes) = (self.start.as_ptr(), index(self.bytes));
        let ended = match self.came_by {
            // SAFETY: its own mapping, which nobody accesses.
            Call::Mmap => unsafe { munmap(start, bytes) }.is_ok(),
            // SAFETY: as above.
            Call::Shmat => unsafe { libc::shmdt(start) == 0 },
        };
        debug_assert!(ended);
    }
}
