//! The runtime's signal handlers, and how they call those of the program.

#![expect(unsafe_code, reason = "installs handlers, and calls the program's")]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::actions::{Action, place};
use super::{NEVER_BLOCKED, Set, SignalMask, change_mask, only, set_of};
use crate::error::Error;

/// A handler with SA_SIGINFO.
pub(crate) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The runtime's own, of all signals that it handles.
static HANDLER: OnceLock<Handler> = OnceLock::new();

/// The guard's signal; 0 before there is a handler of it.
static GUARD: AtomicI32 = AtomicI32::new(0);

/// What asks a process to end: if the program has no handler of its own for them, they do so while an
/// access waits, too.
const ENDING: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Held by a thread that changes an action of [`ENDING`], with all signals blocked.
static ENDINGS: Mutex<()> = Mutex::new(());

/// The C library's own `sigaction`, whatever the program has in its place.
///
/// # Errors
/// errno.
pub(super) fn system_action(signal: c_int, new: Option<Action>) -> Result<Action, c_int> {
    #[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
    unsafe extern "C" {
        #[link_name = "__sigaction"]
        fn sigaction(
            signal: c_int,
            new: *const libc::sigaction,
            old: *mut libc::sigaction,
        ) -> c_int;
    }
    #[cfg(not(all(target_env = "gnu", not(miri), not(feature = "tsan"))))]
    use libc::sigaction;

    let new = new.map(Action::to_sigaction);
    let given = new.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let mut old = Action::DEFAULT.to_sigaction();
    // SAFETY: both structures live through the call; a handler has been checked by the caller that gave it.
    match unsafe { sigaction(signal, given, &raw mut old) } {
        0 => Ok(Action::of(&old)),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
    }
}

/// Installs the handler of one of [`super::OURS`]; `waits` if it is the guard's. From now on the program
/// may change what is done about accesses that are not ours, and nothing else.
///
/// # Errors
/// [`Error::System`].
pub(crate) fn install(signal: c_int, handler: Handler, waits: bool) -> Result<(), Error> {
    let _ = HANDLER.set(handler);
    let masked = SignalMask::block_all();
    let endings = ENDINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let failed =
        |errno| Error::System(format!("sigaction: {}", io::Error::from_raw_os_error(errno)));
    // Not SA_ONSTACK where accesses wait: the alternate stacks of Rust's threads hold 8 KiB, which the
    // protocol and the transport need for themselves; the thread's own stack is sound, for it only
    // touched memory. Elsewhere it may be the stack that has overflown.
    let stack = if waits || signal == libc::SIGTRAP { 0 } else { libc::SA_ONSTACK };
    let flags = libc::SA_SIGINFO | libc::SA_RESTART | stack;
    let before = system_action(signal, Some(own(handler, flags))).map_err(failed)?;
    if let Some(place) = place(signal) {
        place.replace(before);
    }
    if waits {
        GUARD.store(signal, Ordering::Release);
    }
    drop(endings);
    drop(masked);
    // The parent of this process may have blocked it.
    change_mask(libc::SIG_UNBLOCK, NEVER_BLOCKED);
    Ok(())
}

/// The runtime's action. Everything is blocked meanwhile, also what the C library cancels threads with,
/// but for signals that would end the process as it is.
fn own(handler: Handler, flags: c_int) -> Action {
    let ends = |signal: &&c_int| system_action(**signal, None).is_ok_and(|action| !action.calls());
    let mask = ENDING.iter().filter(ends).fold(Set::MAX, |set, signal| set & !only(*signal));
    Action { handler: handler as *const () as usize, flags, mask }
}

/// Whether the handler of crashes runs on a stack of its own, if its thread has one.
pub(super) fn crashes_have_a_stack() -> bool {
    let guard = GUARD.load(Ordering::Acquire);
    guard != 0 && guard != libc::SIGSEGV
}

/// Whether the runtime's handler of a signal is installed, so that the program's is [`place`]d.
#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
pub(super) fn handles_for_program(signal: c_int) -> bool {
    GUARD.load(Ordering::Acquire) != 0 && only(signal) & NEVER_BLOCKED != 0
}

/// The program's action for a signal that is not the runtime's. Its handler must not run in the middle
/// of an access; that it would not block what it needs to touch shared memory the caller has seen to.
///
/// # Errors
/// errno.
#[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
pub(super) fn change_ending(signal: c_int, action: Action) -> Result<Action, c_int> {
    let guard = GUARD.load(Ordering::Acquire);
    if guard == 0 || !ENDING.contains(&signal) {
        return system_action(signal, Some(action));
    }
    let masked = SignalMask::block_all();
    let endings = ENDINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let traps = system_action(guard, None)?;
    let with = Action { mask: traps.mask | only(signal), ..traps };
    let without = Action { mask: traps.mask & !only(signal), ..traps };
    system_action(guard, Some(with))?;
    let before = system_action(signal, Some(action));
    if !action.calls() && before.is_ok() {
        system_action(guard, Some(without))?;
    }
    drop(endings);
    drop(masked);
    before
}

/// Whether a signal is still handled here: a program may go around the C library.
pub(crate) fn handles(signal: c_int) -> bool {
    let ours = HANDLER.get().map(|handler| *handler as *const () as usize);
    system_action(signal, None).is_ok_and(|action| Some(action.handler) == ours)
}

/// Whether a signal does what it does in programs that know nothing of it.
pub(crate) fn is_default(signal: c_int) -> bool {
    system_action(signal, None).is_ok_and(|action| action.handler == libc::SIG_DFL)
}

/// Not our trap: what the program wants, or the default, which ends it as it should.
pub(crate) fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(place) = place(signal) else { return };
    let action = place.get();
    if !action.calls() {
        // SAFETY: the kernel gave the handler this information.
        let code = unsafe { (*info).si_code };
        if action.handler == libc::SIG_IGN && code <= 0 {
            return;
        }
        // An access then traps again.
        let _ = system_action(signal, Some(Action::DEFAULT));
        if signal == libc::SIGTRAP || code <= 0 {
            // A breakpoint, or somebody's kill: nothing traps again. It is blocked until this returns.
            // SAFETY: sending this thread a signal has no requirements.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    if action.flags & libc::SA_RESETHAND != 0 {
        place.replace(Action::DEFAULT);
    }
    // What the kernel would have blocked for it, but that shared memory can be touched.
    // SAFETY: the kernel gave the handler this context.
    let blocked = set_of(unsafe { &(*context.cast::<libc::ucontext_t>()).uc_sigmask });
    let own = if action.flags & libc::SA_NODEFER == 0 { only(signal) } else { 0 };
    let guard = only(GUARD.load(Ordering::Relaxed).max(1)) & NEVER_BLOCKED;
    change_mask(libc::SIG_SETMASK, (blocked | action.mask | own) & !guard);
    if action.flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program installed it with SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { core::mem::transmute(action.handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program installed it without SA_SIGINFO, so it has this signature.
        let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(action.handler) };
        handler(signal);
    }
}
