//! Signals: the runtime's handlers, the program's actions for the same signals, and the mask of the runtime's own
//! threads, which blocks everything: the program's handlers must not run there.
//!
//! ```text
//! interposed   the C library's calls, as the program makes them
//! handlers     the runtime's own, and how they call the program's
//! stack        the alternate stack of the crash handler
//! actions      the program's actions for the runtime's signals
//! debugger     whether SIGTRAP is a debugger's
//! ```

#![expect(unsafe_code, reason = "the kernel's signal masks")]

mod actions;
pub(crate) mod debugger;
mod handlers;
#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
mod interposed;
pub(crate) mod stack;

use core::ffi::c_int;

pub(crate) use handlers::{chain, handles, install, is_default};

/// Signals that the runtime handles: those of accesses, and of stepped instructions.
pub(crate) const OURS: [c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP];

/// A set of signals as the kernel has it: bit 0 is signal 1.
pub(crate) type Set = u64;

/// The set of one signal.
const fn only(signal: c_int) -> Set {
    1 << (signal - 1)
}

/// [`OURS`]: blocked, they would end the process in place of a trap.
const NEVER_BLOCKED: Set = only(libc::SIGSEGV) | only(libc::SIGBUS) | only(libc::SIGTRAP);

/// The two signals that the C library keeps for itself.
const LIBRARY_S: Set = only(32) | only(33);

/// The kernel's part of the C library's type.
fn set_of(set: &libc::sigset_t) -> Set {
    // SAFETY: the type is larger and begins with the kernel's; all bytes are numbers.
    unsafe { (&raw const *set).cast::<Set>().read() }
}

/// The C library's type of a set.
fn sigset_of(set: Set) -> libc::sigset_t {
    // SAFETY: all-zero bytes are the empty set.
    let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the type is larger and begins with the kernel's.
    unsafe { (&raw mut all).cast::<Set>().write(set) };
    all
}

/// Changes what this thread has blocked, which it returns as it was. The kernel's call: the C library's
/// would not have its own two signals blocked, and is the program's.
#[cfg(not(miri))]
fn change_mask(how: c_int, set: Set) -> Set {
    let mut before: Set = 0;
    let call = libc::SYS_rt_sigprocmask;
    // SAFETY: both sets live through the call, and have the size that is stated.
    unsafe { libc::syscall(call, how, &raw const set, &raw mut before, size_of::<Set>()) };
    before
}

#[cfg(miri)]
fn change_mask(_: c_int, _: Set) -> Set {
    0
}

/// All signals blocked in this thread until dropped.
pub(crate) struct SignalMask(Set);

impl SignalMask {
    pub(crate) fn block_all() -> Self {
        // The C library's own two are let through: it waits for all threads to take them.
        let mut all = sigset_of(0);
        // SAFETY: `all` is a valid place.
        unsafe { libc::sigfillset(&raw mut all) };
        Self(change_mask(libc::SIG_SETMASK, set_of(&all)))
    }

    /// What the calling thread has blocked.
    pub(crate) fn own() -> Set {
        change_mask(libc::SIG_BLOCK, 0)
    }

    /// The calling thread blocks what the one that has started it did, for good.
    pub(crate) fn inherit(mask: Set) {
        change_mask(libc::SIG_SETMASK, mask & !(NEVER_BLOCKED | LIBRARY_S));
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, self.0);
    }
}
