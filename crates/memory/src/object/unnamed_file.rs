//! A file without a name as an object (ParADE 4.1): in the directory for temporary files, and gone with the process.
//!
//! Its blocks are allocated with the areas that lie in them, so a file system without room is an error there and not a
//! SIGBUS at an access; ParADE wrote the whole file at its start. What is written goes to the disk sooner or later.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use multigrain_types::PAGE_BYTES;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open, unlink};
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use super::{Backing, Over, map_file, set_length, whole_pages};
use crate::access_path::AccessPath;
use crate::descriptor::placed;
use crate::error::MemoryError;

#[derive(Debug)]
pub(super) struct UnnamedFile {
    file: OwnedFd,
    bytes: u64,
}

impl UnnamedFile {
    pub(super) fn new(directory: &Path, bytes: u64) -> Result<Self, MemoryError> {
        let bytes = whole_pages(bytes)?;
        let failed = |call| move |errno| refused(call, bytes, errno);
        let file = placed(without_name(directory)).map_err(failed("open"))?;
        set_length(&file, bytes).map_err(|error| {
            if let MemoryError::System { call, errno, .. } = error {
                return refused(call, bytes, errno);
            }
            error
        })?;
        let temporary = Self { file, bytes };
        // What areas need, tried on the first page.
        temporary.allocate(0, PAGE_BYTES as u64).map_err(failed("fallocate"))?;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&temporary.file, hole, 0, PAGE_BYTES as u64).map_err(failed("fallocate"))?;
        Ok(temporary)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> Result<(), Errno> {
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), offset, bytes) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }
}

/// A new file that has no name, or none for longer than it takes to take it away.
fn without_name(directory: &Path) -> Result<OwnedFd, Errno> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match open(directory, flags | OFlags::TMPFILE | OFlags::EXCL, mode) {
        // Not every file system has such files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        result => return result,
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = directory.join(format!("multigrain-{}-{number}", std::process::id()));
    let file = open(&name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
    unlink(&name)?;
    Ok(file)
}

/// Why there is no file, or no room in it.
fn refused(call: &'static str, bytes: u64, errno: Errno) -> MemoryError {
    let remedy = match errno {
        Errno::NOSPC | Errno::DQUOT => {
            "free room on the file system of TMPDIR (/tmp if it is not set), or use --path memfd"
        }
        Errno::OPNOTSUPP | Errno::NOSYS => {
            "set TMPDIR to a directory of a file system that has holes, such as ext4, xfs, btrfs or tmpfs, or use \
             --path memfd"
        }
        Errno::FBIG | Errno::INVAL => {
            "choose a smaller `multigrain run --shared`, or use --path memfd"
        }
        _ => "set TMPDIR to a directory in which this user may make files, or use --path memfd",
    };
    MemoryError::NoPath { path: AccessPath::File, call, bytes, errno, remedy }
}

impl Backing for UnnamedFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.file.as_raw_fd())
    }

    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), MemoryError> {
        self.allocate(offset, bytes).map_err(|errno| refused("fallocate", bytes, errno))
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
