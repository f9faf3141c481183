//! The sums over all runs, by size of job, as lines and as a table.

use std::time::Duration;

use multigrain_verify::sim::Report;
use serde_json::{Value, json};

/// The largest job of each row.
const SIZES: [u16; 3] = [16, 200, 10_000];
const HEADS: [&str; 11] = [
    "nodes",
    "runs",
    "deaths",
    "steps",
    "messages",
    "bytes",
    "accesses",
    "virtual s",
    "wall s",
    "cpu s",
    "steps/cpu s",
];

/// Sums over runs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows: [Row; SIZES.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    runs: u64,
    deaths: u64,
    steps: u64,
    messages: u64,
    bytes: u64,
    accesses: u64,
    virtual_ns: u64,
    took: Took,
}

/// How long a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    pub(super) wall: Duration,
    /// On one core: the processor time of the thread.
    pub(super) cpu: Duration,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.deaths += other.deaths;
        self.steps += other.steps;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.accesses += other.accesses;
        self.virtual_ns += other.virtual_ns;
        self.took.wall += other.took.wall;
        self.took.cpu += other.took.cpu;
    }

    fn cells(&self, nodes: String) -> [String; HEADS.len()] {
        let cpu_s = self.took.cpu.as_secs_f64();
        [
            nodes,
            self.runs.to_string(),
            self.deaths.to_string(),
            self.steps.to_string(),
            self.messages.to_string(),
            self.bytes.to_string(),
            self.accesses.to_string(),
            format!("{:.3}", self.virtual_ns as f64 / 1e9),
            format!("{:.3}", self.took.wall.as_secs_f64()),
            format!("{cpu_s:.3}"),
            format!("{:.0}", self.steps as f64 / cpu_s.max(1e-9)),
        ]
    }
}

impl Tally {
    pub(super) fn add(&mut self, report: &Report, took: Took) {
        let size = SIZES.iter().position(|&most| report.plan.nodes <= most);
        self.rows[size.unwrap_or(SIZES.len() - 1)].add(&Row {
            runs: 1,
            deaths: report.died.is_some().into(),
            steps: report.steps,
            messages: report.traffic.messages,
            bytes: report.traffic.bytes,
            accesses: report.accesses,
            virtual_ns: report.virtual_ns,
            took,
        });
    }

    /// The rows with runs in them, and their sum.
    fn table(&self) -> Vec<[String; HEADS.len()]> {
        let mut all = Row::default();
        let mut table = Vec::new();
        let mut least = 2;
        for (row, most) in self.rows.iter().zip(SIZES) {
            if row.runs > 0 {
                table.push(row.cells(format!("{least} to {most}")));
            }
            all.add(row);
            least = most + 1;
        }
        table.push(all.cells("all".into()));
        table
    }

    pub(super) fn text(&self) -> String {
        let heads = HEADS.map(str::to_owned);
        let line = |cells: &[String; HEADS.len()]| {
            let padded: Vec<String> = cells.iter().map(|cell| format!("{cell:>13}")).collect();
            padded.concat() + "\n"
        };
        core::iter::once(&heads).chain(&self.table()).map(line).collect()
    }

    pub(super) fn markdown(&self) -> String {
        let rows = self.table().into_iter().map(|cells| format!("| {} |\n", cells.join(" | ")));
        let rows: String = rows.collect();
        format!(
            "Every run held: no invariant broke, every access saw the last write, every thread \
             came to its end.\n\n| {} |\n|{}\n{rows}",
            HEADS.join(" | "),
            "---:|".repeat(HEADS.len()),
        )
    }
}

/// One run, for programs.
pub(super) fn result(report: &Report, took: Took) -> Value {
    let plan = &report.plan;
    json!({
        "seed": plan.seed,
        "nodes": plan.nodes,
        "threads": plan.threads,
        "minipages": plan.minipages,
        "steps": report.steps,
        "messages": report.traffic.messages,
        "bytes": report.traffic.bytes,
        "accesses": report.accesses,
        "died": report.died.map(|node| node.0),
        "virtual_seconds": report.virtual_ns as f64 / 1e9,
        "seconds": took.wall.as_secs_f64(),
        "run": format!("{:016x}", report.fingerprint),
    })
}

/// One run.
pub(super) fn line(report: &Report, took: Took) -> String {
    let died = report.died.map(|node| format!(", {node} died")).unwrap_or_default();
    let plan = &report.plan;
    format!(
        "seed {} held: {} nodes, {} threads each, {} minipages, {} steps, {} accesses, {:.3} s \
         virtual, {:.3} s{died}; {}; run {:016x}",
        plan.seed,
        plan.nodes,
        plan.threads,
        plan.minipages,
        report.steps,
        report.accesses,
        report.virtual_ns as f64 / 1e9,
        took.wall.as_secs_f64(),
        report.network,
        report.fingerprint,
    )
}
