//! Whether SIGPIPE was ignored by whoever started this process: before `main` the standard library ignores it, and a child
//! that it starts gets the default.
#![expect(unsafe_code, reason = "a function that runs before main")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

static IGNORED: AtomicBool = AtomicBool::new(false);

/// Called before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look;

extern "C" fn look() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a place for the action that this signal has.
    let known = unsafe { libc::sigaction(libc::SIGPIPE, core::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are an action, too.
    let ignored = unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN;
    IGNORED.store(known == 0 && ignored, Ordering::Relaxed);
}

/// Whether it was ignored when this process began.
pub(crate) fn are_ignored() -> bool {
    IGNORED.load(Ordering::Relaxed)
}
