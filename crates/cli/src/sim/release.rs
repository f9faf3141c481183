//! `multigrain sim --release`: random programs without data races on release consistent memory.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use multigrain_verify::release::{Run, simulate};
use serde_json::json;

use super::{cpu_time, write};
use crate::proof::Section;
use crate::series::Series;

/// The largest job of each row.
const SIZES: [u16; 3] = [2, 4, 16];
const HEADS: [&str; 7] = ["nodes", "runs", "threads", "steps", "accesses", "cpu s", "steps/cpu s"];
type Line = [String; HEADS.len()];

/// Sums over runs.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    runs: u64,
    threads: u64,
    steps: u64,
    accesses: u64,
    cpu: Duration,
}

impl Sums {
    fn of(run: &Run, cpu: Duration) -> Self {
        let (threads, accesses) = (run.threads as u64, run.accesses as u64);
        Self { runs: 1, threads, steps: run.steps, accesses, cpu }
    }

    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.threads += other.threads;
        self.steps += other.steps;
        self.accesses += other.accesses;
        self.cpu += other.cpu;
    }

    fn line(&self, nodes: String) -> Line {
        let cpu_s = self.cpu.as_secs_f64();
        [
            nodes,
            self.runs.to_string(),
            self.threads.to_string(),
            self.steps.to_string(),
            self.accesses.to_string(),
            format!("{cpu_s:.3}"),
            format!("{:.0}", self.steps as f64 / cpu_s.max(1e-9)),
        ]
    }
}

/// The rows with runs in them, and their sum.
fn table(rows: &[Sums; SIZES.len()]) -> Vec<Line> {
    let mut all = Sums::default();
    let mut lines = Vec::new();
    let mut least = 2;
    for (row, most) in rows.iter().zip(SIZES) {
        if row.runs > 0 {
            let nodes = if least == most { most.to_string() } else { format!("{least} to {most}") };
            lines.push(row.line(nodes));
        }
        all.add(row);
        least = most + 1;
    }
    lines.push(all.line("all".into()));
    lines
}

fn text(lines: &[Line]) -> String {
    let padded = |line: &Line| line.each_ref().map(|cell| format!("{cell:>13}")).concat() + "\n";
    let heads = HEADS.map(str::to_owned);
    core::iter::once(&heads).chain(lines).map(padded).collect()
}

fn markdown(lines: &[Line]) -> String {
    let rows: String = lines.iter().map(|line| format!("| {} |\n", line.join(" | "))).collect();
    format!(
        "Every run held: every read returned the last write that happens before it, every thread \
         came to its end, and after a last release nothing was owed and every home was current.\n\n\
         | {} |\n|{}\n{rows}",
        HEADS.join(" | "),
        "---:|".repeat(HEADS.len()),
    )
}

/// Runs the seeds from `first` on, until one fails.
pub(super) fn run(first: u64, runs: u64, proof: Option<&Path>, mut series: Series) -> ExitCode {
    let mut rows = [Sums::default(); SIZES.len()];
    for seed in (0..runs).map(|run| first.wrapping_add(run)) {
        if !series.goes_on(format_args!("seed {seed}"), series.mean()) {
            break;
        }
        let cpu = cpu_time();
        match simulate(seed) {
            Ok(run) => {
                let size = SIZES.iter().position(|&most| run.nodes <= most);
                let sums = Sums::of(&run, cpu_time().saturating_sub(cpu));
                rows[size.unwrap_or(SIZES.len() - 1)].add(&sums);
                series.add(json!({
                    "seed": seed,
                    "nodes": run.nodes,
                    "threads": run.threads,
                    "steps": run.steps,
                    "accesses": run.accesses,
                }));
            }
            Err(failure) => {
                eprint!("multigrain: sim: {failure}");
                eprintln!("replay: multigrain sim --release --seed {seed}");
                series.add(json!({ "seed": seed, "failure": failure.to_string() }));
                series.end("sim --release", false);
                return ExitCode::FAILURE;
            }
        }
    }
    let lines = table(&rows);
    series.say(format_args!(
        "{} runs held, {:.3} s\n\n{}",
        series.done(),
        series.elapsed().as_secs_f64(),
        text(&lines).trim_end()
    ));
    let whole = series.done() == runs;
    series.end("sim --release", true);
    let Some(file) = proof.filter(|_| whole) else { return ExitCode::SUCCESS };
    let section = Section {
        name: "sim-release",
        title: "Simulated: release consistency",
        command: &format!("multigrain sim --release --seed {first} --runs {runs}"),
        body: &markdown(&lines),
    };
    write(&section, file)
}
