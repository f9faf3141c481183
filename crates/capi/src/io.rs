//! System calls and stdio on shared buffers, which the kernel does not trap on but refuses.
//!
//! Bytes pass through a buffer of this library's own. The copy between that and shared memory is the
//! program's own access, which waits for what is elsewhere, so other nodes may use the memory meanwhile and
//! nothing is lost (ADR 25). A buffer that is not shared goes to the system as it is.

use core::ffi::{c_int, c_void};

use multigrain_protocol::Kind;
use multigrain_runtime::{Error, Inside, Uncancellable, runtime};

use crate::status::{failed, system_call_failed};

/// Bytes that are passed on at a time: more than any datagram has, and than a pipe takes at once.
const MOST_BYTES: usize = 4 << 20;

/// A place for bytes on their way, of which nothing is written before it is used.
struct Bounce(Vec<u8>);

impl Bounce {
    /// Room for so many bytes, [`MOST_BYTES`] at most.
    fn new(bytes: usize) -> Self {
        let _inside = Inside::new();
        Self(Vec::with_capacity(bytes.min(MOST_BYTES)))
    }

    fn place(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        let _inside = Inside::new();
        self.0 = Vec::new();
    }
}

/// Where a buffer is.
enum Buffer {
    /// Of this process: the system judges it.
    Private,
    Shared,
    /// It begins in an allocation of shared memory and ends beyond it; it was shared memory and is freed; or this node may not
    /// access it so.
    Refused,
}

impl Buffer {
    /// `errno` and the last error say why one is refused.
    fn of(buffer: *const c_void, bytes: usize, kind: Kind) -> Self {
        let Ok(runtime) = runtime() else { return Self::Private };
        let is_shared = |address| runtime.is_shared(address) || runtime.is_freed(address);
        if bytes == 0 || !is_shared(buffer.addr()) {
            return Self::Private;
        }
        match runtime.check_range(buffer.addr(), bytes, kind) {
            Ok(()) => Self::Shared,
            Err(error) => {
                refuse(error);
                Self::Refused
            }
        }
    }
}

/// Notes why a buffer is refused, and sets `errno`.
fn refuse(error: Error) {
    failed(error);
    // SAFETY: it gives the place of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: that place is valid.
    unsafe { errno.write(libc::EFAULT) };
}

/// What a call gives; if it failed, this thread remembers why.
fn or_failed(name: &str, given: isize) -> isize {
    if given < 0 {
        system_call_failed(name);
    }
    given
}

/// Passes `bytes` from shared memory to `call`, which has this name, and gives how many it took or a negative
/// number.
///
/// # Safety
/// `buffer` is readable for `bytes` bytes, and `call` only reads what it is given.
unsafe fn pass_on(
    name: &str,
    buffer: *const c_void,
    bytes: usize,
    mut call: impl FnMut(*const c_void, usize, usize) -> isize,
) -> isize {
    match Buffer::of(buffer, bytes, Kind::Read) {
        Buffer::Private => return or_failed(name, call(buffer, bytes, 0)),
        Buffer::Refused => return -1,
        Buffer::Shared => {}
    }
    let mut bounce = Bounce::new(bytes);
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(MOST_BYTES);
        let from = buffer.cast::<u8>().wrapping_add(done);
        // SAFETY: the caller's promise; the bounce has room for a part.
        unsafe { bounce.place().copy_from_nonoverlapping(from, part) };
        match usize::try_from(call(bounce.place().cast(), part, done)) {
            // What was taken before counts; who goes on meets the error again.
            Err(_) if done == 0 => return or_failed(name, -1),
            Err(_) => break,
            Ok(taken) => {
                done += taken;
                if taken < part {
                    break;
                }
            }
        }
    }
    done.cast_signed()
}

/// Fetches up to `bytes` for shared memory from `call`, which has this name, and gives how many there were or a
/// negative number; `more` says whether to ask again when a whole part has come.
///
/// # Safety
/// `buffer` is writable for `bytes` bytes, and `call` writes no more than it is given room for, whatever number it
/// gives: recv(2) with `MSG_TRUNC` gives the length of a datagram that is longer.
unsafe fn fetch(
    name: &str,
    buffer: *mut c_void,
    bytes: usize,
    mut call: impl FnMut(*mut c_void, usize, usize) -> isize,
    more: impl Fn() -> bool,
) -> isize {
    match Buffer::of(buffer, bytes, Kind::Write) {
        Buffer::Private => return or_failed(name, call(buffer, bytes, 0)),
        Buffer::Refused => return -1,
        Buffer::Shared => {}
    }
    let mut bounce = Bounce::new(bytes);
    let mut done = 0;
    loop {
        let part = (bytes - done).min(MOST_BYTES);
        let Ok(got) = usize::try_from(call(bounce.place().cast(), part, done)) else {
            return if done == 0 { or_failed(name, -1) } else { done.cast_signed() };
        };
        let to = buffer.cast::<u8>().wrapping_add(done);
        // SAFETY: the caller's promise; the call has just written so many bytes, and at most a part.
        unsafe { to.copy_from_nonoverlapping(bounce.place(), got.min(part)) };
        done += got;
        if got != part || done == bytes || !more() {
            return done.cast_signed();
        }
    }
}

/// Whether a call that reads would not wait.
fn is_readable(file: c_int) -> bool {
    let mut asked = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    unsafe { libc::poll(&raw mut asked, 1, 0) > 0 }
}

