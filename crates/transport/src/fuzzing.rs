//! What the fuzzers (fuzz/) drive: the code of a mesh, without sockets and without peers.
#![expect(unsafe_code, reason = "plays the kernel: fills the spans that the parser names")]
#![allow(dead_code, reason = "the tests of this crate use only a part")]

mod tls;

pub use tls::{TlsEnd, exchange};

use crate::first_links::{Booted, Others};
use crate::frame_header::Header;
use crate::handshake::{self, Answer, Identity, Refusal};
use crate::incoming::{Incoming, Input, ReceiveContext, Staging};
use crate::link;
use crate::mesh::Mesh;
use crate::sink::{LostReason, Sink};
use crate::span::{self, Span};
use multigrain_types::NodeId;
use rustix::io::Errno;

/// Fills spans from the front of `stream`, `most` bytes at most, as recvmsg would.
pub(crate) fn fill(spans: &mut [Span], stream: &mut &[u8], most: usize) -> usize {
    let mut left = most.min(stream.len());
    let mut filled = 0;
    for span in spans {
        let some = span.len().min(left);
        let (now, later) = stream.split_at(some);
        // SAFETY: the parser names writable spans.
        unsafe { span::copy_to(span.start(), now) };
        *stream = later;
        left -= some;
        filled += some;
    }
    filled
}

/// A link whose bytes come from the fuzzer.
pub struct Stream {
    parser: Incoming,
    staging: Staging,
}

impl Stream {
    /// The link from this peer.
    #[must_use]
    pub fn new(from: NodeId) -> Self {
        Self { parser: Incoming::new(from), staging: Staging::new() }
    }

    /// Takes all of `bytes`, as many at a time as `cut` says (0 is a read that is interrupted).
    ///
    /// # Errors
    /// The link is lost, as [`crate::Mesh::receive`] would tell the sink.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut cut: impl FnMut() -> usize,
        sink: &mut dyn Sink,
    ) -> Result<(), LostReason> {
        while !bytes.is_empty() {
            let most = cut();
            let read = |spans: &mut [Span]| match most {
                0 => Err(Errno::INTR),
                most => Ok(fill(spans, &mut bytes, most)),
            };
            self.pump(read, sink)?;
        }
        Ok(())
    }

    /// The end of the stream; why the link is lost.
    pub fn end(&mut self, sink: &mut dyn Sink) -> Option<LostReason> {
        self.pump(|_| Ok(0), sink).err()
    }

    fn pump(
        &mut self,
        read: impl FnOnce(&mut [Span]) -> Result<usize, Errno>,
        sink: &mut dyn Sink,
    ) -> Result<Input, LostReason> {
        self.parser.pump(read, &mut ReceiveContext::new(&mut self.staging, sink))
    }
}

impl core::fmt::Debug for Stream {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// One side of a handshake.
pub struct Shaker(Identity);

impl Shaker {
    /// Node `rank` of `nodes` of a job that this names.
    #[must_use]
    pub fn new(rank: NodeId, nodes: u16, job: u128, secret: [u8; 32], build: u64) -> Self {
        Self(Identity { rank, nodes, job, secret, build })
    }

    /// What it says when it connects.
    #[must_use]
    pub fn hello(&self) -> Vec<u8> {
        handshake::hello(&self.0).to_vec()
    }

    /// What it says to a peer that it lets in.
    #[must_use]
    pub fn welcome(&self) -> Vec<u8> {
        handshake::welcome(&self.0).to_vec()
    }

    /// What it says to whoever it turns away.
    #[must_use]
    pub fn refused(&self, why: Refusal) -> Vec<u8> {
        handshake::refused(self.0.rank, why).to_vec()
    }

    /// What it thinks of what a connection has said so far.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn judge(&self, said: &[u8]) -> Result<Option<NodeId>, Refusal> {
        let own = self.0.rank;
        handshake::judge(said, &self.0, |peer| handshake::only_higher(own, peer, false))
    }

    /// What it makes of the answer of `peer`; `None` if it is let in.
    #[must_use]
    pub fn answer(&self, said: &[u8; Header::BYTES], peer: NodeId) -> Option<String> {
        match handshake::answer(said, &self.0, peer) {
            Answer::Welcome => None,
            Answer::Refused(why) => Some(why.to_string()),
            Answer::Malformed(why) => Some(why),
        }
    }
}

impl core::fmt::Debug for Shaker {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "Shaker({})", self.0.rank)
    }
}

/// A mesh whose peers have all hung up: what is sent to them is dropped.
///
/// # Panics
/// When the process has no file descriptors left.
#[must_use]
pub fn mesh_without_peers(rank: NodeId, nodes: u16) -> Mesh {
    let half = || {
        let [own, _] = link::pair(None).expect("a pair of links");
        own
    };
    let links = (0..nodes).map(|peer| (peer != rank.0).then(half)).collect();
    let identity = Identity { rank, nodes, job: 0, secret: [0; 32], build: 0 };
    let booted = Booted { identity, links, others: Others::none(), part: None };
    let mesh = Mesh::new(booted).expect("file descriptors for a mesh");
    mesh.close();
    mesh
}
