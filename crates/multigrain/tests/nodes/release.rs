//! Release consistency on real nodes: what it costs, counted over all nodes, and that memory of
//! every kind is right in one program.

use std::collections::BTreeMap;

use multigrain::{Grain, Job, Result, SharedSlice};
use multigrain_runtime::{Policy, runtime};
use multigrain_types::Consistency;

use super::support::{Setting, TestDir, run_well, settings};
use super::{NODE_ARGUMENT, Scenario};

const PAGE_BYTES: usize = 4096;
const WORDS: usize = PAGE_BYTES / size_of::<u64>();
const PAGES: usize = 6;
/// Rounds in which copies and homes find their places, and rounds that are counted.
const WARM_UP: u64 = 3;
const ROUNDS: u64 = 10;
/// Barriers around what is counted that are counted themselves.
const AROUND: u64 = 2;

pub(crate) const SCENARIOS: &[(&str, Scenario)] = &[
    ("false sharing", false_sharing),
    ("single writers", single_writers),
    ("floor of memory", floor_of_memory),
    ("mixed", mixed),
];

/// Prints what this node counts while it does its `work`, for the test to add up.
fn counted(job: &Job, work: impl FnOnce() -> Result<()>) -> Result<()> {
    job.barrier(0)?;
    let before = job.stats();
    job.barrier(0)?;
    work()?;
    job.barrier(0)?;
    let after = job.stats();
    job.barrier(0)?;
    println!(
        "counted messages={} pages={} diffs={} diff-bytes={} notices={}",
        after.messages_sent - before.messages_sent,
        (after.page_bytes_sent - before.page_bytes_sent) / PAGE_BYTES as u64,
        after.diffs_sent - before.diffs_sent,
        after.diff_bytes_sent - before.diff_bytes_sent,
        after.notices_sent - before.notices_sent,
    );
    Ok(())
}

/// Pages of the job's consistency that node 0 has written, so that none goes to who touches first.
fn pages(job: &Job) -> Result<SharedSlice<'_, u64>> {
    let block = job.share("block", || {
        let block = job.alloc_slice(PAGES * WORDS, Grain::Bytes(PAGE_BYTES))?;
        block.fill(1);
        Ok(block)
    })?;
    job.barrier(0)?;
    Ok(block)
}

/// Every node writes its words of all pages; then all read all.
fn share_falsely(job: &Job, block: SharedSlice<u64>, round: u64) -> Result<()> {
    for word in (job.node()..block.len()).step_by(job.nodes()) {
        block.set(word, round * word as u64);
    }
    job.barrier(0)?;
    for (word, value) in block.to_vec().into_iter().enumerate() {
        assert_eq!(value, round * word as u64, "word {word} in round {round}");
    }
    job.barrier(0)
}

fn false_sharing(job: &Job) -> Result<()> {
    let block = pages(job)?;
    (0..WARM_UP).try_for_each(|round| share_falsely(job, block, round))?;
    counted(job, || (0..ROUNDS).try_for_each(|round| share_falsely(job, block, round)))
}

/// Every page is written by one node, and node 0 allocated them all.
fn single_writers(job: &Job) -> Result<()> {
    let block = pages(job)?;
    let round = |round: u64| {
        for page in (0..PAGES).filter(|page| (page + 1) % job.nodes() == job.node()) {
            block.slice(page * WORDS..(page + 1) * WORDS).fill(round);
        }
        job.barrier(0)
    };
    (0..WARM_UP).try_for_each(round)?;
    counted(job, || (0..ROUNDS).try_for_each(round))?;
    assert!(block.to_vec().into_iter().all(|value| value == ROUNDS - 1));
    job.barrier(0)
}

/// What a node keeps beside its pages does not grow with the rounds of a program.
fn floor_of_memory(job: &Job) -> Result<()> {
    let block = pages(job)?;
    let mut kept = None;
    for round in 0..50 {
        share_falsely(job, block, round)?;
        // Between two barriers where nobody writes, no news of the next round can have come.
        job.barrier(0)?;
        let stats = job.stats();
        job.barrier(0)?;
        assert_eq!(stats.twin_bytes, 0, "after the barriers of round {round}");
        if round >= WARM_UP {
            let kept = *kept.get_or_insert(stats.notices_kept);
            assert_eq!(stats.notices_kept, kept, "after the barriers of round {round}");
        }
    }
    // Of each page, at most the last time that each node wrote it.
    assert!(kept <= Some((PAGES * job.nodes()) as u64), "{kept:?} notices");
    Ok(())
}

