//! Where file descriptors of a node lie: not where the program's stdin, stdout and stderr do.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

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
