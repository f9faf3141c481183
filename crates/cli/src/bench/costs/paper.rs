//! The figures of the papers, in microseconds: Millipage 4.2 (300 MHz Pentium II, Windows NT, Myrinet)
//! and, for eager release consistency, MGS Table 1 (20 MHz Alewife).

/// Cycles a microsecond of MGS's machine.
const MGS_MHZ: f64 = 20.0;

/// The paper's time for an operation, if it gives one.
pub(super) fn figure(key: &str) -> Option<String> {
    mgs_cycles(key).map(|cycles| format!("{:.0}", cycles / MGS_MHZ)).or_else(|| millipage(key))
}

/// MGS Table 1, cycles: pages of 1 KB, 1000 cycles added to every message between nodes.
fn mgs_cycles(key: &str) -> Option<f64> {
    Some(match key {
        "eager-read-fetch" => 11772.0,
        "eager-write-fetch" => 21956.0,
        "eager-upgrade" => 12441.0,
        "eager-read-fetch-single" => 29353.0,
        "eager-write-fetch-single" => 35293.0,
        "eager-release-single" => 9992.0,
        "eager-release-2" => 33424.0,
        "eager-release-3" => 33516.0,
        _ => return None,
    })
}

fn millipage(key: &str) -> Option<String> {
    let nodes = key.strip_prefix("barrier-").and_then(|nodes| nodes.parse::<u32>().ok());
    if let Some(nodes @ 1..=8) = nodes {
        // "A barrier between 1 to 8 hosts takes 59-153 us (linearly in the number of hosts)".
        return Some(format!("{:.0}", 59.0 + f64::from(nodes - 1) * (153.0 - 59.0) / 7.0));
    }
    let text = match key {
        "access-fault" => "26",
        "get-protection" => "7",
        "message-0" => "12",
        "message-512" => "22",
        "message-1024" => "34",
        "message-4096" => "90",
        "lookup" => "7",
        "read-fetch-128" => "204",
        "read-fetch-4096" | "read-fetch-forward" | "read-fetch-direct" => "314",
        "write-fetch-128" => "212-366",
        "write-fetch-4096" => "327-480",
        key if key.starts_with("set-protection") => "12",
        key if key.starts_with("write-fetch-copies") => "327-480",
        key if key.starts_with("lock-") => "67-80",
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_s4_2_barriers_are_linear_from_59_to_153_us() {
        assert_eq!(figure("barrier-1").as_deref(), Some("59"));
        assert_eq!(figure("barrier-8").as_deref(), Some("153"));
        assert_eq!(figure("barrier-9"), None);
    }

    #[test]
    fn paper_t1_names_its_own_operations_and_no_others() {
        assert_eq!(figure("access-fault").as_deref(), Some("26"));
        assert_eq!(figure("message-4096").as_deref(), Some("90"));
        assert_eq!(figure("upgrade"), None);
    }

    #[test]
    fn paper_t1_of_mgs_is_in_cycles_of_20_mhz() {
        assert_eq!(figure("eager-read-fetch").as_deref(), Some("589"));
        assert_eq!(figure("eager-release-2").as_deref(), Some("1671"));
        assert_eq!(figure("eager-release-4"), None);
    }
}
