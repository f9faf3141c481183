//! The listening sockets of all nodes, made before any node starts, so that no node ever finds a
//! peer that does not listen yet.

use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// One listening socket and its address in the form of MULTIGRAIN_PEERS.
pub(super) struct Listener {
    /// Close-on-exec; the node's spawn lifts that for its own.
    pub(super) fd: OwnedFd,
    /// `unix:@NAME` or `tcp:ADDRESS:PORT`.
    pub(super) address: String,
}

/// Where a node listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// For nodes of its host.
    Unix,
    /// At this address, at a port that is free.
    Tcp(IpAddr),
}

/// Binds and listens for node `rank` of `nodes` of a job.
pub(super) fn bind(place: Place, job: &str, rank: u32, nodes: u32) -> io::Result<Listener> {
    let listener = match place {
        Place::Unix => {
            let name = format!("multigrain-{job}-{rank}");
            let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            Listener { fd: socket.into(), address: format!("unix:@{name}") }
        }
        Place::Tcp(at) => {
            // Binds also while the interface is down; a route tells, and sends nothing.
            UdpSocket::bind((at, 0))?.connect((at, 9))?;
            let socket = TcpListener::bind((at, 0))?;
            let address = format!("tcp:{}", socket.local_addr()?);
            Listener { fd: socket.into(), address }
        }
    };
    // All peers may connect before the node accepts the first; std's backlog is smaller than that.
    let backlog = i32::try_from(nodes.max(64)).unwrap_or(i32::MAX);
    rustix::net::listen(listener.fd.as_fd(), backlog)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_transports_give_an_address_that_answers() {
        let job = format!("test{}", std::process::id());
        let unix = bind(Place::Unix, &job, 3, 4).unwrap();
        assert_eq!(unix.address, format!("unix:@multigrain-{job}-3"));
        let name = SocketAddr::from_abstract_name(format!("multigrain-{job}-3")).unwrap();
        UnixStream::connect_addr(&name).unwrap();

        let tcp = bind(Place::Tcp(Ipv4Addr::LOCALHOST.into()), &job, 0, 4).unwrap();
        std::net::TcpStream::connect(tcp.address.strip_prefix("tcp:").unwrap()).unwrap();
    }
}
