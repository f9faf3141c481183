//! Interposed `mprotect`, `pkey_mprotect` and `mlockall`: a program neither protects nor locks the mappings of shared memory.
//!
//! Their protection encodes what this node holds: changed by others, it would let stale bytes be read and writes
//! be lost without an error. And they are sparse: locking them would allocate all that a job may ever share,
//! once for every node.

#![expect(unsafe_code, reason = "the C library's interface")]

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::fs;
use std::sync::OnceLock;

use multigrain_memory::Memory;

use crate::child;
use crate::errno::fail;
use crate::launcher::Launcher;
use crate::signal_reentrancy::Inside;
use crate::uncancellable::Uncancellable;

/// The memory that is kept from the program, and the launcher that tells it so.
#[derive(Debug)]
pub(crate) struct Protected {
    pub(crate) memory: &'static Memory,
    pub(crate) launcher: &'static Launcher,
}

static PROTECTED: OnceLock<Protected> = OnceLock::new();

/// From now on the program does not protect, lock, unmap or replace what this memory has mapped.
pub(crate) fn keep(memory: &'static Memory, launcher: &'static Launcher) {
    let _ = PROTECTED.set(Protected { memory, launcher });
}

/// None in a child, which has no mapping of it.
pub(crate) fn kept() -> Option<&'static Protected> {
    PROTECTED.get().filter(|_| !child::is_one())
}

/// Whether these addresses are kept from the program, which is told so once, by a line about where they begin.
pub(crate) fn refuses(
    range: &Range<usize>,
    told: &AtomicBool,
    line: impl FnOnce(usize) -> String,
) -> bool {
    let Some(Protected { memory, launcher }) = kept() else { return false };
    let refused = !range.is_empty() && memory.keeps(range);
    if refused && !told.swap(true, Ordering::Relaxed) {
        let _inside = Inside::new();
        launcher.warn(&line(range.start));
    }
    refused
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int {
    if is_ours(address, bytes) {
        return fail(libc::EACCES);
    }
    // SAFETY: the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_mprotect, address, bytes, protection) };
    c_int::try_from(done).unwrap_or(-1)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pkey_mprotect(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    key: c_int,
) -> c_int {
    if is_ours(address, bytes) {
        return fail(libc::EACCES);
    }
    // SAFETY: the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_pkey_mprotect, address, bytes, protection, key) };
    c_int::try_from(done).unwrap_or(-1)
}

/// Whether the protection of these pages is not the program's to change.
fn is_ours(address: *mut c_void, bytes: usize) -> bool {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let range = address.addr()..address.addr().saturating_add(bytes);
    refuses(&range, &TOLD, |start| {
        format!(
            "mprotect of shared memory at {start:#x} is refused: its protection keeps it coherent"
        )
    })
}

/// Locks all that is the program's own.
#[unsafe(no_mangle)]
extern "C" fn mlockall(flags: c_int) -> c_int {
    let _uncancellable = Uncancellable::new();
    let _inside = Inside::new();
    let Some(Protected { memory, .. }) = kept() else { return lock_all(flags) };
    let on_fault = flags & libc::MCL_ONFAULT;
    if flags & libc::MCL_CURRENT != 0 {
        // Nothing is allocated by this one.
        if lock_all(libc::MCL_CURRENT | libc::MCL_ONFAULT) != 0 {
            return -1;
        }
        memory.unlock();
        if on_fault == 0 {
            populate_but(memory);
        }
    }
    match flags & !libc::MCL_CURRENT {
        future if future & libc::MCL_FUTURE != 0 => lock_all(future),
        _ if flags & libc::MCL_CURRENT != 0 => 0,
        nothing => lock_all(nothing),
    }
}

/// The kernel's `mlockall`, or errno.
fn lock_all(flags: c_int) -> c_int {
    // SAFETY: locking changes no contents.
    let done = unsafe { libc::syscall(libc::SYS_mlockall, flags) };
    c_int::try_from(done).unwrap_or(-1)
}

/// Locks what is mapped at present and not ours as `mlockall` does, that is with its pages; but what was
/// mapped with MAP_NORESERVE, such as the library's tables and heap, for whose every page there may be no
/// memory, as it is used.
fn populate_but(memory: &Memory) {
    let Ok(maps) = fs::read_to_string("/proc/self/smaps") else { return };
    let mut mapping = None;
    for line in maps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let Some((start, end)) = mapping.take() else { continue };
            let sparse = flags.split_whitespace().any(|flag| flag == "nr");
            if !sparse && !memory.keeps(&(start..end)) {
                // Where there is nothing to lock it fails, as it does unnoticed within mlockall.
                // SAFETY: locking changes no contents.
                unsafe { libc::mlock(core::ptr::without_provenance(start), end - start) };
            }
        } else {
            mapping = range_of(line).or(mapping);
        }
    }
}

/// The addresses of a mapping, if this line begins with them.
fn range_of(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(start)?, address(end)?))
}
