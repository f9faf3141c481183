//! The end of a job in numbers: a few lines for the user, and a JSON file.

use super::verdict::Status;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::time::Duration;

/// Counters of which the largest is that of the job, not the sum.
const OF_THE_JOB: [&str; 1] = ["views"];

/// One line of the summary: its title, and the counters in it with the words after each.
type Row = (&'static str, &'static [(&'static str, &'static str)]);
const ROWS: [Row; 5] = [
    (
        "faults",
        &[("read_faults", "read"), ("write_faults", "write"), ("local_faults", "answered locally")],
    ),
    (
        "traffic",
        &[("messages_sent", "messages"), ("bytes_sent", "sent"), ("page_bytes_sent", "of pages")],
    ),
    (
        "copies",
        &[("upgrades", "upgrades"), ("invalidations", "invalidations"), ("competing", "competing")],
    ),
    ("sync", &[("barriers", "barriers"), ("locks", "locks"), ("lock_messages", "of them remote")]),
    ("memory", &[("minipages", "minipages"), ("shared_bytes", "shared"), ("views", "views")]),
];
/// Counted, but told to the JSON file only: sent and received are the same in the sum.
const QUIET: [&str; 2] = ["messages_received", "bytes_received"];

/// How one node ended.
pub(super) struct NodeReport {
    pub(super) pid: i32,
    /// None for a process that could not be killed.
    pub(super) status: Option<Status>,
    /// As the node sent them at mg_finalize.
    pub(super) stats: Option<Map<String, Value>>,
}

/// How a job ended; nodes by rank.
pub(super) struct Report {
    pub(super) wall: Duration,
    pub(super) code: u8,
    pub(super) nodes: Vec<NodeReport>,
}

impl Report {
    /// All counters over all nodes.
    fn totals(&self) -> Map<String, Value> {
        let mut totals = Map::new();
        for (key, value) in self.nodes.iter().filter_map(|node| node.stats.as_ref()).flatten() {
            let Some(value) = value.as_u64() else { continue };
            let before = totals.get(key).and_then(Value::as_u64).unwrap_or(0);
            let of_the_job = OF_THE_JOB.contains(&key.as_str());
            let total = if of_the_job { before.max(value) } else { before.saturating_add(value) };
            totals.insert(key.clone(), total.into());
        }
        totals
    }

    /// What nodes say in words, the guard for one; each with all values that occur.
    fn words(&self) -> Vec<(String, BTreeSet<String>)> {
        let mut words: Vec<(String, BTreeSet<String>)> = Vec::new();
        for (key, value) in self.nodes.iter().filter_map(|node| node.stats.as_ref()).flatten() {
            let Some(value) = value.as_str() else { continue };
            match words.iter_mut().find(|(name, _)| name == key) {
                Some((_, values)) => drop(values.insert(value.to_owned())),
                None => words.push((key.clone(), BTreeSet::from([value.to_owned()]))),
            }
        }
        words
    }

    /// The summary for stderr.
    pub(super) fn text(&self) -> String {
        let plural = if self.nodes.len() == 1 { "" } else { "s" };
        let mut text = format!(
            "multigrain: {} node{plural}, {} ms, exit code {}",
            self.nodes.len(),
            self.wall.as_millis(),
            self.code
        );
        let reported = self.nodes.iter().filter(|node| node.stats.is_some()).count();
        if reported > 0 && reported < self.nodes.len() {
            let _ = write!(text, "; counters of {reported} nodes only");
        }
        for (name, values) in self.words() {
            let values: Vec<String> = values.into_iter().collect();
            let _ = write!(text, ", {name} {}", values.join("/"));
        }
        text.push('\n');

        let mut totals = self.totals();
        for (title, counters) in ROWS {
            let cells: Vec<String> = counters
                .iter()
                .filter_map(|&(key, words)| {
                    let value = totals.remove(key)?.as_u64()?;
                    Some(format!("{:>12} {words}", quantity(key, value)))
                })
                .collect();
            push_row(&mut text, title, &cells);
        }
        let others = totals.iter().filter(|(key, _)| !QUIET.contains(&key.as_str()));
        let cells: Vec<String> = others
            .filter_map(|(key, value)| Some((key, quantity(key, value.as_u64()?))))
            .map(|(key, value)| format!("{value:>12} {key}"))
            .collect();
        for cells in cells.chunks(3) {
            push_row(&mut text, "other", cells);
        }
        text
    }

