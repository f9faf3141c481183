//! Links over TCP, for nodes of several hosts. A host that is dead or cut off is noticed by keep-alive probes while
//! nothing is sent, and by a time-out while something is; a node that is stopped is not, for its host answers.
#![expect(unsafe_code, reason = "links send from and receive into raw memory")]

use super::{Backend, Close, Link, socket};
use crate::address::{Address, AddressKind};
use crate::handshake::Refusal;
use crate::span::Span;
use crate::tap::FrameTap;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, sockopt};
use std::net::SocketAddr;

/// A silent peer is probed after this time, and then so often.
const KEEPALIVE_PERIOD: Duration = Duration::from_secs(1);
/// Unanswered probes that end a link.
const KEEPALIVE_PROBES: u32 = 3;
/// Bytes that the peer's host has not acknowledged for so long end a link, in milliseconds.
const USER_TIMEOUT_MS: u32 = 4_000;
/// Times that something was sent again in vain, as happens on a good network, too.
const IN_VAIN: u8 = 2;

/// Below so many bytes a link that suppresses wake-ups is not readable: more than most pages with their
/// headers, and so little that the kernel does not think the receive buffer too small for it.
const LOW_WATER: i32 = 16 << 10;

/// In the list of backends.
pub(super) const BACKEND: Tcp = Tcp;

/// The backend.
pub(super) struct Tcp;

impl Backend for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn help(&self) -> &'static str {
        "TCP; on one host, over the loopback interface"
    }

    fn addresses(&self) -> AddressKind {
        AddressKind::Tcp
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
        let address = name(address)?;
        let socket = socket::stream(family(address), SocketFlags::NONBLOCK)?;
        match net::connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Box::new(TcpLink(socket))),
            Err(errno) => Err(errno),
        }
    }
}

/// A link over a socket that is connected, for tests of what lies over links.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn over(socket: OwnedFd) -> Box<dyn Link> {
    Box::new(TcpLink(socket))
}

/// How often bytes, or the question whether there is room for some, were sent since the peer's host has
/// answered at all; none if the connection is no more.
fn sent_in_vain(socket: &OwnedFd) -> Option<u8> {
    // SAFETY: a tcp_info is numbers, which may be zero.
    let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
    let mut bytes = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    let (fd, place) = (socket.as_raw_fd(), (&raw mut info).cast());
    // SAFETY: `place` is writable for so many bytes through the call.
    let done =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut bytes) };
    (done == 0).then(|| info.tcpi_retransmits.max(info.tcpi_probes))
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

    fn timer(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn takes_input(&self) -> bool {
        true
    }

    fn holds_input(&self) -> bool {
        false
    }

    fn tells_taken(&self) -> bool {
        false
    }

    /// Raises the socket's low-water mark, below which it is not readable to the kernel; or lowers it again.
    fn suppress_wakeups(&self, suppress: bool) -> Result<(), Errno> {
        socket::set_low_water(&self.0, if suppress { LOW_WATER } else { 1 })
    }

    fn close(&self, what: Close) {
        socket::close(&self.0, what);
    }

    fn connected(&self) -> Result<(), Errno> {
        socket::connected(&self.0)
    }

    fn tune(&self) -> Result<(), Errno> {
        sockopt::set_tcp_nodelay(&self.0, true)?;
        sockopt::set_socket_keepalive(&self.0, true)?;
        sockopt::set_tcp_keepidle(&self.0, KEEPALIVE_PERIOD)?;
        sockopt::set_tcp_keepintvl(&self.0, KEEPALIVE_PERIOD)?;
        sockopt::set_tcp_keepcnt(&self.0, KEEPALIVE_PROBES)
    }

    /// A user time-out that is always there would end the links of a node that is stopped, too, once its buffers are full:
    /// what its host answers then does not count.
    fn look_after(&self) {
        let in_vain = sent_in_vain(&self.0).is_some_and(|times| times >= IN_VAIN);
        let wanted = if in_vain { USER_TIMEOUT_MS } else { 0 };
        if sockopt::tcp_user_timeout(&self.0) != Ok(wanted) {
            // It only fails when the connection is no more.
            let _ = sockopt::set_tcp_user_timeout(&self.0, wanted);
        }
    }

    /// Nothing is known of the other end but its address: the handshake's secret decides.
    fn authenticate(&self) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn may_be(&self, _: NodeId) -> Result<(), Refusal> {
        Ok(())
    }

    fn proves_rank(&self) -> bool {
        false
    }

    fn tap(&self) -> Option<&dyn FrameTap> {
        None
    }

    fn describe(&self) -> String {
        let address = net::getpeername(&self.0).ok().flatten().map(SocketAddr::try_from);
        match address {
            Some(Ok(address)) => address.to_string(),
            Some(Err(_)) | None => "an unknown address".to_owned(),
        }
    }
}
