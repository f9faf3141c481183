//! Writes found by scans: the kernel opens a written page by itself, and reports it when asked.
#![expect(unsafe_code, reason = "maps a page to try the kernel out")]

use core::ops::Range;
use core::ptr::null_mut;
use std::os::fd::RawFd;

use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::pagemap::Pagemap;
use crate::error::MemoryError;
use crate::guard::{Features, Register, Userfault};

/// Asynchronous write protection. Nothing is kept here: the page tables know.
#[derive(Debug)]
pub(super) struct Scans {
    userfault: Userfault,
    pagemap: Pagemap,
}

impl Scans {
    /// Opens it and tries it on a page of its own: the feature and the scan came together, but a
    /// container may forbid either.
    pub(super) fn open() -> Result<Self, MemoryError> {
        let unavailable = |(call, errno)| MemoryError::TrackingUnavailable { call, errno };
        let userfault = Userfault::open(Features::Silent).map_err(unavailable)?;
        let pagemap = Pagemap::open().map_err(|errno| ("/proc/self/pagemap", errno));
        let scans = Self { userfault, pagemap: pagemap.map_err(unavailable)? };
        scans.try_out().map_err(unavailable)?;
        Ok(scans)
    }

    /// The descriptors it keeps open.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.userfault.descriptor(), self.pagemap.descriptor()]
    }

    /// Takes charge of whole mapped pages; none of them counts as written when this returns.
    pub(super) fn attach(&self, address: usize, bytes: usize) -> Result<(), MemoryError> {
        let call = "UFFDIO_REGISTER";
        let registered = self.userfault.register(address, bytes, Register::Writes);
        registered.map_err(|errno| MemoryError::System { call, address, bytes, errno })?;
        // Whatever is open now counts as written; what is closed has a mark, entry or not.
        self.scan(address, bytes, &mut |_| ())
    }

    /// Names the pages of an attached range that were written since it was attached or last
    /// scanned, as ranges of addresses in ascending order. Each is closed before it is named: what
    /// is written to it afterwards, a later scan names.
    pub(super) fn scan(
        &self,
        address: usize,
        bytes: usize,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), MemoryError> {
        let call = "PAGEMAP_SCAN";
        let scanned = self.pagemap.take_written(address, bytes, written);
        scanned.map_err(|errno| MemoryError::System { call, address, bytes, errno })
    }

    fn try_out(&self) -> Result<(), (&'static str, Errno)> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let view = unsafe { mmap_anonymous(null_mut(), PAGE_BYTES, protection, flags) };
        let view = view.map_err(|errno| ("mmap", errno))?;
        let address = view.expose_provenance();
        let tried = self
            .userfault
            .register(address, PAGE_BYTES, Register::Writes)
            .map_err(|errno| ("UFFDIO_REGISTER", errno))
            .and_then(|()| {
                let scanned = self.pagemap.take_written(address, PAGE_BYTES, &mut |_| ());
                scanned.map_err(|errno| ("PAGEMAP_SCAN", errno))
            });
        // SAFETY: this mapping was made just above and nobody else knows of it.
        let _ = unsafe { munmap(view, PAGE_BYTES) };
        tried
    }
}
