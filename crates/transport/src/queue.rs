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
    pieces: VecDeque<Entry>,
    /// Bytes of the first piece that are sent already.
    sent: usize,
    /// Room for bytes to come: that of a piece that was sent.
    spare: Vec<u8>,
    /// What all entries take, in bytes, and of that what are answers.
    bytes: usize,
    answers: usize,
}

#[derive(Debug)]
struct Entry {
    piece: Piece,
    /// Bytes of it that answer the peer.
    answers: usize,
}

impl Entry {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.piece.owned_bytes()
    }
}

/// What a frame is to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// An answer.
    Answer,
    /// Something that this node sends of its own accord.
    Unasked,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            pieces: VecDeque::with_capacity(READY_PIECES),
            sent: 0,
            spare: Vec::new(),
            bytes: 0,
            answers: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What of that are answers.
    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    /// A frame's header, or headers in a row, and the payload of the last.
    pub(crate) fn push(&mut self, headers: &[u8], payload: Payload<'_>, sent: Sent) {
        for header in headers.as_chunks::<{ Header::BYTES }>().0 {
            self.push_piece(Piece::Header(*header), sent);
        }
        if let Some(piece) = payload.into_piece() {
            self.push_piece(piece, sent);
        }
    }

    fn push_piece(&mut self, piece: Piece, sent: Sent) {
        let mut entry = Entry { piece, answers: 0 };
        if sent == Sent::Answer {
            entry.answers = entry.bytes();
        }
        self.push_entry(entry);
    }

    fn push_entry(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.answers += entry.answers;
        self.pieces.push_back(entry);
    }

    /// Frames in a row, of which so many bytes are answers.
    pub(crate) fn push_bytes(&mut self, bytes: Vec<u8>, answers: usize) {
        self.push_entry(Entry { piece: Piece::Owned(bytes), answers });
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        (self.sent, self.bytes, self.answers) = (0, 0, 0);
    }

    /// An empty buffer, perhaps with room.
    pub(crate) fn take_spare(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.spare)
    }

    /// Names the first pieces; returns their length.
    pub(crate) fn gather(&self, spans: &mut [Span; AT_ONCE]) -> usize {
        let mut skip = self.sent;
        let mut asked = 0;
        for (span, entry) in spans.iter_mut().zip(&self.pieces) {
            let whole = entry.piece.span();
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
            && first.piece.span().len() <= self.sent
        {
            self.sent -= first.piece.span().len();
            self.bytes -= first.bytes();
            self.answers -= first.answers;
            if let Some(Entry { piece: Piece::Owned(mut bytes), .. }) = self.pieces.pop_front()
                && (self.spare.capacity() + 1..=KEPT_ROOM).contains(&bytes.capacity())
            {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }
}
