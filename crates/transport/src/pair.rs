//! Two nodes of one job in one process, for tests of schedules and of bounds.

use crate::boot::Booted;
use crate::handshake::Identity;
use crate::link::{self, Link};
use crate::mesh::Mesh;
use crate::unauthenticated::Refusals;
use multigrain_types::NodeId;

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

fn node(rank: u16, link: Box<dyn Link>) -> Mesh {
    let identity = Identity { rank: NodeId(rank), nodes: 2, job: 0, secret: [0; 32], build: 0 };
    let mut links = vec![Some(link)];
    links.insert(rank.into(), None);
    let booted = Booted { identity, links, listeners: Vec::new(), refusals: Refusals::default() };
    Mesh::new(booted).expect("file descriptors for a mesh")
}
