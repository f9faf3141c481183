//! A node of a litmus job: one of four processes that run the same list of tests.
//!
//! `race`: one test, round by round. `variables`: the memory under test. `board`: memory that the
//! processes share outside of Multigrain, to start a round together and to collect registers. Over shared memory
//! of Multigrain a meeting would take longer than the accesses that are to race, and would order them.

mod board;
mod race;
mod variables;

use super::LitmusArgs;
use super::plan::{self, NODES};
use anyhow::{Result, ensure};
use board::Board;
use multigrain_runtime::Runtime;
use race::Race;
use std::panic;
use variables::Variables;

/// This node's part in the job.
struct Team {
    runtime: &'static Runtime,
    me: usize,
    board: &'static Board,
    variables: Variables,
}

/// Runs every test; node 0 prints a line for each.
pub(super) fn run(args: &LitmusArgs) -> Result<()> {
    end_with_the_first_panic();
    let runtime = Runtime::join()?;
    ensure!(usize::from(runtime.node_count()) == NODES, "--node is for the command's own jobs");
    let me = runtime.rank().index();
    let board = Board::join(runtime)?;
    let team = Team { runtime, me, board, variables: Variables::join(runtime)? };
    for (number, run) in plan::runs(args).iter().enumerate() {
        let record = Race::new(&team, run, [args.seed, number as u64]).play();
        if me == 0 {
            println!("{}", serde_json::to_string(&record)?);
        }
    }
    Ok(runtime.leave()?)
}

/// A thread that fails must not leave the others waiting for it.
fn end_with_the_first_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        std::process::exit(101);
    }));
}