/// As write(2).
///
/// # Safety
/// `buffer` is readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_write(file: c_int, buffer: *const c_void, bytes: usize) -> isize {
    let call = |from, bytes, _| {
        // SAFETY: it is given so many bytes.
        unsafe { libc::write(file, from, bytes) }
    };
    // SAFETY: the caller's promise is the system call's.
    unsafe { pass_on("write", buffer, bytes, call) }
}

/// As read(2).
///
/// # Safety
/// `buffer` is writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_read(file: c_int, buffer: *mut c_void, bytes: usize) -> isize {
    let call = |to, bytes, _| {
        // SAFETY: it is given room for so many bytes.
        unsafe { libc::read(file, to, bytes) }
    };
    // SAFETY: the caller's promise is the system call's.
    unsafe { fetch("read", buffer, bytes, call, || is_readable(file)) }
}

/// As pwrite(2).
///
/// # Safety
/// `buffer` is readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_pwrite(
    file: c_int,
    buffer: *const c_void,
    bytes: usize,
    offset: i64,
) -> isize {
    let call = |from, bytes, done: usize| {
        // SAFETY: it is given so many bytes.
        unsafe { libc::pwrite64(file, from, bytes, offset.saturating_add_unsigned(done as u64)) }
    };
    // SAFETY: the caller's promise is the system call's.
    unsafe { pass_on("pwrite", buffer, bytes, call) }
}

/// As pread(2).
///
/// # Safety
/// `buffer` is writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_pread(
    file: c_int,
    buffer: *mut c_void,
    bytes: usize,
    offset: i64,
) -> isize {
    let call = |to, bytes, done: usize| {
        // SAFETY: it is given room for so many bytes.
        unsafe { libc::pread64(file, to, bytes, offset.saturating_add_unsigned(done as u64)) }
    };
    // SAFETY: the caller's promise is the system call's.
    unsafe { fetch("pread", buffer, bytes, call, || true) }
}

/// As send(2).
///
/// # Safety
/// `buffer` is readable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_send(
    socket: c_int,
    buffer: *const c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    let call = |from, bytes, _| {
        // SAFETY: it is given so many bytes.
        unsafe { libc::send(socket, from, bytes, flags) }
    };
    // SAFETY: the caller's promise is the system call's.
    unsafe { pass_on("send", buffer, bytes, call) }
}

/// As recv(2).
///
/// # Safety
/// `buffer` is writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_recv(
    socket: c_int,
    buffer: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    let call = |to, bytes, _| {
        // SAFETY: it is given room for so many bytes.
        unsafe { libc::recv(socket, to, bytes, flags) }
    };
    let more = || {
        let (all, peek) = (flags & libc::MSG_WAITALL != 0, flags & libc::MSG_PEEK != 0);
        !peek && (all || is_readable(socket))
    };
    // SAFETY: the caller's promise is the system call's.
    unsafe { fetch("recv", buffer, bytes, call, more) }
}

/// Whether a call on a stream that did a part of its bytes failed, and did not just come to the end.
///
/// # Safety
/// `file` is an open stream.
unsafe fn has_failed(file: *mut libc::FILE) -> bool {
    // SAFETY: the caller's promise.
    let ended = unsafe { libc::feof(file) } != 0;
    // SAFETY: the caller's promise.
    !ended && unsafe { libc::ferror(file) } != 0
}

/// As fwrite(3).
///
/// # Safety
/// `buffer` is readable for `count` items of `size` bytes, and `file` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_fwrite(
    buffer: *const c_void,
    size: usize,
    count: usize,
    file: *mut libc::FILE,
) -> usize {
    let _uncancellable = Uncancellable::new();
    let call = |from, bytes, _| {
        // SAFETY: it is given so many bytes, and a stream.
        let done = unsafe { libc::fwrite(from, 1, bytes, file) };
        // SAFETY: as above.
        if done < bytes && unsafe { has_failed(file) } {
            system_call_failed("fwrite");
        }
        done.cast_signed()
    };
    // SAFETY: the caller's promise.
    items(size, count, |bytes| unsafe { pass_on("fwrite", buffer, bytes, call) })
}

/// As fread(3).
///
/// # Safety
/// `buffer` is writable for `count` items of `size` bytes, and `file` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mg_fread(
    buffer: *mut c_void,
    size: usize,
    count: usize,
    file: *mut libc::FILE,
) -> usize {
    // The C library unwinds its own frame of it, and this library's cannot be unwound.
    let _uncancellable = Uncancellable::new();
    let call = |to, bytes, _| {
        // SAFETY: it is given room for so many bytes, and a stream.
        let done = unsafe { libc::fread(to, 1, bytes, file) };
        // SAFETY: as above.
        if done < bytes && unsafe { has_failed(file) } {
            system_call_failed("fread");
        }
        done.cast_signed()
    };
    // SAFETY: the caller's promise.
    items(size, count, |bytes| unsafe { fetch("fread", buffer, bytes, call, || true) })
}

/// Whole items of those bytes that a call on a stream has done.
fn items(size: usize, count: usize, call: impl FnOnce(usize) -> isize) -> usize {
    if size == 0 || count == 0 {
        return 0;
    }
    let Some(bytes) = size.checked_mul(count) else {
        refuse(Error::Invalid(format!("{count} items of {size} bytes are more than memory has")));
        return 0;
    };
    let done = call(bytes);
    usize::try_from(done).unwrap_or(0).checked_div(size).unwrap_or(0)
}
