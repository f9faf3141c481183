//! The privileged view: a whole object, always writable, the runtime's alone.
//!
//! Role: updates need no change of protection (Millipage 2.3.1). Its bytes are reached by pointers
//! only, never by references: applications write them through their views.
#![expect(unsafe_code, reason = "maps the privileged view and reads through it")]

use core::ops::Range;
use core::ptr::NonNull;

use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;
use rustix::mm::{Advice, ProtFlags, madvise, munlock};

use crate::error::MemoryError;
use crate::layout::index;
use crate::object::{Object, Over, advise_mapping, open, taken_or, unmap};

/// An object, mapped whole.
#[derive(Debug)]
pub(crate) struct PrivilegedView {
    start: NonNull<u8>,
    bytes: u64,
}

// SAFETY: the pointer names a mapping this value owns; it is reached through raw pointers only.
unsafe impl Send for PrivilegedView {}
// SAFETY: as above.
unsafe impl Sync for PrivilegedView {}

impl PrivilegedView {
    /// Maps an object at `address`, where nothing may be mapped yet.
    pub(crate) fn map(object: &Object, address: usize) -> Result<Self, MemoryError> {
        let (bytes, protection) = (object.bytes(), ProtFlags::READ | ProtFlags::WRITE);
        let length = index(bytes);
        let closed = ProtFlags::empty();
        object.map(address, length, 0, closed, Over::Nothing).map_err(|errno| match errno {
            Errno::NOMEM => MemoryError::Ulimit { bytes, flag: "-v" },
            // All mappings to come are locked.
            Errno::AGAIN => MemoryError::Ulimit { bytes, flag: "-l" },
            errno => taken_or("mmap", address, length, errno),
        })?;
        let start = NonNull::new(core::ptr::with_exposed_provenance_mut(address));
        let start = start.ok_or(MemoryError::AddressTaken { address, end: address + length })?;
        // From here on dropping the value takes the mapping back.
        let view = Self { start, bytes };
        let call = "mprotect";
        let failed = |errno| MemoryError::System { call, address, bytes: length, errno };
        open(address, length, protection).map_err(failed)?;
        advise_mapping(address, length)?;
        Ok(view)
    }

    /// All its addresses.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.start.as_ptr().addr();
        start..start + index(self.bytes)
    }

    /// Where byte `offset` of the object lies.
    ///
    /// # Panics
    /// If the object has no such byte.
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        assert!(offset < self.bytes, "offset {offset} leaves the {} shared bytes", self.bytes);
        // SAFETY: the view holds `bytes` bytes and offset is below that.
        unsafe { self.start.as_ptr().add(index(offset)) }
    }
}

/// Gives whole pages of a privileged view back to the system: they are zero from now on, in all views.
pub(crate) fn discard(start: *mut u8, bytes: usize) -> Result<(), MemoryError> {
    let remove = || {
        // SAFETY: the range lies in a privileged view, and its bytes are no allocation's any more.
        unsafe { madvise(start.cast(), bytes, Advice::LinuxRemove) }
    };
    let removed = remove().or_else(|errno| {
        // Not while mlockall() holds them.
        // SAFETY: as above; this takes a lock away and no byte.
        unsafe { munlock(start.cast(), bytes) }.and_then(|()| remove()).map_err(|_| errno)
    });
    let address = start.addr();
    removed.map_err(|errno| MemoryError::System { call: "madvise", address, bytes, errno })
}

impl Drop for PrivilegedView {
    fn drop(&mut self) {
        // Callers with pointers into it have given up the Memory that lent them.
        let unmapped = unmap(self.start.as_ptr().addr(), index(self.bytes));
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// Makes sure that pages of a privileged view are allocated, by writing none of their bytes.
pub(crate) fn allocate(start: *mut u8, bytes: usize) -> Result<(), MemoryError> {
    // Faulting in for writing allocates holes of the object and changes no byte.
    // SAFETY: the range lies in a privileged view; the kernel checks the rest.
    let populated = unsafe { madvise(start.cast(), bytes, Advice::LinuxPopulateWrite) };
    populated.map_err(|errno| MemoryError::OutOfMemory { address: start.addr(), bytes, errno })
}

/// Allocates pages by reading one byte of each, the cheap way where most are allocated.
///
/// # Safety
/// The range lies in a privileged view.
#[inline]
pub(crate) unsafe fn touch(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: the caller's promise.
        let byte = unsafe { start.add(offset) };
        // SAFETY: always readable there; a volatile read of one byte does not care who writes it.
        let _ = unsafe { byte.read_volatile() };
    }
}
