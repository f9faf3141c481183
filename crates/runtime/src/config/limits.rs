//! Limits and defaults of what a node is told at its start. What a job and a node have at most: `types/src/limits.rs`.

use std::time::Duration;

use super::Config;

/// Shared size when nothing is said, bytes: address space, not memory.
pub(super) const DEFAULT_SHARED_BYTES: u64 = 64 << 30;

/// How long a node waits for its peers at start...
pub(super) const BOOT_DEADLINE: Duration = Duration::from_secs(30);
/// ...and so much longer for each link of two nodes of the job: those of a host make them all with its processors.
pub(super) const BOOT_DEADLINE_FOR_EACH: Duration = Duration::from_micros(500);
/// More than any node waits, seconds; a year.
pub(super) const MOST_BOOT_SECONDS: f64 = 31_536_000.0;

impl Config {
    /// Largest chunking level.
    pub const LARGEST_CHUNK: u32 = 1 << 16;
    /// Largest shared size, bytes.
    pub const MOST_SHARED_BYTES: u64 = multigrain_memory::MOST_OBJECT_BYTES;
}
