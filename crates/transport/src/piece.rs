//! What is sent: headers in a row, a payload, and the pieces of both that wait for the socket.

use crate::frame::Header;
use crate::sys::{Raw, Span};

/// Frames that may wait for company on one link.
pub(crate) const LAZY: usize = 8;

/// The bytes that follow a header.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Nothing.
    None,
    /// Raw memory, which must stay as it is until the socket has taken it all; see
    /// [`crate::Mesh::send`].
    Memory {
        /// Its first byte.
        ptr: *const u8,
        /// Its length in bytes.
        len: usize,
    },
    /// A buffer the mesh keeps until it is sent.
    Owned(Vec<u8>),
    /// Bytes that are copied if the socket does not take them at once; for small ones.
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::None => Span::EMPTY,
            Self::Memory { ptr, len } => Span::at(ptr.cast_mut(), *len),
            Self::Owned(bytes) => Span::of(bytes),
            Self::Bytes(bytes) => Span::of(bytes),
        }
    }

    pub(crate) fn into_piece(self) -> Option<Piece> {
        match self {
            Self::None => None,
            Self::Memory { ptr, len } => Some(Piece::Memory { start: Raw(ptr.cast_mut()), len }),
            Self::Owned(bytes) => Some(Piece::Owned(bytes)),
            Self::Bytes(bytes) => Some(Piece::Owned(bytes.to_vec())),
        }
    }
}

/// What waits for the socket.
#[derive(Debug)]
pub(crate) enum Piece {
    Header([u8; Header::BYTES]),
    Memory { start: Raw, len: usize },
    Owned(Vec<u8>),
}

impl Piece {
    /// Bytes it keeps elsewhere.
    pub(crate) fn owned_bytes(&self) -> usize {
        match self {
            Self::Header(_) | Self::Memory { .. } => 0,
            Self::Owned(bytes) => bytes.capacity(),
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Header(bytes) => Span::of(bytes),
            Self::Memory { start, len } => Span::at(start.0, *len),
            Self::Owned(bytes) => Span::of(bytes),
        }
    }
}

/// Headers in a row.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) bytes: [u8; (LAZY + 1) * Header::BYTES],
    pub(crate) len: usize,
}

impl Head {
    pub(crate) const EMPTY: Self = Self { bytes: [0; (LAZY + 1) * Header::BYTES], len: 0 };

    pub(crate) fn push(&mut self, header: &[u8; Header::BYTES]) {
        self.bytes[self.len..self.len + Header::BYTES].copy_from_slice(header);
        self.len += Header::BYTES;
    }

    /// The same, before the last ones that `passes` says it of.
    pub(crate) fn push_past(
        &mut self,
        header: &[u8; Header::BYTES],
        passes: impl Fn(&Header) -> bool,
    ) {
        let kept = self.as_slice().as_chunks::<{ Header::BYTES }>().0;
        let stays =
            |kept: &[u8; Header::BYTES]| !Header::decode(kept).is_ok_and(|kept| passes(&kept));
        let place = kept.iter().rposition(stays).map_or(0, |last| last + 1) * Header::BYTES;
        self.bytes.copy_within(place..self.len, place + Header::BYTES);
        self.bytes[place..place + Header::BYTES].copy_from_slice(header);
        self.len += Header::BYTES;
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
