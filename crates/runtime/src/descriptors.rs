//! The file descriptors of a node, which the program does not close.
//!
//! A program that closes all that it has not opened (as who becomes a daemon does, or runs another program)
//! means the rest. It finds these calls in the place of the C library's: the node's descriptors look to
//! them as if they were not open. In a child they are not.

#![expect(unsafe_code, reason = "the C library's interface")]

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::RawFd;
use std::sync::OnceLock;

/// Ascending.
static OWN: OnceLock<Vec<RawFd>> = OnceLock::new();

/// Whether they are closed in this process.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// These are the node's, as long as it lives.
pub(crate) fn keep(mut descriptors: Vec<RawFd>) {
    descriptors.sort_unstable();
    let _ = OWN.set(descriptors);
}

/// The node's, ascending; none before there are any, and in a child.
fn own() -> &'static [RawFd] {
    OWN.get().filter(|_| !CLOSED.load(Ordering::Relaxed)).map_or(&[], Vec::as_slice)
}

/// Closes them, in a child. Allocates nothing and takes no lock.
pub(crate) fn close_all() {
    let all = own();
    CLOSED.store(true, Ordering::Relaxed);
    for &descriptor in all {
        // SAFETY: the runtime uses it no more in this process.
        unsafe { libc::close(descriptor) };
    }
}

#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
mod interposed {
    use core::ffi::{c_int, c_uint};

    use super::own;
    use crate::errno::fail;

    unsafe extern "C" {
        fn __close(descriptor: c_int) -> c_int;
        fn __dup2(from: c_int, to: c_int) -> c_int;
    }

    /// Whether a descriptor is kept from the program.
    fn is_kept(descriptor: c_int) -> bool {
        own().binary_search(&descriptor).is_ok()
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn close(descriptor: c_int) -> c_int {
        if is_kept(descriptor) {
            return fail(libc::EBADF);
        }
        // SAFETY: the caller's promise.
        unsafe { __close(descriptor) }
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
        if is_kept(to) {
            return fail(libc::EBUSY);
        }
        // SAFETY: the caller's promise.
        unsafe { __dup2(from, to) }
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        if is_kept(to) {
            return fail(libc::EBUSY);
        }
        // SAFETY: the caller's promise.
        let done = unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) };
        c_int::try_from(done).unwrap_or(-1)
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if first > last {
            return fail(libc::EINVAL);
        }
        let mut next = u64::from(first);
        let kept = own().iter().filter_map(|kept| c_uint::try_from(*kept).ok());
        for kept in kept.filter(|kept| (first..=last).contains(kept)).map(u64::from) {
            if next < kept && close_each(next, kept - 1, flags) != 0 {
                return -1;
            }
            next = kept + 1;
        }
        if next > last.into() { 0 } else { close_each(next, last.into(), flags) }
    }

    /// The kernel's `close_range`, or errno.
    fn close_each(first: u64, last: u64, flags: c_int) -> c_int {
        // SAFETY: the caller of `close_range` owns these descriptors.
        let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
        c_int::try_from(done).unwrap_or(-1)
    }

    /// # Safety
    /// As for the C library's.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn closefrom(first: c_int) {
        let first = c_uint::try_from(first).unwrap_or(0);
        // SAFETY: the caller's promise.
        unsafe { close_range(first, c_uint::MAX, 0) };
    }
}
