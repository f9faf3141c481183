//! The datagrams on a socket to the site: one call out and one answer in, with bytes of the program and a descriptor.

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, size_of};
use core::ptr::null_mut;
use std::os::fd::RawFd;

use multigrain_types::sysv::{ANSWER_BYTES, Answer, Ask, Call};

use crate::errno;

/// Bytes of the program that go with a call, or that an answer fills.
#[derive(Clone, Copy)]
pub(crate) struct Bytes(pub(crate) *mut c_void, pub(crate) usize);

impl Bytes {
    pub(crate) const NONE: Self = Self(null_mut(), 0);

    pub(crate) fn of<T>(value: *const T) -> Self {
        Self(value.cast_mut().cast(), size_of::<T>())
    }
}

/// What came back.
pub(crate) struct Answered {
    pub(crate) result: i64,
    pub(crate) extra: [i64; 2],
    /// A descriptor that came along, or -1.
    pub(crate) descriptor: RawFd,
}

/// What a call returns, or its error number.
pub(crate) fn result_of(answered: &Answered) -> Result<i64, c_int> {
    match c_int::try_from(answered.result) {
        Ok(errno) if errno < 0 => Err(-errno),
        Ok(_) | Err(_) => Ok(answered.result),
    }
}

/// The system call: the C library's function is a cancellation point, at which a thread would end in the middle of a call that is
/// none, with what it has locked.
pub(crate) fn close(descriptor: RawFd) {
    // SAFETY: a descriptor of this library.
    unsafe { libc::syscall(libc::SYS_close, descriptor) };
}

#[repr(C, align(8))]
struct ForDescriptor([u8; 24]);

pub(crate) fn send(
    socket: RawFd,
    ask: Ask,
    arguments: [i64; 4],
    behind: Bytes,
    descriptor: RawFd,
) -> Result<(), c_int> {
    // SAFETY: takes nothing.
    let user = unsafe { libc::geteuid() };
    // SAFETY: takes nothing.
    let group = unsafe { libc::getegid() };
    let call = Call { ask: ask as u64, arguments, user, group }.to_bytes();
    let mut parts = [
        libc::iovec { iov_base: call.as_ptr().cast_mut().cast(), iov_len: call.len() },
        libc::iovec { iov_base: behind.0, iov_len: behind.1 },
    ];
    let mut room = ForDescriptor([0; 24]);
    // SAFETY: zeroes are a message header.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 2;
    if descriptor >= 0 {
        let head = (24 - 4_usize).to_ne_bytes();
        room.0[..8].copy_from_slice(&head);
        room.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        room.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
        room.0[16..20].copy_from_slice(&descriptor.to_ne_bytes());
        message.msg_control = room.0.as_mut_ptr().cast();
        message.msg_controllen = room.0.len();
    }
    loop {
        // SAFETY: the parts are memory of ours and of the caller, of which the kernel says EFAULT if it is none.
        let sent = unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        match errno() {
            libc::EINTR => {}
            libc::EPIPE | libc::ECONNRESET => return Err(libc::ENOSYS),
            other => return Err(other),
        }
    }
}

/// Bytes behind the answer that comes next.
fn awaited_bytes(socket: RawFd) -> usize {
    let how = libc::MSG_PEEK | libc::MSG_TRUNC;
    loop {
        // SAFETY: no room, which the kernel is told.
        let all = unsafe { libc::recv(socket, null_mut(), 0, how) };
        match usize::try_from(all) {
            Ok(all) => return all.saturating_sub(ANSWER_BYTES),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return 0,
        }
    }
}

pub(crate) fn receive(socket: RawFd, into: Bytes) -> Result<Answered, c_int> {
    let mut head = [0; ANSWER_BYTES];
    // No more is named than comes, for addresses behind that may be none.
    let into = if into.1 == 0 { into } else { Bytes(into.0, into.1.min(awaited_bytes(socket))) };
    let mut parts = [
        libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() },
        libc::iovec { iov_base: into.0, iov_len: into.1 },
    ];
    let mut room = ForDescriptor([0; 24]);
    // SAFETY: zeroes are a message header.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 2;
    message.msg_control = room.0.as_mut_ptr().cast();
    message.msg_controllen = room.0.len();
    let received = loop {
        // SAFETY: as for `send`.
        let received = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if received >= 0 || errno() != libc::EINTR {
            break received;
        }
    };
    if received < 0 {
        return Err(if errno() == libc::ECONNRESET { libc::ENOSYS } else { errno() });
    }
    if usize::try_from(received).unwrap_or(0) < ANSWER_BYTES {
        // Its end.
        return Err(libc::ENOSYS);
    }
    let Some((Answer { result, extra }, _)) = Answer::from_bytes(&head) else {
        return Err(libc::ENOSYS);
    };
    let came = message.msg_controllen >= 20;
    let descriptor =
        if came { RawFd::from_ne_bytes(core::array::from_fn(|at| room.0[16 + at])) } else { -1 };
    Ok(Answered { result, extra, descriptor })
}
