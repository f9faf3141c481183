//! Limits and defaults of what a node is told at its start. What a job and a node have at most: `types/src/limits.rs`.

use core::ops::RangeInclusive;
use std::time::Duration;

use multigrain_types::{PAGE_BYTES, parse_size};

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
    /// How long the parts of a payload may be (`--handshake`), bytes.
    pub const PARTS: RangeInclusive<usize> = 64..=1 << 20;
    /// Smallest shared size, bytes: there is nothing smaller to allocate from than a page.
    const LEAST_SHARED_BYTES: u64 = PAGE_BYTES as u64;
    /// Largest shared size, bytes.
    pub const MOST_SHARED_BYTES: u64 = multigrain_memory::MOST_OBJECT_BYTES;

    /// The shared size that `--shared` and MULTIGRAIN_SHARED say, bytes.
    ///
    /// # Errors
    /// What is wrong with it and what to do, in words.
    pub fn parse_shared_size(text: &str) -> Result<u64, String> {
        let wrong = || "give a whole number above 0, such as 4096, 512M or 64G".to_owned();
        let bytes = parse_size(text).ok_or_else(wrong)?;
        let most = Self::MOST_SHARED_BYTES;
        if bytes > most {
            return Err(format!("there can be {most} bytes, almost 16T, at most"));
        }
        if bytes < Self::LEAST_SHARED_BYTES {
            let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
            return Err(format!(
                "{bytes} bytes are not enough; {number}M or {number}G may be meant"
            ));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_size_has_suffixes_and_limits() {
        assert_eq!(Config::parse_shared_size("64G"), Ok(64 << 30));
        assert_eq!(Config::parse_shared_size("4096"), Ok(4096));
        for (text, why) in [
            ("64X", "give a whole number above 0"),
            ("99999999999T", "give a whole number above 0"),
            ("64", "64 bytes are not enough; 64M or 64G may be meant"),
            ("2K", "2048 bytes are not enough; 2M or 2G may be meant"),
            ("16T", "there can be 17587891077120 bytes, almost 16T, at most"),
        ] {
            let said = Config::parse_shared_size(text).unwrap_err();
            assert!(said.starts_with(why), "{text}: {said}");
        }
    }
}
