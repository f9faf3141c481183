//! Copies of pages between a node's memory and a segment's export. System calls, for the export is mapped in no place here: a
//! touch of a hole would fill it.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};

use multigrain_types::PAGE_BYTES;
use rustix::io::Errno;

fn offset(page: usize) -> libc::off_t {
    libc::off_t::try_from(page * PAGE_BYTES).unwrap_or(libc::off_t::MAX)
}

fn whole(copied: isize) -> Result<(), Errno> {
    match usize::try_from(copied) {
        Ok(PAGE_BYTES) => Ok(()),
        Ok(_) => Err(Errno::IO),
        Err(_) => {
            let errno = std::io::Error::last_os_error().raw_os_error();
            Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO)))
        }
    }
}

/// Reads a page of an export into a page of the privileged view.
pub(super) fn read(object: &OwnedFd, page: usize, place: *mut u8) -> Result<(), Errno> {
    let place: *mut c_void = place.cast();
    // SAFETY: a whole page of the privileged view, whose minipage's lock the caller has.
    whole(unsafe { libc::pread(object.as_raw_fd(), place, PAGE_BYTES, offset(page)) })
}

/// Writes a page of the privileged view to an export.
pub(super) fn write(object: &OwnedFd, page: usize, contents: *const u8) -> Result<(), Errno> {
    let contents: *const c_void = contents.cast();
    // SAFETY: as for `read`.
    whole(unsafe { libc::pwrite(object.as_raw_fd(), contents, PAGE_BYTES, offset(page)) })
}

/// A page that nobody has written.
pub(super) fn zeros() -> *const u8 {
    #[repr(align(4096))]
    struct Page([u8; PAGE_BYTES]);
    static ZEROS: Page = Page([0; PAGE_BYTES]);
    ZEROS.0.as_ptr()
}
