//! The end of a node whose library is refused memory, after what was kept back for it ([`crate::address_reserve`]).

use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use multigrain_types::NodeId;
use multigrain_types::control::Message;
use multigrain_types::exit_codes::FATAL;

use crate::child;
use crate::launcher::exit_now;

/// Who says so, and to whom: this node, and the way to its launcher.
static NODE: OnceLock<(NodeId, Option<BorrowedFd<'static>>)> = OnceLock::new();

/// Such an end is this node's from now on.
pub(crate) fn belongs_to(me: NodeId, control: Option<BorrowedFd<'static>>) {
    // A node is made once.
    let _ = NODE.set((me, control));
}

/// Ends the process with one line: the library wants that many bytes more, and there are none. Allocates nothing and takes no
/// lock.
pub fn end(bytes: usize) -> ! {
    let why = format_args!(
        "the library was refused {bytes} bytes of memory: raise the limits of the process (ulimit -v, ulimit -d) or of its \
         control group, or let the program use fewer locks, threads and allocations at once"
    );
    let mut line = [0; 320];
    let mut room = &mut line[..];
    let node = NODE.get().filter(|_| !child::is_one());
    // Text that does not fit is cut off.
    let _ = match node {
        Some((_, Some(_))) => writeln!(room, "{}", Message::Fatal(why)),
        Some((me, None)) => writeln!(room, "multigrain: {me}: {why}"),
        None => writeln!(room, "multigrain: {why}"),
    };
    let left = room.len();
    let line = &line[..line.len() - left];
    let _ = match node {
        Some((_, Some(control))) => rustix::io::write(control, line),
        Some((_, None)) | None => rustix::io::write(std::io::stderr(), line),
    };
    exit_now(FATAL)
}
