//! The four userfaultfd requests in use, as thin calls that are safe to retry.
//!
//! Role: the kernel interface alone (linux/userfaultfd.h); what to do with the results is in
//! `uffd`. No call here touches errno, so they may run in signal context.
#![expect(unsafe_code, reason = "issues ioctls on a userfaultfd")]

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use linux_raw_sys::general::{
    UFFD_API, UFFD_FEATURE_MINOR_SHMEM, UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_SIGBUS,
    UFFD_FEATURE_WP_ASYNC, UFFD_FEATURE_WP_HUGETLBFS_SHMEM, UFFD_USER_MODE_ONLY,
    UFFDIO_REGISTER_MODE_MINOR, UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER_MODE_WP, uffdio_api,
    uffdio_continue, uffdio_range, uffdio_register, uffdio_writeprotect,
};
use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_CONTINUE, UFFDIO_REGISTER, UFFDIO_WRITEPROTECT};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use crate::descriptor::placed;

/// What the kernel does about accesses to registered pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Features {
    /// All that are not allowed trap.
    Guard,
    /// Writes to write-protected pages are let through; those to pages without an entry may trap.
    Silent,
}

impl Features {
    const fn bits(self) -> u32 {
        let common = UFFD_FEATURE_SIGBUS
            | UFFD_FEATURE_MINOR_SHMEM
            | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
            | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
        match self {
            Self::Guard => common,
            Self::Silent => common | UFFD_FEATURE_WP_ASYNC,
        }
    }
}

// linux-raw-sys leaves out what the header writes as a 64-bit expression. Nobody ever waits on
// this userfaultfd, for faults become signals: so no call needs to wake anyone (DONTWAKE).
const CONTINUE_DONTWAKE: u64 = 1;
const CONTINUE_WP: u64 = 1 << 1;
const WRITEPROTECT_WP: u64 = 1;
const WRITEPROTECT_DONTWAKE: u64 = 1 << 1;

/// Which accesses to pages without an entry trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    /// All of them.
    Everything,
    /// Only those to pages the object has; holes are allocated and mapped without a trap.
    Allocated,
    /// None: writes are tracked, not guarded.
    Writes,
}

/// An open userfaultfd with the features this crate needs.
#[derive(Debug)]
pub(crate) struct Userfault {
    file: OwnedFd,
}

impl Userfault {
    /// Opens one; an error names the call that failed.
    pub(crate) fn open(features: Features) -> Result<Self, (&'static str, Errno)> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE);
        // SAFETY: the descriptor is registered on views of this crate only.
        let opened = unsafe { userfaultfd(flags) };
        let file = placed(opened).map_err(|errno| ("userfaultfd", errno))?;
        let userfault = Self { file };
        let mut api =
            uffdio_api { api: UFFD_API.into(), features: features.bits().into(), ioctls: 0 };
        // SAFETY: UFFDIO_API takes a uffdio_api and changes no memory but it.
        let asked = unsafe { userfault.call::<UFFDIO_API_CODE, _>(&mut api) };
        asked.map_err(|errno| ("UFFDIO_API", errno))?;
        Ok(userfault)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Takes charge of whole mappings of the memory object.
    pub(crate) fn register(
        &self,
        address: usize,
        bytes: usize,
        register: Register,
    ) -> Result<(), Errno> {
        let mode = UFFDIO_REGISTER_MODE_WP
            | match register {
                Register::Everything => UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_MISSING,
                Register::Allocated => UFFDIO_REGISTER_MODE_MINOR,
                Register::Writes => 0,
            };
        let range = range(address, bytes);
        let mut argument = uffdio_register { range, mode: mode.into(), ioctls: 0 };
        // SAFETY: UFFDIO_REGISTER takes a uffdio_register; it changes how views trap.
        unsafe { self.call::<UFFDIO_REGISTER_CODE, _>(&mut argument) }
    }

    /// Maps allocated pages that have no entry. An error comes with the bytes mapped before it.
    #[inline]
    pub(crate) fn map_present(
        &self,
        address: usize,
        bytes: usize,
        write_protected: bool,
    ) -> Result<(), (usize, Errno)> {
        let mode = CONTINUE_DONTWAKE | if write_protected { CONTINUE_WP } else { 0 };
        let mut argument = uffdio_continue { range: range(address, bytes), mode, mapped: 0 };
        // SAFETY: UFFDIO_CONTINUE takes a uffdio_continue; it maps the object's own pages.
        let called = unsafe { self.call::<UFFDIO_CONTINUE_CODE, _>(&mut argument) };
        called.map_err(|errno| (usize::try_from(argument.mapped).unwrap_or(0), errno))
    }

    /// Sets or clears write protection; returns when no thread can write any more.
    #[inline]
    pub(crate) fn write_protect(
        &self,
        address: usize,
        bytes: usize,
        protect: bool,
    ) -> Result<(), Errno> {
        let mode = if protect { WRITEPROTECT_WP } else { WRITEPROTECT_DONTWAKE };
        let mut argument = uffdio_writeprotect { range: range(address, bytes), mode };
        loop {
            // SAFETY: UFFDIO_WRITEPROTECT takes a uffdio_writeprotect; it changes how views trap.
            let called = unsafe { self.call::<UFFDIO_WRITEPROTECT_CODE, _>(&mut argument) };
            match called {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// # Safety
    /// `CODE` is a request of userfaultfd that takes a `T`.
    #[inline]
    unsafe fn call<const CODE: Opcode, T>(&self, argument: &mut T) -> Result<(), Errno> {
        // SAFETY: the caller pairs the request with the type of its argument.
        let request = unsafe { Updater::<CODE, T>::new(argument) };
        // SAFETY: the descriptor is a userfaultfd; the argument outlives the call.
        unsafe { ioctl(&self.file, request) }
    }
}

const USER_MODE: u32 = UFFD_USER_MODE_ONLY;
const UFFDIO_API_CODE: Opcode = UFFDIO_API as Opcode;
const UFFDIO_REGISTER_CODE: Opcode = UFFDIO_REGISTER as Opcode;
const UFFDIO_CONTINUE_CODE: Opcode = UFFDIO_CONTINUE as Opcode;
const UFFDIO_WRITEPROTECT_CODE: Opcode = UFFDIO_WRITEPROTECT as Opcode;

const fn range(address: usize, bytes: usize) -> uffdio_range {
    uffdio_range { start: address as u64, len: bytes as u64 }
}
