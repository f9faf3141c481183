//! Links over TCP, for nodes of several hosts. A dead host is noticed by keep-alive probes.
#![expect(unsafe_code, reason = "links send from and receive into raw memory")]

use super::{Backend, Close, Link, socket};
use crate::address::Address;
use crate::handshake::Refusal;
use crate::span::Span;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, sockopt};
use std::net::SocketAddr;

/// A silent peer is probed after this time, and then every second.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 5;
/// Unacknowledged bytes older than this end a link, in milliseconds.
const USER_TIMEOUT_MS: u32 = 30_000;

/// Below so many bytes a link that suppresses wake-ups is not readable: more than most pages with their
/// headers, and so little that the kernel does not think the receive buffer too small for it.
const LOW_WATER: i32 = 16 << 10;

/// The backend.
pub(super) struct Tcp;

impl Backend for Tcp {
    fn serves(&self, address: &Address) -> bool {
        matches!(address, Address::Tcp(_))
    }

    fn listen(&self, address: &Address) -> Result<(OwnedFd, Address), Errno> {
        let address = name(address)?;
        let socket = socket::stream(family(address), SocketFlags::empty())?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        net::bind(&socket, address)?;
        net::listen(&socket, socket::BACKLOG)?;
        let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
        Ok((socket, Address::Tcp(bound)))
    }

    fn accept(&self, listener: BorrowedFd<'_>) -> Result<Box<dyn Link>, Errno> {
        Ok(Box::new(TcpLink(socket::accept(listener)?)))
    }

    fn connect(&self, address: &Address, _: Duration) -> Result<Box<dyn Link>, Errno> {
        Ok(Box::new(TcpLink(begin(address)?)))
    }
}

/// A socket on its way to this address.
pub(super) fn begin(address: &Address) -> Result<OwnedFd, Errno> {
    let address = name(address)?;
    let socket = socket::stream(family(address), SocketFlags::NONBLOCK)?;
    match net::connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Raises the socket's low-water mark, below which it is not readable to the kernel; or lowers it again.
pub(super) fn suppress_wakeups(socket: &OwnedFd, suppress: bool) -> Result<(), Errno> {
    socket::set_low_water(socket, if suppress { LOW_WATER } else { 1 })
}

/// [`Link::tune`].
pub(super) fn tune(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT_MS)
}

/// [`Link::describe`].
pub(super) fn describe(socket: &OwnedFd) -> String {
    let address = net::getpeername(socket).ok().flatten().map(SocketAddr::try_from);
    match address {
        Some(Ok(address)) => address.to_string(),
        Some(Err(_)) | None => "an unknown address".to_owned(),
    }
}

fn name(address: &Address) -> Result<&SocketAddr, Errno> {
    match address {
        Address::Tcp(address) => Ok(address),
        Address::Unix(_) => Err(Errno::AFNOSUPPORT),
    }
}

fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// A TCP socket, connected or on its way.
#[derive(Debug)]
struct TcpLink(OwnedFd);

impl Link for TcpLink {
    unsafe fn send(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { socket::send(&self.0, spans) }
    }

    unsafe fn receive(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { socket::receive(&self.0, spans) }
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn suppress_wakeups(&self, suppress: bool) -> Result<(), Errno> {
        suppress_wakeups(&self.0, suppress)
    }

    fn close(&self, what: Close) {
        socket::close(&self.0, what);
    }

    fn connected(&self) -> Result<(), Errno> {
        socket::connected(&self.0)
    }

    fn tune(&self) -> Result<(), Errno> {
        tune(&self.0)
    }

    /// Nothing is known of the other end but its address: the handshake's secret decides.
    fn authenticate(&self) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn may_be(&self, _: NodeId) -> Result<(), Refusal> {
        Ok(())
    }

    fn describe(&self) -> String {
        describe(&self.0)
    }
}
