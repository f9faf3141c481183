//! The end of a node whose program has closed file descriptors of the library behind its back: by system calls of its own, or by
//! the C library's where this library was loaded too late to be asked ([`crate::interposed_close`]).

use multigrain_transport::when_descriptors_are_closed;
use multigrain_types::phrases::CLOSED_DESCRIPTORS;

use crate::launcher::Launcher;

/// Such an end is this node's from now on.
pub(crate) fn end_this_node() {
    when_descriptors_are_closed(end);
}

fn end(call: &str) -> ! {
    let why = format!("{CLOSED_DESCRIPTORS} ({call})");
    match Launcher::of_this_node() {
        Some(launcher) => launcher.fatal(&why),
        None => unreachable!("set before"),
    }
}
