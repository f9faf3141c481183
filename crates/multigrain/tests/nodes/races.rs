//! `multigrain run --check-races` on real nodes: what it reports, and whom it does not accuse.

use multigrain::{Grain, Job, On, Result, SharedSlice};

use super::support::{self, Setting, TestDir, settings};
use super::{NODE_ARGUMENT, Scenario, as_program, launcher};

/// Scenarios for jobs that are checked for races.
pub(crate) const SCENARIOS: &[(&str, Scenario)] =
    &[("race", race), ("race of two locks", race_of_two_locks), ("in order", in_order)];

/// Words 4 of a page and 100 of the next are written by the nodes 1 and 2, neither after the other,
/// and word 5 by both, one after the other.
fn race(job: &Job) -> Result<()> {
    let block: SharedSlice<u32> =
        job.share("block", || job.alloc_slice(2048, Grain::Bytes(4096)))?;
    job.barrier(0)?;
    let me = u32::try_from(job.node()).unwrap();
    if me > 0 {
        block.set(4, me);
        block.set(1124, me);
        // Neighbours are nobody's business.
        block.set(8 + job.node(), me);
    }
    job.barrier(0)?;
    for node in 1..=2 {
        if job.node() == node {
            block.set(5, me);
        }
        job.barrier(0)?;
    }
    if me == 0 {
        println!("block at {:p}", block.as_ptr());
    }
    job.barrier(0)
}

/// One after the other by the lock only: by the first lock, and not by the second.
fn race_of_two_locks(job: &Job) -> Result<()> {
    let block: SharedSlice<u64> = job.share("block", || job.alloc_slice(16, Grain::Auto))?;
    job.barrier(0)?;
    let own = u32::try_from(job.node()).unwrap();
    for round in 0..50 {
        let right = job.lock(7)?;
        block.set(1, block.get(1) + 1);
        drop(right);
        let wrong = job.lock(8 + own)?;
        block.set(3, (round << 8) + own as u64 + 1);
        drop(wrong);
    }
    job.barrier(0)?;
    assert_eq!(block.get(1), 50 * job.nodes() as u64);
    job.barrier(0)
}

/// Every way to order two writes, at bytes of one page.
fn in_order(job: &Job) -> Result<()> {
    let (me, nodes) = (job.node(), job.nodes());
    let block: SharedSlice<u64> =
        job.share("block", || job.alloc_slice(512, Grain::Bytes(4096)))?;
    if me == 0 {
        block.fill(7);
    }
    job.barrier(0)?;
    for round in 0..20 {
        // Barriers: all write every word in turn, and their own beside.
        for turn in 0..nodes {
            let writer = (me + turn + round) % nodes;
            block.set(writer, (round * nodes + turn) as u64);
            block.set(16 + me, turn as u64);
            job.barrier(0)?;
        }
        // A lock, with more written before and behind it.
        block.set(32 + me, round as u64);
        let held = job.lock(3)?;
        block.set(48, block.get(48) + 1);
        drop(held);
        block.set(32 + me, 99);
    }
    job.barrier(0)?;
    // Semaphores hand the word round.
    for round in 0..10 {
        if me > 0 || round > 0 {
            job.semaphore(10 + u32::try_from(me).unwrap()).wait()?;
        }
        block.set(64, (round * nodes + me) as u64);
        job.semaphore(10 + u32::try_from((me + 1) % nodes).unwrap()).post(1)?;
    }
    job.barrier(0)?;
    // Threads: what is written before the start, in the thread, and after its end.
    if me == 0 {
        for node in 0..nodes {
            block.set(80, node as u64 + 100);
            job.spawn(On::Node(node), overwrite, 80)?.join()?;
            block.set(80, node as u64 + 200);
        }
    }
    job.barrier(0)?;
    // Freed memory that is used again.
    for turn in 0..nodes {
        if me == turn {
            let again: SharedSlice<u64> = job.alloc_slice(100, Grain::Auto)?;
            again.fill(me as u64 + 1);
            job.publish("again", again)?;
        }
        job.barrier(0)?;
        let again: SharedSlice<u64> = job.lookup("again")?;
        again.set(me, 1000 + turn as u64);
        job.barrier(0)?;
        if me == (turn + 1) % nodes {
            // SAFETY: every node has passed the barrier and uses it no more.
            #[expect(unsafe_code, reason = "freeing is unsafe")]
            unsafe { again.free() }?;
        }
        job.barrier(0)?;
    }
    Ok(())
}

