//! Objects: the shared bytes that views map (Millipage 2.2, 2.3.1).
//!
//! Role: one trait, a file for each source of shared bytes, one conformance suite
//! (tests/conformance.rs) over all. Code that maps an object knows its length and nothing else of it.
//!
//! | object | its bytes | under the guard uffd |
//! |---|---|---|
//! | [`Object::memfd`] | its own, zero at first | yes |
//! | [`Object::file`] | a file's | in /dev/shm only: the kernel guards no others |
//! | [`Object::system_v`] | a System V segment's | no: the kernel does not guard them |
//! | [`Object::adopt`] | those that the process has at an address, which stay there | yes |
#![expect(unsafe_code, reason = "maps objects")]

use core::ffi::c_void;
use core::fmt;
use core::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mprotect, munlock, munmap,
};

use crate::error::MemoryError;

mod adopted;
mod file;
mod memfd;
mod sysv;

pub use memfd::MOST_OBJECT_BYTES;

/// What may be mapped already where an object is to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nothing.
    Nothing,
    /// A mapping of the same bytes, which is replaced.
    Itself,
}

/// A way to come by shared bytes.
trait Backing: Send + Sync + fmt::Debug {
    /// Bytes of the object, whole pages.
    fn bytes(&self) -> u64;

    /// Maps [offset, offset + bytes) shared at `address`. Whole pages.
    fn map(
        &self,
        address: usize,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
        over: Over,
    ) -> Result<(), Errno>;

    /// The descriptor it keeps open, if it needs one.
    fn descriptor(&self) -> Option<RawFd>;

    /// The addresses that the program has the bytes at, if it had them before they were an object.
    fn adopted(&self) -> Option<Range<usize>> {
        None
    }
}

/// Shared bytes, however they came to be.
#[derive(Debug)]
pub struct Object(Box<dyn Backing>);

impl Object {
    /// Bytes of its own, zero at first; rounded up to whole pages, and sparse.
    ///
    /// # Errors
    /// A size out of range, more than `ulimit -f` allows, or a failing system call.
    pub fn memfd(bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(memfd::Memfd::new(bytes)?)))
    }

    /// The bytes of a file that is open for reading and writing.
    ///
    /// # Errors
    /// The file is empty or does not fill its last page, or a failing system call.
    pub fn file(file: OwnedFd) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(file::File::new(file)?)))
    }

    /// The System V segment of that id, attached until the object is dropped.
    ///
    /// # Errors
    /// No such segment, or one that this user may not write.
    pub fn system_v(id: i32) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(sysv::SystemV::attach(id)?)))
    }

    /// The private memory that this process has at `address`: its bytes move into an object, which
    /// is mapped there instead. They stay there when the object is dropped.
    ///
    /// # Errors
    /// Addresses or bytes that are not whole pages, more than `ulimit -f` allows, or a failing
    /// system call.
    ///
    /// # Safety
    /// The range is mapped, readable and writable, and nothing of it is written by another thread
    /// before this returns.
    pub unsafe fn adopt(address: usize, bytes: usize) -> Result<Self, MemoryError> {
        // SAFETY: the caller's promise.
        Ok(Self(Box::new(unsafe { adopted::Adopted::take(address, bytes) }?)))
    }

    /// Bytes of the object, whole pages.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.0.descriptor()
    }

    /// Whether nothing is allocated for these bytes, which are zero then; false where that cannot be told.
    pub(crate) fn is_hole(&self, offset: u64, bytes: u64) -> bool {
        let Some(descriptor) = self.descriptor() else { return false };
        // SAFETY: the object keeps it open.
        let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
        match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data >= offset + bytes,
            Err(errno) => errno == Errno::NXIO,
        }
    }

    pub(crate) fn adopted(&self) -> Option<Range<usize>> {
        self.0.adopted()
    }

    /// Maps [offset, offset + bytes) shared at `address`. Whole pages.
    pub(crate) fn map(
        &self,
        address: usize,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
        over: Over,
    ) -> Result<(), Errno> {
        self.0.map(address, bytes, offset, protection, over)
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

/// Gives mapped addresses, which have no protection yet, theirs. Where all mappings to come are locked
/// (`mlockall`), each would be allocated as soon as it can be accessed, and mapped without a trap.
pub(crate) fn open(address: usize, bytes: usize, protection: ProtFlags) -> Result<(), Errno> {
    unlock(&(address..address + bytes));
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    let flags = MprotectFlags::from_bits_retain(protection.bits());
    // SAFETY: the range was just mapped by this crate, and nobody knows of it.
    unsafe { mprotect(start, bytes, flags) }
}

/// Unlocks mapped addresses; a process that may not lock has nothing to unlock.
pub(crate) fn unlock(addresses: &Range<usize>) {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(addresses.start);
    // SAFETY: locking changes no contents.
    let _ = unsafe { munlock(start, addresses.len()) };
}

/// Takes all access away from what [`Object::map`] has mapped, whatever the guard had given.
pub(crate) fn seal(address: usize, bytes: usize) -> Result<(), MemoryError> {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: the range lies in views this crate mapped; applications expect their traps.
    let sealed = unsafe { mprotect(start, bytes, MprotectFlags::empty()) };
    sealed.map_err(|errno| MemoryError::System { call: "mprotect", address, bytes, errno })
}

/// Unmaps what [`Object::map`] has mapped.
pub(crate) fn unmap(address: usize, bytes: usize) -> Result<(), MemoryError> {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: the caller names addresses this crate mapped; applications lose them on purpose.
    let unmapped = unsafe { munmap(start, bytes) };
    unmapped.map_err(|errno| MemoryError::System { call: "munmap", address, bytes, errno })
}

/// The error of a call that maps: something is there already, or what the kernel says.
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

/// Maps a file at an address.
fn map_file(
    file: impl AsFd,
    address: usize,
    bytes: usize,
    offset: u64,
    protection: ProtFlags,
    over: Over,
) -> Result<(), Errno> {
    let hint = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    let fixed = match over {
        Over::Nothing => MapFlags::FIXED_NOREPLACE,
        Over::Itself => MapFlags::FIXED,
    };
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | fixed;
    // SAFETY: nothing is replaced, or a mapping of the same bytes by themselves.
    let start = unsafe { mmap(hint, bytes, protection, flags, file, offset)? };
    if start.addr() != address {
        // Only kernels before 4.17 take the address as a hint.
        // SAFETY: this mapping was made just above and nobody knows of it.
        let _ = unsafe { munmap(start, bytes) };
        return Err(Errno::EXIST);
    }
    start.expose_provenance();
    Ok(())
}
