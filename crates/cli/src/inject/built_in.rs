//! The built-in program: every node counts in every minipage, and all the time allocates and starts
//! threads, which is where limits take effect. It knows what the counts must be.

use clap::Args;
use multigrain::{Error, Grain, Job, On, Result, SharedArray};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

const CELLS: usize = 32;
/// Rounds between two checks, in which there are an allocation and a thread for every node.
const STRETCH: u64 = 50;
/// Bytes of such an allocation.
const BLOCK: usize = 256 << 10;

/// One node of the built-in program.
#[derive(Debug, Args)]
pub(super) struct ChurnArgs {
    /// How often each node counts in each cell.
    #[arg(long, default_value_t = 300)]
    rounds: u64,
}

/// Runs one node.
pub(super) fn run(args: &ChurnArgs) -> ExitCode {
    multigrain::run(|job| count(job, args.rounds))
}

fn count(job: &Job, rounds: u64) -> Result<()> {
    let cells: SharedArray<AtomicU64> = job.share("cells", || job.alloc_array(CELLS))?;
    let all = cells.elements()?;
    let nodes = job.nodes() as u64;
    for round in 1..=rounds {
        for cell in &all {
            cell.fetch_add(1, Ordering::SeqCst);
        }
        job.barrier_of(0, job.nodes())?;
        if round.is_multiple_of(STRETCH) {
            // What one node counted is read by a thread on the next one.
            let next = (job.node() + 1) % job.nodes();
            if job.spawn(On::Node(next), check, round * nodes)?.join()? == 0 {
                println!("result app=churn nodes={nodes} check=FAILED round={round}");
                return Err(Error::System("the counts are wrong".into()));
            }
            let block = job.alloc_slice::<u64>(BLOCK / size_of::<u64>(), Grain::Bytes(4096))?;
            block.fill(round);
        }
        job.barrier_of(0, job.nodes())?;
        job.progress(round, rounds);
    }
    if job.node() == 0 {
        println!("result app=churn nodes={nodes} check=ok");
    }
    Ok(())
}

/// Whether every cell holds what it must: 1, or else 0.
fn check(job: &Job, expected: u64) -> u64 {
    let right = job
        .lookup::<SharedArray<AtomicU64>>("cells")
        .and_then(SharedArray::elements)
        .is_ok_and(|cells| cells.iter().all(|cell| cell.load(Ordering::SeqCst) == expected));
    right.into()
}
