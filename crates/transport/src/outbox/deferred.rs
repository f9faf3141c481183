//! Deferred frames without payload: encoded headers in a row, ready to go in front of the next frame.
//! Which messages are deferred is not decided here: `protocol/src/send_timing.rs`.

use crate::frame_header::Header;

/// Frames that may be deferred for a node outside a batch; the next one goes with them at once.
pub const MAX_DEFERRED: usize = 8;

/// Headers in a row. There is room for one more than may be deferred: that of the frame they go with.
#[derive(Debug)]
pub(super) struct Deferred {
    bytes: [u8; (MAX_DEFERRED + 1) * Header::BYTES],
    len: usize,
}

impl Deferred {
    pub(super) const EMPTY: Self = Self { bytes: [0; (MAX_DEFERRED + 1) * Header::BYTES], len: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == MAX_DEFERRED * Header::BYTES
    }

    pub(super) fn push(&mut self, header: &[u8; Header::BYTES]) {
        self.bytes[self.len..self.len + Header::BYTES].copy_from_slice(header);
        self.len += Header::BYTES;
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
