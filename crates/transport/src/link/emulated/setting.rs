//! What `--emulate` says of a slower network than the one at hand: which latency and bandwidth links are given.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// Most latency: a node that leaves waits a second for what its peers say last.
const MOST_LATENCY: Duration = Duration::from_millis(100);
/// Most bandwidth, in bits a second.
const MOST_BANDWIDTH: u64 = 1_000_000_000_000;
const MEGA: u64 = 1_000_000;
const GIGA: u64 = 1_000_000_000;

/// What every link of a job is given beyond what it has, in each direction: `50us`, `10G` or `50us,10G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    latency: Duration,
    /// In bits a second.
    bandwidth: Option<u64>,
}

/// What is no [`Emulation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "give a latency of 1us to 100ms, bits a second from 1M to 1000G, or both, such as 50us, 10G or 50us,10G"
)]
pub struct EmulationError;

impl Emulation {
    /// One way.
    pub(crate) fn latency(&self) -> Duration {
        self.latency
    }

    /// For how long so many bytes keep a link busy.
    pub(crate) fn transmission(&self, bytes: usize) -> Duration {
        let Some(bandwidth) = self.bandwidth else { return Duration::ZERO };
        let bits = bytes as u128 * 8;
        let nanoseconds = (bits * u128::from(GIGA)).div_ceil(bandwidth.into());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

impl FromStr for Emulation {
    type Err = EmulationError;

    fn from_str(text: &str) -> Result<Self, EmulationError> {
        let (first, second) = text.split_once(',').map_or((text, None), |(a, b)| (a, Some(b)));
        let (latency, bandwidth) = match (latency(first), second) {
            (Some(latency), None) => (latency, None),
            (Some(latency), Some(second)) => (latency, Some(bandwidth(second)?)),
            (None, None) => (Duration::ZERO, Some(bandwidth(first)?)),
            (None, Some(_)) => return Err(EmulationError),
        };
        Ok(Self { latency, bandwidth })
    }
}

fn latency(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let latency = match unit {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        _ => return None,
    };
    (!latency.is_zero() && latency <= MOST_LATENCY).then_some(latency)
}

fn bandwidth(text: &str) -> Result<u64, EmulationError> {
    let read = || {
        let (number, unit) = number_and_unit(text)?;
        let scale = match unit {
            "M" => MEGA,
            "G" => GIGA,
            _ => return None,
        };
        number.checked_mul(scale).filter(|bits| (1..=MOST_BANDWIDTH).contains(bits))
    };
    read().ok_or(EmulationError)
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

impl fmt::Display for Emulation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let comma = if self.latency.is_zero() { "" } else { "," };
        if !self.latency.is_zero() {
            write!(out, "{}us", self.latency.as_micros())?;
        }
        match self.bandwidth {
            Some(bits) => write!(out, "{comma}{}M", bits / MEGA),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_and_bandwidth_are_read_together_and_alone_and_printed_so_that_they_are_read_back() {
        for (text, micros, bandwidth) in [
            ("50us", 50, None),
            ("2ms", 2000, None),
            ("100ms", 100_000, None),
            ("10G", 0, Some(10 * GIGA)),
            ("1M", 0, Some(MEGA)),
            ("50us,10G", 50, Some(10 * GIGA)),
            ("1us,1000G", 1, Some(1000 * GIGA)),
        ] {
            let read: Emulation = text.parse().unwrap();
            assert_eq!(read, Emulation { latency: Duration::from_micros(micros), bandwidth });
            assert_eq!(read.to_string().parse(), Ok(read), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            ",",
            "50",
            "50us,",
            ",10G",
            "10G,50us",
            "50us,50us",
            "10G,10G",
            "0us",
            "0G",
            "10s",
            "101ms",
            "1001G",
            "1K",
            "-1us",
            "1.5us",
            "us",
            "G",
            "50us,0M",
            "50us,10G,1",
            " 50us",
            "50 us",
            "10g",
            "99999999999999999999us",
            "18446744073709551615G",
            "50µs",
        ] {
            assert_eq!(text.parse::<Emulation>(), Err(EmulationError), "{text}");
        }
    }

    #[test]
    fn a_link_is_busy_for_as_long_as_its_bits_take_and_never_for_less() {
        let of = |text: &str, bytes| text.parse::<Emulation>().unwrap().transmission(bytes);
        assert_eq!(of("10G", 4096), Duration::from_nanos(3277));
        assert_eq!(of("8M", 1), Duration::from_micros(1));
        assert_eq!(of("1M", 1 << 30), Duration::from_nanos(8_589_934_592_000));
        assert_eq!(of("50us", 1 << 30), Duration::ZERO);
    }
}
