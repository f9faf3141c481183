//! The memory object (one memfd) and its privileged view.
//!
//! Role: the shared bytes themselves (Millipage 2.2, 2.3.1): every view maps this object; the
//! privileged view is always ReadWrite and the runtime's alone, so updates need no protection
//! changes. Bytes of it are reached by pointers only, never by references: applications write.
#![expect(unsafe_code, reason = "maps the memory object and reads through the privileged view")]

use core::ffi::c_void;
use core::ptr::NonNull;
use std::os::fd::{AsFd, OwnedFd};

use multigrain_types::PAGE_BYTES;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use crate::error::MemoryError;
use crate::layout::{PRIVILEGED_BASE, VIEWS_BASE, VIEWS_END, index};

/// The most shared bytes a job can have: as many as one view could address.
const LIMIT_BYTES: u64 = (VIEWS_END - VIEWS_BASE) as u64;

/// One memfd, mapped whole at [`PRIVILEGED_BASE`].
#[derive(Debug)]
pub(crate) struct Object {
    file: OwnedFd,
    bytes: u64,
    privileged: NonNull<u8>,
}

// SAFETY: the pointer names a mapping this value owns; it is reached through raw pointers only.
unsafe impl Send for Object {}
// SAFETY: methods only pass addresses to the kernel or read single bytes by volatile reads.
unsafe impl Sync for Object {}

impl Object {
    /// A sparse object of `bytes` bytes, rounded up to whole pages.
    pub(crate) fn new(bytes: u64) -> Result<Self, MemoryError> {
        if bytes == 0 || bytes > LIMIT_BYTES {
            return Err(MemoryError::SharedSize { bytes, limit: LIMIT_BYTES });
        }
        let bytes = bytes.next_multiple_of(PAGE_BYTES as u64);
        let length = index(bytes);
        let system =
            |call| move |errno| MemoryError::System { call, address: 0, bytes: length, errno };
        // Beyond the limit of file sizes ftruncate would raise SIGXFSZ.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
            return Err(MemoryError::Ulimit { bytes, flag: "-f" });
        }
        let file = memfd_create(c"multigrain", MemfdFlags::CLOEXEC).map_err(system("memfd"))?;
        ftruncate(&file, bytes).map_err(system("ftruncate"))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let mapped = map_fixed(&file, PRIVILEGED_BASE, length, 0, protection);
        let start = mapped.map_err(|errno| match errno {
            Errno::NOMEM => MemoryError::Ulimit { bytes, flag: "-v" },
            errno => taken_or("mmap", PRIVILEGED_BASE, length, errno),
        })?;
        // From here on dropping the value takes the mapping back.
        let object = Self { file, bytes, privileged: start };
        settle(PRIVILEGED_BASE, length)?;
        Ok(object)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where byte `offset` of the object lies in the privileged view; the caller keeps it inside.
    #[inline]
    pub(crate) fn privileged(&self, offset: u64) -> *mut u8 {
        assert!(offset < self.bytes, "offset {offset} leaves the {} shared bytes", self.bytes);
        // SAFETY: the privileged view holds `bytes` bytes and offset is below that.
        unsafe { self.privileged.as_ptr().add(index(offset)) }
    }

    /// Makes sure that pages are allocated, by writing none of their bytes.
    pub(crate) fn allocate(&self, offset: u64, bytes: usize) -> Result<(), MemoryError> {
        let start = self.privileged(offset);
        // Faulting in for writing allocates holes of the object and changes no byte.
        // SAFETY: the range lies in the privileged view; the kernel checks the rest.
        let populated = unsafe { madvise(start.cast(), bytes, Advice::LinuxPopulateWrite) };
        populated.map_err(|errno| MemoryError::OutOfMemory { address: start.addr(), bytes, errno })
    }

    /// Allocates pages by reading one byte of each, the cheap way where most are allocated.
    #[inline]
    pub(crate) fn touch(&self, offset: u64, bytes: usize) {
        for page in (0..bytes).step_by(PAGE_BYTES) {
            let byte = self.privileged(offset + page as u64);
            // SAFETY: the byte lies in the privileged view, which is always readable; a volatile
            // read of one byte does not care who writes it.
            let _ = unsafe { byte.read_volatile() };
        }
    }

    /// Gives the pages of a range back; they read as zero afterwards.
    pub(crate) fn punch(&self, offset: u64, bytes: usize) -> Result<(), MemoryError> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let address = self.privileged(offset).addr();
        fallocate(&self.file, flags, offset, bytes as u64).map_err(|errno| MemoryError::System {
            call: "fallocate",
            address,
            bytes,
            errno,
        })
    }

    /// Maps a view of [offset, offset + bytes) at `address`, where nothing may be mapped yet.
    pub(crate) fn map_view(
        &self,
        address: usize,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
    ) -> Result<(), Errno> {
        map_fixed(&self.file, address, bytes, offset, protection).map(|_| ())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in new(), and whoever asked for pointers into it has
        // given up the Memory that lent them.
        let unmapped = unsafe { munmap(self.privileged.as_ptr().cast(), index(self.bytes)) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// Keeps a mapping out of children (they would see it unguarded), out of core dumps (a dump would
/// walk the whole shared size once for every view) and out of huge pages (one touch would allocate
/// neighbours, whose own first touch would then trap).
pub(crate) fn settle(address: usize, bytes: usize) -> Result<(), MemoryError> {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: advice on a mapping of ours that changes no content.
    let settled = unsafe { madvise(start, bytes, Advice::LinuxDontFork) };
    settled.map_err(|errno| MemoryError::System { call: "madvise", address, bytes, errno })?;
    // SAFETY: as above.
    let settled = unsafe { madvise(start, bytes, Advice::LinuxDontDump) };
    settled.map_err(|errno| MemoryError::System { call: "madvise", address, bytes, errno })?;
    // SAFETY: as above. EINVAL only says that this kernel has no huge pages.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
    Ok(())
}

/// Unmaps views made by [`Object::map_view`].
pub(crate) fn unmap_views(address: usize, bytes: usize) -> Result<(), MemoryError> {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: the caller names views this crate mapped; applications lose them on purpose.
    let unmapped = unsafe { munmap(start, bytes) };
    unmapped.map_err(|errno| MemoryError::System { call: "munmap", address, bytes, errno })
}

pub(crate) fn taken_or(
    call: &'static str,
    address: usize,
    bytes: usize,
    errno: Errno,
) -> MemoryError {
    if errno == Errno::EXIST {
        MemoryError::AddressTaken { address, end: address + bytes }
    } else {
        MemoryError::System { call, address, bytes, errno }
    }
}

fn map_fixed(
    file: impl AsFd,
    address: usize,
    bytes: usize,
    offset: u64,
    protection: ProtFlags,
) -> Result<NonNull<u8>, Errno> {
    let hint = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: FIXED_NOREPLACE never replaces a mapping.
    let start = unsafe { mmap(hint, bytes, protection, flags, file, offset)? };
    if start.addr() != address {
        // Only kernels before 4.17 take the address as a hint.
        // SAFETY: this mapping was made just above and nobody knows of it.
        let _ = unsafe { munmap(start, bytes) };
        return Err(Errno::EXIST);
    }
    start.expose_provenance();
    NonNull::new(start.cast()).ok_or(Errno::EXIST)
}
