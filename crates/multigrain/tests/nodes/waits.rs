//! Read-write locks, what runs once, and waits that end: by a try, or in time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use multigrain::{Condvar, Error, Job, Mutex, Once, Policy, Result, RwLock, Semaphore};

use super::Scenario;

const SHORT: Duration = Duration::from_millis(30);
/// Nobody waits so long.
const LONG: Duration = Duration::from_secs(100);

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("readers and writers", readers_and_writers),
    ("once", once),
    ("tries", tries),
    ("deadlines", deadlines),
];

/// Readers see whole values, and are there together; a writer is alone.
fn readers_and_writers(job: &Job) -> Result<()> {
    let nodes = job.nodes() as u64;
    let pair: RwLock<[u64; 2]> = job.share("pair", || RwLock::new(job, [0; 2]))?;
    for _ in 0..30 {
        {
            let mut pair = pair.write()?;
            pair[0] += 1;
            pair[1] += 1;
        }
        let seen = pair.read()?;
        assert_eq!(seen[0], seen[1]);
        assert_eq!(*pair.read()?, *seen, "a reader reads once more");
    }
    job.barrier(0)?;
    let seen = pair.read()?;
    assert_eq!(*seen, [30 * nodes; 2]);
    // All of them read now.
    job.barrier(0)?;
    assert!(pair.try_read()?.is_some());
    assert!(matches!(pair.write(), Err(Error::NotPermitted(_))));
    drop(seen);
    job.barrier(0)?;
    if job.node() == 0 {
        let alone = pair.write()?;
        job.barrier(0)?;
        job.barrier(0)?;
        drop(alone);
    } else {
        job.barrier(0)?;
        assert!(pair.try_read()?.is_none() && pair.try_write()?.is_none());
        job.barrier(0)?;
    }
    let numbered = RwLock::numbered(job, 77, job.node(), Policy::new())?;
    assert_eq!(*numbered.read()?, job.node());
    job.barrier(0)?;
    // SAFETY: this node alone knows it.
    #[expect(unsafe_code, reason = "freeing is unsafe")]
    unsafe {
        numbered.free()
    }
}

fn once(job: &Job) -> Result<()> {
    let hits = job.share("hits", || job.alloc(AtomicU64::new(0)))?;
    let begun = job.share("begun", || Once::new(job))?;
    for _ in 0..3 {
        begun.call_once(|| {
            hits.fetch_add(1, Ordering::SeqCst);
        })?;
        assert_eq!(hits.load(Ordering::SeqCst), 1, "it has run when a call returns");
    }
    job.barrier(0)?;
    for id in [3, 4] {
        job.call_once(id, || {
            hits.fetch_add(10, Ordering::SeqCst);
        })?;
    }
    job.barrier(0)?;
    assert_eq!(hits.load(Ordering::SeqCst), 21);
    Ok(())
}

fn tries(job: &Job) -> Result<()> {
    let mutex: Mutex<u64> = job.share("mutex", || Mutex::numbered(job, 5, 7, Policy::new()))?;
    let units = job.share("units", || Semaphore::new(job))?;
    if job.node() == 0 {
        let held = mutex.try_lock()?.expect("nobody has it");
        assert_eq!(*held, 7);
        assert!(mutex.try_lock()?.is_none() && job.try_lock(5)?.is_none(), "this thread has it");
        assert!(!units.try_wait()?);
        units.post(1)?;
        job.barrier(0)?;
        job.barrier(0)?;
        drop(held);
    } else {
        job.barrier(0)?;
        assert!(mutex.try_lock()?.is_none() && job.try_lock(5)?.is_none());
        job.barrier(0)?;
    }
    job.barrier(0)?;
    if job.node() == job.nodes() - 1 {
        assert!(units.try_wait()? && !units.try_wait()?);
        assert!(job.try_lock(5)?.is_some());
    }
    job.barrier(0)
}

fn deadlines(job: &Job) -> Result<()> {
    let mutex: Mutex<u64> = job.share("mutex", || Mutex::numbered(job, 5, 0, Policy::new()))?;
    let changed = job.share("changed", || Condvar::new(job))?;
    let units = job.share("units", || Semaphore::new(job))?;
    let late = |since: Instant| assert!(since.elapsed() >= SHORT && since.elapsed() < LONG / 2);
    if job.node() == 0 {
        let mut held = mutex.try_lock_for(LONG)?.expect("nobody has it");
        let since = Instant::now();
        assert!(!changed.wait_for(&mut held, SHORT)?, "nobody signals");
        late(since);
        assert_eq!(*held, 0, "the lock is held again");
        let since = Instant::now();
        assert!(!units.wait_for(SHORT)?);
        late(since);
        job.barrier(0)?;
        job.barrier(0)?;
    } else {
        job.barrier(0)?;
        let since = Instant::now();
        assert!(mutex.try_lock_for(SHORT)?.is_none() && job.try_lock_for(5, SHORT)?.is_none());
        late(since);
        job.barrier(0)?;
    }
    // What comes in time is had.
    if job.node() == 0 {
        let mut held = mutex.try_lock_for(LONG)?.expect("it is free");
        while *held < job.nodes() as u64 - 1 {
            assert!(changed.wait_for(&mut held, LONG)?);
        }
        assert!(job.nodes() == 1 || units.wait_for(LONG)?);
    } else {
        *mutex.try_lock_for(LONG)?.expect("it is free") += 1;
        changed.notify_all()?;
        units.post(1)?;
    }
    job.barrier(0)
}
