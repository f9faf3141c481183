//! `multigrain random`: random programs without data races on real nodes.
//!
//! A seed gives a program that allocates and frees, reads and writes, locks, waits for conditions, semaphores and barriers, starts and
//! joins threads, prefetches and pushes. It is race free by construction
//! and what it writes does not depend on who comes first, so a reference that executes it
//! sequentially says what every read must find, and what all memory holds in the end.
//!
//! | file | part |
//! |---|---|
//! | `setting` | what a run is: drawn from its seed |
//! | `program` | what a program is |
//! | `generate/` | random programs |
//! | `reference` | the sequential execution |
//! | `node/` | the nodes of a job: this binary again, started by `multigrain run` |
//! | `job` | starts a job and sees to its end |
//! | `schedule` | for tests: programs in any order, and whether there are races or deadlocks |

mod generate;
mod job;
mod node;
mod program;
mod reference;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod schedule_tests;
mod setting;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use job::End;
use multigrain_transport::Transport;
use serde::Serialize;
use setting::{Mode, Setting};
use std::process::ExitCode;
use std::time::Instant;

/// Runs random programs without data races as real jobs and compares every read with a sequential
/// execution.
///
/// A program is drawn from a seed, and so is all that the options do not give; the consistencies
/// take turns. It allocates, frees and allocates again, and uses locks, barriers, semaphores,
/// conditions, threads on other nodes, prefetch, push and touch. Exit code 1 if a read found
/// something else, a node failed or a job did not end in time; its lines say how to repeat it.
#[derive(Debug, Default, Args)]
#[command(after_help = "Example: multigrain random --runs 2000 --consistency lazy-release")]
pub(crate) struct RandomArgs {
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    job: JobArgs,
    /// Shorter programs: so many phrases of each, and what it takes to end them. To find what a
    /// failure needs.
    #[arg(long, value_name = "PHRASES")]
    length: Option<u32>,
    /// Seconds after which a job hangs.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
    /// Goes on after a run that failed.
    #[arg(long)]
    keep_going: bool,
    /// Prints the programs instead of running them.
    #[arg(long)]
    show: bool,
    /// Prints the summary as one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    faults: FaultArgs,
    /// Runs as a node of such a job.
    #[arg(long, hide = true)]
    node: bool,
}

// Which runs there are.
#[derive(Debug, Default, Args)]
struct RunsArgs {
    /// Seed of the first run; the next ones count up.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Runs, one seed each.
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// How often each seed is run: threads race in another way each time.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
}

// What of a job is not drawn.
#[derive(Debug, Default, Args)]
struct JobArgs {
    /// Nodes, 2 to 12; beyond 8 barriers of all threads go by a tree.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=12))]
    nodes: Option<u16>,
    /// Threads of each node, 1 to 4; the program may start more.
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=4))]
    threads: Option<u16>,
    /// What the memory promises.
    #[arg(long, value_enum)]
    consistency: Option<Mode>,
    /// How accesses are noticed.
    #[arg(long, value_parser = PossibleValuesParser::new(["uffd", "mprotect"]))]
    guard: Option<String>,
    /// What carries the messages.
    #[arg(long, value_parser = PossibleValuesParser::new(backends()))]
    transport: Option<String>,
    /// How a thread waits for a reply.
    #[arg(long, value_parser = PossibleValuesParser::new(["spin", "yield", "block", "adaptive"]))]
    wait: Option<String>,
    /// How a node finds what its threads write to lazily consistent pages.
    #[arg(long, value_parser = PossibleValuesParser::new(["faults", "scans"]))]
    tracking: Option<String>,
    /// Programs of sweeps alone: pairs of threads go over many pages, all at once, and half of them write.
    #[arg(long)]
    sweeps: bool,
}

/// What `--transport` may be: a backend by its name. Seeds draw unix and tcp alone, so that each stays the job it was.
fn backends() -> impl Iterator<Item = &'static str> {
    Transport::all().filter(|one| *one != Transport::AUTO).map(Transport::name)
}

// Faults that are to be found.
#[derive(Debug, Default, Args)]
struct FaultArgs {
    /// A fault, to see that it is found: the last contents that nodes expect are others.
    #[arg(long, hide = true)]
    spoil: bool,
    /// A fault, to see that it is found: node 0 never comes to the end.
    #[arg(long, hide = true)]
    stall: bool,
}

/// What the runs came to.
#[derive(Debug, Default, Serialize)]
struct Tally {
    /// Jobs that ended, or were ended.
    jobs: u64,
    wrong: u64,
    hung: u64,
    /// What their threads did, all together.
    operations: u64,
    seconds: f64,
}

/// Runs the programs; the exit code says whether all reads were right.
pub(crate) fn run(args: &RandomArgs) -> ExitCode {
    let done = if args.node {
        node::run(args).map(|()| true)
    } else if args.show {
        show(args);
        Ok(true)
    } else {
        run_all(args)
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("multigrain: random: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn show(args: &RandomArgs) {
    for number in 0..args.runs.runs {
        let setting = Setting::drawn(&args.job, args.runs.seed.wrapping_add(number));
        println!("{setting}");
        print!("{}", generate::generate(&setting, args.length).show());
    }
}

fn run_all(args: &RandomArgs) -> Result<bool> {
    let start = Instant::now();
    let mut tally = Tally::default();
    let of_length = args.length.map(|phrases| format!(" --length {phrases}")).unwrap_or_default();
    'all: for number in 0..args.runs.runs {
        let setting = Setting::drawn(&args.job, args.runs.seed.wrapping_add(number));
        eprintln!("{} of {}: {setting}", number + 1, args.runs.runs);
        let operations = generate::generate(&setting, args.length).order.len() as u64;
        for _ in 0..args.runs.times {
            let end = job::run(args, &setting)?;
            tally.jobs += 1;
            tally.operations += operations;
            let (what, said) = match end {
                End::Right => continue,
                End::Wrong(said) => {
                    tally.wrong += 1;
                    ("is wrong".to_owned(), said)
                }
                End::Hang(said) => {
                    tally.hung += 1;
                    ("hangs".to_owned(), said)
                }
            };
            eprintln!("multigrain: random: seed {} {what}\n{said}", setting.seed);
            eprintln!("  again: multigrain random --runs 1 --times 20 {setting}{of_length}");
            if !args.keep_going {
                break 'all;
            }
        }
    }
    tally.seconds = start.elapsed().as_secs_f64();
    print_summary(args, &tally)?;
    Ok(tally.wrong + tally.hung == 0)
}

fn print_summary(args: &RandomArgs, tally: &Tally) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string(tally)?);
        return Ok(());
    }
    let Tally { jobs, wrong, hung, operations, seconds } = tally;
    println!("{jobs} jobs, {operations} operations, {seconds:.0} s: {wrong} wrong, {hung} hung");
    Ok(())
}
