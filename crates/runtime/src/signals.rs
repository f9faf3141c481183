//! Signals: the runtime's handlers and those that were there before, and what its own threads let
//! through: nothing, for the program's handlers must not run there.

#![expect(unsafe_code, reason = "the C library's signal sets, masks and handlers")]

use core::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::error::Error;

/// All signals blocked in this thread until dropped.
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    pub(crate) fn block_all() -> Self {
        // SAFETY: all-zero bytes are a valid signal set.
        let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
        let mut before = all;
        // SAFETY: `all` is a valid place.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets live through the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self(before)
    }

    /// No signal blocked, for good.
    pub(crate) fn clear() {
        // SAFETY: all-zero bytes are the empty signal set on Linux.
        let none: libc::sigset_t = unsafe { core::mem::zeroed() };
        // SAFETY: the set lives through the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, core::ptr::null_mut()) };
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: the set lives through the call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, core::ptr::null_mut())
        };
    }
}

/// A handler with SA_SIGINFO.
pub(crate) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The runtime's own, of both signals.
static HANDLER: OnceLock<Handler> = OnceLock::new();

/// What handled a signal before us: traps that are not ours go there.
static PREVIOUS: [OnceLock<Previous>; 3] = [const { OnceLock::new() }; 3];

/// The place of a signal's previous handler.
fn previous(signal: c_int) -> &'static OnceLock<Previous> {
    &PREVIOUS[match signal {
        libc::SIGTRAP => 0,
        libc::SIGSEGV => 1,
        _ => 2,
    }]
}

struct Previous(libc::sigaction);

/// Installs the handler of a signal that accesses end with, and that the guard does not need. It runs as
/// the one before it did, with the same signals blocked and on the same stack.
pub(crate) fn install_crash(signal: c_int, handler: Handler) -> Result<(), Error> {
    let mut action = current(signal)?;
    let _ = previous(signal).set(Previous(action));
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = (action.sa_flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO;
    // SAFETY: the structure lives through the call, and nothing is returned.
    if unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) } != 0 {
        return Err(Error::System(format!("sigaction: {}", std::io::Error::last_os_error())));
    }
    Ok(())
}

/// What a signal does now.
fn current(signal: c_int) -> Result<libc::sigaction, Error> {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: the structure lives through the call, which changes nothing.
    match unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut action) } {
        0 => Ok(action),
        _ => Err(Error::System(format!("sigaction: {}", std::io::Error::last_os_error()))),
    }
}

/// Whether a signal does what it does in programs that know nothing of it.
pub(crate) fn is_default(signal: c_int) -> bool {
    current(signal).is_ok_and(|action| action.sa_sigaction == libc::SIG_DFL)
}

/// Installs the handler of the guard's signal, or of SIGTRAP.
pub(crate) fn install(signal: c_int, handler: Handler) -> Result<(), Error> {
    let _ = HANDLER.set(handler);
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut previous: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // Not SA_ONSTACK: the alternate stacks of Rust's threads hold 8 KiB, which the protocol and the
    // transport need for themselves; the thread's own stack is sound, for it only touched memory.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the mask is a valid place.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: both structures live through the call.
    if unsafe { libc::sigaction(signal, &raw const action, &raw mut previous) } != 0 {
        return Err(Error::System(format!("sigaction: {}", std::io::Error::last_os_error())));
    }
    let _ = self::previous(signal).set(Previous(previous));
    Ok(())
}

/// Whether a signal is still handled here: a program may install a handler of its own.
pub(crate) fn handles(signal: c_int) -> bool {
    let ours = HANDLER.get().map(|handler| *handler as *const () as usize);
    current(signal).is_ok_and(|action| Some(action.sa_sigaction) == ours)
}

/// Not our trap: the previous handler's, or the default, which ends the program as it should.
pub(crate) fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let found = previous(signal).get();
    let previous = found.map_or(libc::SIG_DFL, |previous| previous.0.sa_sigaction);
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // SAFETY: the kernel gave the handler this information.
        let code = unsafe { (*info).si_code };
        if previous == libc::SIG_IGN && code <= 0 {
            return;
        }
        // SAFETY: restoring the default action is always allowed; an access then traps again.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        if signal == libc::SIGTRAP || code <= 0 {
            // A breakpoint, or somebody's kill: nothing traps again. It is blocked until this returns.
            // SAFETY: sending this thread a signal has no requirements.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    let takes_info = found.is_some_and(|previous| previous.0.sa_flags & libc::SA_SIGINFO != 0);
    if takes_info {
        // SAFETY: the program installed it with SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { core::mem::transmute(previous) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program installed it without SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(previous) };
        handler(signal);
    }
}
