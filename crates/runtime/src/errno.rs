//! Sets errno for interposed calls that fail without reaching the C library.

#![expect(unsafe_code, reason = "errno is a place of the C library's")]

use core::ffi::c_int;

/// -1, and why.
pub(crate) fn fail(why: c_int) -> c_int {
    // SAFETY: the call has no requirements.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: errno's place is valid for this thread.
    unsafe { errno.write(why) };
    -1
}
