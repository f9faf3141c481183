//! Counters of what went over the links.

use std::sync::atomic::{AtomicU64, Ordering};

/// Messages and bytes (headers included) since boot, over all links. A message is a frame, or a
/// batch of them. Handshakes do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Messages handed to [`crate::Mesh::send`] and taken; a batch counts when it is begun.
    pub frames_sent: u64,
    /// Frames among them that went in batches.
    pub frames_batched: u64,
    /// Bytes of all of them.
    pub bytes_sent: u64,
    /// Messages received whole.
    pub frames_received: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Those of payloads that were in their place while more of the same frame was still to be received.
    pub bytes_placed_early: u64,
    /// Parts of payloads that were received and acknowledged, where they come so ([`crate::BootConfig::part`]).
    pub parts_acknowledged: u64,
    /// Messages that the link did not take at once, whole.
    pub frames_queued: u64,
    /// Bytes of such messages that the links took later.
    pub bytes_flushed: u64,
}

impl Counters {
    pub(crate) fn plus(self, more: &Self) -> Self {
        Self {
            frames_sent: self.frames_sent + more.frames_sent,
            frames_batched: self.frames_batched + more.frames_batched,
            bytes_sent: self.bytes_sent + more.bytes_sent,
            frames_received: self.frames_received + more.frames_received,
            bytes_received: self.bytes_received + more.bytes_received,
            bytes_placed_early: self.bytes_placed_early + more.bytes_placed_early,
            parts_acknowledged: self.parts_acknowledged + more.parts_acknowledged,
            frames_queued: self.frames_queued + more.frames_queued,
            bytes_flushed: self.bytes_flushed + more.bytes_flushed,
        }
    }
}

/// The live counters, which anybody may read. Each is changed under the lock of its link, or by the
/// one thread that receives, so that counting takes no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    frames_sent: AtomicU64,
    frames_batched: AtomicU64,
    bytes_sent: AtomicU64,
    frames_received: AtomicU64,
    bytes_received: AtomicU64,
    bytes_placed_early: AtomicU64,
    parts_acknowledged: AtomicU64,
    frames_queued: AtomicU64,
    bytes_flushed: AtomicU64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl Tally {
    /// A message of so many bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.frames_sent, 1);
        add(&self.bytes_sent, bytes as u64);
    }

    /// So many frames more that are members of a message counted already, of so many bytes more.
    pub(crate) fn batched(&self, frames: usize, bytes: usize) {
        add(&self.frames_batched, frames as u64);
        add(&self.bytes_sent, bytes as u64);
    }

    /// A message that was sent has to wait for room.
    pub(crate) fn queued(&self) {
        add(&self.frames_queued, 1);
    }

    /// So many bytes of what waited have been taken.
    pub(crate) fn flushed(&self, bytes: usize) {
        add(&self.bytes_flushed, bytes as u64);
    }

    pub(crate) fn received(&self, frames: u64, bytes: u64) {
        add(&self.frames_received, frames);
        add(&self.bytes_received, bytes);
    }

    pub(crate) fn placed_early(&self, bytes: u64) {
        add(&self.bytes_placed_early, bytes);
    }

    pub(crate) fn part_acknowledged(&self) {
        add(&self.parts_acknowledged, 1);
    }

    pub(crate) fn read(&self) -> Counters {
        Counters {
            frames_sent: self.frames_sent.load(Ordering::Relaxed),
            frames_batched: self.frames_batched.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            frames_received: self.frames_received.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            bytes_placed_early: self.bytes_placed_early.load(Ordering::Relaxed),
            parts_acknowledged: self.parts_acknowledged.load(Ordering::Relaxed),
            frames_queued: self.frames_queued.load(Ordering::Relaxed),
            bytes_flushed: self.bytes_flushed.load(Ordering::Relaxed),
        }
    }
}
