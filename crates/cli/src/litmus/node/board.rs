//! Memory that the processes of a job share outside of Multigrain, since they run on one host.
#![expect(unsafe_code, reason = "maps memory that other processes write")]

use super::super::plan::{BATCH, NODES};
use super::super::program::{REGISTERS, THREADS};
use anyhow::{Context, Result, ensure};
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use multigrain_runtime::Runtime;
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create, open};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::{futex, sched_yield};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// The name under which node 0 says where the board is.
const NAME: &[u8] = b"litmus board";
/// Node 0's process is in the upper half of that number, its descriptor in the lower.
const PROCESS_SHIFT: u32 = 32;

/// What is on the board.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Board {
    /// Where all threads meet between phases.
    pub(super) all: Meeting,
    /// Where those that run a round meet before it.
    pub(super) racers: Meeting,
    /// By node: faults and invalidations.
    pub(super) moves: [[AtomicU64; 2]; NODES],
    /// What was read: by round, thread and register.
    pub(super) registers: [[[AtomicU64; REGISTERS]; THREADS]; BATCH],
}

impl Board {
    /// Node 0 makes the board, the others find it.
    pub(super) fn join(runtime: &Runtime) -> Result<&'static Self> {
        if runtime.rank().index() == 0 {
            let file = memfd_create("multigrain-litmus", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, size_of::<Self>() as u64)?;
            let board = Self::map(&file)?;
            let place = u64::from(std::process::id()) << PROCESS_SHIFT | file.as_raw_fd() as u64;
            runtime.publish(NAME, usize::try_from(place)?)?;
            // Others open it by this descriptor, whenever they come.
            let _ = file.into_raw_fd();
            return Ok(board);
        }
        let place = runtime.lookup(NAME)? as u64;
        let (process, descriptor) = (place >> PROCESS_SHIFT, place & u64::from(u32::MAX));
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).context(path)?;
        Self::map(&file)
    }

    fn map(file: &OwnedFd) -> Result<&'static Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (nowhere, bytes) = (core::ptr::null_mut(), size_of::<Self>());
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let start = unsafe { mmap(nowhere, bytes, protection, MapFlags::SHARED, file, 0) }?;
        ensure!(start.cast::<Self>().is_aligned(), "a mapping that is not aligned to a page");
        // SAFETY: never unmapped, as large as the board; all of it are atomics, which zeros fill.
        Ok(unsafe { &*start.cast::<Self>() })
    }
}

/// A barrier between processes.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Meeting {
    arrived: AtomicU32,
    generation: AtomicU32,
    sleepers: AtomicU32,
}

/// Looks before the core is yielded, if there is a core for each.
const LOOKS: u32 = 256;
/// Yields before a thread sleeps.
const YIELDS: u32 = 64;

impl Meeting {
    /// Waits until `total` threads have come, of which `cores` can run at once.
    pub(super) fn wait(&self, total: usize, cores: usize) {
        let generation = self.generation.load(Ordering::SeqCst);
        if self.arrived.fetch_add(1, Ordering::SeqCst) as usize + 1 == total {
            self.arrived.store(0, Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
            if self.sleepers.load(Ordering::SeqCst) > 0 {
                let _ = futex::wake(&self.generation, futex::Flags::empty(), i32::MAX as u32);
            }
            return;
        }
        let over = || self.generation.load(Ordering::SeqCst) != generation;
        let looks = if total <= cores { LOOKS } else { 1 };
        for look in 0..looks + YIELDS {
            if over() {
                return;
            }
            if look < looks {
                spin_loop();
            } else {
                sched_yield();
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !over() {
            // Interrupted or too late: looked at again.
            let _ = futex::wait(&self.generation, futex::Flags::empty(), generation, None);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn nobody_leaves_a_meeting_before_all_have_come() {
        const THREADS: u32 = 3;
        const TIMES: u32 = 500;
        let (meeting, came) = (Meeting::default(), AtomicU32::new(0));
        thread::scope(|scope| {
            for number in 0..THREADS {
                let (meeting, came) = (&meeting, &came);
                scope.spawn(move || {
                    for time in 1..=TIMES {
                        if time.is_multiple_of(50) && number == 0 {
                            thread::sleep(std::time::Duration::from_millis(1));
                        }
                        came.fetch_add(1, Ordering::SeqCst);
                        meeting.wait(THREADS as usize, 1);
                        assert!(came.load(Ordering::SeqCst) >= time * THREADS);
                        meeting.wait(THREADS as usize, 1);
                    }
                });
            }
        });
        assert_eq!(came.into_inner(), TIMES * THREADS);
    }
}
