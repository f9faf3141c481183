//! The network: how nodes of this host and of others reach this host.

use super::finding::Finding;
use multigrain_transport::Ports;
use multigrain_transport::interfaces::HostAddresses;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::time::Duration;

/// What to do where the loopback interface is down.
pub(crate) const BRING_LOOPBACK_UP: &str = "bring the loopback interface up (ip link set lo up)";

/// A datagram to this host itself is there at once.
const ITSELF_WAIT: Duration = Duration::from_millis(500);

/// Whether this host reaches itself at this address. A socket binds also while the interface is down; a route tells, but that
/// of a loopback interface may outlast it.
pub(crate) fn reaches_itself(at: IpAddr) -> io::Result<()> {
    let socket = UdpSocket::bind((at, 0))?;
    socket.connect(socket.local_addr()?)?;
    if !at.is_loopback() {
        return Ok(());
    }
    socket.set_read_timeout(Some(ITSELF_WAIT))?;
    socket.send(&[0])?;
    let arrives = socket.recv(&mut [0]).map(drop);
    arrives.map_err(|_| io::Error::other("nothing that is sent there arrives"))
}

/// Whether the loopback interface is up.
pub(super) fn loopback() -> Finding {
    let check = "loopback";
    match reaches_itself(Ipv4Addr::LOCALHOST.into()) {
        Ok(()) => Finding::fine(check, "up"),
        Err(error) => Finding::limits(
            check,
            format!("127.0.0.1 cannot be reached ({error})"),
            "no --transport tcp within this host, and no process manager",
            BRING_LOOPBACK_UP,
        ),
    }
}

/// Where other hosts reach this one.
pub(super) fn interfaces(far: bool) -> Finding {
    let check = "interfaces";
    let found = match HostAddresses::of_this_host() {
        Ok(found) => found,
        Err(error) => {
            let (found, remedy) = (error.to_string(), "mount /proc, and /sys");
            let limits = "no address can be found, by which other hosts come here";
            return match far {
                true => Finding::prevents(check, found, limits, remedy),
                false => Finding::limits(check, found, limits, remedy),
            };
        }
    };
    let others = found.interfaces.iter().filter(|one| !one.address.is_loopback());
    let others: Vec<String> =
        others.map(|one| format!("{} {}/{}", one.name, one.address, one.prefix)).collect();
    if others.is_empty() {
        let none = "none but the loopback interface";
        if !far {
            return Finding::fine(check, none);
        }
        return Finding::prevents(check, none, "no other host comes here", "bring its network up");
    }
    Finding::fine(check, others.join(", "))
}

/// Whether so many nodes find a port each.
pub(super) fn ports(ports: Ports, nodes: u32) -> Finding {
    let check = "ports";
    let nodes = nodes as usize;
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    let bound = ports.all().filter_map(|port| TcpListener::bind((any, port)).ok());
    let free: Vec<TcpListener> = bound.take(nodes).collect();
    if free.len() < nodes {
        let found = format!("{} of {ports} are free", free.len());
        let limits = format!("{nodes} nodes here need one each");
        return Finding::prevents(check, found, limits, "give a wider range (--ports)");
    }
    Finding::fine(check, format!("enough of {ports} are free for {nodes} nodes"))
}
