//! File descriptors of the memory: above stdin, stdout and stderr ([`multigrain_types::descriptor`]).

use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// What a call has opened, in its place.
pub(crate) fn placed(opened: Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let placed = multigrain_types::descriptor::above_standard;
    opened.and_then(|one| placed(one).map_err(Errno::from_raw_os_error))
}
