//! POSIX names: `/name`, of which the slash may be left out, as the C library has it.

use core::ffi::{CStr, c_char, c_int};

use multigrain_types::sysv::Ask;

use crate::datagrams::Bytes;
use crate::site_connection::ask;

/// A name without its slashes, as it goes to the site.
pub(crate) fn name_of(name: *const c_char, most: usize) -> Result<Bytes, c_int> {
    // SAFETY: the caller's string, as the C library reads it.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let slashes = name.iter().take_while(|&&byte| byte == b'/').count();
    let name = &name[slashes..];
    if name.is_empty() || name.contains(&b'/') {
        return Err(libc::EINVAL);
    }
    if name.len() > most {
        return Err(libc::ENAMETOOLONG);
    }
    Ok(Bytes(name.as_ptr().cast_mut().cast(), name.len()))
}

/// Takes a name away; nothing has one that cannot be.
pub(crate) fn unlink(asked: Ask, name: *const c_char, most: usize) -> Result<i64, c_int> {
    let name = name_of(name, most);
    let name = name.map_err(|errno| if errno == libc::EINVAL { libc::ENOENT } else { errno })?;
    ask(asked, [0; 4], name)
}
