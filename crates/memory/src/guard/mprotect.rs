//! The fallback guard: mprotect and SIGSEGV.
//!
//! Role: works in every container and on every kernel. Each vpage whose protection differs from
//! its neighbour's costs the kernel a mapping, so vm.max_map_count (65,530 by default) is its limit.
#![expect(unsafe_code, reason = "changes the protection of views")]

use core::ffi::c_void;
use std::os::fd::RawFd;

use multigrain_types::Access;
use rustix::io::Errno;
use rustix::mm::{MprotectFlags, ProtFlags, mprotect};

use super::{Guard, Vpages};
use crate::error::MemoryError;
use crate::guard_kind::GuardKind;
use crate::privileged::allocate;
use crate::shortage::is_unmapped;

/// Stateless: the protection lives in the kernel's mappings.
#[derive(Debug)]
pub(crate) struct Mprotect;

impl Guard for Mprotect {
    fn kind(&self) -> GuardKind {
        GuardKind::Mprotect
    }

    fn signal(&self) -> i32 {
        libc::SIGSEGV
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    fn first_protection(&self, fresh: bool) -> ProtFlags {
        if fresh { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::empty() }
    }

    fn attach(&self, _address: usize, _bytes: usize, _fresh: bool) -> Result<(), MemoryError> {
        Ok(())
    }

    fn protect(&self, vpages: Vpages, from: Access, to: Access) -> Result<(), MemoryError> {
        if from == to { Ok(()) } else { self.reprotect(vpages, to) }
    }

    fn reprotect(&self, vpages: Vpages, access: Access) -> Result<(), MemoryError> {
        let Vpages { address, bytes, .. } = vpages;
        let flags = match access {
            Access::NoAccess => MprotectFlags::empty(),
            Access::ReadOnly => MprotectFlags::READ,
            Access::ReadWrite => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        let start = core::ptr::with_exposed_provenance_mut::<c_void>(address);
        // SAFETY: the range lies in a view this crate mapped; applications expect its traps.
        match unsafe { mprotect(start, bytes, flags) } {
            Ok(()) => Ok(()),
            Err(Errno::NOMEM) if is_unmapped(address, bytes) => {
                Err(MemoryError::Unmapped { address })
            }
            Err(Errno::NOMEM) => Err(MemoryError::TooManyMinipages { address }),
            Err(errno) => Err(MemoryError::System { call: "mprotect", address, bytes, errno }),
        }
    }

    fn populate(&self, first: Vpages, _: u16, _: usize) -> Result<(), MemoryError> {
        allocate(first.privileged(), first.bytes)
    }
}
