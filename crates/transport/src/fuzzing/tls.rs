//! One end of a connection between hosts, whose other end is the fuzzer's.

use crate::credentials::{Authority, Credentials};
use crate::handshake::Refusal;
use crate::link::{self, Link, TlsLayer};
use crate::unauthenticated::receive_bytes;
use core::task::Poll;
use multigrain_types::NodeId;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use std::sync::OnceLock;

const JOB: u128 = 7;
/// What the wire holds.
const WIRE: usize = 1 << 16;

/// A node of a job of two: rank 0 listens, rank 1 connects.
pub struct TlsEnd {
    link: Box<dyn Link>,
    wire: OwnedFd,
}

/// Both nodes, with certificates of an authority; and with pinned ones.
fn nodes(pinned: bool) -> &'static [TlsLayer; 2] {
    static MADE: [OnceLock<[TlsLayer; 2]>; 2] = [const { OnceLock::new() }; 2];
    MADE[usize::from(pinned)].get_or_init(|| {
        let both = if pinned {
            let made = [(); 2].map(|()| Credentials::of_its_own().expect("a key"));
            let pins = made.each_ref().map(|(_, pin)| *pin).to_vec();
            made.map(|(own, _)| own.trusting(pins.clone()))
        } else {
            let authority = Authority::new(JOB).expect("a key");
            [0, 1].map(|rank| authority.issue(NodeId(rank)).expect("a key"))
        };
        both.map(|own| TlsLayer::new(JOB, &own).expect("credentials"))
    })
}

impl TlsEnd {
    /// The node that listens, or the one that connects.
    ///
    /// # Panics
    /// When the process has no file descriptors left.
    #[must_use]
    pub fn new(listens: bool, pinned: bool) -> Self {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let pair = socketpair(family, SocketType::STREAM, flags, None);
        let (own, wire) = pair.expect("a pair of sockets");
        let tls = &nodes(pinned)[usize::from(!listens)];
        let stream = link::tcp_over(own);
        let link = if listens { tls.accepted(stream) } else { tls.connecting(stream) };
        Self { link, wire }
    }

    /// It receives this; false if it has hung up.
    pub fn feed(&self, bytes: &[u8]) -> bool {
        send(&self.wire, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) == Ok(bytes.len())
    }

    /// What it has said since it was asked last.
    #[must_use]
    pub fn said(&self) -> Vec<u8> {
        let mut room = vec![0; WIRE];
        let (got, _) = recv(&self.wire, &mut room, RecvFlags::DONTWAIT).unwrap_or((0, 0));
        room.truncate(got);
        room
    }

    /// Goes on with the handshake; how it ended, once it has.
    #[must_use]
    pub fn authenticate(&self) -> Option<Result<(), Refusal>> {
        match self.link.authenticate() {
            Poll::Pending => None,
            Poll::Ready(ended) => Some(ended),
        }
    }

    /// Whether the other end may be this node.
    #[must_use]
    pub fn may_be(&self, node: NodeId) -> bool {
        self.link.may_be(node).is_ok()
    }

    /// Sends bytes after the handshake; whether they were taken.
    pub fn say(&self, bytes: &[u8]) -> bool {
        crate::unauthenticated::send_bytes(&*self.link, bytes)
    }

    /// What came after the handshake: nothing for now, bytes, or the end of all (no bytes).
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&self) -> Result<Option<Vec<u8>>, Errno> {
        let mut room = [0; 4096];
        match receive_bytes(&*self.link, &mut room) {
            Ok(got) => Ok(Some(room[..got].to_vec())),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl core::fmt::Debug for TlsEnd {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "TlsEnd({:?})", self.link)
    }
}

/// What both ends have said reaches the other, as `change` leaves it, until nothing more is said: whether each has
/// authenticated the other.
pub fn exchange(ends: &[TlsEnd; 2], mut change: impl FnMut(usize, &mut [u8])) -> [bool; 2] {
    loop {
        let ended = ends.each_ref().map(TlsEnd::authenticate);
        let mut quiet = true;
        for from in 0..2 {
            let mut said = ends[from].said();
            quiet &= said.is_empty();
            change(from, &mut said);
            ends[1 - from].feed(&said);
        }
        if quiet {
            return ended.map(|ended| ended == Some(Ok(())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "has sockets")]
    fn nobody_takes_other_bytes_than_were_said_whatever_is_changed_on_the_way() {
        for pinned in [false, true] {
            let mut all = [0; 2];
            let ends = [true, false].map(|listens| TlsEnd::new(listens, pinned));
            assert_eq!(exchange(&ends, |who, said| all[who] += said.len()), [true; 2]);
            for (from, place) in
                (0..2).flat_map(|from| (0..all[from]).step_by(5).map(move |at| (from, at)))
            {
                let ends = [true, false].map(|listens| TlsEnd::new(listens, pinned));
                let mut seen = [0; 2];
                exchange(&ends, |who, said| {
                    let at = place.checked_sub(seen[who]).filter(|_| who == from);
                    if let Some(byte) = at.and_then(|at| said.get_mut(at)) {
                        *byte ^= 1;
                    }
                    seen[who] += said.len();
                });
                ends[0].say(b"words");
                ends[1].feed(&ends[0].said());
                let received = ends[1].receive();
                let right = received == Ok(Some(b"words".to_vec()));
                assert!(
                    right || matches!(received, Ok(None) | Err(_)),
                    "{from} {place}: {received:?}"
                );
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "has sockets")]
    fn what_nobody_sealed_is_never_received() {
        let record = |bytes: u16, content| {
            let [high, low] = bytes.to_be_bytes();
            [&[content, 3, 3, high, low], &vec![7; bytes.into()][..]].concat()
        };
        for said in [
            record(40, 23),
            record(0, 23),
            record(17, 23),
            record(16640, 23),
            record(16641, 23),
            record(2, 21),
            record(1, 20),
            record(u16::MAX, 22),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![23, 3],
        ] {
            let ends = [true, false].map(|listens| TlsEnd::new(listens, true));
            assert_eq!(exchange(&ends, |_, _| {}), [true; 2]);
            assert!(ends[0].may_be(NodeId(1)) && !ends[0].may_be(NodeId(0)));
            for piece in said.chunks(999) {
                ends[0].feed(piece);
                match ends[0].receive() {
                    Ok(received) => assert_eq!(received, None, "{} bytes", said.len()),
                    // It is told once; after it is the end.
                    Err(_) => break,
                }
            }
            for listens in [false, true] {
                let node = TlsEnd::new(listens, false);
                node.feed(&said[..said.len().min(40_000)]);
                assert_ne!(node.authenticate(), Some(Ok(())));
            }
        }
    }
}
