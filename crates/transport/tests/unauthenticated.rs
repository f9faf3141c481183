//! A node that unauthenticated connections pushed out of the queue of a peer connects again.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "this is test code")]

mod support;

use multigrain_transport::Header;
use std::io::{Read, Write};
use std::net::TcpListener;
use support::{Family, HELLO_BYTES, JOB, boot, config, hello, listeners};

const TOO_MANY: u64 = 13;

#[test]
fn a_peer_that_a_flood_pushed_out_connects_again() {
    let (mut sockets, addresses) = listeners(Family::Tcp, 2);
    let node = boot(config(1, &addresses, sockets.remove(1)));
    let listener = TcpListener::from(sockets.remove(0));
    let refused = Header { kind: 242, value: TOO_MANY, ..Header::default() };
    let welcome = Header {
        kind: 241,
        thread: multigrain_transport::PROTOCOL_VERSION.into(),
        subject: JOB as u64,
        value: (JOB >> 64) as u64,
        ..Header::default()
    };
    for answer in [refused, refused, welcome] {
        let (mut peer, _) = listener.accept().unwrap();
        let mut said = [0; HELLO_BYTES];
        peer.read_exact(&mut said).unwrap();
        assert_eq!(said[..], hello(1, 2));
        peer.write_all(&answer.encode()).unwrap();
    }
    let (mesh, lines) = node.join().unwrap();
    mesh.unwrap();
    assert_eq!(lines, [""; 0]);
}
