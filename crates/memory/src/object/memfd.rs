//! A memfd as an object: sparse, zero at first.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use multigrain_types::PAGE_BYTES;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::ProtFlags;
use rustix::process::{Resource, getrlimit};

use super::{Backing, Over, map_file};
use crate::descriptor::placed;
use crate::error::MemoryError;
use crate::layout::{VIEWS_BASE, VIEWS_END, index};

/// The most bytes of an object of its own: as many as one view could address.
pub const MOST_OBJECT_BYTES: u64 = (VIEWS_END - VIEWS_BASE) as u64;

#[derive(Debug)]
pub(super) struct Memfd {
    file: OwnedFd,
    bytes: u64,
}

impl Memfd {
    pub(super) fn new(bytes: u64) -> Result<Self, MemoryError> {
        if bytes == 0 || bytes > MOST_OBJECT_BYTES {
            return Err(MemoryError::SharedSize { bytes, limit: MOST_OBJECT_BYTES });
        }
        let bytes = bytes.next_multiple_of(PAGE_BYTES as u64);
        let length = index(bytes);
        let system =
            |call| move |errno| MemoryError::System { call, address: 0, bytes: length, errno };
        // Beyond the limit of file sizes ftruncate would raise SIGXFSZ.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < bytes) {
            return Err(MemoryError::Ulimit { bytes, flag: "-f" });
        }
        let file =
            placed(memfd_create(c"multigrain", MemfdFlags::CLOEXEC)).map_err(
                |errno| match errno {
                    Errno::PERM | Errno::NOSYS => MemoryError::NoObject { errno },
                    _ => system("memfd")(errno),
                },
            )?;
        ftruncate(&file, bytes).map_err(system("ftruncate"))?;
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
