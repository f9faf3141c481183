//! The system calls of the hot path, two of them with raw spans of memory.
//!
//! Role: sendmsg and recvmsg that take addresses, since no Rust reference may ever be made into
//! memory that the application writes. Everything else goes through rustix. One span goes through
//! the plain send and recv, which cost the kernel 0.1 to 0.2 us less; all are made without libc's
//! wrappers, since a thread must not be cancelled here.
#![expect(unsafe_code, reason = "system calls on raw memory")]

use crate::shim::{Mutex, MutexGuard, changed};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{self, SendFlags};
use std::sync::PoisonError;

/// A piece of memory for the kernel to read or to fill.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Span(libc::iovec);

impl Span {
    /// No memory at all.
    pub(crate) const EMPTY: Span = Span::at(core::ptr::null_mut(), 0);

    pub(crate) const fn at(start: *mut u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast(), iov_len: len })
    }

    /// For sending: the kernel does not write to it.
    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self::at(bytes.as_ptr().cast_mut(), bytes.len())
    }

    pub(crate) const fn of_mut(bytes: &mut [u8]) -> Self {
        Self::at(bytes.as_mut_ptr(), bytes.len())
    }

    pub(crate) const fn start(&self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.iov_len
    }
}

/// An address that may cross threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw(pub(crate) *mut u8);

// SAFETY: an address alone does nothing; who follows it argues for the memory behind it.
unsafe impl Send for Raw {}

/// Bytes the socket took, which may be fewer than there are; never waits, raises no signal.
///
/// # Safety
/// Every span is readable for its length, or not mapped at all (then: `EFAULT`).
pub(crate) unsafe fn send(socket: BorrowedFd<'_>, spans: &mut [Span]) -> Result<usize, Errno> {
    let message = message(spans);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let call = libc::SYS_sendmsg;
    // SAFETY: `message` lives through the call and names spans the caller vouches for.
    let taken = unsafe { libc::syscall(call, socket.as_raw_fd(), &raw const message, flags) };
    changed();
    usize::try_from(taken).map_err(|_| last_errno())
}

/// [`send`] of one span of ordinary memory.
pub(crate) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let taken = net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    changed();
    taken
}

/// Bytes the socket gave, filling the spans in order; never waits. 0 is the end of the stream.
///
/// # Safety
/// Every span is writable for its length and nobody holds a reference into it.
pub(crate) unsafe fn receive(socket: BorrowedFd<'_>, spans: &mut [Span]) -> Result<usize, Errno> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    let got = if let [Span(one)] = spans {
        let nobody = core::ptr::null_mut::<u8>();
        let (call, start, len) = (libc::SYS_recvfrom, one.iov_base, one.iov_len);
        // SAFETY: the caller vouches for the span; no address is asked for.
        unsafe { libc::syscall(call, fd, start, len, flags, nobody, nobody) }
    } else {
        let mut message = message(spans);
        let call = libc::SYS_recvmsg;
        // SAFETY: `message` lives through the call and names spans the caller vouches for.
        unsafe { libc::syscall(call, fd, &raw mut message, flags) }
    };
    changed();
    usize::try_from(got).map_err(|_| last_errno())
}

/// So many bytes must have come before the kernel calls the socket readable and wakes who sleeps on it;
/// what has come by now counts. Receiving without waiting takes less, too.
pub(crate) fn set_low_water(socket: BorrowedFd<'_>, bytes: i32) -> Result<(), Errno> {
    const LEN: libc::socklen_t = 4;
    let (fd, value) = (socket.as_raw_fd(), (&raw const bytes).cast());
    // SAFETY: `value` is readable for the four bytes of an i32 through the call.
    let done = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, LEN) };
    changed();
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

fn message(spans: &mut [Span]) -> libc::msghdr {
    // SAFETY: a msghdr of zeroes is one without address, control data and flags.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = spans.as_mut_ptr().cast();
    message.msg_iovlen = spans.len();
    message
}

fn last_errno() -> Errno {
    // SAFETY: the address of this thread's errno is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; only this thread uses it.
    Errno::from_raw_os_error(unsafe { *errno })
}

/// Copies `bytes` to `place`.
///
/// # Safety
/// `place` is writable for `bytes.len()` and does not overlap `bytes`.
pub(crate) unsafe fn copy_to(place: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller vouches for `place`.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) }
}

/// Fills `bytes` from `place`.
///
/// # Safety
/// `place` is readable for `bytes.len()` and does not overlap `bytes`.
pub(crate) unsafe fn copy_from(place: *const u8, bytes: &mut [u8]) {
    // SAFETY: the caller vouches for `place`.
    unsafe { core::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) }
}

/// Appends the bytes of `span` to `out`.
///
/// # Safety
/// The span is readable for its length and not a part of `out`.
pub(crate) unsafe fn append(span: Span, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + span.len(), 0);
    if span.len() > 0 {
        // SAFETY: the caller vouches for the span.
        unsafe { copy_from(span.start(), &mut out[start..]) };
    }
}

/// A number no other thread of this process has now; never 0.
pub(crate) fn this_thread() -> usize {
    // SAFETY: it has no conditions, and fails never.
    let thread = unsafe { libc::pthread_self() };
    usize::try_from(thread).unwrap_or(usize::MAX)
}

/// Locks; a panic of another holder is no reason to panic again, the states here are never left
/// half changed by one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
