//! `multigrain bench costs`: Table 1 and section 4.2 of the paper, on this machine.
//!
//! `jobs` starts the measuring programs, `probe` tells how far apart the CPUs are, `paper` holds
//! the papers' figures, `breakdown` breaks a fetch down, `criteria` has the criteria for the results,
//! `print` prints it all.

mod breakdown;
mod criteria;
mod jobs;
mod paper;

mod print;
mod probe;

use super::options::{TransportChoice, WaitMode};
use anyhow::Result;
use clap::{Args, ValueEnum};

/// What faults, fetches, messages, locks and barriers cost here, next to the physical floor.
///
/// The floor is measured in turn with each operation, in the same processes, over the same kind of
/// socket, with the same waiting. Each line names it. Criteria at the end are bars for a quiet machine: one that
/// fails, as some do with --quick, does not change the exit code.
#[derive(Debug, Args)]
pub(super) struct CostsArgs {
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// What carries the messages.
    #[arg(long, value_enum, default_value_t = TransportChoice::Both)]
    transport: TransportChoice,
    /// How threads wait for a reply.
    #[arg(long, value_enum, default_value_t = WaitChoice::All)]
    wait: WaitChoice,
    /// Few samples, fewer nodes: to see that it works.
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WaitChoice {
    /// Busy; left out where two threads cannot run at once.
    Spin,
    /// Asleep in the kernel.
    Block,
    /// Busy for a short while, then asleep.
    Adaptive,
    /// One after the other.
    All,
}

impl CostsArgs {
    fn waits(&self) -> &'static [WaitMode] {
        match self.wait {
            WaitChoice::Spin => &[WaitMode::Spin],
            WaitChoice::Block => &[WaitMode::Block],
            WaitChoice::Adaptive => &[WaitMode::Adaptive],
            WaitChoice::All => &[WaitMode::Spin, WaitMode::Block, WaitMode::Adaptive],
        }
    }
}

/// Measures and prints.
pub(super) fn run(args: &CostsArgs) -> Result<()> {
    let plans = jobs::plan(args.transport.all(), args.waits(), args.quick);
    let mut done = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        if !args.json {
            eprintln!("{} of {}: {}", number + 1, plans.len(), plan.title());
        }
        done.push(plan.run()?);
    }
    let criteria = criteria::check(&done);
    if args.json {
        println!("{}", print::json(&done, &criteria)?);
    } else {
        print!("{}", print::text(&done, &criteria));
    }
    Ok(())
}
