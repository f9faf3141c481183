//! The measuring programs: nodes of jobs that `bench costs`, `paths` and `mirage` start through `multigrain run`.
//!
//! Every node runs the same code; node 0 measures and prints its report as one line of JSON, the
//! others serve. Each measurement alternates with its lower bound, since the machine's speed drifts.
//!
//! | job | what it measures |
//! |---|---|
//! | `memory` | traps and protections: one process, no job |
//! | `local` | operations that need no messages |
//! | `pair` | fetches, messages and synchronization between two nodes |
//! | `bare` | the companion of a node of `pair`, which fetches without a protocol |
//! | `many` | more than two nodes |
//! | `release` | release consistency |
//! | `scale` | the same operations in jobs of different sizes |
//! | `faults` | the parts of a page fault of MIRAGE+ |
//! | `packets`, `patterns` | pages of a segment by their contents and their compression |

mod alloc;
mod bare;
mod collective;
mod diffs;
mod faults;
mod fetch;
mod local;
mod many;
mod memory;
mod messages;
mod pair;
mod patterns;
mod pool;
pub(super) mod raw_sockets;
mod release;
mod scale;
mod sync;
mod team;
mod traps;

use super::options::{Transport, WaitMode};
use super::row::Report;
use anyhow::Result;
use clap::{Args, ValueEnum};

/// One node of a measuring job.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[arg(value_enum)]
    program: Program,
    /// Samples of cheap operations.
    #[arg(long)]
    samples: usize,
    /// The transport of the job, for the raw sockets beside it.
    #[arg(long, value_enum, default_value_t = Transport::Unix)]
    transport: Transport,
    /// The way of waiting of the job, for the raw sockets beside it.
    #[arg(long, value_enum, default_value_t = WaitMode::Adaptive)]
    wait: WaitMode,
    /// Keeps each node on a CPU of its own, as if each had a machine of its own.
    #[arg(long)]
    pin: bool,
    /// `scale`: minipages of the allocation.
    #[arg(long, default_value_t = 1)]
    minipages: usize,
    /// `scale`: bytes of a minipage; `faults`: of the largest one.
    #[arg(long, default_value_t = 4096)]
    grain: usize,
    /// `scale`, `faults`, `packets`, `patterns`: minipages fetched in a row.
    #[arg(long, default_value_t = 1)]
    batch: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Program {
    Memory,
    Local,
    Bare,
    Pair,
    Many,
    Release,
    Scale,
    Faults,
    Packets,
    Patterns,
}

/// Runs one node.
pub(super) fn run(args: &NodeArgs) -> Result<()> {
    match args.program {
        Program::Memory => print(&memory::measure(args.samples)?),
        Program::Local => local::run(args),
        Program::Bare => bare::run(args),
        Program::Pair => pair::run(args),
        Program::Many => many::run(args),
        Program::Release => release::run(args),
        Program::Scale => scale::run(args),
        Program::Faults => faults::run(args),
        Program::Packets => patterns::run(args, patterns::PACKETS),
        Program::Patterns => patterns::run(args, patterns::ALL),
    }
}

fn print(report: &Report) -> Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
