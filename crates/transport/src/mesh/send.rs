//! Sending: checks of the arguments, and the way to the peer's outbox.
#![expect(unsafe_code, reason = "raw payload memory is part of the interface")]

use super::Mesh;
use crate::error::LinkError;
use crate::frame_header::{FrameError, Header, LAST_KIND, MAX_PAYLOAD};
use crate::outbox::Payload;
use crate::peer::Peer;
use multigrain_types::NodeId;

impl Mesh {
    /// Sends a frame; any thread may. `from` and `payload` of the header are filled in here.
    /// Never waits: what the link does not take is queued, and sent by whoever receives.
    ///
    /// # Errors
    /// [`LinkError`]: the peer is gone or no peer, or the header's kind is not 1 to
    /// [`LAST_KIND`]. Nothing was sent then, or the peer does not live to see it.
    ///
    /// # Safety
    /// [`Payload::Memory`] must be readable, and must not change, until the peer has answered in
    /// a way that shows it got the frame, or the link is lost and its loss was reported.
    pub unsafe fn send(
        &self,
        to: NodeId,
        mut header: Header,
        payload: Payload<'_>,
    ) -> Result<(), LinkError> {
        let peer = self.address(to, &mut header)?;
        let bytes = payload.span().len() as u64;
        if bytes > MAX_PAYLOAD {
            let error = FrameError::Long { kind: header.kind, payload: bytes };
            return Err(LinkError::Frame { to, error });
        }
        header.payload = bytes;
        // SAFETY: the caller's promise is the one asked for.
        unsafe { peer.send(&header, payload, &self.waiting) }
    }

    /// [`Mesh::send`] of bytes that are copied if they must wait, and so without a promise.
    ///
    /// # Errors
    /// As [`Mesh::send`].
    pub fn send_bytes(&self, to: NodeId, header: Header, bytes: &[u8]) -> Result<(), LinkError> {
        // SAFETY: there is no raw memory in this payload.
        unsafe { self.send(to, header, Payload::Bytes(bytes)) }
    }

    /// A frame without payload that nobody waits for: it goes with the next frame to that peer,
    /// at [`Mesh::flush_deferred`], or when something has been received, whichever is first. Order is
    /// kept.
    ///
    /// # Errors
    /// As [`Mesh::send`].
    pub fn defer(&self, to: NodeId, mut header: Header) -> Result<(), LinkError> {
        let peer = self.address(to, &mut header)?;
        peer.defer(&header, &self.waiting)?;
        self.deferred.insert(to.index());
        Ok(())
    }

    /// [`Mesh::defer`] of a frame with the payload that `fill` appends to what it is given; returns
    /// the payload's length in bytes. What is deferred so, and what then goes to that peer with it, is
    /// one message: up to 64 KiB and a last one, which [`Mesh::send`] may add, or 128 frames.
    ///
    /// # Errors
    /// As [`Mesh::send`]; `fill` may have been called or not then.
    pub fn defer_with(
        &self,
        to: NodeId,
        mut header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, LinkError> {
        let peer = self.address(to, &mut header)?;
        let bytes = peer.defer_with(&header, fill, &self.waiting)?;
        self.deferred.insert(to.index());
        Ok(bytes)
    }

    /// [`Mesh::defer_with`] of a frame without payload, unless the last frame deferred for that peer can
    /// stand for both: `merge` gets that one's header, and says what it becomes.
    ///
    /// # Errors
    /// As [`Mesh::send`].
    pub fn defer_or_merge(
        &self,
        to: NodeId,
        mut header: Header,
        merge: impl FnOnce(&Header) -> Option<Header>,
    ) -> Result<(), LinkError> {
        let peer = self.address(to, &mut header)?;
        peer.defer_or_merge(&header, merge, &self.waiting)?;
        self.deferred.insert(to.index());
        Ok(())
    }

    /// The peer; the header becomes as it goes there, without a payload so far.
    fn address(&self, to: NodeId, header: &mut Header) -> Result<&Peer, LinkError> {
        let Some(Some(peer)) = self.peers.get(to.index()) else {
            return Err(LinkError::NoLink { to });
        };
        if header.kind == 0 || header.kind > LAST_KIND {
            return Err(LinkError::Frame { to, error: FrameError::Kind { kind: header.kind } });
        }
        if !peer.has_link() {
            self.ask_for_link(to);
        }
        (header.from, header.payload) = (self.rank().0, 0);
        Ok(peer)
    }

    /// Sends what was deferred, to all peers.
    pub fn flush_deferred(&self) {
        self.deferred.take(|place| {
            if let Some(Some(peer)) = self.peers.get(place) {
                peer.flush_deferred(&self.waiting);
            }
        });
    }
}
