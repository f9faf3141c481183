//! Signals as a file descriptor: blocked in the launcher, read one by one by the event loop ([`super::node_signals`] says what each does,
//! [`super::escalation`] how long after SIGTERM comes SIGKILL).
#![expect(unsafe_code, reason = "signalfd and the signal mask have no safe interface here")]

use crate::ignored_pipes;
use rustix::io::Errno;
use rustix::process::Signal;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Read by the event loop: six that are handed on to every node, and two of its own.
const READ: [Signal; 8] = [
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::HUP,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CHILD,
];

/// The launcher's blocked signals.
pub(super) struct Signals {
    fd: OwnedFd,
    before: Inherited,
}

/// What who started the launcher has chosen, which the nodes get back.
#[derive(Clone, Copy)]
pub(super) struct Inherited {
    mask: libc::sigset_t,
    /// SIGCHLD was ignored: then no child could be waited for.
    ignores_children: bool,
    /// SIGPIPE was.
    ignores_pipes: bool,
}

impl Signals {
    /// Blocks [`READ`] and SIGXFSZ, and nothing else, in this thread and those it starts, and has the
    /// ends of children told. Children inherit that and have to call [`Inherited::restore`]. SIGXFSZ goes
    /// to a writer of too much, and is not read here: the write fails.
    pub(super) fn block() -> io::Result<Self> {
        let ignores_children = set_child_action(libc::SIG_DFL)? == libc::SIG_IGN;
        let set = set_of(&READ);
        let mut blocked = set;
        // SAFETY: the set is whole.
        unsafe { libc::sigaddset(&raw mut blocked, libc::SIGXFSZ) };
        let ignores_pipes = ignored_pipes::are_ignored();
        let before = Inherited { mask: set_mask(&blocked)?, ignores_children, ignores_pipes };
        // SAFETY: the set is whole; -1 asks for a new descriptor.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: signalfd just made this descriptor, and nobody else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, before })
    }

    /// What was so before.
    pub(super) fn before(&self) -> Inherited {
        self.before
    }

    /// The next pending signal, if there is one.
    pub(super) fn next(&self) -> Option<Signal> {
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        loop {
            match rustix::io::read(&self.fd, &mut record) {
                Ok(count) if count == record.len() => {
                    // ssi_signo is the record's first field.
                    let [a, b, c, d, ..] = record;
                    return Signal::from_named_raw(i32::from_ne_bytes([a, b, c, d]));
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Inherited {
    /// Undoes [`Signals::block`] in a node, between fork and exec: async-signal-safe.
    pub(super) fn restore(&self) -> io::Result<()> {
        if self.ignores_children {
            set_child_action(libc::SIG_IGN)?;
        }
        if self.ignores_pipes {
            // SAFETY: the action runs no code.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        set_mask(&self.mask).map(drop)
    }
}

/// Has the ends of children told, in a command that starts launchers, whatever it has inherited.
pub(crate) fn notice_children() {
    // SIGCHLD has an action in every process.
    let _ = set_child_action(libc::SIG_DFL);
}

/// Sets what SIGCHLD does; what it did before.
fn set_child_action(action: libc::sighandler_t) -> io::Result<libc::sighandler_t> {
    // SAFETY: the action is SIG_DFL or SIG_IGN, which run no code.
    match unsafe { libc::signal(libc::SIGCHLD, action) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        before => Ok(before),
    }
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer is to a sigset_t, which the call fills.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set was made by sigemptyset above.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal.as_raw()) };
    }
    // SAFETY: sigemptyset has filled it.
    unsafe { set.assume_init() }
}

/// Blocks these signals and no others in this thread; which it blocked before.
fn set_mask(set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut before = set_of(&[]);
    // SAFETY: both sets are whole.
    match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, &raw mut before) } {
        0 => Ok(before),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// `SIGKILL` for 9; `signal 40` where there is no name.
pub(super) fn name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let index = usize::try_from(signal).ok().and_then(|s| s.checked_sub(1));
    match index.and_then(|i| NAMES.get(i)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        for (number, text) in [
            (libc::SIGKILL, "SIGKILL"),
            (libc::SIGSEGV, "SIGSEGV"),
            (libc::SIGTERM, "SIGTERM"),
            (libc::SIGSYS, "SIGSYS"),
            (64, "signal 64"),
        ] {
            assert_eq!(name(number), text);
        }
    }
}
