//! Counters of what went over the links.

use std::sync::atomic::{AtomicU64, Ordering};

/// Messages and bytes (headers included) since boot, over all links. A message is a frame, or a
/// bundle of them. Handshakes do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages handed to [`crate::Mesh::send`] and taken; a bundle counts when it is begun.
    pub frames_sent: u64,
    /// Frames among them that went in bundles.
    pub frames_bundled: u64,
    /// Bytes of all of them.
    pub bytes_sent: u64,
    /// Messages received whole.
    pub frames_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Messages that the socket did not take at once, whole.
    pub frames_queued: u64,
}

impl Counters {
    pub(crate) fn plus(self, more: &Self) -> Self {
        Self {
            frames_sent: self.frames_sent + more.frames_sent,
            frames_bundled: self.frames_bundled + more.frames_bundled,
            bytes_sent: self.bytes_sent + more.bytes_sent,
            frames_received: self.frames_received + more.frames_received,
            bytes_received: self.bytes_received + more.bytes_received,
            frames_queued: self.frames_queued + more.frames_queued,
        }
    }
}

/// The live counters. Relaxed: they order nothing.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    frames_sent: AtomicU64,
    frames_bundled: AtomicU64,
    bytes_sent: AtomicU64,
    frames_received: AtomicU64,
    bytes_received: AtomicU64,
    frames_queued: AtomicU64,
}

impl Tally {
    /// A message of so many bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.frames_sent.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many frames more that are members of a message counted already, of so many bytes more.
    pub(crate) fn bundled(&self, frames: usize, bytes: usize) {
        self.frames_bundled.fetch_add(frames as u64, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A message that was sent has to wait for the socket.
    pub(crate) fn queued(&self) {
        self.frames_queued.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, frames: u64, bytes: u64) {
        self.frames_received.fetch_add(frames, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            frames_sent: self.frames_sent.load(Ordering::Relaxed),
            frames_bundled: self.frames_bundled.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            frames_received: self.frames_received.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            frames_queued: self.frames_queued.load(Ordering::Relaxed),
        }
    }
}
