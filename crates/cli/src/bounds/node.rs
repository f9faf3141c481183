//! A node of a job in which something is filled.

use super::Scene;
use anyhow::{Context, Result, bail, ensure};
use multigrain::{Error, Grain, Job, Region};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Units that node 1 posts, and pushes, each by itself. The messages take 40 bytes each, and more in a
/// queue.
const UNITS: u64 = 400_000;
/// What node 1 may need for them, in KiB.
const ROOM: u64 = 16 << 10;
/// A node that makes no progress for so long waits for room.
const STILL: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);
/// More names than a job may have.
const NAMES: u32 = 70_000;

/// Runs one node.
pub(super) fn run(scene: Scene) -> ExitCode {
    multigrain::run(|job| match scene {
        Scene::Posts | Scene::Pushes | Scene::Held => fill(job, scene),
        Scene::Names => name(job),
    })
}

/// Node 1 sends to node 0, which it has stopped, until it waits; then all arrives.
fn fill(job: &Job, scene: Scene) -> Result<()> {
    let pid = getpid().as_raw_nonzero().get();
    let stopped = job.share("pid", || job.alloc(pid))?;
    // Node 0 has written it, so it stays the home.
    let page = job.share("page", || job.alloc_slice::<u64>(512, Grain::Bytes(4096)))?;
    // By its number node 0 manages it; what is held is for node 2, for what node 0 alone has to acknowledge holds up nothing for
    // node 0 (ADR 61).
    let (number, waiter) = if scene == Scene::Held { (5, 2) } else { (4, 0) };
    let units = job.semaphore(number);
    if job.node() == 0 {
        page.fill(7);
    }
    job.barrier(0)?;
    if job.node() == 1 {
        let stopped = Pid::from_raw(stopped.get()).context("node 0 has no number")?;
        ensure!(page.get(0) == 7, "what node 0 has written is not there");
        let before = most_memory()?;
        kill_process(stopped, Signal::STOP)?;
        if scene == Scene::Held {
            page.set(1, 8);
        }
        let sent = AtomicU64::new(0);
        let waited = thread::scope(|scope| {
            let watch = scope.spawn(|| go_on_when_still(&sent, stopped));
            for _ in 0..UNITS {
                if scene == Scene::Pushes { page.push() } else { units.post(1) }?;
                sent.fetch_add(1, Ordering::Relaxed);
            }
            watch.join().map_err(|_| anyhow::anyhow!("the watch is dead"))?
        })?;
        let needed = most_memory()? - before;
        ensure!(needed < ROOM, "{needed} KiB for what nobody took");
        println!("node 1 waited after {waited}");
    } else if scene != Scene::Pushes && job.node() == waiter {
        for _ in 0..UNITS {
            units.wait()?;
        }
    }
    Ok(job.barrier(0)?)
}

/// Lets node 0 go on when node 1 does not; how many it has sent by then.
fn go_on_when_still(sent: &AtomicU64, stopped: Pid) -> Result<u64> {
    let started = Instant::now();
    let (mut last, mut since) = (0, Instant::now());
    while since.elapsed() < STILL || last == 0 {
        let now = sent.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if now == UNITS || started.elapsed() > PATIENCE {
            break;
        }
        thread::yield_now();
    }
    kill_process(stopped, Signal::CONT)?;
    ensure!(last < UNITS, "all was sent while nobody took it");
    Ok(last)
}

/// The most memory this process has had so far, in KiB.
fn most_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.context("no VmHWM")?.parse().context("no number of KiB")
}

/// Node 0 makes up names until there may be no more.
fn name(job: &Job) -> Result<()> {
    if job.node() == 0 {
        let place = NonNull::new(job.alloc(0u64)?.as_ptr()).context("NULL was allocated")?;
        let published = (0..NAMES).find_map(|number| {
            let done = job.publish_ptr(&number.to_string(), place);
            done.err().map(|error| (number, error))
        });
        match published {
            Some((number, Error::Limit(_))) => println!("{number} names, and no more"),
            Some((_, error)) => return Err(error.into()),
            None => bail!("{NAMES} names were published"),
        }
    }
    Ok(job.barrier(0)?)
}
