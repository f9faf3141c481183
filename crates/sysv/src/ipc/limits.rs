//! How much of each kind there may be.

use serde::{Deserialize, Serialize};

/// The kernel's limits, which `/proc/sys/kernel` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// SHMMNI: segments.
    pub segments: u32,
    /// SHMMAX: bytes of one segment.
    pub segment_bytes: u64,
    /// SHMALL: pages of all segments.
    pub pages: u64,
    /// SEMMSL: semaphores of one set.
    pub set_semaphores: u32,
    /// SEMMNS: semaphores of all sets.
    pub semaphores: u32,
    /// SEMOPM: operations of one `semop`.
    pub operations: u32,
    /// SEMMNI: sets.
    pub sets: u32,
    /// MSGMAX: bytes of one message.
    pub message_bytes: u64,
    /// MSGMNB: bytes in one queue, at first and without privilege.
    pub queue_bytes: u64,
    /// MSGMNI: queues.
    pub queues: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            segments: 4096,
            segment_bytes: u64::MAX - (1 << 24),
            pages: u64::MAX - (1 << 24),
            set_semaphores: 32_000,
            semaphores: 32_000 * 32_000,
            operations: 500,
            sets: 32_000,
            message_bytes: 8192,
            queue_bytes: 16_384,
            queues: 32_000,
        }
    }
}
