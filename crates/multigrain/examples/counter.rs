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
    let hits = job.share("hits", || job.alloc(AtomicU64::new(0)))?;
    let total = job.share("total", || Mutex::new(job, 0u64))?;

    let threads = job.threads() as u64;
    job.scope(|scope| {
        for _ in 1..threads {
            scope.spawn(On::Node(job.node()), work, (hits, total))?;
        }
        work(job, (hits, total));
        Ok(())
    })?;
    job.barrier_of(0, job.nodes())?;

    let expected = ROUNDS * threads * job.nodes() as u64;
    let counted = (hits.load(Ordering::SeqCst), *total.lock()?);
    if counted != (expected, expected) {
        return Err(Error::Invalid(format!("{counted:?} hits and in total, not {expected}")));
    }
    println!("{expected}");
    Ok(())
}

fn work(_: &Job, (hits, total): (SharedAtomicU64<'_>, Mutex<'_, u64>)) {
    for _ in 0..ROUNDS {
        hits.fetch_add(1, Ordering::Relaxed);
        *total.lock().expect("this thread does not hold the lock yet") += 1;
    }
}