fn overwrite(job: &Job, word: u64) -> u64 {
    let block: SharedSlice<u64> = job.lookup("block").unwrap();
    block.set(usize::try_from(word).unwrap(), job.node() as u64);
    0
}

/// A job that is checked, and says all it finds.
const CHECK: &[&str] = &["--check-races=all"];

fn settings_checked(nodes: &[u32]) -> Vec<Setting> {
    let settings = settings(nodes, &["auto", "mprotect"]);
    let with = |setting: &Setting| {
        ["eager-release", "lazy-release"].map(|consistency| Setting {
            options: CHECK,
            consistency,
            ..setting.clone()
        })
    };
    settings.iter().flat_map(with).collect()
}

pub(crate) fn a_race_is_reported_with_its_address_and_both_nodes() {
    let dir = TestDir::new();
    let program = as_program(&dir);
    for setting in settings_checked(&[3]) {
        let ended = support::run(&launcher(), &setting, &program, &[NODE_ARGUMENT, "race"]);
        assert_eq!(ended.code, Some(66), "{setting:?}: {ended:?}");
        let block = ended.out.trim().rsplit("0x").next().unwrap();
        let block = usize::from_str_radix(block, 16).unwrap();
        let mut races: Vec<&str> =
            ended.err.lines().filter(|line| line.contains("race: ")).collect();
        races.sort_unstable();
        assert_eq!(races.len(), 2, "{setting:?}: {ended:?}");
        for (line, byte) in races.into_iter().zip([16, 4496]) {
            let address = block + byte;
            let place = format!(
                "multigrain: race: 4 bytes at {address:#x} (byte {byte} of the allocation of 8192 \
                 bytes at {block:#x} made by node 0 in "
            );
            assert!(line.starts_with(&place), "{place}\n{line}");
            let end = ") are written by node 1 and node 2 without synchronization";
            assert!(line.ends_with(end), "{line}");
            assert!(line.contains("races.rs:"), "where it was made: {line}");
        }
        assert!(ended.err.contains("2 races were reported; exit code 66"), "{ended:?}");
    }
}

pub(crate) fn a_race_under_the_wrong_lock_is_reported_and_the_right_lock_is_silent() {
    let dir = TestDir::new();
    let program = as_program(&dir);
    for setting in settings_checked(&[2]) {
        let arguments = [NODE_ARGUMENT, "race of two locks"];
        let ended = support::run(&launcher(), &setting, &program, &arguments);
        assert_eq!(ended.code, Some(66), "{setting:?}: {ended:?}");
        let races = || ended.err.lines().filter(|line| line.contains("race: "));
        assert!(races().count() > 0, "{setting:?}: {ended:?}");
        assert!(races().all(|line| line.contains("(byte 24 of")), "{setting:?}: {ended:?}");
    }
}

pub(crate) fn a_program_whose_writes_are_in_order_is_not_accused() {
    let dir = TestDir::new();
    let program = as_program(&dir);
    for setting in settings_checked(&[2, 3]) {
        let ended = support::run(&launcher(), &setting, &program, &[NODE_ARGUMENT, "in order"]);
        assert_eq!(ended.code, Some(0), "{setting:?}: {ended:?}");
        let line = format!(
            "multigrain: no race was found between writes of the {} nodes to release-consistent memory; reads, threads of \
             one node and sequentially consistent memory were not checked\n",
            setting.nodes
        );
        assert_eq!(ended.err, line, "{setting:?}");
    }
}

pub(crate) fn a_check_of_nothing_is_said_to_be_one() {
    let dir = TestDir::new();
    let setting = Setting { options: &["--check-races"], ..Setting::nodes(2) };
    let arguments = [NODE_ARGUMENT, "names"];
    let ended = support::run(&launcher(), &setting, &as_program(&dir), &arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(ended.err.contains("nothing to check: no memory of this job"), "{ended:?}");
    assert!(ended.err.contains("--consistency lazy-release"), "{ended:?}");
    let setting = Setting { nodes: 1, consistency: "lazy-release", ..setting };
    let ended = support::run(&launcher(), &setting, &as_program(&dir), &arguments);
    assert_eq!((ended.code, ended.err.lines().count()), (Some(0), 1), "{ended:?}");
    assert!(ended.err.contains("nothing to check: writes of several nodes"), "{ended:?}");
}