/// A page of each consistency under the same barriers and the same lock.
fn mixed(job: &Job) -> Result<()> {
    let blocks = Consistency::ALL.map(|consistency| {
        let allocate = || {
            let policy = Policy::new().consistency(consistency).grain(PAGE_BYTES);
            let address = runtime()?.malloc_with(PAGE_BYTES, policy)?;
            let start = core::ptr::with_exposed_provenance_mut::<u64>(address);
            let start = core::ptr::NonNull::new(start).expect("shared memory is not at 0");
            // SAFETY: a fresh allocation of so many words, of which any bytes are values.
            #[expect(unsafe_code, reason = "the policy is the runtime's")]
            Ok(unsafe { SharedSlice::from_ptr(job, start, WORDS) })
        };
        job.share(&format!("mixed {consistency}"), allocate)
    });
    let blocks: Vec<SharedSlice<u64>> = blocks.into_iter().collect::<Result<_>>()?;
    let counter = WORDS - 1;
    for round in 0..20 {
        for block in &blocks {
            share_falsely(job, block.slice(..counter), round)?;
        }
        let _guard = job.lock(1)?;
        let before: Vec<u64> = blocks.iter().map(|block| block.get(counter)).collect();
        assert!(before.iter().all(|&count| count == before[0]), "round {round}: {before:?}");
        blocks.iter().for_each(|block| block.set(counter, before[0] + 1));
    }
    job.barrier(0)?;
    assert!(blocks.iter().all(|block| block.get(counter) == 20 * job.nodes() as u64));
    job.barrier(0)
}

/// What all nodes of a scenario counted.
fn counts(consistency: &'static str, nodes: u32, scenario: &str) -> BTreeMap<String, u64> {
    let dir = TestDir::new();
    let out = run_scenario(&dir, &Setting { consistency, ..Setting::nodes(nodes) }, scenario);
    let lines = out.lines().filter_map(|line| line.split_once("] counted "));
    let mut sums = BTreeMap::new();
    let mut told = 0;
    for (_, words) in lines {
        told += 1;
        for (key, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
            *sums.entry(key.to_owned()).or_default() += value.parse::<u64>().unwrap();
        }
    }
    assert_eq!(told, nodes, "{out}");
    eprintln!("{scenario}, {consistency}, {nodes} nodes: {sums:?}");
    sums
}

fn run_scenario(dir: &TestDir, setting: &Setting, scenario: &str) -> String {
    run_well(&super::launcher(), setting, &super::as_program(dir), &[NODE_ARGUMENT, scenario])
}

/// Messages of so many barriers: each other node comes and is let go. Under lazy release each takes
/// news along, so that all may forget what all have received.
fn of_barriers(barriers: u64, nodes: u32) -> u64 {
    2 * barriers * u64::from(nodes - 1)
}

pub(crate) fn falsely_shared_pages_cost_a_diff_a_writer_and_a_fetch_a_reader() {
    for nodes in [2, 4] {
        let sums = counts("lazy-release", nodes, "false sharing");
        // One of the writers, and of the readers, is the home.
        let each = ROUNDS * PAGES as u64 * u64::from(nodes - 1);
        assert_eq!((sums["diffs"], sums["pages"]), (each, each), "{nodes} nodes: {sums:?}");
    }
}

pub(crate) fn pages_of_one_writer_cost_nothing_at_a_release() {
    for (consistency, nodes) in
        [("eager-release", 2), ("eager-release", 4), ("lazy-release", 2), ("lazy-release", 4)]
    {
        let sums = counts(consistency, nodes, "single writers");
        for what in ["pages", "diffs", "diff-bytes"] {
            assert_eq!(sums[what], 0, "{consistency}, {nodes} nodes: {what} in {sums:?}");
        }
        let messages = of_barriers(ROUNDS + AROUND, nodes);
        assert_eq!(sums["messages"], messages, "{consistency}, {nodes} nodes: {sums:?}");
    }
}

pub(crate) fn twins_and_notices_do_not_outlive_the_barriers_that_all_have_passed() {
    let dir = TestDir::new();
    for nodes in [2, 4] {
        let setting = Setting { consistency: "lazy-release", ..Setting::nodes(nodes) };
        run_scenario(&dir, &setting, "floor of memory");
    }
}

pub(crate) fn memory_of_every_consistency_is_right_in_one_program() {
    let dir = TestDir::new();
    for setting in settings(&[1, 2, 4], &["auto", "mprotect"]) {
        run_scenario(&dir, &setting, "mixed");
    }
}
