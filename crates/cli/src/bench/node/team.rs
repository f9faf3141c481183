//! What all measuring jobs have in common: the runtime, the raw sockets beside it, and phases whose messages
//! are counted.

use super::NodeArgs;
use super::raw_sockets::Raw;
use crate::bench::clock::{load, store};
use crate::bench::row::{Counts, Report, Row};
use crate::bench::samples::Samples;
use anyhow::{Context, Result};
use multigrain_runtime::{Runtime, Stats};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Barrier of the phases; node 0 manages it.
const PHASES: u32 = 0;
/// Counters a node tells the others: a minipage of so many words.
pub(super) const TALLY_WORDS: usize = 4;

/// One node's view of its measuring job.
pub(super) struct Team {
    pub(super) runtime: &'static Runtime,
    pub(super) me: usize,
    pub(super) nodes: usize,
    pub(super) raw: Raw,
    pub(super) samples: usize,
    /// One minipage a node for its counters.
    tally: Vec<usize>,
    rows: Vec<Row>,
}

/// Sums over all nodes of what they counted in one phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums([u64; TALLY_WORDS]);

/// A thread that has used shared memory and comes to no barrier: so homes stay where they are (ADR 21), and what is measured as
/// sent to them is. `lock` is one that this node manages.
fn keep_homes(runtime: &'static Runtime, lock: u32) -> Result<()> {
    let (begun, begins) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let begins = runtime.lock(lock).and_then(|()| runtime.unlock(lock));
        let _ = begun.send(begins);
        loop {
            std::thread::park();
        }
    })?;
    Ok(begins.recv()??)
}

impl Team {
    /// Joins the job.
    pub(super) fn join(args: &NodeArgs) -> Result<Self> {
        if args.pin {
            pin()?;
        }
        let runtime = Runtime::join()?;
        let nodes = usize::from(runtime.node_count());
        let me = runtime.rank().index();
        if me == 0 {
            let array = runtime.malloc_array(nodes, TALLY_WORDS * size_of::<u64>())?;
            runtime.publish(b"tally", array)?;
        }
        let array = runtime.lookup(b"tally")?;
        let mut tally = vec![0; nodes];
        runtime.elements(array, &mut tally)?;
        keep_homes(runtime, u32::try_from(nodes + me)?)?;
        let raw = Raw::connect(runtime, "raw", args.transport, args.wait)?;
        Ok(Self { runtime, me, nodes, raw, samples: args.samples, tally, rows: Vec::new() })
    }

    /// Whether this node measures.
    pub(super) fn measures(&self) -> bool {
        self.me == 0
    }

    /// All nodes meet.
    pub(super) fn barrier(&self) -> Result<()> {
        Ok(self.runtime.barrier(PHASES, u32::try_from(self.nodes)?)?)
    }

    /// All nodes do their `work` between two barriers; what they sent meanwhile is summed up, the
    /// barriers' own messages left out. A node without work waits in the second barrier, and
    /// serves there. The barriers around keep the first requests of a fast node, and the sums
    /// themselves, out of a slow node's counts.
    pub(super) fn phase<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Sums)> {
        self.barrier()?;
        let before = self.runtime.stats();
        self.barrier()?;
        let result = work()?;
        self.barrier()?;
        let mut sums = self.sum_since(&before)?;
        // In each of two barriers, every other node tells node 0 that it has come, and is told to
        // go on.
        sums.0[0] = sums.0[0].saturating_sub(4 * (self.nodes as u64 - 1));
        Ok((result, sums))
    }

    /// Sums over all nodes of what they have counted since they had these counters.
    pub(super) fn sum_since(&self, before: &Stats) -> Result<Sums> {
        self.tell(difference(before, &self.runtime.stats()))?;
        let mut sums = Sums::default();
        for node in 0..self.nodes {
            sums.0.iter_mut().zip(self.told_by(node)).for_each(|(sum, more)| *sum += more);
        }
        self.barrier()?;
        Ok(sums)
    }

    /// Every node tells its counts to all.
    fn tell(&self, counts: [u64; TALLY_WORDS]) -> Result<()> {
        self.barrier()?;
        for (word, count) in counts.into_iter().enumerate() {
            store(self.tally[self.me] + word * size_of::<u64>(), count);
        }
        self.barrier()
    }

    /// What a node has told.
    fn told_by(&self, node: usize) -> [u64; TALLY_WORDS] {
        core::array::from_fn(|word| load(self.tally[node] + word * size_of::<u64>()))
    }

    /// Every node tells its counts; those of one node come back.
    pub(super) fn counts_of(
        &self,
        node: usize,
        counts: [u64; TALLY_WORDS],
    ) -> Result<[u64; TALLY_WORDS]> {
        self.tell(counts)?;
        let told = self.told_by(node);
        self.barrier()?;
        Ok(told)
    }

    /// All nodes meet so many times over the raw sockets, which releases nothing; node 0 has the
    /// times.
    pub(super) fn meet(&self, times: usize) -> Result<Samples> {
        if self.measures() {
            return self.raw.gather(self.nodes, times);
        }
        self.raw.attend(times).map(|()| Samples::default())
    }

    /// Adds a row to the report; what other nodes add is dropped.
    pub(super) fn report(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Leaves the job; node 0 prints its report.
    pub(super) fn finish(self) -> Result<()> {
        if self.me == 0 {
            let guard = self.runtime.guard_note().to_owned();
            super::print(&Report { guard, rows: self.rows })?;
        }
        Ok(self.runtime.leave()?)
    }
}

/// Keeps this node on one of the CPUs it may use, another than the other nodes; before the runtime
/// starts threads and this node processes, which inherit it.
fn pin() -> Result<()> {
    let rank = rank()?;
    let allowed = sched_getaffinity(None)?;
    let mut allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    let mut own = CpuSet::new();
    own.set(allowed.nth(rank).context("fewer CPUs than nodes")?);
    Ok(sched_setaffinity(None, &own)?)
}

/// This node's rank, by the word of the launcher.
pub(super) fn rank() -> Result<usize> {
    Ok(std::env::var("MULTIGRAIN_RANK").context("MULTIGRAIN_RANK")?.parse()?)
}

impl core::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

impl Sums {
    /// The counts of one of so many operations.
    pub(super) fn per(self, operations: usize) -> Counts {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let [messages, page_bytes, invalidations, notices] =
            self.0.map(|sum| sum as f64 / operations.max(1) as f64);
        Counts { messages, page_bytes, invalidations, notices }
    }
}

fn difference(before: &Stats, after: &Stats) -> [u64; TALLY_WORDS] {
    [
        after.messages_sent - before.messages_sent,
        after.page_bytes_sent - before.page_bytes_sent + after.diff_bytes_sent
            - before.diff_bytes_sent,
        after.invalidations - before.invalidations,
        after.notices_sent - before.notices_sent,
    ]
}
