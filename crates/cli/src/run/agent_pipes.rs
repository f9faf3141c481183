//! The launcher's pipes to its agents, which its watchdog holds as well: while the launcher is stopped, the watchdog
//! tells the agents that it still exists.
//!
//! A record on the watchdog's socket names such a pipe by a number below zero. With a descriptor
//! it is new. Without one the launcher has closed it, and the watchdog closes its copy: otherwise the other
//! end would never see the end of the stream.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Bytes of a record: a number, of a process group or of a pipe.
pub(super) const RECORD_BYTES: usize = 4;

/// All pipes of a launcher to agents.
pub(super) struct AgentPipes(Rc<RefCell<Open>>);

struct Open {
    /// To the watchdog.
    socket: OwnedFd,
    last: i32,
    pipes: BTreeMap<i32, OwnedFd>,
}

/// One of them, until it is dropped.
pub(super) struct AgentPipe {
    number: i32,
    of: Rc<RefCell<Open>>,
}

impl AgentPipes {
    /// None yet, to a watchdog that reads this socket.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self(Rc::new(RefCell::new(Open { socket, last: 0, pipes: BTreeMap::new() })))
    }

    /// A pipe to an agent, which does not block and takes pieces.
    pub(super) fn open(&self, pipe: BorrowedFd<'_>) -> io::Result<AgentPipe> {
        let mut open = self.0.borrow_mut();
        open.last -= 1;
        let number = open.last;
        let pipe = pipe.try_clone_to_owned()?;
        tell(&open.socket, number, pipe.as_fd());
        open.pipes.insert(number, pipe);
        Ok(AgentPipe { number, of: Rc::clone(&self.0) })
    }

    /// Another watchdog reads this other socket.
    pub(super) fn hand_over(&self, socket: OwnedFd) {
        let mut open = self.0.borrow_mut();
        open.pipes.iter().for_each(|(&number, pipe)| tell(&socket, number, pipe.as_fd()));
        open.socket = socket;
    }
}

impl Drop for AgentPipe {
    fn drop(&mut self) {
        let mut open = self.of.borrow_mut();
        open.pipes.remove(&self.number);
        let _ = send(&open.socket, &self.number.to_ne_bytes(), SendFlags::NOSIGNAL);
    }
}

/// A watchdog that somebody has killed receives nothing; its successor is told again.
fn tell(socket: &OwnedFd, number: i32, pipe: BorrowedFd<'_>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let pipes = [pipe];
    let fits = ancillary.push(SendAncillaryMessage::ScmRights(&pipes));
    debug_assert!(fits, "there is room for one");
    let record = number.to_ne_bytes();
    let _ = sendmsg(socket, &[IoSlice::new(&record)], &mut ancillary, SendFlags::NOSIGNAL);
}

/// The next record that came to the watchdog, none at the end; what it says of a pipe is done.
pub(super) fn receive(
    socket: impl AsFd,
    pipes: &mut BTreeMap<i32, OwnedFd>,
) -> Result<Option<i32>, Errno> {
    let mut record = [0_u8; RECORD_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut record)];
    let got = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let number = i32::from_ne_bytes(record);
    if got == RECORD_BYTES && number < 0 {
        pipes.remove(&number);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                pipes.extend(rights.map(|pipe| (number, pipe)));
            }
        }
    }
    Ok((got == RECORD_BYTES).then_some(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn sockets() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_watchdog_has_the_pipes_that_are_open_and_its_successor_too() {
        let ((watchdog, launcher), mut received) = (sockets(), BTreeMap::new());
        let pipes = AgentPipes::new(launcher);
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (one, other) =
            (pipes.open(writer.as_fd()).unwrap(), pipes.open(writer.as_fd()).unwrap());
        drop(other);
        for _ in 0..3 {
            receive(&watchdog, &mut received).unwrap();
        }
        assert_eq!(received.keys().copied().collect::<Vec<_>>(), [-1]);
        drop((watchdog, received));
        let ((successor, launcher), mut received) = (sockets(), BTreeMap::new());
        pipes.hand_over(launcher);
        receive(&successor, &mut received).unwrap();
        assert_eq!(rustix::io::write(&received[&-1], b"x"), Ok(1));
        drop((one, writer));
        receive(&successor, &mut received).unwrap();
        let mut buffer = [0; 4];
        assert_eq!(rustix::io::read(&reader, &mut buffer), Ok(1));
        assert_eq!(rustix::io::read(&reader, &mut buffer), Ok(0), "nobody holds it open");
    }
}
