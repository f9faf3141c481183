//! The default guard: userfaultfd with SIGBUS in the faulting thread.
//!
//! Role: protections live in page-table entries, not in kernel mappings, so a million minipages
//! cost no more than ten. NoAccess = no entry; ReadOnly = an entry with the write-protect mark;
//! ReadWrite = a plain entry. Kernel surprises are written down where they bite. Which features are asked of the kernel:
//! `uffd_ioctl.rs`.
#![expect(unsafe_code, reason = "zaps entries of views, and maps a page to try the kernel out")]

use core::ffi::c_void;
use core::ptr::null_mut;
use std::os::fd::RawFd;

use multigrain_types::{Access, PAGE_BYTES};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use super::uffd_ioctl::{Features, Register, Userfault};
use super::{Guard, Vpages};
use crate::descriptor::placed;
use crate::error::MemoryError;
use crate::guard_kind::GuardKind;
use crate::privileged::{allocate, touch};
use crate::shortage::is_unmapped;

/// One userfaultfd over all areas.
#[derive(Debug)]
pub(crate) struct Uffd {
    userfault: Userfault,
}

/// What to do with vpages that have an entry already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Present {
    Adjust,
    Leave,
}

impl Uffd {
    /// Opens the guard and tries it on a page of its own, for old kernels lack some requests
    /// that no feature bit tells of (CONTINUE with write protection came with 6.4).
    pub(crate) fn open() -> Result<Self, MemoryError> {
        let unavailable =
            |(call, errno)| MemoryError::GuardUnavailable { guard: GuardKind::Uffd, call, errno };
        let userfault = Userfault::open(Features::Guard).map_err(unavailable)?;
        try_out(&userfault).map_err(unavailable)?;
        Ok(Self { userfault })
    }

    /// Maps vpages with `access`, which is not NoAccess, wherever they have no entry.
    fn map(&self, vpages: Vpages, access: Access, present: Present) -> Result<(), MemoryError> {
        let Vpages { address, bytes, .. } = vpages;
        let write_protected = access == Access::ReadOnly;
        let (mut done, mut adjusted, mut allocated) = (0, false, false);
        while done < bytes {
            let (at, rest) = (address + done, bytes - done);
            match self.userfault.map_present(at, rest, write_protected) {
                Ok(()) => break,
                Err((mapped, _)) if mapped > 0 => done += mapped,
                Err((_, Errno::AGAIN | Errno::INTR)) => {}
                // The entry is there: CONTINUE leaves it as it is.
                Err((_, Errno::EXIST)) => {
                    if present == Present::Adjust && !adjusted {
                        self.write_protect(at, rest, write_protected)?;
                        adjusted = true;
                    }
                    done += PAGE_BYTES;
                }
                // A hole of the object: nothing to map before it is allocated.
                Err((_, Errno::FAULT)) if !allocated => {
                    allocate(vpages.privileged().wrapping_add(done), rest)?;
                    allocated = true;
                }
                Err((_, errno)) => return Err(failed("UFFDIO_CONTINUE", (at, rest), errno)),
            }
        }
        Ok(())
    }

    #[inline]
    fn write_protect(
        &self,
        address: usize,
        bytes: usize,
        protect: bool,
    ) -> Result<(), MemoryError> {
        let protected = self.userfault.write_protect(address, bytes, protect);
        protected.map_err(|errno| failed("UFFDIO_WRITEPROTECT", (address, bytes), errno))
    }

    /// Takes write access away. Fresh pages nobody touched are allocated first: the mark alone
    /// was seen to survive a later allocation (6.18), but this does not hang on it.
    fn downgrade(&self, vpages: Vpages) -> Result<(), MemoryError> {
        if vpages.fresh {
            // SAFETY: so the vpages say.
            unsafe { touch(vpages.privileged(), vpages.bytes) };
        }
        self.write_protect(vpages.address, vpages.bytes, true)
    }

    /// Takes all access away. Fresh pages nobody touched are allocated first, else the next
    /// touch would allocate and map them without a trap.
    fn zap(&self, vpages: Vpages) -> Result<(), MemoryError> {
        if vpages.fresh {
            // SAFETY: so the vpages say.
            unsafe { touch(vpages.privileged(), vpages.bytes) };
        }
        let Vpages { address, bytes, .. } = vpages;
        dont_need(address, bytes).map_err(|errno| failed("madvise", (address, bytes), errno))
    }
}

impl Guard for Uffd {
    fn kind(&self) -> GuardKind {
        GuardKind::Uffd
    }

