//! Counters of what went over the links.

use std::sync::atomic::{AtomicU64, Ordering};

/// Frames and bytes (headers included) since boot, over all links. Handshakes do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames handed to [`crate::Mesh::send`] and taken.
    pub frames_sent: u64,
    /// Bytes of those frames.
    pub bytes_sent: u64,
    /// Frames delivered to the sink.
    pub frames_received: u64,
    /// Bytes of those frames.
    pub bytes_received: u64,
    /// Frames that the socket did not take at once, whole.
    pub frames_queued: u64,
}

/// The live counters. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    frames_sent: AtomicU64,
    bytes_sent: AtomicU64,
    frames_received: AtomicU64,
    bytes_received: AtomicU64,
    frames_queued: AtomicU64,
}

impl Tally {
    pub(crate) fn sent(&self, bytes: u64, queued: bool) {
        self.frames_sent.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
        if queued {
            self.frames_queued.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn received(&self, frames: u64, bytes: u64) {
        self.frames_received.fetch_add(frames, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            frames_sent: self.frames_sent.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            frames_received: self.frames_received.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            frames_queued: self.frames_queued.load(Ordering::Relaxed),
        }
    }
}
