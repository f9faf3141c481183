//! The system calls that links over sockets share.
//!
//! Role: sending and receiving take addresses, since no Rust reference may ever be made into memory that
//! the application writes. One span goes through the plain send and receive, which cost the kernel 0.1
//! to 0.2 us less; all are made without libc's wrappers, since a thread must not be cancelled here.
#![expect(unsafe_code, reason = "system calls on raw memory")]

use super::Close;
use crate::address::{Address, UnixName};
use crate::descriptor::placed;
use crate::shim::changed;
use crate::span::Span;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

/// Waiting connections a listening socket holds; the kernel caps it at net.core.somaxconn.
pub(super) const BACKLOG: i32 = 4096;

/// A stream socket, close-on-exec.
pub(super) fn stream(family: AddressFamily, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    placed(|| net::socket_with(family, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None))
}

/// Where a socket listens.
pub(super) fn address(socket: impl AsFd) -> Result<Address, Errno> {
    let name = net::getsockname(socket)?;
    if name.address_family() != AddressFamily::UNIX {
        return Ok(Address::Tcp(name.try_into()?));
    }
    let name = SocketAddrUnix::try_from(name)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Address::Unix(match name.abstract_name() {
        Some(name) => UnixName::Abstract(text(name)),
        None => {
            let path = name.path_bytes().unwrap_or_default();
            UnixName::Path(text(path).into())
        }
    }))
}

/// The next connection, and where it is from: one that was reset meanwhile has no other end any more that could be asked for.
pub(super) fn accept(
    listener: BorrowedFd<'_>,
) -> Result<(OwnedFd, Option<net::SocketAddrAny>), Errno> {
    let mut from = None;
    let socket = placed(|| {
        let (socket, name) = net::acceptfrom_with(listener, SocketFlags::CLOEXEC)?;
        from = name;
        Ok::<_, Errno>(socket)
    })?;
    Ok((socket, from))
}

/// [`super::Link::send`].
///
/// # Safety
/// As there.
pub(super) unsafe fn send(socket: &OwnedFd, spans: &mut [Span]) -> Result<usize, Errno> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let nobody = core::ptr::null::<u8>();
    let taken = if let [one] = spans {
        let call = libc::SYS_sendto;
        // SAFETY: the caller vouches for the span; no address is given.
        unsafe { libc::syscall(call, fd, one.start(), one.len(), flags, nobody, 0) }
    } else {
        let (call, message) = (libc::SYS_sendmsg, message(spans));
        // SAFETY: `message` lives through the call and names spans the caller vouches for.
        unsafe { libc::syscall(call, fd, &raw const message, flags) }
    };
    changed();
    match usize::try_from(taken).map_err(|_| last_errno()) {
        // A full socket has taken nothing; that is no error.
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
        taken => taken,
    }
}

/// [`super::Link::receive`].
///
/// # Safety
/// As there.
pub(super) unsafe fn receive(socket: &OwnedFd, spans: &mut [Span]) -> Result<usize, Errno> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    let nobody = core::ptr::null_mut::<u8>();
    let got = if let [one] = spans {
        let call = libc::SYS_recvfrom;
        // SAFETY: the caller vouches for the span; no address is asked for.
        unsafe { libc::syscall(call, fd, one.start(), one.len(), flags, nobody, nobody) }
    } else {
        let (call, mut message) = (libc::SYS_recvmsg, message(spans));
        // SAFETY: `message` lives through the call and names spans the caller vouches for.
        unsafe { libc::syscall(call, fd, &raw mut message, flags) }
    };
    changed();
    usize::try_from(got).map_err(|_| last_errno())
}

/// So many bytes must have come before the kernel calls the socket readable and wakes who sleeps on it;
/// what has come by now counts. Receiving without waiting takes less, too.
pub(super) fn set_low_water(socket: &OwnedFd, bytes: i32) -> Result<(), Errno> {
    const LEN: libc::socklen_t = 4;
    let (fd, value) = (socket.as_raw_fd(), (&raw const bytes).cast());
    // SAFETY: `value` is readable for the four bytes of an i32 through the call.
    let done = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, LEN) };
    changed();
    if done == 0 { Ok(()) } else { Err(last_errno()) }
}

/// [`super::Link::close`].
pub(super) fn close(socket: &OwnedFd, what: Close) {
    let how = match what {
        Close::Sending => Shutdown::Write,
        Close::Both => Shutdown::Both,
    };
    // It only fails when the connection is no more.
    let _ = net::shutdown(socket, how);
    changed();
}

/// [`super::Link::connected`].
pub(super) fn connected(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
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
