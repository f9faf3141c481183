//! A System V segment as an object, by its id.
//!
//! It has no descriptor to map parts of it by. So views are duplicates of parts of one attachment:
//! `mremap` duplicates shared mappings when told that the old size is 0.
#![expect(unsafe_code, reason = "attaches a segment and duplicates its mapping")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::os::fd::RawFd;

use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;
use rustix::mm::{
    MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap_fixed, munmap,
};

use super::{Backing, Over};
use crate::error::MemoryError;
use crate::layout::index;

#[derive(Debug)]
pub(super) struct SystemV {
    attached: NonNull<c_void>,
    bytes: u64,
}

// SAFETY: the pointer names a mapping this value owns; only the kernel is given it.
unsafe impl Send for SystemV {}
// SAFETY: as above.
unsafe impl Sync for SystemV {}

impl SystemV {
    pub(super) fn attach(id: i32) -> Result<Self, MemoryError> {
        let failed = |call| MemoryError::System {
            call,
            address: 0,
            bytes: 0,
            errno: Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL),
        };
        let mut status = MaybeUninit::<libc::shmid_ds>::uninit();
        // SAFETY: IPC_STAT fills in a shmid_ds.
        if unsafe { libc::shmctl(id, libc::IPC_STAT, status.as_mut_ptr()) } != 0 {
            return Err(failed("shmctl"));
        }
        // SAFETY: the kernel has filled it in.
        let bytes = unsafe { status.assume_init() }.shm_segsz.next_multiple_of(PAGE_BYTES);
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let attached = unsafe { libc::shmat(id, core::ptr::null(), 0) };
        if attached.addr() == usize::MAX {
            return Err(failed("shmat"));
        }
        let attached = NonNull::new(attached).ok_or_else(|| failed("shmat"))?;
        Ok(Self { attached, bytes: bytes as u64 })
    }
}

impl Backing for SystemV {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }

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
        // SAFETY: the caller keeps the offset in the object, which the attachment has as many bytes as.
        let from = unsafe { self.attached.as_ptr().cast::<u8>().add(index(offset)) }.cast();
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

impl Drop for SystemV {
    fn drop(&mut self) {
        // SAFETY: attached by attach(); its duplicates are mappings of their own.
        let detached = unsafe { libc::shmdt(self.attached.as_ptr()) };
        debug_assert_eq!(detached, 0);
    }
}
