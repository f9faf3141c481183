//! The counters of a job at its end: a few lines for the user, and a JSON file.

use super::facts::Status;
use super::false_sharing;
use super::quantity::{quantity, seconds};
use super::site_usage;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::time::Duration;

/// Counters of which the largest of all nodes says something, and the sum nothing.
const LARGEST: [&str; 1] = ["views"];

/// One line of the summary: its title, and the counters in it with the words after each. The other
/// counters are in the JSON file only.
type Row = (&'static str, &'static [(&'static str, &'static str)]);
const ROWS: [Row; 9] = [
    (
        "faults",
        &[
            ("read_faults", "read"),
            ("write_faults", "write"),
            ("local_faults", "answered locally"),
            ("racing_faults", "reads in a race"),
        ],
    ),
    (
        "traffic",
        &[("messages_sent", "messages"), ("bytes_sent", "sent"), ("page_bytes_sent", "of pages")],
    ),
    (
        "copies",
        &[("upgrades", "upgrades"), ("invalidations", "invalidations"), ("competing", "competing")],
    ),
    (
        "release",
        &[
            ("twins", "twins"),
            ("diffs_sent", "diffs"),
            ("diff_bytes_sent", "of diffs"),
            ("notices_sent", "write notices"),
        ],
    ),
    (
        "sync",
        &[
            ("barriers", "barrier calls"),
            ("locks", "lock calls"),
            ("lock_messages", "of them remote"),
        ],
    ),
    ("rwlocks", &[("rwlock_reads", "read calls"), ("rwlock_writes", "write calls")]),
    ("sems", &[("sem_waits", "wait calls"), ("sem_posts", "post calls")]),
    ("conds", &[("cond_waits", "wait calls"), ("cond_signals", "signal calls")]),
    (
        "memory",
        &[("minipages", "minipages"), ("shared_bytes", "shared"), ("views", "views at most")],
    ),
];

/// Where a node's threads spent their time: counters in nanoseconds, and the columns' titles.
const TIMES: [(&str, &str); 5] = [
    ("compute_ns", "compute"),
    ("fault_wait_ns", "fault wait"),
    ("lock_wait_ns", "lock wait"),
    ("barrier_wait_ns", "barrier wait"),
    ("other_wait_ns", "other wait"),
];
/// Jobs of up to so many nodes get a line for each; larger ones the least, the mean and the most.
const TIMED_NODES: usize = 16;

/// Why a node has no counters, if it called mg_init...
const NO_STATS: &str =
    "a node sends its counters in mg_finalize, and this one did not come to its end";
/// ...and if not.
const NEVER_JOINED: &str = "a node counts from mg_init on, and this one never called it";

/// How one node ended.
pub(super) struct NodeReport {
    pub(super) pid: i32,
    /// None for the launcher's.
    pub(super) host: Option<String>,
    /// None for a process that could not be killed.
    pub(super) status: Option<Status>,
    /// It called mg_init, as far as is known here.
    pub(super) joined: bool,
    /// As the node sent them at mg_finalize.
    pub(super) stats: Option<Map<String, Value>>,
}

/// How a job ended; nodes by rank.
pub(super) struct Report {
    pub(super) wall: Duration,
    pub(super) code: u8,
    /// What the user was told of a bad end.
    pub(super) why: Option<String>,
    pub(super) nodes: Vec<NodeReport>,
    /// The program, if that has nothing of Multigrain and no node has called mg_init.
    pub(super) apart: Option<String>,
}

