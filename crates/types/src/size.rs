//! Sizes as people write them, in options and in the environment.

/// Bytes: a whole number above 0, alone or with a suffix K, M, G or T (powers of 1024; also as KB and KiB). `None` for
/// any other text, and for a number that does not fit.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("4096"), Some(4096));
        assert_eq!(parse_size("512K"), Some(512 << 10));
        assert_eq!(parse_size("64G"), Some(64 << 30));
        assert_eq!(parse_size("3mib"), Some(3 << 20));
        for wrong in ["", "G", "0", "0K", "-1", "+1", "1.5G", "64X", "1 G", "99999999999T"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
