//! POSIX shared memory: shm_open, shm_unlink, and ftruncate, posix_fallocate and mmap of what shm_open gave.
//!
//! A descriptor of an object is one of the site's, opened with O_PATH: the kernel tells its size and mode, and refuses all else
//! with EBADF. What it refuses so is looked at here; other descriptors cost nothing.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use std::os::fd::RawFd;

use libc::off_t;
use multigrain_types::PAGE_BYTES;
use multigrain_types::sysv::Ask;

use crate::datagrams::{Answered, Bytes, close};
use crate::errno;
use crate::names::{name_of, unlink};
use crate::segments::{forget_read_only, guard, map, unmap};
use crate::site_connection::{ask, exchange};
use crate::waits::Wait;
use crate::{failed, returned};

/// NAME_MAX.
const MOST_NAME: usize = 255;

/// shm_open(3).
///
/// # Safety
/// As the C library's: a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shm_open(name: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    let opened = name_of(name, MOST_NAME).and_then(|name| {
        let both = (name, Bytes::NONE);
        let arguments = [flags.into(), mode.into(), 0, 0];
        exchange(Ask::PosixShmOpen, arguments, both, -1, Wait::Answer)
    });
    match opened {
        Ok(Answered { descriptor, .. }) if descriptor >= 0 => descriptor,
        Ok(_) => failed(libc::EMFILE),
        Err(errno) => failed(errno),
    }
}

/// shm_unlink(3).
///
/// # Safety
/// As the C library's: a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shm_unlink(name: *const c_char) -> c_int {
    returned(unlink(Ask::PosixShmUnlink, name, MOST_NAME))
}

/// Whether a descriptor may be one of an object.
fn is_proxy(descriptor: RawFd) -> Result<(), c_int> {
    // SAFETY: takes numbers.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    if flags < 0 || flags & libc::O_PATH == 0 {
        return Err(libc::EBADF);
    }
    Ok(())
}

fn set_size(descriptor: RawFd, bytes: off_t) -> Result<i64, c_int> {
    is_proxy(descriptor)?;
    let none = (Bytes::NONE, Bytes::NONE);
    exchange(Ask::PosixShmSize, [bytes, 0, 0, 0], none, descriptor, Wait::Answer)
        .map(|it| it.result)
}

/// ftruncate(2): the first one of an object gives it its size.
#[unsafe(no_mangle)]
pub extern "C" fn ftruncate(descriptor: c_int, bytes: off_t) -> c_int {
    // SAFETY: takes numbers.
    let done = unsafe { libc::syscall(libc::SYS_ftruncate, descriptor, bytes) };
    if done < 0 && errno() == libc::EBADF {
        return returned(set_size(descriptor, bytes));
    }
    c_int::try_from(done).unwrap_or(-1)
}

/// ftruncate64(3).
#[unsafe(no_mangle)]
pub extern "C" fn ftruncate64(descriptor: c_int, bytes: off_t) -> c_int {
    ftruncate(descriptor, bytes)
}

/// posix_fallocate(3): all of an object has room from the beginning.
#[unsafe(no_mangle)]
pub extern "C" fn posix_fallocate(descriptor: c_int, offset: off_t, bytes: off_t) -> c_int {
    if offset < 0 || bytes <= 0 {
        return libc::EINVAL;
    }
    // SAFETY: takes numbers.
    let done = unsafe { libc::syscall(libc::SYS_fallocate, descriptor, 0, offset, bytes) };
    match if done < 0 { errno() } else { 0 } {
        libc::EBADF => allocate(descriptor, offset.saturating_add(bytes)).err().unwrap_or(0),
        errno => errno,
    }
}

/// posix_fallocate64(3).
#[unsafe(no_mangle)]
pub extern "C" fn posix_fallocate64(descriptor: c_int, offset: off_t, bytes: off_t) -> c_int {
    posix_fallocate(descriptor, offset, bytes)
}

fn allocate(descriptor: RawFd, end: off_t) -> Result<(), c_int> {
    is_proxy(descriptor)?;
    let mut about = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel writes the structure.
    unsafe { libc::fstat(descriptor, about.as_mut_ptr()) };
    // SAFETY: zeroed is one, too.
    let has = unsafe { about.assume_init() }.st_size;
    if has >= end { Ok(()) } else { set_size(descriptor, end).map(drop) }
}

/// mmap(2).
///
/// # Safety
/// As the system call: MAP_FIXED replaces what is mapped there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    let mapped = system_mmap(address, bytes, protection, flags, (descriptor, offset));
    if mapped != libc::MAP_FAILED {
        if flags & libc::MAP_FIXED != 0 {
            forget_read_only(address.addr(), bytes);
        }
        return mapped;
    }
    if errno() != libc::EBADF || flags & libc::MAP_ANONYMOUS != 0 {
        return mapped;
    }
    let wanted = Wanted { address: address.addr(), bytes, protection, flags, offset };
    match wanted.map(descriptor) {
        Ok(start) => core::ptr::with_exposed_provenance_mut(start),
        Err(errno) => {
            failed(errno);
            libc::MAP_FAILED
        }
    }
}

