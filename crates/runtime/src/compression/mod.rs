//! Compression of the contents of minipages on their way to another node, where a named segment asks for it (MIRAGE+
//! 3.4 and 4.8; ADR 52).
//!
//! The protocol does not know of it: contents are what a page is when its message is sent and when its step is made.
//!
//! How long contents may be, and how much shorter they have to become: `coder.rs` (`LONGEST`, `limit`); when they are tried: `attempts.rs`.
//!
//! Invariants: what goes compressed is at least a quarter shorter than the contents are; what is received is decoded
//! beside the page, which changes only if it was the code of exactly as many bytes.

mod attempts;
mod coder;
mod lz4;
mod output;
mod run_length;
#[cfg(all(test, not(miri)))]
mod tests;
mod zstd;

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_types::Compression;

use crate::minipage_run::Run;
use attempts::Attempts;
#[cfg(feature = "fuzzing")]
pub(crate) use coder::Coder;
pub(crate) use coder::{Coders, LONGEST, limit};

/// What a node has sent of a segment's contents since it joined; zeros are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compressed {
    /// Pages that were tried.
    pub tried: u64,
    /// Pages that went compressed.
    pub pages: u64,
    /// Bytes of all contents that went.
    pub raw_bytes: u64,
    /// Bytes that they took.
    pub sent_bytes: u64,
}

/// How a node sends the contents of a named segment.
#[derive(Debug)]
pub(crate) struct SegmentContents {
    codec: Compression,
    attempts: Attempts,
    tried: AtomicU64,
    pages: AtomicU64,
    raw_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl SegmentContents {
    /// Of a segment of so many minipages.
    pub(crate) fn new(codec: Compression, minipages: u32) -> Self {
        let attempts = Attempts::new(if codec == Compression::None { 0 } else { minipages });
        let [tried, pages, raw_bytes, sent_bytes] = [const { AtomicU64::new(0) }; 4];
        Self { codec, attempts, tried, pages, raw_bytes, sent_bytes }
    }

    pub(crate) fn codec(&self) -> Compression {
        self.codec
    }

    /// Whether contents of so many bytes, which are about to be sent, are worth an attempt.
    pub(crate) fn tries(&self, run: Run, bytes: usize) -> bool {
        let fit = self.codec != Compression::None && bytes <= LONGEST;
        fit && self.attempts.are_due(run.first().index())
    }

    /// They were tried.
    pub(crate) fn note_attempt(&self, run: Run, worked: bool) {
        self.attempts.note(run.first().index()..run.end(), worked);
        self.tried.fetch_add(run.count().into(), Ordering::Relaxed);
        if worked {
            self.pages.fetch_add(run.count().into(), Ordering::Relaxed);
        }
    }

    /// So many bytes of contents go as so many.
    pub(crate) fn note_sent(&self, raw_bytes: usize, sent_bytes: usize) {
        self.raw_bytes.fetch_add(raw_bytes as u64, Ordering::Relaxed);
        self.sent_bytes.fetch_add(sent_bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Compressed {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Compressed {
            tried: read(&self.tried),
            pages: read(&self.pages),
            raw_bytes: read(&self.raw_bytes),
            sent_bytes: read(&self.sent_bytes),
        }
    }
}
