//! Objects: the shared bytes that views map (Millipage 2.2, 2.3.1).
//!
//! Role: one trait, a file for each source of shared bytes, one conformance suite
//! (tests/conformance.rs) over all. Code that maps an object knows its length and nothing else of it.
//!
//! | object | its bytes | under the guard uffd |
//! |---|---|---|
//! | [`Object::memfd`] | its own, zero at first | yes |
//! | [`Object::unnamed_file`] | its own, in a file without a name (ParADE 4.1) | as a file's |
//! | [`Object::own_system_v`] | its own, in a System V segment (ParADE 4.2) | no |
//! | [`Object::mdup`] | its own, in shared anonymous memory (ParADE 4.3) | yes |
//! | [`Object::named_file`] | a file's | in /dev/shm only: the kernel guards no others |
//! | [`Object::system_v`] | a System V segment's | no: the kernel does not guard them |
//! | [`Object::adopt`] | those that the process has at an address, which stay there | yes |
//!
//! Those that have bytes of their own are the access paths of `multigrain run --path` ([`AccessPath`]): ways to map the
//! same bytes twice, so that a page is updated through one mapping while threads are kept from it in another.
#![expect(unsafe_code, reason = "maps objects")]

use core::ffi::c_void;
use core::fmt;
use core::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use multigrain_types::PAGE_BYTES;
use rustix::fs::{SeekFrom, ftruncate, seek};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munlock,
    munmap,
};
use rustix::process::{Resource, getrlimit};

use crate::access_path::AccessPath;
use crate::error::MemoryError;
use crate::layout::{VIEWS_BASE, VIEWS_END, index};

mod adopted;
mod duplicates;
mod mdup;
mod memfd;
mod named_file;
mod sysv;
mod unnamed_file;

/// The most bytes of an object of its own: as many as one view could address.
pub const MOST_OBJECT_BYTES: u64 = (VIEWS_END - VIEWS_BASE) as u64;

/// What may be mapped already where an object is to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nothing.
    Nothing,
    /// A mapping of the same bytes, or of none, which is replaced.
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

    /// Makes sure that there is room for these bytes, as far as an access could find that there is none and memory as
    /// such is there.
    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), MemoryError> {
        let _ = (offset, bytes);
        Ok(())
    }

    /// The addresses of a mapping that it keeps to map by, if it needs one.
    fn original(&self) -> Option<Range<usize>> {
        None
    }

    /// The addresses that the program has the bytes at, if it had them before they were an object.
    fn adopted(&self) -> Option<Range<usize>> {
        None
    }
}

/// Shared bytes, however they came to be.
#[derive(Debug)]
pub struct Object(Box<dyn Backing>);

impl Object {
    /// Bytes of its own, which come by that path; rounded up to whole pages, and zero at first.
    ///
    /// # Errors
    /// Those of the path's own function below.
    pub fn of_path(path: AccessPath, bytes: u64) -> Result<Self, MemoryError> {
        match path {
            AccessPath::Memfd => Self::memfd(bytes),
            AccessPath::File => Self::unnamed_file(&std::env::temp_dir(), bytes),
            AccessPath::SystemV => Self::own_system_v(bytes),
            AccessPath::Mdup => Self::mdup(bytes),
        }
    }

    /// Bytes of its own, zero at first; rounded up to whole pages, and sparse.
    ///
    /// # Errors
    /// A size out of range, more than `ulimit -f` allows, or a failing system call.
    pub fn memfd(bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(memfd::Memfd::new(bytes)?)))
    }

    /// Bytes of its own in a file of that directory, which has no name and whose blocks are allocated with
    /// the areas that lie in them.
    ///
    /// # Errors
    /// A size out of range, more than `ulimit -f` allows, a directory where no file can be made, or a file
    /// system without holes or room.
    pub fn unnamed_file(directory: &Path, bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(unnamed_file::UnnamedFile::new(directory, bytes)?)))
    }

    /// Bytes of its own in a System V segment, which is gone from the system's list already.
    ///
    /// # Errors
    /// A size out of range, or the system's limits of such segments.
    pub fn own_system_v(bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(sysv::new(bytes)?)))
    }

    /// Bytes of its own in shared anonymous memory, whose mapping is duplicated.
    ///
    /// # Errors
    /// A size out of range, or no room for as many addresses.
    pub fn mdup(bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(mdup::new(bytes)?)))
    }

    /// The bytes of a file that is open for reading and writing.
    ///
    /// # Errors
    /// The file is empty or does not fill its last page, or a failing system call.
    pub fn named_file(file: OwnedFd) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(named_file::NamedFile::new(file)?)))
    }

    /// The System V segment of that id, attached until the object is dropped.
    ///
    /// # Errors
    /// No such segment, or one that this user may not write.
    pub fn system_v(id: i32) -> Result<Self, MemoryError> {
        Ok(Self(Box::new(sysv::attach(id)?)))
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

    /// Addresses that it has mapped for itself.
    pub(crate) fn original(&self) -> Option<Range<usize>> {
        self.0.original()
    }

    /// Makes sure that there is room for [offset, offset + bytes).
    pub(crate) fn reserve(&self, offset: u64, bytes: u64) -> Result<(), MemoryError> {
        self.0.reserve(offset, bytes)
    }

    /// Maps the first page for as long as something is tried on it.
    pub(crate) fn try_on_a_page(
        &self,
        tried: impl FnOnce(usize) -> Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        let failed =
            |errno| MemoryError::System { call: "mmap", address: 0, bytes: PAGE_BYTES, errno };
        let (none, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let place = unsafe { mmap_anonymous(core::ptr::null_mut(), PAGE_BYTES, none, flags) };
        let address = place.map_err(failed)?.expose_provenance();
        let mapped = self.map(address, PAGE_BYTES, 0, none, Over::Itself).map_err(failed);
        let tried = mapped.and_then(|()| tried(address));
        unmap(address, PAGE_BYTES)?;
        tried
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
pub(crate) fn advise_mapping(address: usize, bytes: usize) -> Result<(), MemoryError> {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: advice on a mapping of ours that changes no content.
    let advised = unsafe { madvise(start, bytes, Advice::LinuxDontFork) };
    advised.map_err(|errno| MemoryError::System { call: "madvise", address, bytes, errno })?;
    // SAFETY: as above.
    let advised = unsafe { madvise(start, bytes, Advice::LinuxDontDump) };
    advised.map_err(|errno| MemoryError::System { call: "madvise", address, bytes, errno })?;
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

/// The bytes of an object of its own that is to have so many.
fn whole_pages(bytes: u64) -> Result<u64, MemoryError> {
    if bytes == 0 || bytes > MOST_OBJECT_BYTES {
        return Err(MemoryError::SharedSize { bytes, limit: MOST_OBJECT_BYTES });
    }
    Ok(bytes.next_multiple_of(PAGE_BYTES as u64))
}

/// Gives a new file its length.
fn set_length(file: impl AsFd, bytes: u64) -> Result<(), MemoryError> {
    // Beyond the limit of file sizes ftruncate would raise SIGXFSZ.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
        return Err(MemoryError::Ulimit { bytes, flag: "-f" });
    }
    let (call, length) = ("ftruncate", index(bytes));
    let failed = |errno| MemoryError::System { call, address: 0, bytes: length, errno };
    ftruncate(file, bytes).map_err(failed)
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
