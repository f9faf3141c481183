//! Interposed calls of the C library about signals.
//!
//! Accesses to shared memory raise signals. A thread that blocked these would die at its next access, and a
//! program's handler in the place of the runtime's would receive all of them. So these signals are never blocked,
//! and the program's actions for them are kept for accesses outside of shared memory. Everything else is done as
//! asked. A program that bypasses the C library bypasses these.

#![expect(unsafe_code, reason = "the C library's interface")]

use core::ffi::{c_int, c_void};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::actions::{Action, place};
use super::handlers::{change_ending, handles_for_program, system_action};
use super::{LIBRARY_S, NEVER_BLOCKED, Set, only, set_of, sigset_of};
use crate::errno::fail;
use crate::signal_reentrancy::Inside;

/// # Errors
/// errno.
unsafe fn mask(
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let wanted = unsafe { new.as_ref() }.map(|set| match how {
        libc::SIG_UNBLOCK => set_of(set),
        _ => set_of(set) & !(NEVER_BLOCKED | LIBRARY_S),
    });
    let given = wanted.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let call = libc::SYS_rt_sigprocmask;
    let mut before: Set = 0;
    // SAFETY: both sets live through the call, and have the size that is stated.
    if unsafe { libc::syscall(call, how, given, &raw mut before, size_of::<Set>()) } != 0 {
        return Err(errno());
    }
    // SAFETY: the caller's promise.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = sigset_of(before);
    }
    Ok(())
}

/// # Errors
/// errno.
fn act(signal: c_int, new: Option<Action>) -> Result<Action, c_int> {
    if let Some(place) = place(signal)
        && handles_for_program(signal)
    {
        return Ok(match new {
            Some(action) => place.replace(action),
            None => place.get(),
        });
    }
    match new {
        Some(new) => change_ending(signal, Action { mask: new.mask & !NEVER_BLOCKED, ..new }),
        None => system_action(signal, None),
    }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { mask(how, new, old) }.err().unwrap_or(0)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { mask(how, new, old) }.map_or_else(fail, |()| 0)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's promise.
    let new = unsafe { new.as_ref() }.map(Action::of);
    match act(signal, new) {
        Ok(before) => {
            // SAFETY: the caller's promise.
            if let Some(old) = unsafe { old.as_mut() } {
                *old = before.to_sigaction();
            }
            0
        }
        Err(error) => fail(error),
    }
}

/// `signal` in its ways: with these flags, and this mask.
fn handle(signal: c_int, handler: usize, flags: c_int, mask: Set) -> usize {
    let action = Action { handler, flags, mask };
    match act(signal, Some(action)) {
        Ok(before) => before.handler,
        Err(error) => {
            fail(error);
            libc::SIG_ERR
        }
    }
}

/// The one of BSD, and of the C library's `signal.h` by default.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    handle(signal, handler, libc::SA_RESTART, if valid(signal) { only(signal) } else { 0 })
}

/// The one of System V, and of strict ISO C.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sysv_signal(signal: c_int, handler: usize) -> usize {
    handle(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, 0)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn ssignal(signal_number: c_int, handler: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { signal(signal_number, handler) }
}

/// `sigset`'s SIG_HOLD of the C library.
const HOLD: usize = 2;

fn valid(signal: c_int) -> bool {
    (1..=64).contains(&signal)
}

