//! A memfd as an object: sparse, zero at first.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use super::{Backing, Over, map_file, set_length, whole_pages};
use crate::descriptor::placed;
use crate::error::MemoryError;
use crate::layout::index;

#[derive(Debug)]
pub(super) struct Memfd {
    file: OwnedFd,
    bytes: u64,
}

impl Memfd {
    pub(super) fn new(bytes: u64) -> Result<Self, MemoryError> {
        let bytes = whole_pages(bytes)?;
        let length = index(bytes);
        let file = placed(memfd_create(c"multigrain", MemfdFlags::CLOEXEC));
        let file = file.map_err(|errno| match errno {
            Errno::PERM | Errno::NOSYS => MemoryError::NoObject { errno },
            errno => MemoryError::System { call: "memfd", address: 0, bytes: length, errno },
        })?;
        set_length(&file, bytes)?;
        Ok(Self { file, bytes })
    }

    /// Writes bytes of the object.
    pub(super) fn write(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let written = match rustix::io::pwrite(&self.file, bytes, offset) {
                Err(Errno::INTR) => continue,
                result => result?,
            };
            bytes = &bytes[written..];
            offset += written as u64;
        }
        Ok(())
    }
}

impl Backing for Memfd {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }

    fn map(
        &self,
        address: usize,
        bytes: usize,
        offset: u64,
        protection: ProtFlags,
        over: Over,
    ) -> Result<(), Errno> {
        map_file(&self.file, address, bytes, offset, protection, over)
    }
}
