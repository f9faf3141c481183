//! Interposed `mmap`, `munmap` and `mremap`: a program neither unmaps nor replaces the mappings of shared memory, and
//! maps nothing where more of it will lie.
//!
//! An access to what is mapped in the place of a view does not trap, so it would read and write bytes that no other
//! node sees. A program that bypasses the C library bypasses these: `crash.rs` and the guards name what they then
//! find.

#![expect(unsafe_code, reason = "the C library's interface")]

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::AtomicBool;

use crate::errno::fail;
use crate::interposed_mprotect::{kept, refuses};

fn keeps(addresses: &Range<usize>, call: &str) -> bool {
    static TOLD: AtomicBool = AtomicBool::new(false);
    refuses(addresses, &TOLD, |start| {
        format!(
            "{call} of addresses of shared memory at {start:#x} is refused: allocate and free it by mg_malloc and mg_free"
        )
    })
}

fn span(start: *mut c_void, bytes: usize) -> Range<usize> {
    start.addr()..start.addr().saturating_add(bytes)
}

fn refused() -> *mut c_void {
    fail(libc::EACCES);
    libc::MAP_FAILED
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let mut place = start;
    let kept = || kept().is_some_and(|kept| kept.memory.keeps(&span(start, bytes)));
    if flags & libc::MAP_FIXED_NOREPLACE == libc::MAP_FIXED_NOREPLACE {
        if kept() {
            fail(libc::EEXIST);
            return libc::MAP_FAILED;
        }
    } else if flags & libc::MAP_FIXED != 0 {
        if keeps(&span(start, bytes), "mmap with MAP_FIXED") {
            return refused();
        }
    } else if !start.is_null() && kept() {
        // It is a wish only.
        place = core::ptr::null_mut();
    }
    let call = libc::SYS_mmap;
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::syscall(call, place, bytes, protection, flags, file, offset) };
    pointer(mapped)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(start, bytes, protection, flags, file, offset) }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(start: *mut c_void, bytes: usize) -> c_int {
    if keeps(&span(start, bytes), "munmap") {
        return fail(libc::EACCES);
    }
    // SAFETY: the caller's promise.
    let done = unsafe { libc::syscall(libc::SYS_munmap, start, bytes) };
    c_int::try_from(done).unwrap_or(-1)
}

/// The last argument is there with some flags only; without them it is whatever the register holds.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    start: *mut c_void,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new_start: *mut c_void,
) -> *mut c_void {
    let placed = flags & (libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) != 0;
    let new_start = if placed { new_start } else { core::ptr::null_mut() };
    // With 0 bytes a shared mapping is doubled.
    let moves = keeps(&span(start, bytes.max(1)), "mremap");
    if moves || flags & libc::MREMAP_FIXED != 0 && keeps(&span(new_start, new_bytes), "mremap") {
        return refused();
    }
    let call = libc::SYS_mremap;
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::syscall(call, start, bytes, new_bytes, flags, new_start) };
    pointer(mapped)
}

/// What a system call gives that maps; -1 is MAP_FAILED.
fn pointer(mapped: i64) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(usize::from_ne_bytes(mapped.to_ne_bytes()))
}
