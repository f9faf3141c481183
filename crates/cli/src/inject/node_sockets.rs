//! The connections of a node, reached from outside through its descriptors (pidfd_getfd).
#![expect(unsafe_code, reason = "socket filters have no safe interface")]

use super::leftovers::Process;
use rustix::net::sockopt;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A node's sockets to its peers, those that are still in boot included.
pub(super) fn of(node: &Process) -> io::Result<Vec<OwnedFd>> {
    let number = |name| node.variable(name).and_then(|text| text.parse::<RawFd>().ok());
    let others = [number("MULTIGRAIN_LISTEN_FD"), number("MULTIGRAIN_CONTROL_FD")];
    let pidfd = pidfd_open(node.pid, PidfdFlags::empty())?;
    let mut links = Vec::new();
    for entry in fs::read_dir(format!("/proc/{}/fd", node.pid))?.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if !target.to_string_lossy().starts_with("socket:") || others.contains(&Some(fd)) {
            continue;
        }
        let socket = pidfd_getfd(&pidfd, fd, PidfdGetfdFlags::empty())?;
        if !sockopt::socket_acceptconn(&socket)? {
            links.push(socket);
        }
    }
    Ok(links)
}

/// Drops all that comes in from now on, acknowledgements too: the other host is gone.
pub(super) fn deafen(socket: &OwnedFd) -> io::Result<()> {
    // One instruction, BPF_RET | BPF_K: keep 0 bytes of every packet.
    let mut drop_all = libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut drop_all };
    let bytes = libc::socklen_t::try_from(size_of_val(&program)).unwrap_or(0);
    // SAFETY: the program and its instruction live through the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            bytes,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
