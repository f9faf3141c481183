//! Zstandard frames: the library's contexts, made once.

use core::fmt;

use zstd_safe::{CCtx, DCtx};

/// The fastest level that is no negative one: ADR 52 has the numbers.
const LEVEL: i32 = 1;

/// What encoding and decoding need.
pub(super) struct Contexts {
    encoder: CCtx<'static>,
    decoder: DCtx<'static>,
}

impl Contexts {
    /// None without memory. `largest` is as long as contents get: what they take is allocated now.
    pub(super) fn new(largest: &[u8], room: &mut [u8]) -> Option<Self> {
        let (encoder, decoder) = (CCtx::try_create()?, DCtx::try_create()?);
        let mut contexts = Self { encoder, decoder };
        contexts.encode(largest, room)?;
        Some(contexts)
    }

    /// Encodes `contents` into `room`: how many bytes; None if they do not fit.
    pub(super) fn encode(&mut self, contents: &[u8], room: &mut [u8]) -> Option<usize> {
        self.encoder.compress(room, contents, LEVEL).ok()
    }

    /// Decodes all of `packed` to exactly `contents`; None if it is not the code of so many bytes.
    pub(super) fn decode(&mut self, packed: &[u8], contents: &mut [u8]) -> Option<()> {
        let decoded = self.decoder.decompress(contents, packed).ok()?;
        (decoded == contents.len()).then_some(())
    }
}

impl fmt::Debug for Contexts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Contexts(level {LEVEL})")
    }
}
