//! What waits for a link's socket.
//!
//! Invariant: pieces leave in order, each whole but for the first, of which the socket has taken
//! some bytes.

use crate::bundle::KEPT_ROOM;
use crate::frame::Header;
use crate::piece::{Payload, Piece};
use crate::sys::Span;
use std::collections::VecDeque;

/// Room that is there from the start, in pieces.
const READY_PIECES: usize = 256;
/// Pieces that go into one system call.
pub(crate) const AT_ONCE: usize = 16;

#[derive(Debug)]
pub(crate) struct Queue {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are sent already.
    sent: usize,
    /// Room for bytes to come: that of a piece that was sent.
    spare: Vec<u8>,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { pieces: VecDeque::with_capacity(READY_PIECES), sent: 0, spare: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn push(&mut self, header: [u8; Header::BYTES], payload: Payload<'_>) {
        self.pieces.push_back(Piece::Header(header));
        self.pieces.extend(payload.into_piece());
    }

    /// Headers in a row, and the payload of the last.
    pub(crate) fn push_head(&mut self, headers: &[u8], payload: Payload<'_>) {
        let headers = headers.as_chunks::<{ Header::BYTES }>().0;
        self.pieces.extend(headers.iter().map(|header| Piece::Header(*header)));
        self.pieces.extend(payload.into_piece());
    }

    pub(crate) fn push_bytes(&mut self, bytes: Vec<u8>) {
        self.pieces.push_back(Piece::Owned(bytes));
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.sent = 0;
    }

    /// An empty buffer, perhaps with room.
    pub(crate) fn take_spare(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.spare)
    }

    /// Names the first pieces; returns their length.
    pub(crate) fn gather(&self, spans: &mut [Span; AT_ONCE]) -> usize {
        let mut skip = self.sent;
        let mut asked = 0;
        for (span, piece) in spans.iter_mut().zip(&self.pieces) {
            let whole = piece.span();
            *span = Span::at(whole.start().wrapping_add(skip), whole.len() - skip);
            asked += span.len();
            skip = 0;
        }
        asked
    }

    /// Drops `taken` bytes from the front.
    pub(crate) fn advance(&mut self, taken: usize) {
        self.sent += taken;
        while let Some(first) = self.pieces.front()
            && first.span().len() <= self.sent
        {
            self.sent -= first.span().len();
            if let Some(Piece::Owned(mut bytes)) = self.pieces.pop_front()
                && (self.spare.capacity() + 1..=KEPT_ROOM).contains(&bytes.capacity())
            {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }
}
