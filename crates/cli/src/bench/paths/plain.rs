//! The system calls that access paths are made of, without anything around them.
#![expect(unsafe_code, reason = "maps memory, attaches segments and forks")]

use core::ffi::c_void;
use core::ptr::{NonNull, null, null_mut};
use multigrain_types::PAGE_BYTES;
use rustix::fs::{Mode, OFlags, open, unlink};
use rustix::io::{self, Errno};
use rustix::mm::{
    MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mprotect, mremap, munmap,
};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::os::fd::{AsFd, OwnedFd};

type Result<T> = core::result::Result<T, Errno>;

/// Memory that is accessible until it is closed, and that stays mapped until it is unmapped.
#[derive(Debug)]
pub(super) struct Mapped {
    start: NonNull<c_void>,
    bytes: usize,
}

/// What is new of the kernel's pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sharing {
    Private,
    Shared,
}

impl Mapped {
    fn new(start: *mut c_void, bytes: usize) -> Result<Self> {
        Ok(Self { start: NonNull::new(start).ok_or(Errno::NOMEM)?, bytes })
    }

    pub(super) fn anonymous(bytes: usize, sharing: Sharing) -> Result<Self> {
        let flags = match sharing {
            Sharing::Private => MapFlags::PRIVATE,
            Sharing::Shared => MapFlags::SHARED,
        };
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, both(), flags) }?;
        Self::new(start, bytes)
    }

    pub(super) fn of_file(file: impl AsFd, bytes: usize) -> Result<Self> {
        // SAFETY: as above.
        let start = unsafe { mmap(null_mut(), bytes, both(), MapFlags::SHARED, file, 0) }?;
        Self::new(start, bytes)
    }

    /// `mdup`: a mapping more of the same pages.
    pub(super) fn duplicate(&self) -> Result<Self> {
        // SAFETY: an old size of 0 leaves the mapping as it is, and the kernel picks the other address.
        let start = unsafe { mremap(self.start.as_ptr(), 0, self.bytes, MremapFlags::MAYMOVE) }?;
        Self::new(start, self.bytes)
    }

    /// Gives all bytes this value.
    pub(super) fn fill(&self, byte: u8) {
        // SAFETY: mapped readable and writable for as many bytes, and nobody else's.
        unsafe { self.start.as_ptr().cast::<u8>().write_bytes(byte, self.bytes) };
    }

    /// Copies what is in another mapping.
    pub(super) fn copy(&self, from: &Self) {
        let (to, from, bytes) = (self.start, from.start, self.bytes.min(from.bytes));
        // SAFETY: both are mapped for as many bytes and are nobody else's; two mappings do not overlap.
        unsafe { to.as_ptr().copy_from_nonoverlapping(from.as_ptr(), bytes) };
    }

    pub(super) fn close(&self) -> Result<()> {
        // SAFETY: a mapping of this type's own, which is only written by this type, before.
        unsafe { mprotect(self.start.as_ptr(), self.bytes, MprotectFlags::READ) }
    }

    pub(super) fn unmap(self) -> Result<()> {
        // SAFETY: nobody has its address any more.
        unsafe { munmap(self.start.as_ptr(), self.bytes) }
    }
}

fn both() -> ProtFlags {
    ProtFlags::READ | ProtFlags::WRITE
}

/// A new file in the directory for temporary files, whose name is gone already.
pub(super) fn file() -> Result<OwnedFd> {
    let name = std::env::temp_dir().join(format!("multigrain-bench-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = open(&name, flags, Mode::RUSR | Mode::WUSR)?;
    unlink(&name)?;
    Ok(file)
}

/// Writes so many zeros.
pub(super) fn write(file: impl AsFd, bytes: usize) -> Result<()> {
    let zeros = [0; 16 * PAGE_BYTES];
    let mut left = bytes;
    while left > 0 {
        left -= io::retry_on_intr(|| io::write(&file, &zeros[..left.min(zeros.len())]))?;
    }
    Ok(())
}

/// Shared memory of System V, which stays until it is removed.
#[derive(Debug)]
pub(super) struct Segment(i32);

impl Segment {
    pub(super) fn new(bytes: usize) -> Result<Self> {
        let (key, flags) = (libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600);
        // SAFETY: makes a segment.
        let id = unsafe { libc::shmget(key, bytes.next_multiple_of(PAGE_BYTES), flags) };
        if id < 0 { Err(last()) } else { Ok(Self(id)) }
    }

    pub(super) fn attach(&self, bytes: usize) -> Result<Mapped> {
        // SAFETY: the kernel picks the address.
        let start = unsafe { libc::shmat(self.0, null(), 0) };
        if start.addr() == usize::MAX { Err(last()) } else { Mapped::new(start, bytes) }
    }

    pub(super) fn remove(self) -> Result<()> {
        // SAFETY: a segment of this type's own; its pages stay for who has it attached.
        let failed = unsafe { libc::shmctl(self.0, libc::IPC_RMID, null_mut()) } != 0;
        if failed { Err(last()) } else { Ok(()) }
    }
}

impl Mapped {
    /// Of a segment.
    pub(super) fn detach(self) -> Result<()> {
        // SAFETY: nobody has its address any more.
        let failed = unsafe { libc::shmdt(self.start.as_ptr()) } != 0;
        if failed { Err(last()) } else { Ok(()) }
    }
}

/// A child of this process, which ends at once.
pub(super) fn fork() -> Result<Child> {
    // SAFETY: the child calls nothing but `_exit`.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // SAFETY: ends the child without any of this process's own endings.
        unsafe { libc::_exit(0) };
    }
    Pid::from_raw(id).filter(|_| id > 0).map(Child).ok_or_else(last)
}

/// To be waited for.
#[derive(Debug)]
pub(super) struct Child(Pid);

impl Child {
    pub(super) fn end(self) -> Result<()> {
        io::retry_on_intr(|| waitpid(Some(self.0), WaitOptions::empty())).map(|_| ())
    }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_and_a_file_mapped_twice_show_the_same_bytes() {
        let byte = |mapped: &Mapped| {
            let last = mapped.start.as_ptr().cast::<u8>().wrapping_add(mapped.bytes - 1);
            // SAFETY: mapped readable, and nobody writes to it meanwhile.
            unsafe { last.read() }
        };
        let one = Mapped::anonymous(PAGE_BYTES, Sharing::Shared).unwrap();
        let other = one.duplicate().unwrap();
        one.fill(7);
        assert_eq!(byte(&other), 7);
        one.unmap().unwrap();
        assert_eq!(byte(&other), 7);
        other.unmap().unwrap();
        let file = file().unwrap();
        write(&file, 17 * PAGE_BYTES).unwrap();
        let pair = [(); 2].map(|()| Mapped::of_file(&file, 17 * PAGE_BYTES).unwrap());
        assert_eq!(byte(&pair[1]), 0);
        pair[0].fill(3);
        assert_eq!(byte(&pair[1]), 3);
        pair.into_iter().for_each(|mapped| mapped.unmap().unwrap());
    }

    #[test]
    fn a_segment_keeps_its_bytes_between_attachments() {
        let segment = Segment::new(PAGE_BYTES).unwrap();
        let first = segment.attach(PAGE_BYTES).unwrap();
        first.fill(9);
        first.detach().unwrap();
        let second = segment.attach(PAGE_BYTES).unwrap();
        segment.remove().unwrap();
        // SAFETY: attached readable.
        assert_eq!(unsafe { second.start.as_ptr().cast::<u8>().read() }, 9);
        second.detach().unwrap();
        fork().unwrap().end().unwrap();
    }
}
