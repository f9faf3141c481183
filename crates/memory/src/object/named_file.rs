//! A file as an object.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use multigrain_types::PAGE_BYTES;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use super::{Backing, Over, map_file};
use crate::error::MemoryError;

#[derive(Debug)]
pub(super) struct NamedFile {
    file: OwnedFd,
    bytes: u64,
}

impl NamedFile {
    /// The file keeps its length: a page that it ends in would lose what is written behind its end.
    pub(super) fn new(file: OwnedFd) -> Result<Self, MemoryError> {
        let failed = |errno| MemoryError::System { call: "fstat", address: 0, bytes: 0, errno };
        let bytes = u64::try_from(fstat(&file).map_err(failed)?.st_size).unwrap_or(0);
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES as u64) {
            return Err(MemoryError::NotWholePages { address: 0, bytes });
        }
        Ok(Self { file, bytes })
    }
}

impl Backing for NamedFile {
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
