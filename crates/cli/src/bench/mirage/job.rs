//! The jobs that are measured: how they are started, and what is read of them.

use crate::bench::row::{Report, Row};
use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Network {
    /// Unix sockets of this host.
    Here,
    /// Delayed as the paper's: 2.7 ms for a short message, 10 Mbit/s (4.2).
    Paper,
}

impl Network {
    pub(super) const BOTH: [Self; 2] = [Self::Here, Self::Paper];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Here => "this host",
            Self::Paper => "--emulate 2700us,10M",
        }
    }

    pub(super) const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Here => &[],
            Self::Paper => &["--emulate", "2700us,10M"],
        }
    }
}

/// How the network says `there` bytes and `back` bytes take: no answer is sooner. Milliseconds.
#[expect(clippy::cast_precision_loss, reason = "a few thousand bytes")]
pub(super) fn paper_network_ms(bytes: usize) -> f64 {
    2.0 * 2.7 + bytes as f64 * 8.0 / 10e6 * 1e3
}

fn run(nodes: u32, network: Network, options: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["run", "-n", &nodes.to_string(), "--transport", "unix", "--timeout", "140"]);
    command.args(["--no-tag-output", "--no-summary"]).args(network.options()).args(options);
    Ok(command)
}

fn output(mut command: Command, what: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("starting {what}"))?;
    ensure!(output.status.success(), "{what} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// A measuring program of `bench node`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measuring {
    pub(super) program: &'static str,
    pub(super) nodes: u32,
    pub(super) samples: usize,
    /// Pages in a row.
    pub(super) batch: usize,
    /// Bytes of the largest transfer.
    pub(super) largest: usize,
}

impl Measuring {
    /// Its rows.
    pub(super) fn rows(self, network: Network, options: &[&str]) -> Result<Vec<Row>> {
        let mut command = run(self.nodes, network, options)?;
        command.args(["--wait", "adaptive", "--manager", "allocator", "--chunk", "1"]);
        command.args(["--learn", "off", "--"]).arg(std::env::current_exe()?);
        command.args(["bench", "node", self.program, "--samples", &self.samples.to_string()]);
        command.args(["--batch", &self.batch.to_string(), "--grain", &self.largest.to_string()]);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        // As if each had a machine of its own.
        if self.nodes as usize <= cpus {
            command.arg("--pin");
        }
        report(&output(command, self.program)?)
    }
}

/// The memory layer: traps and protections, one process.
pub(super) fn memory(samples: usize) -> Result<Vec<Row>> {
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["bench", "node", "memory", "--samples", &samples.to_string()]);
    report(&output(command, "memory")?)
}

fn report(text: &str) -> Result<Vec<Row>> {
    let line = text.lines().find(|line| line.starts_with('{'));
    let report: Report =
        serde_json::from_str(line.context("the measuring program printed no report")?)?;
    Ok(report.rows)
}

/// The row of a key.
pub(super) fn row<'a>(rows: &'a [Row], key: &str) -> Result<&'a Row> {
    rows.iter().find(|row| row.key == key).with_context(|| format!("no row {key}"))
}

/// Where a program of `apps/sysv` runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sites<'a> {
    /// Processes of this host, with the kernel's System V objects.
    Native,
    /// Nodes of a job, with these options.
    Nodes(u32, Network, &'a [&'a str]),
}

/// What a program printed, and what all nodes counted from its beginning to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ran {
    text: String,
    pub(super) counts: Counts,
}

/// Of all nodes together; nothing natively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Counts {
    /// Pages that came to a node.
    pub(super) pages: f64,
    pub(super) messages: f64,
    /// With their headers.
    pub(super) bytes: f64,
    /// Of pages, as they were sent.
    pub(super) page_bytes: f64,
}

#[derive(Deserialize)]
struct Stats {
    nodes: Vec<Node>,
    total: Total,
}

#[derive(Deserialize)]
struct Node {
    stats: Site,
}

