//! Requests on the userfaultfd of another process (linux/userfaultfd.h).
//!
//! Role: the kernel interface alone. What is guarded, and what an event means, is in `exports`.

use core::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use linux_raw_sys::general::{
    UFFD_API, UFFD_EVENT_FORK, UFFD_EVENT_PAGEFAULT, UFFD_EVENT_REMAP, UFFD_EVENT_UNMAP,
    UFFD_FEATURE_EVENT_FORK, UFFD_FEATURE_EVENT_REMAP, UFFD_FEATURE_EVENT_UNMAP,
    UFFD_FEATURE_MISSING_SHMEM, UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
    UFFD_FEATURE_WP_UNPOPULATED, UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER_MODE_WP, uffdio_api,
    uffdio_copy, uffdio_range, uffdio_register, uffdio_writeprotect,
};
use linux_raw_sys::ioctl::{
    UFFDIO_API, UFFDIO_COPY, UFFDIO_REGISTER, UFFDIO_WAKE, UFFDIO_WRITEPROTECT,
};
use multigrain_types::PAGE_BYTES;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// Faults of the kernel's own accesses count, as in system calls; forks are told, with the guards of the child.
const FEATURES: u32 = UFFD_FEATURE_PAGEFAULT_FLAG_WP
    | UFFD_FEATURE_MISSING_SHMEM
    | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
    | UFFD_FEATURE_WP_UNPOPULATED
    | UFFD_FEATURE_EVENT_FORK
    | UFFD_FEATURE_EVENT_REMAP
    | UFFD_FEATURE_EVENT_UNMAP;

const WRITEPROTECT_WP: u64 = 1;
const COPY_WP: u64 = 1 << 1;
/// Of a fault: it was a write, or a write to what is write-protected.
const FAULT_WRITE: u64 = 1;
const FAULT_PROTECTED: u64 = 1 << 1;

/// Whether a descriptor of another process is a userfaultfd, as far as its name says; nobody waits on it from now on.
pub(super) fn is_one(descriptor: &OwnedFd) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let named = name.is_ok_and(|name| name.as_os_str() == "anon_inode:[userfaultfd]");
    named && fcntl_setfl(descriptor, OFlags::NONBLOCK).is_ok()
}

/// What a userfaultfd says.
#[derive(Debug)]
pub(super) enum Event<G> {
    /// A thread waits at an address, to write or to read, for what is not mapped there or is write-protected.
    Fault { address: usize, writes: bool, is_missing: bool },
    /// The process has forked: the userfaultfd of the child, with the same guards.
    Fork(G),
    /// A mapping has moved.
    Moved { from: usize, to: usize, bytes: usize },
    /// Addresses are not mapped any more.
    Unmapped { start: usize, end: usize },
}

/// A userfaultfd of a process that was forked or has sent it.
#[derive(Debug)]
pub(super) struct Userfault(pub(super) OwnedFd);

impl From<OwnedFd> for Userfault {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl Userfault {
    /// Whether this process may have userfaultfds do what a site needs.
    ///
    /// # Errors
    /// Which call was refused, and how.
    pub(super) fn try_here() -> Result<(), (&'static str, Errno)> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: nothing is registered on it.
        let opened = unsafe { userfaultfd(flags) };
        let opened = opened.map_err(|errno| ("userfaultfd", errno))?;
        Self(opened).enable().map_err(|errno| ("UFFDIO_API with fork events", errno))
    }

    /// Begins with the features that a site needs.
    pub(super) fn enable(&self) -> Result<(), Errno> {
        let mut api = uffdio_api { api: UFFD_API.into(), features: FEATURES.into(), ioctls: 0 };
        // SAFETY: UFFDIO_API takes a uffdio_api and changes no memory but it.
        unsafe { self.call::<{ UFFDIO_API as Opcode }, _>(&mut api) }
    }

    /// Guards whole mappings of a memory object: holes trap, and so do writes until they are let through.
    pub(super) fn register(&self, address: usize, bytes: usize) -> Result<(), Errno> {
        let mode = UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING;
        let range = range(address, bytes);
        let mut argument = uffdio_register { range, mode: mode.into(), ioctls: 0 };
        // SAFETY: UFFDIO_REGISTER takes a uffdio_register; it changes how the other process traps.
        unsafe { self.call::<{ UFFDIO_REGISTER as Opcode }, _>(&mut argument) }
    }

