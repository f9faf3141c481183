//! `multigrain litmus`: litmus tests on real nodes, judged by a model of the machine.
//!
//! Multigrain is sequentially consistent between nodes and x86-TSO within a node. So a thread's
//! store may wait in the processor's buffer while the thread goes on to load. Only threads of the same node can
//! see that: before another node gets the bytes, the page table entry is
//! withdrawn, and the interrupt for that drains the buffer. SB's weak outcome is therefore allowed on
//! one node, where it is seen, and forbidden between nodes; with fences it is forbidden everywhere.
//! On release consistent memory (`--consistency`) the same tests run with every instruction in a
//! critical section: properly synchronized programs must see interleavings and nothing else.
//! No list of verdicts is written by hand: `machine` explores each test, placed as it runs, and its
//! outcomes are the allowed ones.
//!
//! | file | part |
//! |---|---|
//! | `program`, `catalog`, `locks` | what a test is; the tests; the tests with loops |
//! | `instruction` | single instructions on shared memory |
//! | `machine` | the model: allowed outcomes |
//! | `plan` | configurations and runs |
//! | `node/` | the nodes of a job: this binary again, started by `multigrain run` |
//! | `job` | starts a job and reads its results |
//! | `outcomes`, `print` | histograms and verdicts, and how they are printed |

mod catalog;
mod instruction;
mod job;
mod locks;
mod machine;
mod node;
mod outcomes;
mod plan;
mod print;
mod program;

use crate::proof::{self, Section, command_line};
use crate::series::SeriesArgs;
use anyhow::Result;
use catalog::TESTS;
use clap::Args;
use outcomes::Verdicts;
use plan::{Consistency, Guard, Layout, Manager, Placement, Transport};
use program::Test;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs litmus tests on real nodes and compares every outcome with the memory model.
///
/// Each test runs in jobs of four nodes, in every layout, placement and configuration that the
/// options leave; without options, in all. The exit code is 1 after an outcome that the model
/// forbids: sequential consistency between nodes, x86-TSO within a node.
#[derive(Debug, Default, Args)]
#[command(after_help = "Example: multigrain litmus SB MP --placement own --rounds 10000")]
pub(crate) struct LitmusArgs {
    /// Tests, by name in any case of letters [default: all; see --list].
    #[arg(value_name = "TEST", value_parser = parse_test)]
    names: Vec<String>,
    /// Rounds of each test in each layout, placement and configuration, in whole batches of 32 [default: 32, long: 384].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    #[command(flatten)]
    choice: ChoiceArgs,
    /// What the memory promises. On release consistent memory each instruction runs in a critical
    /// section, and every outcome must be one of an interleaving.
    #[arg(long, value_enum, default_value_t)]
    consistency: Consistency,
    /// Seed of resets, read copies, delays and disturbances.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Many rounds: minutes.
    #[arg(long)]
    long: bool,
    /// Lists the tests and ends.
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// Writes the figures into this file, docs/PROOF.md of the source.
    #[arg(long, value_name = "FILE", value_parser = proof::file)]
    proof: Option<PathBuf>,
    #[command(flatten)]
    series: SeriesArgs,
    /// Runs as a node of such a job.
    #[arg(long, hide = true)]
    node: bool,
}

// In which layouts, placements and configurations the tests run.
#[derive(Debug, Default, Args)]
struct ChoiceArgs {
    /// Where the variables lie; several with commas [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    layout: Vec<Layout>,
    /// Where the threads run [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    placement: Vec<Placement>,
    /// How accesses are noticed [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    guard: Vec<Guard>,
    /// What carries the messages [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    transport: Vec<Transport>,
    /// Where directory entries live [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    manager: Vec<Manager>,
}

const ROUNDS: u32 = 32;
const LONG_ROUNDS: u32 = 384;

fn parse_test(name: &str) -> Result<String, String> {
    match catalog::named(name) {
        Some(test) => Ok(test.name.to_owned()),
        None => Err("`multigrain litmus --list` shows the tests".to_owned()),
    }
}

impl LitmusArgs {
    fn tests(&self) -> Vec<&'static Test> {
        if self.names.is_empty() {
            return TESTS.iter().collect();
        }
        self.names.iter().filter_map(|name| catalog::named(name)).collect()
    }

    fn rounds(&self) -> usize {
        let rounds = self.rounds.unwrap_or(if self.long { LONG_ROUNDS } else { ROUNDS });
        rounds as usize
    }

    /// The arguments that make a node compute the same runs.
    fn of_node(&self) -> Vec<String> {
        let mut words = vec!["litmus".to_owned(), "--node".to_owned()];
        let mut option = |name: &str, value: String| {
            words.push(format!("--{name}={value}"));
        };
        option("rounds", self.rounds().to_string());
        option("seed", self.seed.to_string());
        option("consistency", plan::name_of(&self.consistency));
        for layout in &self.choice.layout {
            option("layout", plan::name_of(layout));
        }
        for placement in &self.choice.placement {
            option("placement", plan::name_of(placement));
        }
        words.extend(self.names.iter().cloned());
        words
    }
}

/// Runs the tests; the exit code says whether every outcome was allowed.
pub(crate) fn run(args: &LitmusArgs) -> ExitCode {
    let done = if args.node {
        node::run(args).map(|()| true)
    } else if args.list {
        print::list();
        Ok(true)
    } else {
        prove(args)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("multigrain: litmus: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// All jobs, up to the first in which something is wrong; then the histograms.
fn prove(args: &LitmusArgs) -> Result<bool> {
    let (runs, configurations) = (plan::runs(args), plan::configurations(args));
    let sized = args.rounds.is_some() || args.long || args.proof.is_some();
    let mut series = args.series.begin(configurations.len() as u64, sized);
    let mut verdicts = Verdicts::default();
    for &configuration in &configurations {
        if !series.goes_on(configuration, series.mean()) {
            break;
        }
        job::run(args, configuration, &runs, |run, record| {
            for wrong in verdicts.add(configuration, run, record) {
                eprintln!("multigrain: litmus: {wrong} (--seed {})", args.seed);
            }
        })?;
        if verdicts.wrong() {
            break;
        }
    }
    let (holds, elapsed) = (!verdicts.wrong(), series.elapsed());
    let whole = series.done() == configurations.len() as u64;
    series.say(print::histograms(&verdicts).trim_end());
    series.say(format_args!("\n{}", print::summary(&verdicts, elapsed).trim_end()));
    verdicts.tallies().iter().for_each(|tally| series.add(print::result(tally)));
    series.end("litmus", holds);
    if let (Some(file), true) = (&args.proof, whole && holds) {
        let body = print::proof(&verdicts, configurations.len(), elapsed);
        let (name, title) = match args.consistency {
            Consistency::Sequential => ("litmus", "Litmus tests on real nodes"),
            Consistency::EagerRelease => {
                ("litmus-eager", "Litmus tests on real nodes, eager release consistency")
            }
            Consistency::LazyRelease => {
                ("litmus-lazy", "Litmus tests on real nodes, lazy release consistency")
            }
            Consistency::Auto => ("litmus-auto", "Litmus tests on real nodes, auto consistency"),
        };
        Section { name, title, command: &command_line(), body: &body }.write(file)?;
    }
    Ok(holds)
}
