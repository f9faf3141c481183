//! Where file descriptors of a node lie: not where the program's stdin, stdout and stderr do.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// Runs what opens a descriptor, which gives its number.
pub type Opening = fn(&mut dyn FnMut() -> Option<RawFd>);

/// How descriptors are opened while the program runs and may close what is not its own.
static OPENING: OnceLock<Opening> = OnceLock::new();

/// Descriptors are opened so from now on.
pub fn open_by(opening: Opening) {
    // The first one holds: a node is made once.
    let _ = OPENING.set(opening);
}

/// What this has opened, in a way that the program does not close it in the same moment.
///
/// # Errors
/// What `open` says.
pub fn opened<E>(open: impl FnOnce() -> Result<OwnedFd, E>) -> Result<OwnedFd, E> {
    let Some(opening) = OPENING.get() else { return open() };
    let (mut open, mut made) = (Some(open), None);
    opening(&mut || {
        made = Some(open.take()?());
        made.as_ref()?.as_ref().ok().map(AsRawFd::as_raw_fd)
    });
    match (made, open) {
        (Some(made), _) => made,
        (None, Some(open)) => open(),
        (None, None) => unreachable!("what was called has made something"),
    }
}

/// The same, above stdin, stdout and stderr, also where the program has closed them: what it prints must not come
/// to what it does not know of. Every descriptor that a node keeps is one of these.
///
/// # Errors
/// The system's error number: no descriptor is left.
pub fn above_standard(descriptor: OwnedFd) -> Result<OwnedFd, i32> {
    if descriptor.as_raw_fd() > 2 {
        return Ok(descriptor);
    }
    // Never below 3, and close-on-exec.
    descriptor.try_clone().map_err(|error: io::Error| error.raw_os_error().unwrap_or(0))
}
