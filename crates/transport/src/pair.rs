//! Two nodes of one job in one process, for tests of schedules and of bounds.

use crate::first_links::{Booted, Others};
use crate::handshake::Identity;
use crate::link::{self, Backends, Link, Transport};
use crate::mesh::Mesh;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::io::Errno;

/// The meshes of nodes 0 and 1, over Unix sockets. With `room`, their sending buffers hold about so
/// many bytes, so that queues form.
///
/// # Panics
/// When the process has no file descriptors left.
#[must_use]
pub fn pair(room: Option<usize>) -> [Mesh; 2] {
    let [one, other] = link::pair(room).expect("a pair of links");
    [node(0, one), node(1, other)]
}

/// The same over TCP, with buffers as they are.
///
/// # Panics
/// When the process has no file descriptors left, or the host no loopback interface.
#[must_use]
pub fn pair_over_tcp() -> [Mesh; 2] {
    let any = "tcp:127.0.0.1:0".parse().expect("an address");
    let (socket, address) = Transport::AUTO.bind(&any).expect("a port");
    let backends = Backends::new(Transport::AUTO, 0, None).expect("no credentials");
    let listener = backends.listener(socket).expect("a listener");
    let one = backends.connect(&address, Duration::from_secs(10)).expect("a connection");
    let other = loop {
        match listener.accept() {
            Err(Errno::AGAIN) => std::thread::yield_now(),
            accepted => break accepted.expect("the other end"),
        }
    };
    [node(0, one), node(1, other)]
}

fn node(rank: u16, link: Box<dyn Link>) -> Mesh {
    let identity = Identity { rank: NodeId(rank), nodes: 2, job: 0, secret: [0; 32], build: 0 };
    let mut links = vec![Some(link)];
    links.insert(rank.into(), None);
    let booted = Booted { identity, links, others: Others::none(), part: None };
    Mesh::new(booted).expect("file descriptors for a mesh")
}
