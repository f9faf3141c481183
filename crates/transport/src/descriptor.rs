//! File descriptors of the transport: above stdin, stdout and stderr ([`multigrain_types::descriptor`]).

use crate::error::TransportError;
use multigrain_types::descriptor::opened;
use rustix::event::epoll::{self, CreateFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// What a call opens, in its place.
pub(crate) fn placed(open: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let placed = multigrain_types::descriptor::above_standard;
    opened(|| open().and_then(|one| placed(one).map_err(Errno::from_raw_os_error)))
}

/// An epoll set.
pub(crate) fn set() -> Result<OwnedFd, TransportError> {
    placed(|| epoll::create(CreateFlags::CLOEXEC)).map_err(TransportError::system("epoll_create"))
}

/// An event that wakes who sleeps on it.
pub(crate) fn event() -> Result<OwnedFd, TransportError> {
    placed(|| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
        .map_err(TransportError::system("eventfd"))
}
