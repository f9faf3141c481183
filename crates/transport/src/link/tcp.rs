//! Links over TCP, for nodes of several hosts. How a dead host is noticed: [`super::tcp_liveness`].
#![expect(unsafe_code, reason = "links send from and receive into raw memory")]

use super::{Backend, Close, Link, socket, tcp_liveness};
use crate::address::{Address, AddressKind};
use crate::handshake::Refusal;
use crate::span::Span;
use crate::tap::FrameTap;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, sockopt};
use std::net::SocketAddr;

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
        let (socket, from) = socket::accept(listener)?;
        let from = from.and_then(|name| SocketAddr::try_from(name).ok());
        Ok(Box::new(TcpLink { socket, from }))
    }

    fn connect(&self, address: &Address, _: Duration) -> Result<Box<dyn Link>, Errno> {
        let address = name(address)?;
        let socket = socket::stream(family(address), SocketFlags::NONBLOCK)?;
        match net::connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Box::new(TcpLink { socket, from: None })),
            Err(errno) => Err(errno),
        }
    }
}

/// A link over a socket that is connected, for tests of what lies over links.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn over(socket: OwnedFd) -> Box<dyn Link> {
    Box::new(TcpLink { socket, from: None })
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
struct TcpLink {
    socket: OwnedFd,
    /// Where it was accepted from.
    from: Option<SocketAddr>,
}

impl Link for TcpLink {
    unsafe fn send(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { socket::send(&self.socket, spans) }
    }

    unsafe fn receive(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { socket::receive(&self.socket, spans) }
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
        socket::set_low_water(&self.socket, if suppress { LOW_WATER } else { 1 })
    }

    fn close(&self, what: Close) {
        socket::close(&self.socket, what);
    }

    fn connected(&self) -> Result<(), Errno> {
        socket::connected(&self.socket)
    }

    fn tune(&self) -> Result<(), Errno> {
        sockopt::set_tcp_nodelay(&self.socket, true)?;
        tcp_liveness::probe_when_silent(&self.socket)
    }

    fn look_after(&self) {
        tcp_liveness::limit_what_is_sent_in_vain(&self.socket);
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
        let peer = || SocketAddr::try_from(net::getpeername(&self.socket).ok()??).ok();
        match self.from.or_else(peer) {
            Some(address) => address.to_string(),
            None => "an unknown address".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream};

    #[test]
    fn who_has_reset_its_connection_before_it_was_accepted_is_known_by_its_address() {
        let any = Address::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let (listener, bound) = BACKEND.listen(&any).unwrap();
        let Address::Tcp(bound) = bound else { panic!("{bound:?}") };
        let caller = TcpStream::connect(bound).unwrap();
        let address = caller.local_addr().unwrap();
        sockopt::set_socket_linger(&caller, Some(Duration::ZERO)).unwrap();
        drop(caller);
        let link = BACKEND.accept(listener.as_fd()).unwrap();
        assert_eq!(link.describe(), address.to_string());
    }
}
