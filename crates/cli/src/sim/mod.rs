//! `multigrain sim`: runs the simulator from seeds, prints what it did, and how to reproduce a failure.
//!
//! | file | part |
//! |---|---|
//! | `release` | `--release`: programs on release consistent memory |
//! | `shares` | `--shares`: how often each node gets a contended minipage |
//! | `tally` | the sums over all runs |

mod release;
mod shares;
mod tally;

use clap::{Args, ValueEnum};
use multigrain_verify::sim::{self, Deaths, Plan, nanoseconds};
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::proof::Section;
use crate::series::SeriesArgs;
use tally::{Tally, Took};

/// Runs end here, unless hours or steps are asked for.
const DEFAULT_HOURS: f64 = 0.001;
const DEFAULT_STEPS: u64 = 1_000_000;

/// Runs random programs on a virtual cluster of up to 10,000 nodes, and checks what they see.
///
/// Every message passes through the real codec into the real protocol engines. Links stall, nodes
/// stop and die, clocks drift. A run comes from its seed alone and can be repeated exactly.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Seed of the first run; further runs have the seeds after it [default: a random one]
    #[arg(long)]
    seed: Option<u64>,
    /// Nodes, 2 to 10000 [default: drawn from the seed]
    #[arg(long)]
    nodes: Option<u16>,
    /// Virtual hours after which the programs come to their end; fractions are fine [default:
    /// 0.001, or 1000000 steps if that is earlier]
    #[arg(long)]
    hours: Option<f64>,
    /// Steps after which they do, if that is earlier [default: no limit, if hours are given]
    #[arg(long)]
    steps: Option<u64>,
    /// Runs, one seed each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Threads of each node [default: drawn from the seed]
    #[arg(long)]
    threads: Option<u32>,
    /// Minipages of the job [default: drawn from the seed]
    #[arg(long)]
    minipages: Option<u32>,
    /// In which runs a node dies at some moment; some: those of one seed in eight
    #[arg(long, value_enum, default_value_t = When::Some)]
    deaths: When,
    /// Runs programs without data races on release consistent memory; all but seeds and runs is
    /// drawn
    #[arg(
        long,
        conflicts_with_all = ["nodes", "hours", "steps", "threads", "minipages", "deaths"]
    )]
    release: bool,
    /// Has nodes compete for one minipage on even links, and says what share each gets, and how long
    /// threads wait
    #[arg(
        long,
        conflicts_with_all = [
            "seed", "runs", "nodes", "hours", "steps", "threads", "minipages", "deaths", "release",
            "proof", "json", "within"
        ]
    )]
    shares: bool,
    /// Writes the figures into this file, docs/PROOF.md of the source
    #[arg(long, value_name = "FILE", value_parser = crate::proof::file)]
    proof: Option<PathBuf>,
    #[command(flatten)]
    series: SeriesArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    Never,
    Some,
    Always,
}

impl SimArgs {
    fn plan(&self, seed: u64) -> Plan {
        let drawn = Plan::drawn(seed);
        let limit = if self.hours.is_some() { u64::MAX } else { DEFAULT_STEPS };
        Plan {
            seed,
            nodes: self.nodes.unwrap_or(drawn.nodes),
            threads: self.threads.unwrap_or(drawn.threads),
            minipages: self.minipages.unwrap_or(drawn.minipages),
            virtual_ns: nanoseconds(self.hours.unwrap_or(DEFAULT_HOURS)),
            steps: self.steps.unwrap_or(limit),
            deaths: match self.deaths {
                When::Never => Deaths::Never,
                When::Some => Deaths::Some,
                When::Always => Deaths::Always,
            },
        }
    }

    fn complaint(&self, seed: u64) -> Option<String> {
        match self.hours {
            Some(hours) if !(hours > 0.0 && hours <= 1e6) => {
                Some(format!("--hours {hours}: choose more than 0 and at most 1000000"))
            }
            Some(_) | None => self.plan(seed).complaint(),
        }
    }

    /// What was given, so that the same runs can be asked for.
    fn command(&self, seed: u64) -> String {
        let mut command = format!("multigrain sim --seed {seed} --runs {}", self.runs);
        let given = [
            ("nodes", self.nodes.map(|nodes| nodes.to_string())),
            ("hours", self.hours.map(|hours| hours.to_string())),
            ("steps", self.steps.map(|steps| steps.to_string())),
            ("threads", self.threads.map(|threads| threads.to_string())),
            ("minipages", self.minipages.map(|minipages| minipages.to_string())),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                command.push_str(&format!(" --{name} {value}"));
            }
        }
        match self.deaths {
            When::Never => command.push_str(" --deaths never"),
            When::Some => {}
            When::Always => command.push_str(" --deaths always"),
        }
        command
    }
}

/// Processor time of this thread, which does all the work: other programs do not count.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

pub(crate) fn run(args: &SimArgs) -> ExitCode {
    if args.shares {
        return shares::run();
    }
    // A seed that can be typed.
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(()) >> 32);
    if let Some(complaint) = args.complaint(seed) {
        eprintln!("multigrain: sim: {complaint}");
        return ExitCode::from(2);
    }
    // A single run, which is the default, ends within seconds.
    let mut series = args.series.begin(args.runs, true);
    series.say(format_args!("seed {seed}, version {}", env!("CARGO_PKG_VERSION")));
    if args.release {
        return release::run(seed, args.runs, args.proof.as_deref(), series);
    }
    let mut tally = Tally::default();
    for seed in (0..args.runs).map(|run| seed.wrapping_add(run)) {
        if !series.goes_on(format_args!("seed {seed}"), series.mean()) {
            break;
        }
        let plan = args.plan(seed);
        let (start, cpu) = (Instant::now(), cpu_time());
        match sim::run(&plan) {
            Ok(report) => {
                let took = Took { wall: start.elapsed(), cpu: cpu_time().saturating_sub(cpu) };
                series.say(tally::line(&report, took));
                series.add(tally::result(&report, took));
                tally.add(&report, took);
            }
            Err(failure) => {
                eprintln!("multigrain: sim: {failure}");
                series.add(json!({ "seed": seed, "failure": failure.to_string() }));
                series.end("sim", false);
                return ExitCode::FAILURE;
            }
        }
    }
    series.say(format_args!("\n{}", tally.text().trim_end()));
    let whole = series.done() == args.runs;
    series.end("sim", true);
    let Some(file) = args.proof.as_ref().filter(|_| whole) else { return ExitCode::SUCCESS };
    let section = Section {
        name: "sim",
        title: "Simulated",
        command: &args.command(seed),
        body: &tally.markdown(),
    };
    write(&section, file)
}

fn write(section: &Section<'_>, file: &Path) -> ExitCode {
    match section.write(file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("multigrain: {error:#}");
            ExitCode::FAILURE
        }
    }
}
