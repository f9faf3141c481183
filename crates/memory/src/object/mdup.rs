//! Shared anonymous memory as an object (ParADE 4.3): mapped once, and duplicated for each view. Sparse, zero at first,
//! without a descriptor, a name or a limit of its own.
#![expect(unsafe_code, reason = "maps shared memory")]

use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use std::os::fd::RawFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::duplicates::Original;
use super::{Backing, Over, whole_pages};
use crate::error::MemoryError;
use crate::layout::index;
use crate::names::AccessPath;
use crate::shortage::address_limit;

#[derive(Debug)]
pub(super) struct Mdup(Original);

impl Mdup {
    pub(super) fn new(bytes: u64) -> Result<Self, MemoryError> {
        let bytes = whole_pages(bytes)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let mapped = unsafe { mmap_anonymous(null_mut(), index(bytes), ProtFlags::empty(), flags) };
        let start = mapped.map_err(|errno| match errno {
            Errno::NOMEM if address_limit(index(bytes)).is_some() => {
                MemoryError::Ulimit { bytes, flag: "-v" }
            }
            errno => MemoryError::NoPath {
                path: AccessPath::Mdup,
                call: "mmap",
                bytes,
                errno,
                remedy: "choose a smaller `multigrain run --shared`, or use --path memfd",
            },
        })?;
        let start = NonNull::new(start).ok_or(MemoryError::AddressTaken { address: 0, end: 1 })?;
        Original::new(start, bytes).map(Self)
    }
}

impl Backing for Mdup {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    fn original(&self) -> Option<Range<usize>> {
        Some(self.0.addresses())
    }

    fn map(
        &self,
        address: usize,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
        over: Over,
    ) -> Result<(), Errno> {
        self.0.duplicate(address, bytes, offset, protection, over)
    }
}

impl Drop for Mdup {
    fn drop(&mut self) {
        // SAFETY: mapped by new(), and nobody accesses it; its duplicates are mappings of their own.
        let unmapped = unsafe { munmap(self.0.start(), index(self.0.bytes())) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
