//! The end of a node whose library is refused memory, after what was kept back for it ([`crate::allocation_reserve`]).

#![expect(unsafe_code, reason = "the environment is read without an allocation")]

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use multigrain_types::NodeId;
use multigrain_types::control::Message;
use multigrain_types::exit_codes::FATAL;
use rustix::net::{SocketType, sockopt};

use crate::child;
use crate::launcher::exit_now;

/// Who says so, and to whom: this node, and the way to its launcher.
static NODE: OnceLock<(NodeId, Option<BorrowedFd<'static>>)> = OnceLock::new();

/// Such an end is this node's from now on.
pub(crate) fn belongs_to(me: NodeId, control: Option<BorrowedFd<'static>>) {
    // A node is made once.
    let _ = NODE.set((me, control));
}

/// This process is in mg_init, and may not know yet who it is.
static IS_JOINING: AtomicBool = AtomicBool::new(false);

/// mg_init begins.
pub(crate) fn joins() {
    IS_JOINING.store(true, Ordering::Relaxed);
}

/// The way to the launcher, where mg_init has not come as far as to read where it is.
fn unread_control() -> Option<BorrowedFd<'static>> {
    if !IS_JOINING.load(Ordering::Relaxed) || child::is_one() {
        return None;
    }
    // SAFETY: the name is a C string. No other thread uses the environment while one calls mg_init, whose promise that is.
    let value = unsafe { libc::getenv(c"MULTIGRAIN_CONTROL_FD".as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: as above.
    let number =
        unsafe { CStr::from_ptr(value) }.to_str().ok()?.parse().ok().filter(|&fd| fd >= 0)?;
    // SAFETY: whose it is, if it is open at all, is asked next; it is written to, and never closed.
    let control = unsafe { BorrowedFd::borrow_raw(number) };
    (sockopt::socket_type(control) == Ok(SocketType::STREAM)).then_some(control)
}

/// Ends the process with one line: the library wants that many bytes more, and there are none. Allocates nothing and takes no
/// lock.
pub fn end(bytes: usize) -> ! {
    let why = format_args!(
        "the library was refused {bytes} bytes of memory: raise the limits of the process (ulimit -v, ulimit -d) or of its \
         control group, or let the program use fewer locks, threads and allocations at once"
    );
    let at_first = format_args!(
        "it was refused {bytes} bytes of memory before it had begun: raise the limits of the process (ulimit -v, ulimit -d) or of \
         its control group"
    );
    let mut line = [0; 320];
    let mut room = &mut line[..];
    let node = NODE.get().filter(|_| !child::is_one());
    // Text that does not fit is cut off.
    let early = if node.is_none() { unread_control() } else { None };
    let _ = match node {
        None if early.is_some() => writeln!(room, "{}", Message::NotJoined(at_first)),
        Some((_, Some(_))) => writeln!(room, "{}", Message::Fatal(why)),
        Some((me, None)) => writeln!(room, "multigrain: {me}: {why}"),
        None => writeln!(room, "multigrain: {why}"),
    };
    let left = room.len();
    let line = &line[..line.len() - left];
    let _ = match early.or(node.and_then(|(_, control)| *control)) {
        Some(control) => rustix::io::write(control, line),
        None => rustix::io::write(std::io::stderr(), line),
    };
    exit_now(FATAL)
}
