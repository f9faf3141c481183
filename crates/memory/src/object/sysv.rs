//! A System V segment as an object (ParADE 4.2): somebody's, by its id, or one of its own.
//!
//! It has no descriptor to map parts of it by, and `shmat` attaches it whole. So views are duplicates of parts of one
//! attachment. A segment of its own is removed as soon as it is attached, and then goes with its last mapping, however the process
//! ends; a process that is killed between the two calls leaves it.
#![expect(unsafe_code, reason = "makes a segment and attaches it")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;

use super::duplicates::{Call, Original};
use super::whole_pages;
use crate::access_path::AccessPath;
use crate::error::MemoryError;
use crate::layout::index;
use crate::shortage::address_limit;

/// A segment of its own.
pub(super) fn new(bytes: u64) -> Result<Original, MemoryError> {
    let bytes = whole_pages(bytes)?;
    let flags = libc::IPC_CREAT | libc::SHM_NORESERVE | 0o600;
    // SAFETY: makes a segment.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, index(bytes), flags) };
    if id < 0 {
        return Err(refused("shmget", bytes, last_errno()));
    }
    let attached = attach(id);
    // SAFETY: made just above; it goes with its last mapping, or now if it is not attached.
    if unsafe { libc::shmctl(id, libc::IPC_RMID, core::ptr::null_mut()) } != 0 {
        return Err(refused("shmctl", bytes, last_errno()));
    }
    attached.map_err(|error| {
        if let MemoryError::System { call: "shmat", errno, .. } = error {
            return refused("shmat", bytes, errno);
        }
        error
    })
}

/// Somebody's, whose id is known.
pub(super) fn attach(id: i32) -> Result<Original, MemoryError> {
    let failed = |call| MemoryError::System { call, address: 0, bytes: 0, errno: last_errno() };
    let mut status = MaybeUninit::<libc::shmid_ds>::uninit();
    // SAFETY: IPC_STAT fills in a shmid_ds.
    if unsafe { libc::shmctl(id, libc::IPC_STAT, status.as_mut_ptr()) } != 0 {
        return Err(failed("shmctl"));
    }
    // SAFETY: the kernel has filled it in.
    let bytes = unsafe { status.assume_init() }.shm_segsz.next_multiple_of(PAGE_BYTES);
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    let attached: *mut c_void = unsafe { libc::shmat(id, core::ptr::null(), 0) };
    if attached.addr() == usize::MAX {
        return Err(failed("shmat"));
    }
    let attached = NonNull::new(attached).ok_or_else(|| failed("shmat"))?;
    Original::new(attached, bytes as u64, Call::Shmat)
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Why there is no segment of its own.
fn refused(call: &'static str, bytes: u64, errno: Errno) -> MemoryError {
    let remedy = match errno {
        Errno::NOMEM if address_limit(index(bytes)).is_some() => {
            return MemoryError::Ulimit { bytes, flag: "-v" };
        }
        Errno::INVAL => {
            "raise kernel.shmmax, choose a smaller `multigrain run --shared`, or use --path memfd"
        }
        Errno::NOSPC => {
            "remove System V segments, raise kernel.shmmni or kernel.shmall, or use --path memfd"
        }
        Errno::PERM | Errno::NOSYS => {
            "allow it in the container's seccomp profile, or use --path memfd"
        }
        _ => "choose a smaller `multigrain run --shared`, or use --path memfd",
    };
    MemoryError::NoPath { path: AccessPath::SystemV, call, bytes, errno, remedy }
}
