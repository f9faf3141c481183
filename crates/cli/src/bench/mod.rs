//! `multigrain bench`: what operations cost here, next to the papers' figures and to lower bounds.
//!
//! | file | part |
//! |---|---|
//! | `costs/` | `bench costs` (Millipage 4.2, Table 1): starts the measuring jobs, prints the table |
//! | `node/` | the measuring programs themselves: this binary again, started by `multigrain run` |
//! | `programs/` | `bench programs`: the applications compared with threads and with lower bounds |
//! | `paths/` | `bench paths` (ParADE 5.2 and 5.3: Tables 1 to 3, Figures 10 to 15) |
//! | `mirage/` | `bench mirage` (MIRAGE+ 4 and 5: Tables 1 to 7, Figures 4, 6 and 7) |
//! | `views/` | `bench views` (Millipage 4.1, Figure 5) |
//! | `result` | what an application reports |
//! | `samples`, `table`, `row` | statistics, text tables, and what a measuring program reports |
//! | `chart` | line charts as SVG images |
//! | `clock` | single loads and stores, timed |

pub(crate) mod chart;
mod clock;
mod costs;
mod mirage;
mod node;
pub(crate) mod options;
mod paths;
mod programs;
pub(crate) mod result;
mod row;
mod samples;
pub(crate) mod table;
mod views;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Measures the costs of Multigrain on this machine.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Costs(costs::CostsArgs),
    Mirage(mirage::MirageArgs),
    Paths(paths::PathsArgs),
    Programs(programs::ProgramsArgs),
    Views(views::ViewsArgs),
    #[command(hide = true)]
    Node(node::NodeArgs),
}

/// Runs a benchmark; the exit code says whether it could be measured, not whether it was fast.
pub(crate) fn run(args: &BenchArgs) -> ExitCode {
    let done = match &args.what {
        What::Costs(args) => costs::run(args),
        What::Mirage(args) => mirage::run(args),
        What::Paths(args) => paths::run(args),
        What::Programs(args) => programs::run(args),
        What::Views(args) => views::run(args),
        What::Node(args) => node::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("multigrain: bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
