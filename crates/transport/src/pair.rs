//! Two nodes of one job in one process, for tests of schedules and of bounds.

use crate::boot::Booted;
use crate::handshake::Identity;
use crate::late::Refusals;
use crate::mesh::Mesh;
use multigrain_types::NodeId;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};

/// The meshes of nodes 0 and 1, over Unix sockets. With `room`, their sending buffers hold about so
/// many bytes, so that queues form.
///
/// # Panics
/// When the process has no file descriptors left.
#[must_use]
pub fn pair(room: Option<usize>) -> [Mesh; 2] {
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let (one, other) =
        socketpair(family, SocketType::STREAM, flags, None).expect("a pair of sockets");
    if let Some(room) = room {
        for socket in [&one, &other] {
            sockopt::set_socket_send_buffer_size(socket, room).expect("a smaller buffer");
        }
    }
    [node(0, one), node(1, other)]
}

fn node(rank: u16, socket: OwnedFd) -> Mesh {
    let identity = Identity { rank: NodeId(rank), nodes: 2, job: 0, secret: [0; 32], build: 0 };
    let mut sockets = vec![Some(socket)];
    sockets.insert(rank.into(), None);
    let booted = Booted { identity, sockets, listener: None, refusals: Refusals::default() };
    Mesh::new(booted).expect("file descriptors for a mesh")
}
