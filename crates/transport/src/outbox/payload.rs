//! What follows a header, and the pieces of a frame that wait for the link.

use crate::frame_header::{BYE, Header};
use crate::span::{Raw, Span};

/// The bytes that follow a header.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Nothing.
    None,
    /// Raw memory, which must stay as it is until the link has taken it all; see
    /// [`crate::Mesh::send`].
    Memory {
        /// Its first byte.
        ptr: *const u8,
        /// Its length in bytes.
        len: usize,
    },
    /// A buffer the mesh keeps until it is sent.
    Owned(Vec<u8>),
    /// Bytes that are copied if the link does not take them at once; for small ones.
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

/// What waits for room.
#[derive(Debug)]
pub(crate) enum Piece {
    Header([u8; Header::BYTES]),
    /// That of a part which may not leave before the peer has acknowledged the part before it.
    AwaitingHeader([u8; Header::BYTES]),
    Memory {
        start: Raw,
        len: usize,
    },
    Owned(Vec<u8>),
}

impl Piece {
    /// Bytes it owns elsewhere.
    pub(crate) fn owned_bytes(&self) -> usize {
        match self {
            Self::Header(_) | Self::AwaitingHeader(_) | Self::Memory { .. } => 0,
            Self::Owned(bytes) => bytes.capacity(),
        }
    }

    pub(crate) fn span(&self) -> Span {
        match self {
            Self::Header(bytes) | Self::AwaitingHeader(bytes) => Span::of(bytes),
            Self::Memory { start, len } => Span::at(start.0, *len),
            Self::Owned(bytes) => Span::of(bytes),
        }
    }

    /// Whether it is a goodbye, which nothing may follow.
    pub(crate) fn is_goodbye(&self) -> bool {
        matches!(self, Self::Header(bytes) if Header::decode(bytes).is_ok_and(|it| it.kind == BYE))
    }

    /// Whether it may not leave yet.
    pub(crate) fn awaits(&self) -> bool {
        matches!(self, Self::AwaitingHeader(_))
    }
}
