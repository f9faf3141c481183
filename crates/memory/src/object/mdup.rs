//! Shared anonymous memory as an object (ParADE 4.3): mapped once, and duplicated for each view. Sparse, zero at first,
//! without a descriptor, a name or a limit of its own.
#![expect(unsafe_code, reason = "maps shared memory")]

use core::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::duplicates::{Call, Original};
use super::whole_pages;
use crate::access_path::AccessPath;
use crate::error::MemoryError;
use crate::layout::index;
use crate::shortage::address_limit;

pub(super) fn new(bytes: u64) -> Result<Original, MemoryError> {
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
    Original::new(start, bytes, Call::Mmap)
}
