//! Coders: the codecs with the memory that they need, so that a trap allocates none for them.

use std::sync::OnceLock;

use multigrain_types::Compression;

use super::{lz4, run_length, zstd};
use crate::minipage_run::MAX_RUN_BYTES;
use crate::receiver::slots;
use crate::shim::{Mutex, MutexGuard, lock};

/// The longest contents that are compressed, in bytes: those of a run, or of one minipage.
pub(crate) const LONGEST: usize = MAX_RUN_BYTES;

/// The most bytes that contents of so many bytes may take compressed: a quarter less, or it is not worth the
/// decoding (MIRAGE+ 4.8).
pub(crate) const fn limit(bytes: usize) -> usize {
    bytes - bytes.div_ceil(4)
}

/// The codecs and their memory.
#[derive(Debug)]
pub(crate) struct Coder {
    /// Contents as they are.
    raw: Box<[u8]>,
    /// The same, encoded.
    packed: Box<[u8]>,
    lz4: lz4::Table,
    zstd: Option<zstd::Contexts>,
}

impl Coder {
    pub(crate) fn new() -> Self {
        let room = |bytes| vec![0; bytes].into_boxed_slice();
        let (raw, packed) = (room(LONGEST), room(limit(LONGEST)));
        Self { raw, packed, lz4: lz4::Table::new(), zstd: None }
    }

    /// Gets ready for a codec; false without memory.
    pub(crate) fn prepare(&mut self, codec: Compression) -> bool {
        if codec == Compression::Zstd && self.zstd.is_none() {
            self.zstd = zstd::Contexts::new(&self.raw, &mut self.packed);
        }
        codec != Compression::Zstd || self.zstd.is_some()
    }

    /// Where contents of up to [`LONGEST`] bytes are put to be encoded.
    pub(crate) fn contents(&mut self) -> &mut [u8] {
        &mut self.raw
    }

    /// The first `bytes` of these contents, encoded; None if that is not a quarter shorter.
    pub(crate) fn encode(&mut self, codec: Compression, bytes: usize) -> Option<&[u8]> {
        let raw = self.raw.get(..bytes).filter(|raw| !raw.is_empty())?;
        let room = self.packed.get_mut(..limit(bytes))?;
        let packed = match codec {
            Compression::None => None,
            Compression::RunLength => run_length::encode(raw, room),
            Compression::Lz4 => lz4::encode(&mut self.lz4, raw, room),
            Compression::Zstd => self.zstd.as_mut()?.encode(raw, room),
        };
        self.packed.get(..packed?)
    }

    /// The `bytes` of contents whose code `packed` is; None if it is none, or longer than it may be.
    pub(crate) fn decode(
        &mut self,
        codec: Compression,
        packed: &[u8],
        bytes: usize,
    ) -> Option<&[u8]> {
        let raw = self.raw.get_mut(..bytes)?;
        if packed.len() > limit(bytes) {
            return None;
        }
        match codec {
            Compression::None => None,
            Compression::RunLength => run_length::decode(packed, raw),
            Compression::Lz4 => lz4::decode(packed, raw),
            Compression::Zstd => self.zstd.as_mut()?.decode(packed, raw),
        }?;
        Some(raw)
    }
}

/// Threads that encode or decode at a time.
const CODERS: usize = 4;

/// The coders of a node: made with the first segment that has compression.
#[derive(Debug, Default)]
pub(crate) struct Coders(OnceLock<[Mutex<Coder>; CODERS]>);

impl Coders {
    fn all(&self) -> &[Mutex<Coder>; CODERS] {
        self.0.get_or_init(|| core::array::from_fn(|_| Mutex::new(Coder::new())))
    }

    /// Gets ready for a codec; false without memory.
    pub(crate) fn prepare(&self, codec: Compression) -> bool {
        codec == Compression::None || self.all().iter().all(|coder| lock(coder).prepare(codec))
    }

    /// One for this thread, which takes no lock of the engines while it has it.
    pub(crate) fn lend(&self) -> MutexGuard<'_, Coder> {
        let thread = slots::held().map_or(0, |thread| thread.0 as usize);
        lock(&self.all()[thread % CODERS])
    }
}
