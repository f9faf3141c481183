//! Order without synchronization: memory outside of Multigrain that all nodes of a job map.
#![expect(unsafe_code, reason = "maps memory that other processes write")]

use anyhow::{Context, Result, ensure};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::sched_yield;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Most nodes of a job.
const NODES: usize = 3;

/// The memory behind it, for as long as this process lives at most.
#[derive(Debug)]
pub(super) struct BoardFile(OwnedFd);

impl BoardFile {
    pub(super) fn new() -> Result<Self> {
        let file = memfd_create("multigrain-races", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, size_of::<Board>() as u64)?;
        Ok(Self(file))
    }

    /// Where other processes find it.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// What is on it. All is 0 at first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Board {
    /// How often nodes have come to a meeting.
    came: AtomicU64,
    /// How far the present case is.
    mark: AtomicU64,
    /// A word for the present case.
    pub(super) word: AtomicU64,
    /// Each node's process, which is also its main thread.
    processes: [AtomicU32; NODES],
}

impl Board {
    pub(super) fn open(path: &Path, rank: u16) -> Result<&'static Self> {
        let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (nowhere, bytes) = (core::ptr::null_mut(), size_of::<Self>());
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let start = unsafe { mmap(nowhere, bytes, protection, MapFlags::SHARED, file, 0) }?;
        ensure!(start.cast::<Self>().is_aligned(), "a mapping that is not aligned to a page");
        // SAFETY: never unmapped, as large as the board; all of it are atomics, which zeros fill.
        let board = unsafe { &*start.cast::<Self>() };
        board.processes[usize::from(rank)].store(std::process::id(), Ordering::SeqCst);
        Ok(board)
    }

    /// Waits until all nodes have come as often as this one, now for time `time`, counted from 1.
    pub(super) fn meet(&self, nodes: u16, time: u64) {
        self.came.fetch_add(1, Ordering::SeqCst);
        wait_until(|| self.came.load(Ordering::SeqCst) >= time * u64::from(nodes));
    }

    /// The case is so far.
    pub(super) fn set(&self, mark: u64) {
        self.mark.store(mark, Ordering::SeqCst);
    }

    /// Waits until the case is so far.
    pub(super) fn wait(&self, mark: u64) {
        wait_until(|| self.mark.load(Ordering::SeqCst) >= mark);
    }

    /// Waits until the main thread of a node sleeps.
    pub(super) fn wait_asleep(&self, rank: u16) {
        let process = self.processes[usize::from(rank)].load(Ordering::SeqCst);
        let path = format!("/proc/{process}/task/{process}/stat");
        wait_until(|| {
            let stat = fs::read_to_string(&path).unwrap_or_default();
            // After the name, which may hold anything.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('S'))
        });
    }
}

fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        sched_yield();
    }
}
