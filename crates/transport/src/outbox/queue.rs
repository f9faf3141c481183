//! What waits for room in a link.
//!
//! Invariant: pieces leave in order, each whole but for the first, of which the link has taken
//! some bytes.

use super::batch::SPARE_BYTES;
use super::payload::{Payload, Piece};
use crate::frame_header::Header;
use crate::span::Span;
use std::collections::VecDeque;

/// Pieces that are offered to the link at once.
pub(super) const AT_ONCE: usize = 16;

#[derive(Debug)]
pub(super) struct Queue {
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

/// How many fit into what a queue may hold goes by this.
const _: () = assert!(size_of::<Entry>() <= Header::BYTES + 16);

impl Entry {
    fn new(piece: Piece, cause: Cause) -> Self {
        let mut entry = Self { piece, answers: 0 };
        if cause == Cause::Answer {
            entry.answers = entry.bytes();
        }
        entry
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.piece.owned_bytes()
    }
}

/// Why a frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It answers the peer.
    Answer,
    /// This node sends it of its own accord.
    Unsolicited,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self { pieces: VecDeque::new(), sent: 0, spare: Vec::new(), bytes: 0, answers: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What of that are answers.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// A frame's header, or headers in a row, and the payload of the last.
    pub(super) fn push(&mut self, headers: &[u8], payload: Payload<'_>, cause: Cause) {
        for header in headers.as_chunks::<{ Header::BYTES }>().0 {
            self.push_piece(Piece::Header(*header), cause);
        }
        if let Some(piece) = payload.into_piece() {
            self.push_piece(piece, cause);
        }
    }

    fn push_piece(&mut self, piece: Piece, cause: Cause) {
        let entry = Entry::new(piece, cause);
        self.push_entry(entry);
    }

    fn push_entry(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.answers += entry.answers;
        self.pieces.push_back(entry);
    }

    /// Frames in a row, of which so many bytes are answers.
    pub(super) fn push_bytes(&mut self, bytes: Vec<u8>, answers: usize) {
        self.push_entry(Entry { piece: Piece::Owned(bytes), answers });
    }

    /// A part of a payload and its header, which wait for the acknowledgement of the part before if they are to.
    pub(super) fn push_part(
        &mut self,
        header: [u8; Header::BYTES],
        part: Piece,
        awaits: bool,
        cause: Cause,
    ) {
        let header = if awaits { Piece::AwaitingHeader(header) } else { Piece::Header(header) };
        self.push_piece(header, cause);
        self.push_piece(part, cause);
    }

    /// A header that passes the parts that wait. Where none does, nothing may stand before what was offered to the link
    /// (an encrypting one has sealed it), nor behind the goodbye: it does not go, and the peer sends its parts when that has come.
    pub(super) fn push_before_parts(&mut self, header: [u8; Header::BYTES], cause: Cause) {
        let at = self.pieces.iter().position(|entry| entry.piece.awaits());
        if at.is_none() && self.pieces.back().is_some_and(|last| last.piece.is_goodbye()) {
            return;
        }
        let at = at.unwrap_or(self.pieces.len());
        let entry = Entry::new(Piece::Header(header), cause);
        self.bytes += entry.bytes();
        self.answers += entry.answers;
        self.pieces.insert(at, entry);
    }

    /// The peer has acknowledged a part; false if none was unacknowledged.
    pub(super) fn part_taken(&mut self) -> bool {
        for Entry { piece, .. } in &mut self.pieces {
            if let Piece::AwaitingHeader(header) = piece {
                *piece = Piece::Header(*header);
                return true;
            }
        }
        false
    }

    /// The peer acknowledges no more parts: none waits for that.
    pub(super) fn parts_are_free(&mut self) {
        while self.part_taken() {}
    }

    /// Whether something may leave now.
    pub(super) fn is_ready(&self) -> bool {
        self.pieces.front().is_some_and(|first| !first.piece.awaits())
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        (self.sent, self.bytes, self.answers) = (0, 0, 0);
    }

    /// An empty buffer, perhaps with room.
    pub(super) fn take_spare(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.spare)
    }

    /// Names the first pieces that may leave; returns their length.
    pub(super) fn gather(&self, spans: &mut [Span; AT_ONCE]) -> usize {
        let mut skip = self.sent;
        let mut asked = 0;
        let ready = self.pieces.iter().take_while(|entry| !entry.piece.awaits());
        for (span, entry) in spans.iter_mut().zip(ready) {
            let whole = entry.piece.span();
            *span = Span::at(whole.start().wrapping_add(skip), whole.len() - skip);
            asked += span.len();
            skip = 0;
        }
        asked
    }

    /// Drops `taken` bytes from the front.
    pub(super) fn advance(&mut self, taken: usize) {
        self.sent += taken;
        while let Some(first) = self.pieces.front()
            && first.piece.span().len() <= self.sent
        {
            self.sent -= first.piece.span().len();
            self.bytes -= first.bytes();
            self.answers -= first.answers;
            if let Some(Entry { piece: Piece::Owned(mut bytes), .. }) = self.pieces.pop_front()
                && (self.spare.capacity() + 1..=SPARE_BYTES).contains(&bytes.capacity())
            {
                bytes.clear();
                self.spare = bytes;
            }
        }
    }
}
