//! Cancellation kept off while this library runs what the C library may end a thread in, such as its `write`,
//! `read` and `close`: a thread that is cancelled there would unwind through frames that cannot be unwound. Where a call
//! is often made or short, system calls are made without the C library instead.

#![expect(unsafe_code, reason = "a call of the C library that has no interface here")]

use core::ffi::c_int;
use core::marker::PhantomData;

#[cfg(not(miri))]
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const DISABLED: c_int = 1;

/// The calling thread is not cancelled until this is dropped; what pends then acts at the program's next
/// cancellation point. Needs no system call.
#[derive(Debug)]
pub struct Uncancellable {
    before: c_int,
    /// It is the thread's.
    _here: PhantomData<*mut ()>,
}

impl Uncancellable {
    /// From here on.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it changes its thread")]
    pub fn new() -> Self {
        Self { before: change(DISABLED), _here: PhantomData }
    }
}

impl Drop for Uncancellable {
    fn drop(&mut self) {
        change(self.before);
    }
}

/// As it was before.
#[cfg(not(miri))]
fn change(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: one of the two states, and a valid place.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

#[cfg(miri)]
fn change(state: c_int) -> c_int {
    state
}
