//! The listening sockets of all nodes, bound before any node starts, so that no node ever finds a
//! peer that does not listen yet.

use crate::host;
use multigrain_transport::{Address, Ports, Transport, TransportError, UnixName};
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

/// One listening socket and its address in the form of MULTIGRAIN_PEERS.
pub(super) struct Listener {
    /// Close-on-exec; the node's spawn lifts that for its own.
    pub(super) fd: OwnedFd,
    /// `unix:@NAME` or `tcp:ADDRESS:PORT`.
    pub(super) address: String,
}

/// Where a node listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenAt {
    /// For nodes of its host.
    Unix,
    /// At this address, at a port that is free: of these, if the user has named some.
    Tcp(IpAddr, Option<Ports>),
}

/// Binds and listens for these nodes of a job of `nodes`, everywhere each is to.
///
/// # Errors
/// The rank whose socket cannot be had, and what the system says.
pub(super) fn bind_all(
    transport: Transport,
    places: &[ListenAt],
    job: &str,
    ranks: Range<u32>,
    nodes: u32,
) -> Result<Vec<Vec<Listener>>, (u32, io::Error)> {
    let of = |rank| {
        let bound = places.iter().map(|&place| bind(transport, place, job, rank, nodes));
        bound.collect::<io::Result<_>>().map_err(|error| (rank, error))
    };
    ranks.map(of).collect()
}

fn bind(
    transport: Transport,
    place: ListenAt,
    job: &str,
    rank: u32,
    nodes: u32,
) -> io::Result<Listener> {
    let bound = match place {
        ListenAt::Unix => {
            let name = UnixName::Abstract(format!("multigrain-{job}-{rank}"));
            transport.bind(&Address::Unix(name))
        }
        ListenAt::Tcp(at, ports) => {
            host::reaches_itself(at)?;
            transport.bind_within(at, ports)
        }
    };
    let (fd, address) = bound.map_err(|error| {
        if let TransportError::Bind { errno, .. } = error {
            return errno.into();
        }
        io::Error::other(error)
    })?;
    let listener = Listener { fd, address: address.to_string() };
    // All peers may connect before the node accepts the first; std's backlog is smaller than that.
    let backlog = i32::try_from(nodes.max(64)).unwrap_or(i32::MAX);
    rustix::net::listen(listener.fd.as_fd(), backlog)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    const AUTO: Transport = Transport::AUTO;

    #[test]
    fn both_transports_give_an_address_that_answers() {
        let job = format!("test{}", std::process::id());
        let unix = bind(AUTO, ListenAt::Unix, &job, 3, 4).unwrap();
        assert_eq!(unix.address, format!("unix:@multigrain-{job}-3"));
        let name = SocketAddr::from_abstract_name(format!("multigrain-{job}-3")).unwrap();
        UnixStream::connect_addr(&name).unwrap();

        let tcp = bind(AUTO, ListenAt::Tcp(Ipv4Addr::LOCALHOST.into(), None), &job, 0, 4).unwrap();
        std::net::TcpStream::connect(tcp.address.strip_prefix("tcp:").unwrap()).unwrap();
    }

    #[test]
    fn nodes_listen_within_the_ports_they_are_given_and_no_two_at_one() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ports: Ports = format!("{free}-{}", free.saturating_add(20)).parse().unwrap();
        let place = ListenAt::Tcp(Ipv4Addr::LOCALHOST.into(), Some(ports));
        let bound: Vec<_> = (0..3).map(|rank| bind(AUTO, place, "x", rank, 3).unwrap()).collect();
        for listener in &bound {
            let port: u16 = listener.address.rsplit_once(':').unwrap().1.parse().unwrap();
            assert!(ports.all().contains(&port), "{}", listener.address);
        }
        let taken = bound[0].address.rsplit_once(':').unwrap().1;
        let one = Some(format!("{taken}-{taken}").parse().unwrap());
        let none = bind(AUTO, ListenAt::Tcp(Ipv4Addr::LOCALHOST.into(), one), "x", 0, 1);
        let why = none.err().unwrap().to_string();
        assert_eq!(
            why,
            format!("no port of {taken}-{taken} is free at 127.0.0.1: give a wider range")
        );
    }
}
