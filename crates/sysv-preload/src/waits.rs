//! How a call waits for its answer, and what a signal does then.
//!
//! A wait of the kernel's own is over before a signal's handler runs, which may jump out of it. So it is here: signals are blocked
//! for as long as a call takes, and one that comes ends the wait; its handler runs when the call is over.

use core::ffi::{c_int, c_long};
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use std::os::fd::RawFd;

use multigrain_types::sysv::Ask;

use crate::datagrams::{Bytes, close, send};
use crate::errno;

/// How a call waits.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// For as long as the site takes to answer.
    Answer,
    /// Until it is answered, a signal comes, or so many nanoseconds are over.
    Event(Option<u64>),
    /// Until it is answered, or a signal comes whose handler was not installed with SA_RESTART.
    Restarting,
}

fn no_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: a place for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: it is empty now.
    unsafe { set.assume_init() }
}

/// While this lives, no handler runs in this thread.
pub(crate) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    pub(crate) fn new() -> Self {
        let (mut all, mut before) = (no_signals(), no_signals());
        // SAFETY: a set.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: two sets; what the C library needs itself it leaves out.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self { before }
    }

    /// Signals stay blocked: what is to be restored.
    pub(crate) fn keep(self) -> libc::sigset_t {
        core::mem::ManuallyDrop::new(self).before
    }

    pub(crate) fn restore(before: &libc::sigset_t) {
        // SAFETY: a set, and no place for the one before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
    }

    fn blocked_before(&self, signal: c_int) -> bool {
        // SAFETY: a set.
        unsafe { libc::sigismember(&raw const self.before, signal) != 0 }
    }

    /// Whether a signal waits that would have ended a wait. Those that do nothing are gone then.
    fn is_interrupted(&self) -> bool {
        let mut pending = no_signals();
        // SAFETY: a place for a set.
        unsafe { libc::sigpending(&raw mut pending) };
        // SAFETY: a set.
        let is_pending =
            |&signal: &c_int| unsafe { libc::sigismember(&raw const pending, signal) == 1 };
        let signals = (1..=LAST_SIGNAL).filter(|&signal| !self.blocked_before(signal));
        let mut ends = false;
        for signal in signals.filter(is_pending) {
            if does_nothing(signal) {
                discard(signal);
            } else {
                ends = true;
            }
        }
        ends
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        Self::restore(&self.before);
    }
}

/// The highest number of a signal.
const LAST_SIGNAL: c_int = 64;

/// Whether a signal is ignored, as some are if nothing is said.
fn does_nothing(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a place for an action.
    unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are one, too.
    let action = unsafe { action.assume_init() };
    let of_default = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
    action.sa_sigaction == libc::SIG_IGN
        || action.sa_sigaction == libc::SIG_DFL && of_default.contains(&signal)
}

fn discard(signal: c_int) {
    let mut one = no_signals();
    // SAFETY: a set.
    unsafe { libc::sigaddset(&raw mut one, signal) };
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a set and a time.
    unsafe { libc::sigtimedwait(&raw const one, null_mut(), &raw const at_once) };
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

fn time_of(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: c_long::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}

/// Waits for an answer: none if it is there, else why the wait is over.
pub(crate) fn await_answer(
    socket: RawFd,
    within_ns: Option<u64>,
    blocked: &Blocked,
) -> Option<c_int> {
    let ends_ns = within_ns.map(|ns| now_ns().saturating_add(ns));
    let soon_ns = within_ns.map_or(SOON_NS, |ns| ns.min(SOON_NS));
    if is_readable_within(socket, soon_ns) {
        return None;
    }
    // What comes while it waits wakes it, though it is blocked.
    let mut awake = no_signals();
    for signal in (1..=LAST_SIGNAL).filter(|&signal| !blocked.blocked_before(signal)) {
        // SAFETY: a set; of a number that is none it says so.
        unsafe { libc::sigaddset(&raw mut awake, signal) };
    }
    // SAFETY: a set and flags.
    let signals =
        unsafe { libc::signalfd(-1, &raw const awake, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    let over = await_either(socket, signals, ends_ns, blocked);
    if signals >= 0 {
        close(signals);
    }
    over
}

/// Most answers come so soon: only then is a signal looked for, and a descriptor made for that.
const SOON_NS: u64 = 100_000;

fn is_readable_within(socket: RawFd, ns: u64) -> bool {
    let mut wanted = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
    let time = time_of(ns);
    // SAFETY: a descriptor and a time, no mask.
    unsafe { libc::ppoll(&raw mut wanted, 1, &raw const time, null()) == 1 }
}

fn await_either(
    socket: RawFd,
    signals: RawFd,
    ends_ns: Option<u64>,
    blocked: &Blocked,
) -> Option<c_int> {
    let mut tells_ns = Some(now_ns() + TELLS_AFTER_NS);
    loop {
        let of = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut wanted = [of(socket), of(signals)];
        let next_ns = ends_ns.into_iter().chain(tells_ns).min();
        let left = next_ns.map(|next_ns| time_of(next_ns.saturating_sub(now_ns())));
        let left = left.as_ref().map_or(null(), core::ptr::from_ref);
        // Without a descriptor for signals they are let in while it waits: a handler that jumps leaves the call to the site.
        let mask = if signals < 0 { &raw const blocked.before } else { null() };
        // SAFETY: two descriptors, a time or none, a mask or none.
        let ready = unsafe { libc::ppoll(wanted.as_mut_ptr(), 2, left, mask) };
        if ready < 0 && signals < 0 {
            return Some(errno());
        }
        if wanted[0].revents != 0 {
            return None;
        }
        if ready == 0 && ends_ns.is_some_and(|ends_ns| now_ns() >= ends_ns) {
            return Some(libc::EAGAIN);
        }
        if ready == 0 {
            if tells_ns.take().is_some() {
                tell_that_it_waits(socket, ends_ns.is_some());
            }
            continue;
        }
        if blocked.is_interrupted() {
            return Some(libc::EINTR);
        }
    }
}

/// A call that waits longer than this tells the site how it may end.
const TELLS_AFTER_NS: u64 = 100_000_000;

/// Says whether a time-out ends the call, and whether a timer of this process may.
fn tell_that_it_waits(socket: RawFd, has_limit: bool) {
    // SAFETY: zeroes are a timer.
    let mut timer: libc::itimerval = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: a place for a timer.
    let asked = unsafe { libc::getitimer(libc::ITIMER_REAL, &raw mut timer) };
    let has_timer = asked != 0 || timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0;
    // Of a site that is gone the answer tells.
    let _ = send(socket, Ask::Waits, [has_limit.into(), has_timer.into(), 0, 0], Bytes::NONE, -1);
}

/// Waits for an answer in a receive, which the kernel begins again after SA_RESTART: why the wait is over, if it is not there.
pub(crate) fn await_restarting(socket: RawFd) -> Option<c_int> {
    // SAFETY: no room, which the kernel is told.
    let peeked = unsafe { libc::recv(socket, null_mut(), 0, libc::MSG_PEEK) };
    (peeked < 0).then(errno)
}
