//! Links over Unix stream sockets, for nodes of one host.
//!
//! The kernel says who is at the other end, and wakes who sleeps for room when the peer has taken
//! something.
#![expect(unsafe_code, reason = "links send from and receive into raw memory")]

use super::{Backend, Close, Link, socket};
use crate::address::{Address, AddressKind, UnixName};
use crate::handshake::Refusal;
use crate::span::Span;
use crate::tap::FrameTap;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, sockopt};

/// Asked for as buffer of a link, in bytes; the kernel caps it at net.core.wmem_max.
const BUFFER_BYTES: usize = 4 << 20;

/// In the list of backends.
pub(super) const BACKEND: Unix = Unix;

/// The backend.
pub(super) struct Unix;

impl Backend for Unix {
    fn name(&self) -> &'static str {
        "unix"
    }

    fn help(&self) -> &'static str {
        "Unix sockets"
    }

    fn addresses(&self) -> AddressKind {
        AddressKind::Unix
    }

    fn listen(&self, address: &Address) -> Result<(OwnedFd, Address), Errno> {
        let socket = socket::stream(AddressFamily::UNIX, SocketFlags::empty())?;
        net::bind(&socket, &name(address)?)?;
        net::listen(&socket, socket::BACKLOG)?;
        Ok((socket, address.clone()))
    }

    fn accept(&self, listener: BorrowedFd<'_>) -> Result<Box<dyn Link>, Errno> {
        Ok(Box::new(UnixLink(socket::accept(listener)?.0)))
    }

    /// Waits while the listener's backlog is full.
    fn connect(&self, address: &Address, patience: Duration) -> Result<Box<dyn Link>, Errno> {
        let socket = socket::stream(AddressFamily::UNIX, SocketFlags::empty())?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
        net::connect(&socket, &name(address)?)?;
        Ok(Box::new(UnixLink(socket)))
    }
}

fn name(address: &Address) -> Result<SocketAddrUnix, Errno> {
    match address {
        Address::Unix(UnixName::Abstract(name)) => {
            SocketAddrUnix::new_abstract_name(name.as_bytes())
        }
        Address::Unix(UnixName::Path(path)) => SocketAddrUnix::new(path),
        Address::Tcp(_) => Err(Errno::AFNOSUPPORT),
    }
}

/// A connected Unix stream socket.
#[derive(Debug)]
struct UnixLink(OwnedFd);

impl Link for UnixLink {
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
        true
    }

    fn suppress_wakeups(&self, _: bool) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn close(&self, what: Close) {
        socket::close(&self.0, what);
    }

    fn connected(&self) -> Result<(), Errno> {
        socket::connected(&self.0)
    }

    fn tune(&self) -> Result<(), Errno> {
        sockopt::set_socket_send_buffer_size(&self.0, BUFFER_BYTES)?;
        sockopt::set_socket_recv_buffer_size(&self.0, BUFFER_BYTES)
    }

    /// Its other end is on this host.
    fn look_after(&self) {}

    /// The peer runs as the user we run as.
    fn authenticate(&self) -> Poll<Result<(), Refusal>> {
        Poll::Ready(match sockopt::socket_peercred(&self.0) {
            Ok(peer) if peer.uid == rustix::process::geteuid() => Ok(()),
            Ok(peer) => Err(Refusal::User(peer.uid.as_raw())),
            Err(_) => Err(Refusal::Cut),
        })
    }

    /// All processes of the user are as good: the handshake's secret decides.
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
        match sockopt::socket_peercred(&self.0) {
            Ok(peer) => {
                format!("process {} of user {}", peer.pid.as_raw_nonzero(), peer.uid.as_raw())
            }
            Err(_) => "an unknown process".to_owned(),
        }
    }
}

/// Two ends of one link; with `room`, each sends about so many bytes before it is full.
#[cfg(any(feature = "shuttle", feature = "mutants", feature = "fuzzing", test))]
#[allow(dead_code, reason = "each kind of test uses its part")]
pub(crate) fn pair(room: Option<usize>) -> Result<[Box<dyn Link>; 2], Errno> {
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let (one, other) = net::socketpair(family, net::SocketType::STREAM, flags, None)?;
    if let Some(room) = room {
        for socket in [&one, &other] {
            sockopt::set_socket_send_buffer_size(socket, room)?;
        }
    }
    Ok([Box::new(UnixLink(one)), Box::new(UnixLink(other))])
}
