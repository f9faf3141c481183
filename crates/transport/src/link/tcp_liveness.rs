//! How soon a host that is dead or cut off is noticed over TCP: by keep-alive probes while nothing is sent, and by a time-out
//! while something is. A node that is stopped is not, for its host answers.
#![expect(unsafe_code, reason = "the kernel's counts of a connection are read as a structure")]

use core::time::Duration;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;

/// A silent peer is probed after this time, and then so often.
const KEEPALIVE_PERIOD: Duration = Duration::from_secs(1);
/// Unanswered probes that end a link.
const KEEPALIVE_PROBES: u32 = 3;
/// Bytes that the peer's host has not acknowledged for so long end a link, in milliseconds.
const USER_TIMEOUT_MS: u32 = 4_000;
/// Times that something was sent again in vain, as happens on a good network, too.
const IN_VAIN: u8 = 2;

/// Has the kernel probe a peer that says nothing.
pub(super) fn probe_when_silent(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_PERIOD)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_PERIOD)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)
}

/// A user time-out that is always there would end the links of a node that is stopped, too, once its buffers are full:
/// what its host answers then does not count.
pub(super) fn limit_what_is_sent_in_vain(socket: &OwnedFd) {
    let in_vain = sent_in_vain(socket).is_some_and(|times| times >= IN_VAIN);
    let wanted = if in_vain { USER_TIMEOUT_MS } else { 0 };
    if sockopt::tcp_user_timeout(socket) != Ok(wanted) {
        // It only fails when the connection is no more.
        let _ = sockopt::set_tcp_user_timeout(socket, wanted);
    }
}

/// How often bytes, or the question whether there is room for some, were sent since the peer's host has
/// answered at all; none if the connection is no more.
fn sent_in_vain(socket: &OwnedFd) -> Option<u8> {
    // SAFETY: a tcp_info is numbers, which may be zero.
    let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
    let mut bytes = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    let (fd, place) = (socket.as_raw_fd(), (&raw mut info).cast());
    // SAFETY: `place` is writable for so many bytes through the call.
    let done =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut bytes) };
    (done == 0).then(|| info.tcpi_retransmits.max(info.tcpi_probes))
}
