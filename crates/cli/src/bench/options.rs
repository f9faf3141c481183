//! Option values that several benchmarks share.

use clap::ValueEnum;
use core::fmt;
use serde::{Deserialize, Serialize};

/// What carries the messages; the names are those of `run --transport`, unix and tcp alone: a row is compared with those of
/// other days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// Unix sockets.
    Unix,
    /// TCP over the loopback interface.
    Tcp,
}

/// Which of them are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TransportChoice {
    /// Unix sockets.
    Unix,
    /// TCP over the loopback interface.
    Tcp,
    /// One after the other.
    Both,
}

impl TransportChoice {
    /// In their order.
    pub(super) const fn all(self) -> &'static [Transport] {
        match self {
            Self::Unix => &[Transport::Unix],
            Self::Tcp => &[Transport::Tcp],
            Self::Both => &[Transport::Unix, Transport::Tcp],
        }
    }
}

/// How a thread waits; the names are those of `run --wait`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WaitMode {
    /// Busy.
    Spin,
    /// Asleep in the kernel.
    Block,
    /// Busy for a short while, then asleep.
    Adaptive,
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unix => "unix",
            Self::Tcp => "tcp",
        })
    }
}

impl fmt::Display for WaitMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Spin => "spin",
            Self::Block => "block",
            Self::Adaptive => "adaptive",
        })
    }
}

/// Bytes, or with a suffix.
pub(super) fn parse_size(text: &str) -> Result<usize, String> {
    let bytes = multigrain_types::parse_size(text).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "give bytes above 0, such as 524288, 512K or 64M".to_owned())
}
