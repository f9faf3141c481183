//! Writes found by faults: a page is closed until its first write traps.
#![expect(unsafe_code, reason = "who attaches a range vouches for it")]

use core::ffi::c_void;
use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::siginfo_t;
use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;

use super::{Tracking, TrackingKind};
use crate::error::MemoryError;
use crate::guard::{Features, Register, Userfault};
use crate::trap::{Trap, decode};

/// Write-protected pages, and a list of those that were opened since.
///
/// The list's lock is held while a page is opened or closed, so that both agree. A thread that traps
/// holds no lock but the program's.
#[derive(Debug)]
pub(super) struct Faults {
    userfault: Userfault,
    written: Mutex<BTreeSet<usize>>,
}

impl Faults {
    pub(super) fn open() -> Result<Self, MemoryError> {
        let unavailable = |(call, errno)| {
            let kind = TrackingKind::Faults;
            MemoryError::TrackingUnavailable { kind, call, errno }
        };
        let userfault = Userfault::open(Features::Guard).map_err(unavailable)?;
        Ok(Self { userfault, written: Mutex::default() })
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps allocated pages wherever they have no entry.
    fn map(&self, address: usize, bytes: usize, closed: bool) -> Result<(), MemoryError> {
        let mut done = 0;
        while done < bytes {
            match self.userfault.map_present(address + done, bytes - done, closed) {
                Ok(()) => break,
                Err((mapped, _)) if mapped > 0 => done += mapped,
                Err((_, Errno::EXIST)) => done += PAGE_BYTES,
                Err((_, Errno::AGAIN | Errno::INTR)) => {}
                Err((_, errno)) => return Err(failed("UFFDIO_CONTINUE", address, bytes, errno)),
            }
        }
        Ok(())
    }

    fn protect(&self, address: usize, bytes: usize, closed: bool) -> Result<(), MemoryError> {
        let done = self.userfault.write_protect(address, bytes, closed);
        done.map_err(|errno| failed("UFFDIO_WRITEPROTECT", address, bytes, errno))
    }
}

impl Tracking for Faults {
    fn kind(&self) -> TrackingKind {
        TrackingKind::Faults
    }

    unsafe fn attach(&self, address: usize, bytes: usize) -> Result<(), MemoryError> {
        let registered = self.userfault.register(address, bytes, Register::Allocated);
        registered.map_err(|errno| failed("UFFDIO_REGISTER", address, bytes, errno))?;
        self.map(address, bytes, true)?;
        self.protect(address, bytes, true)
    }

    fn scan(
        &self,
        address: usize,
        bytes: usize,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), MemoryError> {
        let mut list = self.written();
        let pages: Vec<usize> = list.range(address..address + bytes).copied().collect();
        for run in pages.chunk_by(|one, next| one + PAGE_BYTES == *next) {
            self.protect(run[0], run.len() * PAGE_BYTES, true)?;
            for page in run {
                list.remove(page);
            }
            written(run[0]..run[0] + run.len() * PAGE_BYTES);
        }
        Ok(())
    }

    fn decode(&self, signal: i32, info: *const siginfo_t, context: *const c_void) -> Option<Trap> {
        decode(libc::SIGBUS, signal, info, context)
    }

    fn open(&self, trap: Trap) -> Result<(), MemoryError> {
        let page = trap.address - trap.address % PAGE_BYTES;
        let mut list = self.written();
        if trap.write {
            list.insert(page);
        }
        // A page whose entry the kernel dropped is mapped as the list has it.
        let closed = !list.contains(&page);
        self.map(page, PAGE_BYTES, closed)?;
        if trap.write { self.protect(page, PAGE_BYTES, false) } else { Ok(()) }
    }
}

fn failed(call: &'static str, address: usize, bytes: usize, errno: Errno) -> MemoryError {
    MemoryError::System { call, address, bytes, errno }
}