/// Blocks or unblocks `signal`, and says whether it was blocked.
///
/// # Errors
/// errno.
fn block_one(how: c_int, signal: c_int) -> Result<bool, c_int> {
    if !valid(signal) {
        return Err(libc::EINVAL);
    }
    let one = sigset_of(only(signal));
    let mut before = sigset_of(0);
    // SAFETY: both live through the call.
    unsafe { mask(how, &raw const one, &raw mut before) }?;
    Ok(set_of(&before) & only(signal) != 0)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigset(signal: c_int, handler: usize) -> usize {
    let set = || {
        if handler == HOLD {
            let action = act(signal, None)?;
            return Ok(if block_one(libc::SIG_BLOCK, signal)? { HOLD } else { action.handler });
        }
        let before = act(signal, Some(Action { handler, flags: 0, mask: 0 }))?;
        Ok(if block_one(libc::SIG_UNBLOCK, signal)? { HOLD } else { before.handler })
    };
    set().unwrap_or_else(|error| {
        fail(error);
        libc::SIG_ERR
    })
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn sighold(signal: c_int) -> c_int {
    block_one(libc::SIG_BLOCK, signal).map_or_else(fail, |_| 0)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigignore(signal: c_int) -> c_int {
    act(signal, Some(Action { handler: libc::SIG_IGN, flags: 0, mask: 0 })).map_or_else(fail, |_| 0)
}

/// The first 32 signals, as BSD's calls have them.
#[expect(clippy::cast_possible_truncation, reason = "the others have no place there")]
fn bsd_mask(how: c_int, new: c_int) -> c_int {
    let mut before = sigset_of(0);
    let new = sigset_of(Set::from(new.cast_unsigned()));
    // SAFETY: both live through the call.
    match unsafe { mask(how, &raw const new, &raw mut before) } {
        Ok(()) => (set_of(&before) as u32).cast_signed(),
        Err(error) => fail(error),
    }
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigblock(set: c_int) -> c_int {
    bsd_mask(libc::SIG_BLOCK, set)
}

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigsetmask(set: c_int) -> c_int {
    bsd_mask(libc::SIG_SETMASK, set)
}

unsafe extern "C-unwind" {
    /// The C library's own, which ends where its thread is cancelled.
    fn __sigsuspend(set: *const libc::sigset_t) -> c_int;
}

/// Handlers that run while it waits may touch shared memory.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigsuspend(set: *const libc::sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    let Some(set) = (unsafe { set.as_ref() }) else {
        return fail(libc::EFAULT);
    };
    let set = sigset_of(set_of(set) & !NEVER_BLOCKED);
    // SAFETY: a set that lives through the call.
    unsafe { __sigsuspend(&raw const set) }
}

/// The C library's sigevent, with what a thread that it starts needs.
#[repr(C)]
struct ThreadEvent {
    value: *mut c_void,
    signal: c_int,
    notify: c_int,
    function: Option<Expired>,
    attributes: *mut libc::pthread_attr_t,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<ThreadEvent>() == size_of::<libc::sigevent>());

/// What such a thread calls: with a `union sigval`, which is passed as a pointer is.
type Expired = extern "C-unwind" fn(value: *mut c_void);

/// A program's function and its value, as an address.
type Expiry = (Expired, usize);

/// Those that timers were made with, each once. A thread may begin after its timer was deleted: they stay.
static EXPIRIES: Mutex<BTreeSet<&'static Expiry>> = Mutex::new(BTreeSet::new());

/// Stays, and is the same for the same function and value.
fn kept(expiry: Expiry) -> &'static Expiry {
    let _inside = Inside::new();
    let mut all = EXPIRIES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(&expiry) {
        return known;
    }
    let new: &'static Expiry = Box::leak(Box::new(expiry));
    all.insert(new);
    new
}

/// The C library starts it with all signals blocked, whatever the timer's attributes say.
extern "C-unwind" fn on_expiry(expiry: *mut c_void) {
    let ours = sigset_of(NEVER_BLOCKED);
    // SAFETY: a set that lives through the call.
    let _ = unsafe { mask(libc::SIG_UNBLOCK, &raw const ours, core::ptr::null_mut()) };
    // SAFETY: one of `EXPIRIES`.
    let (function, value) = unsafe { *expiry.cast::<Expiry>() };
    function(core::ptr::with_exposed_provenance_mut(value));
}

type TimerCreate =
    unsafe extern "C" fn(libc::clockid_t, *mut ThreadEvent, *mut libc::timer_t) -> c_int;

/// Threads that expired timers start (SIGEV_THREAD) may touch shared memory.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn timer_create(
    clock: libc::clockid_t,
    event: *mut libc::sigevent,
    timer: *mut libc::timer_t,
) -> c_int {
    // SAFETY: a name that ends with 0.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"timer_create".as_ptr()) };
    // SAFETY: the C library's function of this name; in a static program there is only this one.
    let next = unsafe { core::mem::transmute::<*mut c_void, Option<TimerCreate>>(next) };
    let event = event.cast::<ThreadEvent>();
    // SAFETY: the caller's promise; both types have this layout.
    let thread = unsafe { event.as_ref() }.filter(|event| event.notify == libc::SIGEV_THREAD);
    let Some(next) = next else {
        return match thread {
            Some(_) => fail(libc::ENOTSUP),
            // SAFETY: the caller's promise.
            None => unsafe { timer_of_kernel(clock, event, timer) },
        };
    };
    let Some(ThreadEvent { value, function: Some(function), attributes, .. }) = thread else {
        // SAFETY: the caller's promise.
        return unsafe { next(clock, event, timer) };
    };
    let expiry: *const Expiry = kept((*function, value.expose_provenance()));
    let mut own = ThreadEvent {
        value: expiry.cast_mut().cast(),
        signal: 0,
        notify: libc::SIGEV_THREAD,
        function: Some(on_expiry),
        attributes: *attributes,
        rest: [0; 4],
    };
    // SAFETY: the caller's promise.
    unsafe { next(clock, &raw mut own, timer) }
}

/// A timer that starts no thread, as the C library makes it.
///
/// # Safety
/// As for `timer_create`.
unsafe fn timer_of_kernel(
    clock: libc::clockid_t,
    event: *mut ThreadEvent,
    timer: *mut libc::timer_t,
) -> c_int {
    let mut number: c_int = 0;
    // SAFETY: the caller's promise, and room for a number.
    let done = unsafe { libc::syscall(libc::SYS_timer_create, clock, event, &raw mut number) };
    if done != 0 {
        return -1;
    }
    // The C library's timer_settime takes what is not negative for the kernel's number.
    let number = core::ptr::without_provenance_mut(number.unsigned_abs() as usize);
    // SAFETY: the caller's promise.
    unsafe { timer.write(number) };
    0
}