/// mmap64(3).
///
/// # Safety
/// As mmap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller's arguments.
    unsafe { mmap(address, bytes, protection, flags, descriptor, offset) }
}

fn system_mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    (descriptor, offset): (RawFd, off_t),
) -> *mut c_void {
    let number = libc::SYS_mmap;
    // SAFETY: the arguments of a caller of mmap.
    let mapped =
        unsafe { libc::syscall(number, address, bytes, protection, flags, descriptor, offset) };
    core::ptr::with_exposed_provenance_mut(usize::try_from(mapped).unwrap_or(usize::MAX))
}

/// munmap(2).
///
/// # Safety
/// As the system call: nothing uses the addresses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let done = unsafe { libc::syscall(libc::SYS_munmap, address, bytes) };
    if done == 0 {
        forget_read_only(address.addr(), bytes);
    }
    c_int::try_from(done).unwrap_or(-1)
}

/// A mapping of an object that is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    address: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    offset: off_t,
}

impl Wanted {
    fn map(self, descriptor: RawFd) -> Result<usize, c_int> {
        is_proxy(descriptor)?;
        if self.bytes == 0 {
            return Err(libc::EINVAL);
        }
        let bytes = self.bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(libc::ENOMEM)?;
        let whole = Self { bytes, ..self };
        match self.flags & libc::MAP_TYPE {
            libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE => whole.map_shared(descriptor),
            libc::MAP_PRIVATE => whole.copy(descriptor),
            _ => Err(libc::EINVAL),
        }
    }

    fn map_shared(self, of: RawFd) -> Result<usize, c_int> {
        let both = (Bytes::NONE, Bytes::NONE);
        let writes = i64::from(self.protection & libc::PROT_WRITE != 0);
        let length = i64::try_from(self.bytes).map_err(|_| libc::ENOMEM)?;
        let arguments = [writes, self.offset, length, 0];
        let Answered { result, extra: [suggested, id], descriptor } =
            exchange(Ask::PosixShmMap, arguments, both, of, Wait::Answer)?;
        let id = c_int::try_from(id).map_err(|_| libc::EPROTO)?;
        let mapped = self.place(descriptor, usize::try_from(suggested).unwrap_or(0));
        close(descriptor);
        let first_page = self.offset / 4096;
        let mapped = mapped.and_then(|start| {
            let mapping = (start, self.bytes);
            let guarded = guard(id, mapping, first_page, self.protection, result == 0);
            guarded.inspect_err(|_| unmap(start, self.bytes)).map(|()| start)
        });
        mapped.inspect_err(|_| {
            // Where it fails the site gives the mapping back itself, with the last socket of this image.
            let _ = ask(Ask::ShmAbandon, [id.into(), 0, 0, 0], Bytes::NONE);
        })
    }

    /// Maps the memory object, closed, where the caller wants it.
    fn place(self, object: RawFd, suggested: usize) -> Result<usize, c_int> {
        let Self { address, bytes, offset, .. } = self;
        let fixed = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE;
        if self.flags & fixed != 0 {
            return map(address, bytes, (object, offset), self.flags & fixed);
        }
        if address == 0
            && let Ok(start) = map(suggested, bytes, (object, offset), libc::MAP_FIXED_NOREPLACE)
        {
            return Ok(start);
        }
        map(address, bytes, (object, offset), 0)
    }

    /// A private mapping: what the object holds now.
    fn copy(self, of: RawFd) -> Result<usize, c_int> {
        let shared =
            Self { address: 0, protection: libc::PROT_READ, flags: libc::MAP_SHARED, ..self };
        let from = shared.map_shared(of)?;
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | self.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE);
        let place = core::ptr::without_provenance_mut(self.address);
        let open = libc::PROT_READ | libc::PROT_WRITE;
        let to = system_mmap(place, self.bytes, open, flags, (-1, 0));
        let copied = if to == libc::MAP_FAILED {
            Err(errno())
        } else {
            let from: *const c_void = core::ptr::with_exposed_provenance(from);
            // SAFETY: two mappings of this function.
            unsafe { libc::memcpy(to, from, self.bytes) };
            // SAFETY: the new mapping.
            unsafe { libc::syscall(libc::SYS_mprotect, to, self.bytes, self.protection) };
            Ok(to.expose_provenance())
        };
        unmap(from, self.bytes);
        copied
    }
}
