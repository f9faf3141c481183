//! Numbers as text for people.

/// `12,345`, or `5.6 MiB` where the counter counts bytes.
pub(super) fn quantity(key: &str, value: u64) -> String {
    if !key.contains("bytes") {
        let digits = value.to_string();
        let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
        return String::from_utf8_lossy(&groups.join(&b',')).into_owned();
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = (value.max(1).ilog2() / 10).checked_sub(1) else {
        return format!("{value} B");
    };
    // At most 63 bits by 10 per unit: six units, and tenths, rounded, are all that is shown.
    let shift = 10 * (power + 1);
    let tenths = (u128::from(value) * 10 + (1 << (shift - 1))) >> shift;
    let unit = units.get(power as usize).copied().unwrap_or("EiB");
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// `1.234`: seconds of so many nanoseconds.
pub(super) fn seconds(ns: u64) -> String {
    let milliseconds = (ns + 500_000) / 1_000_000;
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_milliseconds() {
        for (ns, text) in [(0, "0.000"), (499_999, "0.000"), (500_000, "0.001")] {
            assert_eq!(seconds(ns), text);
        }
        assert_eq!(seconds(61_234_000_000), "61.234");
    }

    #[test]
    fn quantities_are_readable() {
        for (key, value, text) in [
            ("locks", 0, "0"),
            ("locks", 999, "999"),
            ("locks", 1_234_567, "1,234,567"),
            ("bytes_sent", 0, "0 B"),
            ("bytes_sent", 1023, "1023 B"),
            ("bytes_sent", 1024, "1.0 KiB"),
            ("bytes_sent", 4496, "4.4 KiB"),
            ("bytes_sent", u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(quantity(key, value), text);
        }
    }
}
