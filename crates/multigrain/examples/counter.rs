//! All threads of all nodes count, once with an atomic and once under a lock.
//!
//! ```text
//! cargo build -p multigrain --examples && multigrain run -n 4 -t 2 target/debug/examples/counter
//! ```

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use multigrain::{Error, Job, Mutex, On, Result, SharedAtomicU64};

const ROUNDS: u64 = 1000;

fn main() -> ExitCode {
    multigrain::run(count)
}

fn count(job: &Job) -> Result<()> {
    job.share("hits", || job.alloc(AtomicU64::new(0)))?;
    job.share("total", || job.mutex(1, 0u64))?;

    let threads = job.threads() as u64;
    let others: Vec<_> =
        (1..threads).map(|_| job.spawn(On::Node(job.node()), work, 0)).collect::<Result<_>>()?;
    work(job, 0);
    for other in others {
        other.join()?;
    }
    job.barrier_of(0, job.nodes())?;

    let expected = ROUNDS * threads * job.nodes() as u64;
    let hits = job.lookup::<SharedAtomicU64>("hits")?.load(Ordering::SeqCst);
    let total = *job.lookup::<Mutex<u64>>("total")?.lock()?;
    if (hits, total) != (expected, expected) {
        return Err(Error::Invalid(format!("{hits} hits, {total} in total, not {expected}")));
    }
    println!("{total}");
    Ok(())
}

fn work(job: &Job, _: u64) -> u64 {
    let add = || -> Result<()> {
        let hits = job.lookup::<SharedAtomicU64>("hits")?;
        let total = job.lookup::<Mutex<u64>>("total")?;
        for _ in 0..ROUNDS {
            hits.fetch_add(1, Ordering::Relaxed);
            *total.lock()? += 1;
        }
        Ok(())
    };
    add().expect("the handles were published before threads were started");
    0
}