    /// Takes write access, or gives it and lets those go on that wait. [`Errno::AGAIN`] while a fork's event is not read.
    pub(super) fn protect(&self, address: usize, bytes: usize, protect: bool) -> Result<(), Errno> {
        let mode = if protect { WRITEPROTECT_WP } else { 0 };
        let mut argument = uffdio_writeprotect { range: range(address, bytes), mode };
        loop {
            // SAFETY: UFFDIO_WRITEPROTECT takes a uffdio_writeprotect; it changes how the other process traps.
            match unsafe { self.call::<{ UFFDIO_WRITEPROTECT as Opcode }, _>(&mut argument) } {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Makes a page of a hole, with these contents, maps it at an address, write-protected or not, and lets those go on that wait
    /// there: all of it in one step. [`Errno::AGAIN`] as for [`Self::protect`]; [`Errno::EXIST`] if it is no hole.
    pub(super) fn fill(
        &self,
        address: usize,
        contents: *const u8,
        protect: bool,
    ) -> Result<(), Errno> {
        let mut argument = uffdio_copy {
            dst: address as u64,
            src: contents.expose_provenance() as u64,
            len: PAGE_BYTES as u64,
            mode: if protect { COPY_WP } else { 0 },
            copy: 0,
        };
        loop {
            // SAFETY: UFFDIO_COPY takes a uffdio_copy; it reads a page here and changes what the other process has mapped.
            match unsafe { self.call::<{ UFFDIO_COPY as Opcode }, _>(&mut argument) } {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Lets those try again that wait at these addresses.
    pub(super) fn wake(&self, address: usize, bytes: usize) -> Result<(), Errno> {
        let mut argument = range(address, bytes);
        // SAFETY: UFFDIO_WAKE takes a uffdio_range and changes no memory.
        unsafe { self.call::<{ UFFDIO_WAKE as Opcode }, _>(&mut argument) }
    }

    /// The events that are there.
    ///
    /// # Errors
    /// No descriptor or no memory is left for a child: its event stays.
    pub(super) fn events(&self) -> Result<Vec<Event<Self>>, Errno> {
        let mut events = Vec::new();
        let mut room = [[0_u64; 4]; 16];
        loop {
            let length = size_of_val(&room);
            let place: *mut c_void = room.as_mut_ptr().cast();
            // SAFETY: the kernel writes whole messages of 32 bytes, as many as fit.
            let read = unsafe { libc::read(self.0.as_raw_fd(), place, length) };
            let Ok(bytes @ 1..) = usize::try_from(read) else {
                match Errno::from_io_error(&std::io::Error::last_os_error()) {
                    Some(Errno::INTR) => continue,
                    Some(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => {
                        return Err(errno);
                    }
                    Some(_) | None => return Ok(events),
                }
            };
            events.extend(room.iter().take(bytes / 32).filter_map(event_of));
            if bytes < length {
                return Ok(events);
            }
        }
    }

    /// # Safety
    /// `CODE` is a request of userfaultfd that takes a `T`.
    unsafe fn call<const CODE: Opcode, T>(&self, argument: &mut T) -> Result<(), Errno> {
        // SAFETY: the caller pairs the request with the type of its argument.
        let request = unsafe { Updater::<CODE, T>::new(argument) };
        // SAFETY: the descriptor is a userfaultfd, or refuses the request; the argument outlives the call.
        unsafe { ioctl(self.0.as_fd(), request) }
    }
}

fn event_of(message: &[u64; 4]) -> Option<Event<Userfault>> {
    let [kind, first, second, third] = *message;
    let address = |word: u64| usize::try_from(word).unwrap_or(usize::MAX);
    match u32::from(kind.to_le_bytes()[0]) {
        UFFD_EVENT_PAGEFAULT => {
            let writes = first & (FAULT_WRITE | FAULT_PROTECTED) != 0;
            let is_missing = first & FAULT_PROTECTED == 0;
            Some(Event::Fault { address: address(second), writes, is_missing })
        }
        UFFD_EVENT_FORK => {
            let number = RawFd::from_le_bytes(core::array::from_fn(|at| first.to_le_bytes()[at]));
            // SAFETY: the kernel has made it for this read.
            let child = unsafe { OwnedFd::from_raw_fd(number) };
            Some(Event::Fork(Userfault(child)))
        }
        UFFD_EVENT_REMAP => {
            let (from, to, bytes) = (address(first), address(second), address(third));
            Some(Event::Moved { from, to, bytes })
        }
        UFFD_EVENT_UNMAP => Some(Event::Unmapped { start: address(first), end: address(second) }),
        _ => None,
    }
}

const fn range(address: usize, bytes: usize) -> uffdio_range {
    uffdio_range { start: address as u64, len: bytes as u64 }
}
