//! The library that `multigrain run --sysv` loads into a program (ADR 55): it takes the place of the C library's System V
//! calls, and of those with POSIX names, and hands them to the site, the process of this node.
//!
//! Role: the program's end of the socket, the mappings of segments, and what fork means for both. It knows nothing of
//! protocols; it allocates nothing, takes no lock that a signal's handler could need, and uses the pointers that it was
//! given only in system calls, which say EFAULT of bad ones as the kernel's own System V calls do.
#![expect(unsafe_code, reason = "C functions with the pointers of a program")]

pub mod cancellation;
mod datagrams;
pub mod deep_binding;
mod fork;
pub mod messages;
pub mod named_semaphores;
mod names;
pub mod objects;
pub mod segments;
pub mod semaphores;
mod site_connection;
mod spin_lock;
mod waits;

use core::ffi::c_int;

/// The error number of the system call that has just failed.
fn errno() -> c_int {
    // SAFETY: the C library's place for this thread's errno.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place }
}

/// An error number as C functions have it.
fn failed(errno: c_int) -> c_int {
    // SAFETY: the C library's place for this thread's errno.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above; no other thread uses it.
    unsafe { *place = errno };
    -1
}

/// What a call returns that is answered with a number.
fn returned(answer: Result<i64, c_int>) -> c_int {
    match answer.map(c_int::try_from) {
        Ok(Ok(number)) => number,
        Ok(Err(_)) => failed(libc::EOVERFLOW),
        Err(errno) => failed(errno),
    }
}
