//! The report of a measuring program: one row an operation.

use super::samples::Summary;
use serde::{Deserialize, Serialize};

/// The report of one job, as its node 0 prints it: one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// Which guard was in use, and why.
    pub(super) guard: String,
    pub(super) rows: Vec<Row>,
}

/// One operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    /// A name for programs, such as `read-fetch-4096`.
    pub(super) key: String,
    /// A name for people.
    pub(super) operation: String,
    pub(super) ours: Summary,
    pub(super) floor: Option<Floor>,
    /// Copying the same number of bytes within this process.
    pub(super) memcpy_us: Option<f64>,
    pub(super) counts: Option<Counts>,
}

/// What the machine itself cannot do faster, measured in turn with the operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Floor {
    pub(super) what: String,
    pub(super) time: Summary,
}

/// What an operation cost beside time, all nodes together, per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Frames sent.
    pub(super) messages: f64,
    /// Bytes of minipage contents sent, and of diffs.
    pub(super) page_bytes: f64,
    /// Copies invalidated.
    pub(super) invalidations: f64,
    /// Minipages named to other nodes as written.
    pub(super) notices: f64,
}

impl Row {
    /// A row without a floor and without counts.
    pub(super) fn new(key: impl Into<String>, operation: impl Into<String>, ours: Summary) -> Self {
        let (key, operation) = (key.into(), operation.into());
        Self { key, operation, ours, floor: None, memcpy_us: None, counts: None }
    }

    /// Adds the floor.
    pub(super) fn over(mut self, what: impl Into<String>, time: Summary) -> Self {
        self.floor = Some(Floor { what: what.into(), time });
        self
    }

    /// Median against the floor's median.
    pub(super) fn ratio(&self) -> Option<f64> {
        let floor = self.floor.as_ref()?.time.median_us;
        (floor > 0.0).then(|| self.ours.median_us / floor)
    }
}

/// `128 B`, `4 KiB`.
pub(super) fn size_name(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => {
            format!("{} GiB", bytes >> 30)
        }
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
            format!("{} MiB", bytes >> 20)
        }
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => {
            format!("{} KiB", bytes >> 10)
        }
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_needs_a_floor_above_zero() {
        let ours = Summary { samples: 1, median_us: 12.0, p99_us: 20.0 };
        let row = Row::new("k", "op", ours);
        assert_eq!(row.ratio(), None);
        assert_eq!(row.clone().over("nothing", Summary::default()).ratio(), None);
        let floor = Summary { median_us: 8.0, ..ours };
        assert_eq!(row.over("raw", floor).ratio(), Some(1.5));
    }

    #[test]
    fn sizes_have_the_largest_unit_that_divides_them() {
        let names = [128, 1024, 1536, 65536, 1 << 20, 4 << 30].map(size_name);
        assert_eq!(names, ["128 B", "1 KiB", "1536 B", "64 KiB", "1 MiB", "4 GiB"]);
    }
}