    fn json(&self) -> Value {
        let node = |(rank, node): (usize, &NodeReport)| {
            let (exit, signal) = match node.status {
                Some(Status::Exited(code)) => (Some(code), None),
                Some(Status::Killed { signal, .. }) => (None, Some(signal)),
                None => (None, None),
            };
            json!({
                "rank": rank, "pid": node.pid, "exit_code": exit, "signal": signal,
                "stats": node.stats,
            })
        };
        json!({
            "wall_ms": u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX),
            "exit_code": self.code,
            "total": self.totals(),
            "nodes": self.nodes.iter().enumerate().map(node).collect::<Vec<_>>(),
        })
    }

    /// Writes the JSON file.
    pub(super) fn write(&self, mut file: File) -> io::Result<()> {
        file.write_all(format!("{:#}\n", self.json()).as_bytes())
    }
}

fn push_row(text: &mut String, title: &str, cells: &[String]) {
    if !cells.is_empty() {
        let _ = writeln!(text, "  {title:<8}{}", cells.join(" "));
    }
}

/// `12,345`, or `5.6 MiB` where the counter counts bytes.
fn quantity(key: &str, value: u64) -> String {
    if !key.contains("bytes") {
        let digits = value.to_string();
        let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
        return String::from_utf8_lossy(&groups.join(&b',')).into_owned();
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = (value.max(1).ilog2() / 10).checked_sub(1) else {
        return format!("{value} B");
    };
    // At most 63 bits by 10 per unit: six units, and tenths are all that is shown.
    let tenths = (u128::from(value) * 10) >> (10 * (power + 1));
    let unit = units.get(power as usize).copied().unwrap_or("EiB");
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(stats: &[&str]) -> Report {
        let node = |stats: &&str| NodeReport {
            pid: 1,
            status: Some(Status::Exited(0)),
            stats: serde_json::from_str(stats).ok(),
        };
        Report {
            wall: Duration::from_millis(1234),
            code: 0,
            nodes: stats.iter().map(node).collect(),
        }
    }

    #[test]
    fn counters_are_summed_and_aligned() {
        let text = report(&[
            r#"{"read_faults": 1000, "write_faults": 5, "bytes_sent": 1048576, "minipages": 9, "views": 4, "guard": "uffd"}"#,
            r#"{"read_faults": 234, "write_faults": 6, "bytes_sent": 524288, "minipages": 5, "views": 3, "guard": "uffd", "x": 7}"#,
        ])
        .text();
        assert_eq!(
            text,
            "multigrain: 2 nodes, 1234 ms, exit code 0, guard uffd\n  \
             faults         1,234 read           11 write\n  \
             traffic      1.5 MiB sent\n  \
             memory            14 minipages            4 views\n  \
             other              7 x\n"
        );
    }

    #[test]
    fn a_program_without_counters_gets_one_line() {
        assert_eq!(report(&["", ""]).text(), "multigrain: 2 nodes, 1234 ms, exit code 0\n");
        let text = report(&["{}", "", ""]).text();
        assert!(text.contains("counters of 1 nodes only"), "{text}");
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
            ("bytes_sent", u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(quantity(key, value), text);
        }
    }

    #[test]
    fn the_file_holds_every_node() {
        let json = report(&[r#"{"locks": 2}"#, ""]).json();
        assert_eq!(json["total"]["locks"], 2);
        assert_eq!(json["nodes"][0]["stats"]["locks"], 2);
        assert_eq!(json["nodes"][1]["stats"], Value::Null);
        assert_eq!(json["wall_ms"], 1234);
    }
}
