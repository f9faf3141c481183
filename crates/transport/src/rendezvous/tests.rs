//! After boot: what becomes of a peer whose answer does not come.

use super::*;
use crate::credentials::Authority;
use crate::link::Transport;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const JOB: u128 = 7;
const OWN: NodeId = NodeId(0);
const PEER: NodeId = NodeId(1);
/// The kernel's number of the timer that sends keep-alive probes, in /proc/net/tcp.
const KEEPALIVE_TIMER: &str = "02";

fn identity(rank: NodeId) -> Identity {
    Identity { rank, nodes: 2, job: JOB, secret: [1; 32], build: 0 }
}

/// A node that has booted and reaches for a peer of a higher rank, which is at this address.
fn reaching(at: &TcpListener, tls: bool) -> Rendezvous {
    let address = Address::Tcp(at.local_addr().unwrap());
    let own = tls.then(|| Authority::new(JOB).unwrap().issue(OWN).unwrap());
    let setup = RendezvousSetup {
        identity: identity(OWN),
        peers: vec![address.clone(), address],
        backends: Backends::new(Transport::AUTO, JOB, own.as_ref()).unwrap(),
        network: None,
        connects: Connects::Either,
        end: Instant::now(),
    };
    let mut rendezvous = Rendezvous::new(setup, Vec::new()).unwrap();
    rendezvous.goes_on();
    rendezvous.reach(PEER).unwrap();
    rendezvous
}

fn turn(rendezvous: &mut Rendezvous) {
    let keys = rendezvous.wait().unwrap();
    rendezvous.turn(keys).unwrap();
}

/// The timer that runs for this end of a connection whose other end is at this port.
fn timer(own: u16, other: u16) -> String {
    let all = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let ends = (format!(":{own:04X}"), format!(":{other:04X}"));
    let row = all.lines().find_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let is_it = fields[1].ends_with(&ends.0) && fields[2].ends_with(&ends.1);
        is_it.then(|| fields[5].split(':').next().unwrap().to_owned())
    });
    row.unwrap()
}

/// The program of a node whose boot ended while a peer was making a link closed that link's socket.
#[test]
#[cfg_attr(miri, ignore = "sockets and epoll")]
fn a_connection_that_is_no_link_yet_is_among_the_descriptors() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let rendezvous = reaching(&listener, false);
    let is_socket = |descriptor: &RawFd| {
        let what = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap();
        what.to_string_lossy().starts_with("socket:")
    };
    assert_eq!(rendezvous.descriptors().filter(is_socket).count(), 1, "it listens nowhere");
}

/// Its host answers as long as it is stopped. When the way there is cut, the probes end the connection.
#[test]
#[cfg_attr(miri, ignore = "sockets and epoll")]
fn a_peer_that_has_our_hello_and_says_nothing_is_probed() {
    for tls in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut rendezvous = reaching(&listener, tls);
        turn(&mut rendezvous);
        let (mut silent, from) = listener.accept().unwrap();
        silent.read_exact(&mut [0; 8]).unwrap();
        let since = Instant::now();
        let ports = (from.port(), listener.local_addr().unwrap().port());
        // Until the kernel has its acknowledgement another timer may run.
        while timer(ports.0, ports.1) != KEEPALIVE_TIMER {
            assert!(
                since.elapsed() < SILENCE_LIMIT,
                "nothing would end this handshake (TLS: {tls})"
            );
            std::thread::yield_now();
        }
    }
}

/// Says that its own connection to the node that has said HELLO is under way.
fn cross(peer: &mut TcpStream) {
    peer.read_exact(&mut [0; HELLO_BYTES]).unwrap();
    peer.write_all(&handshake::refused(PEER, Refusal::Crossed)).unwrap();
}

/// The peer's connection might never come, and nothing else would tell that the peer is cut off.
#[test]
#[cfg_attr(miri, ignore = "sockets and epoll")]
fn a_peer_that_refuses_for_its_own_connection_is_reached_again_until_that_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut rendezvous = reaching(&listener, false);
    turn(&mut rendezvous);
    let mut first = listener.accept().unwrap().0;
    cross(&mut first);
    listener.set_nonblocking(true).unwrap();
    let since = Instant::now();
    let again = loop {
        if let Ok((again, _)) = listener.accept() {
            break again;
        }
        assert!(since.elapsed() < SILENCE_LIMIT, "it waits for ever");
        rustix::io::write(&*rendezvous.wake_up(), &1u64.to_ne_bytes()).unwrap();
        turn(&mut rendezvous);
        std::thread::yield_now();
    };
    drop((again, first));
}

/// An error about one peer made all be forgotten that were due in the same turn.
#[test]
#[cfg_attr(miri, ignore = "sockets and epoll")]
fn a_peer_that_cannot_be_reached_is_no_matter_of_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut rendezvous = reaching(&listener, false);
    rendezvous.peers[OWN.index()] = "unix:@nobody-listens-here".parse().unwrap();
    let now = Instant::now();
    for (peer, until) in [(OWN, now), (PEER, now + SILENCE_LIMIT)] {
        rendezvous.states[peer.index()] = LinkState::Connecting { silent_until: until, until };
        rendezvous.later.push((Instant::now(), peer, Errno::CONNREFUSED));
    }
    let error = rendezvous.turn(BTreeSet::new()).unwrap_err();
    assert!(matches!(error, TransportError::Connect { peer: OWN, .. }), "{error}");
    let left: Vec<NodeId> = rendezvous.later.iter().map(|&(_, peer, _)| peer).collect();
    assert_eq!(left, [PEER]);
}