#[derive(Deserialize)]
struct Site {
    sysv_segments: Vec<Segment>,
}

#[derive(Deserialize)]
struct Segment {
    pages_fetched: f64,
}

#[derive(Deserialize)]
struct Total {
    messages_sent: f64,
    bytes_sent: f64,
    page_bytes_sent: f64,
}

/// The programs of `apps/sysv`.
#[derive(Clone, Debug)]
pub(super) struct Programs(PathBuf);

impl Programs {
    /// If they are there.
    pub(super) fn at(place: &Path) -> Option<Self> {
        let is_there = |name: &&str| place.join(name).is_file();
        ["battleship", "matmul"].iter().all(is_there).then(|| Self(place.to_path_buf()))
    }

    /// Runs one, which checks its result: natively once, else on each node.
    pub(super) fn run(&self, sites: Sites<'_>, name: &str, words: &[&str]) -> Result<Ran> {
        let program = self.0.join(name);
        let id = std::process::id();
        let stats = std::env::temp_dir().join(format!("multigrain-mirage-{id}.json"));
        // Two benches at a time on one host do not meet.
        let key = (0x4200_0000 + (id & 0xffff) * 16).to_string();
        let mut command = match sites {
            Sites::Native => Command::new(&program),
            Sites::Nodes(nodes, network, options) => {
                let mut command = run(nodes, network, options)?;
                command.arg("--stats").arg(&stats).args(["--sysv", "--"]).arg(&program);
                command.args(["-p", &nodes.to_string()]);
                command
            }
        };
        command.args(["-k", &key]).args(words);
        let text = output(command, &program.display().to_string())?;
        let mut counts = Counts::default();
        if matches!(sites, Sites::Nodes(..)) {
            let read = std::fs::read(&stats).context("the file of --stats")?;
            std::fs::remove_file(&stats)?;
            counts = counted(serde_json::from_slice(&read).context("the file of --stats")?);
        }
        Ok(Ran { text, counts })
    }
}

fn counted(Stats { nodes, total }: Stats) -> Counts {
    let segments = nodes.iter().flat_map(|node| &node.stats.sysv_segments);
    Counts {
        pages: segments.fold(0.0, |pages, segment| pages + segment.pages_fetched),
        messages: total.messages_sent,
        bytes: total.bytes_sent,
        page_bytes: total.page_bytes_sent,
    }
}

impl Ran {
    /// The number that stands right before these words.
    pub(super) fn number(&self, before: &str) -> Result<f64> {
        let number = self.text.split(before).next().and_then(|head| head.rsplit([' ', '(']).next());
        let what = || format!("no number before '{before}' in: {}", self.text);
        number.and_then(|number| number.parse().ok()).with_context(what)
    }
}

/// Does `work` with this thread, and what it starts, on one processor.
pub(super) fn on_one_cpu<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    let all = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).context("no processor")?;
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one)?;
    let done = work();
    sched_setaffinity(None, &all)?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_the_words_behind_it() {
        let text =
            "battleship: yield, player 1 wins after 1648 turns (2.054 ms each), ok".to_owned();
        let ran = Ran { text, counts: Counts::default() };
        assert_eq!(ran.number(" turns").unwrap(), 1648.0);
        assert_eq!(ran.number(" ms each").unwrap(), 2.054);
        assert!(ran.number(" hours").is_err());
    }

    #[test]
    fn pages_are_those_of_all_segments_of_all_nodes() {
        let text = r#"{"nodes": [{"stats": {"sysv_segments": [{"pages_fetched": 3}, {"pages_fetched": 4}]}},
            {"stats": {"sysv_segments": []}}],
            "total": {"messages_sent": 20, "bytes_sent": 900, "page_bytes_sent": 700}}"#;
        let counts = counted(serde_json::from_str(text).unwrap());
        let expected = Counts { pages: 7.0, messages: 20.0, bytes: 900.0, page_bytes: 700.0 };
        assert_eq!(counts, expected);
    }
}
