//! Adopted memory, which the process has already, such as the `.bss` of a program: its bytes move into a memfd, which
//! is mapped in its place.
#![expect(unsafe_code, reason = "copies memory of the program and maps over it")]

use core::ops::Range;
use std::os::fd::RawFd;

use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use super::memfd::Memfd;
use super::{Backing, Over};
use crate::error::MemoryError;

#[derive(Debug)]
pub(super) struct Adopted {
    memfd: Memfd,
    addresses: Range<usize>,
}

impl Adopted {
    /// # Safety
    /// As for [`super::Object::adopt`].
    pub(super) unsafe fn take(address: usize, bytes: usize) -> Result<Self, MemoryError> {
        let whole = address.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
        if !whole || bytes == 0 || address.checked_add(bytes).is_none() {
            return Err(MemoryError::NotWholePages { address, bytes: bytes as u64 });
        }
        let memfd = Memfd::new(bytes as u64)?;
        let system = |call| move |errno| MemoryError::System { call, address, bytes, errno };
        for offset in (0..bytes).step_by(PAGE_BYTES) {
            let mut page = [0; PAGE_BYTES];
            let from = core::ptr::with_exposed_provenance::<u8>(address + offset);
            // SAFETY: the caller's promise: mapped, readable, and not written meanwhile.
            unsafe { from.copy_to_nonoverlapping(page.as_mut_ptr(), PAGE_BYTES) };
            // Pages of zeros stay holes.
            if page != [0; PAGE_BYTES] {
                memfd.write(&page, offset as u64).map_err(system("pwrite"))?;
            }
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        memfd.map(address, bytes, 0, protection, Over::Itself).map_err(system("mmap"))?;
        Ok(Self { memfd, addresses: address..address + bytes })
    }
}

impl Backing for Adopted {
    fn bytes(&self) -> u64 {
        self.memfd.bytes()
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.memfd.descriptor()
    }

    fn map(
        &self,
        address: usize,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
        over: Over,
    ) -> Result<(), Errno> {
        self.memfd.map(address, bytes, offset, protection, over)
    }

    fn adopted(&self) -> Option<Range<usize>> {
        Some(self.addresses.clone())
    }
}
