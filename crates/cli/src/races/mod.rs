//! `multigrain races`: planted races on real nodes, and correct twins of the same programs.
//!
//! It must mean something if `multigrain run --check-races` reports nothing. So for every kind of
//! synchronization, every manager, and every early and late writer there is a program that writes one
//! word from two nodes, in an order that real time ensures and the synchronization does not;
//! and a twin, the same with the synchronization that the first one lacks. The first must be
//! reported, at its place and with its nodes, and the second must not.
//!
//! | file | part |
//! |---|---|
//! | `plan` | the cases |
//! | `node` | a node of a job that runs all of them: this binary again |
//! | `board` | order without synchronization: memory outside of Multigrain |
//! | `reports` | assigns the launcher's lines to cases |

mod board;
mod node;
mod plan;
mod reports;

use anyhow::{Context, Result, ensure};
use board::BoardFile;
use clap::{Args, ValueEnum};
use multigrain_types::exit_codes::RACES;
use reports::Reports;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Plants races on real nodes, which --check-races must report, and twins without a fault, which it
/// must not accuse.
///
/// Runs jobs of 2 and of 3 nodes on memory of each release consistency, over both transports and with
/// both guards, unless options leave fewer. The exit code is 1 if a race is missed or a twin accused.
#[derive(Debug, Args)]
#[command(after_help = "Example: multigrain races --nodes 2 --consistency lazy-release")]
pub(crate) struct RacesArgs {
    /// Nodes of a job; several with commas.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,3",
          value_parser = clap::value_parser!(u16).range(2..=3))]
    nodes: Vec<u16>,
    /// What the memory promises; several with commas [default: all that are checked].
    #[arg(long, value_enum, value_delimiter = ',')]
    consistency: Vec<Consistency>,
    /// Lists the cases of a job of the most nodes asked for, and ends.
    #[arg(long)]
    list: bool,
    /// Runs as a node of such a job, with this board.
    #[arg(long, hide = true, value_name = "FILE")]
    node: Option<PathBuf>,
}

/// The consistencies under which there are races.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Consistency {
    /// A release updates or invalidates all copies before it ends.
    EagerRelease,
    /// An acquire learns what releases before it have written.
    LazyRelease,
    /// Lazy, and adapted at barriers.
    Auto,
}

/// No job takes longer, unless it hangs; in seconds.
const LIMIT: &str = "300";

/// Runs the jobs; the exit code says whether all was as it must be.
pub(crate) fn run(args: &RacesArgs) -> ExitCode {
    let done = match &args.node {
        Some(board) => node::run(board),
        None if args.list => {
            let nodes = args.nodes.iter().copied().max().unwrap_or(2);
            plan::cases(nodes).iter().for_each(|case| println!("{case}"));
            Ok(())
        }
        None => prove(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("multigrain: races: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn prove(args: &RacesArgs) -> Result<()> {
    let consistencies = match args.consistency.as_slice() {
        [] => Consistency::value_variants(),
        some => some,
    };
    let (start, mut planted) = (Instant::now(), 0);
    for &nodes in &args.nodes {
        for (index, &consistency) in consistencies.iter().enumerate() {
            // These two alone: what is planted does not depend on what carries it.
            let transport =
                if (index + usize::from(nodes)).is_multiple_of(2) { "unix" } else { "tcp" };
            let guard = if nodes == 2 { "auto" } else { "mprotect" };
            let options = format!("--transport {transport} --guard {guard}");
            planted += job(nodes, consistency, &options)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{planted} planted races reported, {planted} twins silent, {seconds:.0} s");
    Ok(())
}

/// One job; how many races were planted in it.
fn job(nodes: u16, consistency: Consistency, options: &str) -> Result<usize> {
    let consistency = consistency.to_possible_value().context("a consistency without a name")?;
    let consistency = consistency.get_name();
    let board = BoardFile::new()?;
    let job = format!("-n {nodes} --consistency {consistency} {options}");
    let ended = launch(&job, &board.path())?;
    let text = String::from_utf8_lossy(&ended.stderr);
    let of_job = |error: &dyn Display| format!("{job}: {error}\n{text}");
    let code = ended.status.code();
    ensure!(code == Some(RACES.into()), of_job(&format!("the job ended with {}", ended.status)));
    let cases = plan::cases(nodes);
    let wrong = Reports::read(&text, nodes).and_then(|reports| reports.wrong(&cases));
    let wrong = wrong.with_context(|| of_job(&"what it reports cannot be read"))?;
    ensure!(wrong.is_empty(), "{job}: {}", wrong.join("; "));
    Ok(cases.len())
}

fn launch(job: &str, board: &Path) -> Result<std::process::Output> {
    let this = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(&this);
    command.args([
        "run",
        "--check-races=all",
        "--no-tag-output",
        "--no-summary",
        "--timeout",
        LIMIT,
    ]);
    command.args(job.split(' ')).arg("--").arg(&this).args(["races", "--node"]).arg(board);
    command.stdin(Stdio::null()).output().context("starting the job")
}
