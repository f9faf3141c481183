//! System calls without which a job can be started and not be ended: tried while nothing runs.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with,
    recv, recvmsg, send, socketpair,
};
use rustix::process::{WaitId, WaitIdOptions, getpid, test_kill_process, waitid};
use std::io::IoSliceMut;

/// Makes the calls once without which a job can be started but not be ended: a filter (seccomp) that refuses one of them,
/// while nothing runs, is a line, and later a node that nobody can wait for.
pub(super) fn needed_calls() -> Result<(), (&'static str, Errno)> {
    let refused = |name| move |error| (name, error);
    test_kill_process(getpid()).map_err(refused("kill"))?;
    // This process is no child of its own.
    match waitid(WaitId::Pid(getpid()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
        Ok(_) | Err(Errno::CHILD) => {}
        Err(error) => return Err(("waitid", error)),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, mut other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(refused("socketpair"))?;
    // This one does not listen.
    match accept_with(&one, SocketFlags::CLOEXEC) {
        Ok(_) | Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
        Err(error) => return Err(("accept4", error)),
    }
    send(&one, b"12", SendFlags::NOSIGNAL).map_err(refused("sendto"))?;
    let mut byte = [0];
    recv(&other, &mut byte, RecvFlags::empty()).map_err(refused("recvfrom"))?;
    let (mut into, mut rights) = ([IoSliceMut::new(&mut byte)], RecvAncillaryBuffer::default());
    recvmsg(&other, &mut into, &mut rights, RecvFlags::empty()).map_err(refused("recvmsg"))?;
    rustix::io::dup2(&one, &mut other).map_err(refused("dup2"))
}