    fn signal(&self) -> i32 {
        libc::SIGBUS
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.userfault.descriptor())
    }

    fn first_protection(&self, _fresh: bool) -> ProtFlags {
        ProtFlags::READ | ProtFlags::WRITE
    }

    fn attach(&self, address: usize, bytes: usize, fresh: bool) -> Result<(), MemoryError> {
        let register = if fresh { Register::Allocated } else { Register::Everything };
        let call = "UFFDIO_REGISTER";
        self.userfault.register(address, bytes, register).map_err(|errno| match errno {
            Errno::INVAL => MemoryError::NotGuarded { address },
            errno => MemoryError::System { call, address, bytes, errno },
        })
    }

    fn protect(&self, vpages: Vpages, from: Access, to: Access) -> Result<(), MemoryError> {
        match (from, to) {
            (Access::NoAccess, Access::NoAccess)
            | (Access::ReadOnly, Access::ReadOnly)
            | (Access::ReadWrite, Access::ReadWrite) => Ok(()),
            (Access::NoAccess, Access::ReadOnly | Access::ReadWrite) => {
                self.map(vpages, to, Present::Adjust)
            }
            (Access::ReadOnly, Access::ReadWrite) => {
                self.write_protect(vpages.address, vpages.bytes, false)
            }
            (Access::ReadWrite, Access::ReadOnly) => self.downgrade(vpages),
            (Access::ReadOnly | Access::ReadWrite, Access::NoAccess) => self.zap(vpages),
        }
    }

    fn reprotect(&self, vpages: Vpages, access: Access) -> Result<(), MemoryError> {
        match access {
            Access::NoAccess => self.zap(vpages),
            Access::ReadOnly | Access::ReadWrite => self.map(vpages, access, Present::Adjust),
        }
    }

    fn populate(&self, first: Vpages, views: u16, stride: usize) -> Result<(), MemoryError> {
        allocate(first.privileged(), first.bytes)?;
        for view in 0..usize::from(views) {
            let vpages = Vpages { address: first.address + view * stride, ..first };
            self.map(vpages, Access::ReadWrite, Present::Leave)?;
        }
        Ok(())
    }
}

/// What the kernel says of vpages that were mapped and registered: ENOENT where they are not registered any
/// more, ENOMEM for some requests where they are not mapped.
fn failed(call: &'static str, (address, bytes): (usize, usize), errno: Errno) -> MemoryError {
    match errno {
        Errno::NOENT => MemoryError::Unmapped { address },
        Errno::NOMEM if is_unmapped(address, bytes) => MemoryError::Unmapped { address },
        errno => MemoryError::System { call, address, bytes, errno },
    }
}

fn dont_need(address: usize, bytes: usize) -> Result<(), Errno> {
    let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
    // SAFETY: the views share the object's pages: dropping their entries loses no byte.
    match unsafe { madvise(start, bytes, Advice::LinuxDontNeed) } {
        // What a program has locked needs the advice that allows for it.
        // SAFETY: as above.
        Err(Errno::INVAL) => unsafe { madvise(start, bytes, Advice::LinuxDontneedLocked) },
        result => result,
    }
}

/// Goes once through every request on a page of a memfd of its own.
fn try_out(userfault: &Userfault) -> Result<(), (&'static str, Errno)> {
    // As for an object: ftruncate would raise SIGXFSZ.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < PAGE_BYTES as u64) {
        return Err(("ftruncate", Errno::FBIG));
    }
    let file =
        placed(memfd_create(c"multigrain-probe", MemfdFlags::CLOEXEC)).map_err(|e| ("memfd", e))?;
    ftruncate(&file, PAGE_BYTES as u64).map_err(|e| ("ftruncate", e))?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    let view = unsafe { mmap(null_mut(), PAGE_BYTES, protection, MapFlags::SHARED, &file, 0) };
    let view = view.map_err(|e| ("mmap", e))?;
    let tried = try_requests(userfault, view);
    // SAFETY: this mapping was made just above and nobody else knows of it.
    let _ = unsafe { munmap(view, PAGE_BYTES) };
    tried
}

fn try_requests(userfault: &Userfault, view: *mut c_void) -> Result<(), (&'static str, Errno)> {
    let address = view.expose_provenance();
    // SAFETY: allocates the page of a mapping that is ours.
    let populated = unsafe { madvise(view, PAGE_BYTES, Advice::LinuxPopulateWrite) };
    populated.map_err(|e| ("MADV_POPULATE_WRITE", e))?;
    userfault
        .register(address, PAGE_BYTES, Register::Everything)
        .map_err(|e| ("UFFDIO_REGISTER", e))?;
    dont_need(address, PAGE_BYTES).map_err(|e| ("MADV_DONTNEED", e))?;
    userfault
        .map_present(address, PAGE_BYTES, true)
        .map_err(|(_, e)| ("UFFDIO_CONTINUE with write protection", e))?;
    userfault.write_protect(address, PAGE_BYTES, false).map_err(|e| ("UFFDIO_WRITEPROTECT", e))
}
