//! `multigrain bench programs`: the applications of `apps/`, compared with plain threads and with lower bounds.
//!
//! `rows` says which programs with which inputs, `launch` runs one, `floor` has the raw sockets,
//! `measure` computes medians of rounds, `print` prints them.

mod floor;
mod launch;
mod measure;
mod print;
mod rows;

use super::options::{Transport, TransportChoice};
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use launch::{Consistency, Launch};
use rows::{ROWS, Row};
use std::path::PathBuf;

/// How far programs on two nodes are from threads, from their floors, and where their time goes.
///
/// In each round every build of a program runs once, one after the other: the sequential one, threads
/// of one process, a raw socket where that says what is possible, and ours under each consistency.
/// In the first round each checks its result.
#[derive(Debug, Args)]
pub(super) struct ProgramsArgs {
    /// Which rows; all if none is named.
    #[arg(value_name = "ROW", value_parser = PossibleValuesParser::new(ROWS.iter().map(|row| row.name)))]
    rows: Vec<String>,
    /// Rounds, of which the medians are shown.
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(1..=999))]
    pairs: u32,
    /// What carries the messages.
    #[arg(long, value_enum, default_value_t = TransportChoice::Both)]
    transport: TransportChoice,
    /// Under which consistencies, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', hide_default_value = true,
          default_values_t = [Consistency::Sequential, Consistency::EagerRelease,
                              Consistency::LazyRelease, Consistency::Auto])]
    consistency: Vec<Consistency>,
    /// Where the applications are.
    #[arg(long, value_name = "DIR", default_value = "build/apps")]
    apps_dir: PathBuf,
    /// Small inputs: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Prints one JSON object, with all that the programs counted.
    #[arg(long)]
    json: bool,
}

impl ProgramsArgs {
    /// What is measured over what; one node has no transport.
    fn plan(&self) -> Vec<(&'static Row, Transport)> {
        let transports = self.transport.all();
        let wanted = |row: &&Row| self.rows.is_empty() || self.rows.iter().any(|w| w == row.name);
        let over = |row: &'static Row| {
            let transports = if row.nodes > 1 { transports } else { &transports[..1] };
            transports.iter().map(move |&transport| (row, transport))
        };
        ROWS.iter().filter(wanted).flat_map(over).collect()
    }
}

/// Measures and prints.
pub(super) fn run(args: &ProgramsArgs) -> Result<()> {
    let launch = Launch { apps: &args.apps_dir, quick: args.quick, check: true };
    let plan = args.plan();
    let mut all = Vec::new();
    if !args.json {
        print!("{}", print::head(args.pairs));
    }
    for (number, &(row, transport)) in plan.iter().enumerate() {
        if !args.json {
            eprintln!("{} of {}: {}, {transport}", number + 1, plan.len(), row.name);
        }
        let done = measure::row(row, transport, &args.consistency, args.pairs, launch)?;
        if args.json {
            all.push(done);
        } else {
            print!("{}", print::text(&done));
        }
    }
    if args.json {
        println!("{}", print::json(&all, args.pairs)?);
    }
    Ok(())
}
