//! The frame header: 40 bytes, little endian, at fixed offsets.
//!
//! Role: the only place that knows how a header lies on the wire; what its words mean under the protocol is said in
//! `protocol/src/encoding.rs`. Invariant: what [`Header::decode`]
//! accepts, [`Header::encode`] gives back byte for byte; bad input is an error, never a panic.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The longest payload a header may announce, in bytes.
pub const MAX_PAYLOAD: u64 = 1 << 40;

/// The longest payload that may be received into a buffer ([`crate::Destination::Buffer`]), in bytes; a longer one has its
/// place in shared memory.
pub const MAX_BUFFER: u64 = 1 << 20;

/// The last kind a user of the mesh may send; the kinds above are the transport's own.
pub const LAST_KIND: u8 = 239;

/// Opens a handshake; followed by the body of `handshake::Hello`.
pub(crate) const HELLO: u8 = 240;
/// Accepts a HELLO: version in `thread`, job id in `subject` (low half) and `value` (high half).
pub(crate) const WELCOME: u8 = 241;
/// Turns a HELLO down; `value` is the refusal's code.
pub(crate) const REFUSED: u8 = 242;
/// The last frame of a node that leaves the job on purpose.
pub(crate) const BYE: u8 = 243;
/// Frames that travel as one message; see `outbox`.
pub(crate) const BATCH: u8 = 244;
/// The payload of the frame behind it comes in parts; see `outbox::stop_and_wait`.
pub(crate) const PARTED: u8 = 245;
/// One of them is its payload.
pub(crate) const PART: u8 = 246;
/// Acknowledges one: the next may be sent.
pub(crate) const PART_TAKEN: u8 = 247;
/// The last kind that there is.
const LAST: u8 = PART_TAKEN;

/// What stands before every payload. `kind`, `flags`, `thread`, `subject`, `value` and `extra` mean what
/// the two ends agree on; the transport fills in `from` and `payload`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Header {
    /// What the frame says; 1 to [`LAST_KIND`].
    pub kind: u8,
    /// Free for the user of the mesh.
    pub flags: u8,
    /// Rank of the sender; [`crate::Mesh::send`] fills it in, the receiver checks it.
    pub from: u16,
    /// Free for the user of the mesh; meant for the thread that waits.
    pub thread: u32,
    /// Free for the user of the mesh; meant for what the frame is about.
    pub subject: u64,
    /// Free for the user of the mesh.
    pub value: u64,
    /// Free for the user of the mesh.
    pub extra: u64,
    /// Bytes of payload that follow; [`crate::Mesh::send`] fills it in.
    pub payload: u64,
}

/// The header as it lies on the wire.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
struct Wire {
    kind: u8,
    flags: u8,
    from: U16,
    thread: U32,
    subject: U64,
    value: U64,
    extra: U64,
    payload: U64,
}

impl Header {
    /// Bytes of an encoded header.
    pub const BYTES: usize = 40;

    /// The header as it goes over the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::BYTES] {
        zerocopy::transmute!(Wire {
            kind: self.kind,
            flags: self.flags,
            from: self.from.into(),
            thread: self.thread.into(),
            subject: self.subject.into(),
            value: self.value.into(),
            extra: self.extra.into(),
            payload: self.payload.into(),
        })
    }

    /// Reads a header from the first 40 of `bytes`.
    ///
    /// # Errors
    /// [`FrameError`] when there are fewer bytes, the kind is 0 or an unknown one of the
    /// transport's own, or the payload is longer than [`MAX_PAYLOAD`].
    pub fn decode(bytes: &[u8]) -> Result<Header, FrameError> {
        let Ok((wire, _)) = Wire::ref_from_prefix(bytes) else {
            return Err(FrameError::Short { got: bytes.len() });
        };
        if wire.kind == 0 || wire.kind > LAST {
            return Err(FrameError::Kind { kind: wire.kind });
        }
        let payload = wire.payload.get();
        if payload > MAX_PAYLOAD {
            return Err(FrameError::Long { kind: wire.kind, payload });
        }
        Ok(Header {
            kind: wire.kind,
            flags: wire.flags,
            from: wire.from.get(),
            thread: wire.thread.get(),
            subject: wire.subject.get(),
            value: wire.value.get(),
            extra: wire.extra.get(),
            payload,
        })
    }

    /// The payload's length as a size of memory. No loss: [`MAX_PAYLOAD`] fits 64 bits, and
    /// Multigrain runs on 64-bit machines only.
    #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted below")]
    pub(crate) const fn payload_bytes(&self) -> usize {
        self.payload as usize
    }
}

/// Why bytes are not a frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Fewer bytes than a header has.
    #[error("a frame header has 40 bytes, here are {got}")]
    Short {
        /// Bytes there were.
        got: usize,
    },
    /// A kind that no frame may have here.
    #[error("illegal frame kind {kind}")]
    Kind {
        /// The kind.
        kind: u8,
    },
    /// A payload above [`crate::MAX_PAYLOAD`].
    #[error("frame of kind {kind} announces {payload} bytes of payload, more than any frame has")]
    Long {
        /// The frame's kind.
        kind: u8,
        /// Bytes it announces.
        payload: u64,
    },
}

const _: () = assert!(usize::BITS == 64 && size_of::<Wire>() == Header::BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_has_these_golden_bytes() {
        let header = Header {
            kind: 0x21,
            flags: 0x02,
            from: 0x0403,
            thread: 0x0807_0605,
            subject: 0x100f_0e0d_0c0b_0a09,
            value: 0x1817_1615_1413_1211,
            extra: 0x201f_1e1d_1c1b_1a19,
            payload: 0x0000_00a4_a3a2_a1a0,
        };
        let golden = [
            0x21, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
            0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c,
            0x1d, 0x1e, 0x1f, 0x20, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0x00, 0x00, 0x00,
        ];
        assert_eq!(header.encode(), golden);
        assert_eq!(Header::decode(&golden), Ok(header));
    }

    #[test]
    fn kind_zero_unknown_own_kinds_and_long_payloads_are_errors() {
        let good = Header { kind: 1, payload: MAX_PAYLOAD, ..Header::default() };
        assert_eq!(Header::decode(&good.encode()), Ok(good));
        let long = Header { payload: MAX_PAYLOAD + 1, ..good };
        assert!(matches!(Header::decode(&long.encode()), Err(FrameError::Long { .. })));
        for kind in [0, LAST + 1, 255] {
            let bad = Header { kind, ..good };
            assert_eq!(Header::decode(&bad.encode()), Err(FrameError::Kind { kind }));
        }
        assert_eq!(Header::decode(&[1; 39]), Err(FrameError::Short { got: 39 }));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic_and_what_decodes_encodes_back(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(&header.encode()[..], &bytes[..Header::BYTES]);
            }
        }

        #[test]
        fn every_legal_header_survives_the_wire(
            kind in 1..=LAST, flags: u8, from: u16, thread: u32, subject: u64, value: u64,
            extra: u64, payload in 0..=MAX_PAYLOAD,
        ) {
            let header = Header { kind, flags, from, thread, subject, value, extra, payload };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }
    }
}