impl Report {
    /// The counters of the nodes that sent theirs, with their ranks.
    fn counted(&self) -> impl Iterator<Item = (usize, &Map<String, Value>)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(rank, node)| Some((rank, node.stats.as_ref()?)))
    }

    /// All counters over all nodes: the sums, and apart the largest of those that have no sum.
    fn totals(&self) -> (Map<String, Value>, Map<String, Value>) {
        let (mut sums, mut largest) = (Map::new(), Map::new());
        for (key, value) in self.counted().flat_map(|(_, stats)| stats) {
            let Some(value) = value.as_u64() else { continue };
            let is_largest = LARGEST.contains(&key.as_str());
            let totals = if is_largest { &mut largest } else { &mut sums };
            let before = totals.get(key).and_then(Value::as_u64).unwrap_or(0);
            let total = if is_largest { before.max(value) } else { before.saturating_add(value) };
            totals.insert(key.clone(), total.into());
        }
        (sums, largest)
    }

    /// Where each node's time went, in columns; without those that are zero everywhere.
    fn times(&self) -> String {
        let of = |stats: &Map<String, Value>| {
            TIMES.map(|(key, _)| stats.get(key).and_then(Value::as_u64).unwrap_or(0))
        };
        let all: Vec<(usize, [u64; TIMES.len()])> =
            self.counted().map(|(rank, stats)| (rank, of(stats))).collect();
        let shown: Vec<usize> =
            (0..TIMES.len()).filter(|&i| all.iter().any(|(_, times)| times[i] > 0)).collect();
        if shown.is_empty() {
            return String::new();
        }
        let mut text = format!("  {:<10}", "seconds");
        for &i in &shown {
            let _ = write!(text, " {:>12}", TIMES[i].1);
        }
        text.push('\n');
        let mut push = |title: &str, ns: &dyn Fn(usize) -> u64| {
            let _ = write!(text, "  {title:<10}");
            for &i in &shown {
                let _ = write!(text, " {:>12}", seconds(ns(i)));
            }
            text.push('\n');
        };
        if all.len() <= TIMED_NODES {
            all.iter().for_each(|(rank, times)| push(&format!("node {rank}"), &|i| times[i]));
        } else {
            let column = |i: usize| all.iter().map(move |(_, times)| times[i]);
            push("least", &|i| column(i).min().unwrap_or(0));
            push("mean", &|i| column(i).sum::<u64>() / all.len() as u64);
            push("most", &|i| column(i).max().unwrap_or(0));
        }
        text
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
        if let Some(program) = &self.apart {
            let copies = self.nodes.len();
            let _ = write!(
                text,
                "; {program} is not linked with Multigrain: {copies} copies have run that share nothing"
            );
        } else if self.nodes.iter().all(|node| !node.joined) {
            text += "; no node has called mg_init, so that nothing is shared";
        }
        text.push('\n');

        let (mut totals, largest) = self.totals();
        totals.extend(largest);
        for (title, counters) in ROWS {
            let counters: Vec<(&str, &str, u64)> = counters
                .iter()
                .filter_map(|&(key, words)| Some((key, words, totals.get(key)?.as_u64()?)))
                .collect();
            if counters.iter().all(|&(.., value)| value == 0) {
                continue;
            }
            let cells: Vec<String> = counters
                .iter()
                .map(|&(key, words, value)| format!("{:>12} {words}", quantity(key, value)))
                .collect();
            let _ = writeln!(text, "  {title:<8}{}", cells.join(" "));
        }
        let stats = self.counted().map(|(_, stats)| stats);
        let of_objects = site_usage::lines(self.counted().map(|(_, stats)| stats));
        text + &of_objects + &self.times() + &false_sharing::lines(stats)
    }

    fn json(&self) -> Value {
        let node = |(rank, node): (usize, &NodeReport)| {
            let (exit, signal) = match node.status {
                Some(Status::Exited(code)) => (Some(code), None),
                Some(Status::Killed { signal, .. }) => (None, Some(signal)),
                Some(Status::Lost) | None => (None, None),
            };
            let mut json = json!({
                "rank": rank, "pid": node.pid, "exit_code": exit, "signal": signal,
                "stats": node.stats,
            });
            if node.stats.is_none() {
                json["no_stats"] = if node.joined { NO_STATS } else { NEVER_JOINED }.into();
            }
            if let Some(host) = &node.host {
                json["host"] = host.as_str().into();
            }
            json
        };
        let (total, largest) = self.totals();
        json!({
            "wall_ms": u64::try_from(self.wall.as_millis()).unwrap_or(u64::MAX),
            "exit_code": self.code,
            "why": self.why,
            "counted_nodes": self.counted().count(),
            "total": total,
            "largest": largest,
            "nodes": self.nodes.iter().enumerate().map(node).collect::<Vec<_>>(),
        })
    }

    /// Writes the JSON file. Of jobs that were given the same one, the last has it whole.
    pub(super) fn write(&self, mut file: File) -> io::Result<()> {
        if file.metadata()?.is_file() {
            // Where files cannot be locked, the last of two may be cut by the other.
            let _ = file.lock();
            file.set_len(0)?;
        }
        file.write_all(format!("{:#}\n", self.json()).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(stats: &[&str]) -> Report {
        let node = |stats: &&str| NodeReport {
            pid: 1,
            host: None,
            status: Some(Status::Exited(0)),
            joined: true,
            stats: serde_json::from_str(stats).ok(),
        };
        Report {
            wall: Duration::from_millis(1234),
            code: 0,
            why: None,
            apart: None,
            nodes: stats.iter().map(node).collect(),
        }
    }

    #[test]
    fn counters_are_summed_and_aligned() {
        let text = report(&[
            r#"{"read_faults": 1000, "write_faults": 5, "bytes_sent": 1048576, "views": 4, "minipages": 3, "locks": 0}"#,
            r#"{"read_faults": 234, "write_faults": 6, "bytes_sent": 524288, "views": 3, "minipages": 2, "locks": 0, "x": 7}"#,
        ])
        .text();
        assert_eq!(
            text,
            "multigrain: 2 nodes, 1234 ms, exit code 0\n  \
             faults         1,234 read           11 write\n  \
             traffic      1.5 MiB sent\n  \
             memory             5 minipages            4 views at most\n"
        );
    }

    #[test]
    fn each_node_has_its_times_and_columns_of_zeros_are_left_out() {
        let node = r#"{"compute_ns": 1500000000, "fault_wait_ns": 0, "barrier_wait_ns": 20499999}"#;
        let text = report(&[node, node, ""]).text();
        let times = "  seconds         compute barrier wait\n  \
                     node 0            1.500        0.020\n  \
                     node 1            1.500        0.020\n";
        assert!(text.ends_with(times), "{text}");
    }

    #[test]
    fn many_nodes_have_the_least_mean_and_most_of_their_times() {
        let stats: Vec<String> =
            (1..=17).map(|n| format!(r#"{{"lock_wait_ns": {}}}"#, n * 1_000_000_000_u64)).collect();
        let stats: Vec<&str> = stats.iter().map(String::as_str).collect();
        let text = report(&stats).text();
        let times =
            "  least             1.000\n  mean              9.000\n  most             17.000\n";
        assert!(text.ends_with(times), "{text}");
    }

    #[test]
    fn a_program_without_counters_gets_one_line() {
        assert_eq!(report(&["", ""]).text(), "multigrain: 2 nodes, 1234 ms, exit code 0\n");
        let mut apart = report(&["", ""]);
        apart.nodes.iter_mut().for_each(|node| node.joined = false);
        let line = "exit code 0; no node has called mg_init, so that nothing is shared\n";
        assert!(apart.text().ends_with(line), "{}", apart.text());
        apart.apart = Some("./app".to_owned());
        let line =
            "code 0; ./app is not linked with Multigrain: 2 copies have run that share nothing\n";
        assert!(apart.text().ends_with(line), "{}", apart.text());
        let text = report(&["{}", "", ""]).text();
        assert!(text.contains("counters of 1 nodes only"), "{text}");
    }

    #[test]
    fn the_file_holds_every_node() {
        let mut report = report(&[r#"{"locks": 2, "views": 5}"#, "", ""]);
        report.nodes[2].joined = false;
        let json = report.json();
        assert_eq!(json["total"]["locks"], 2);
        assert_eq!((&json["total"]["views"], &json["largest"]["views"]), (&Value::Null, &json!(5)));
        assert_eq!(json["nodes"][0]["stats"]["locks"], 2);
        assert_eq!((&json["why"], &json["counted_nodes"]), (&Value::Null, &json!(1)));
        assert_eq!(json["nodes"][0].get("no_stats"), None);
        assert_eq!(json["nodes"][1]["stats"], Value::Null);
        assert!(json["nodes"][1]["no_stats"].as_str().unwrap().contains("mg_finalize"));
        assert!(json["nodes"][2]["no_stats"].as_str().unwrap().contains("never called"));
        assert_eq!(json["wall_ms"], 1234);
    }

    /// Each has opened it when it began. The longer one stood behind the shorter one.
    #[test]
    fn of_two_jobs_with_one_file_the_last_has_it_whole() {
        let path = std::env::temp_dir().join(format!("stats-of-two-{}", std::process::id()));
        let files = [(); 2].map(|()| File::create(&path).unwrap());
        for (file, stats) in files.into_iter().zip([&["{}"; 9][..], &["{}"]]) {
            report(stats).write(file).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["nodes"].as_array().unwrap().len(), 1);
    }
}
