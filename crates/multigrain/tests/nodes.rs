//! The Rust interface on real nodes: this test binary is also the program of the jobs, started by
//! the launcher with `--as-node` and the name of a scenario.
#![allow(clippy::unwrap_used, reason = "this is test code")]

#[path = "nodes/collectives.rs"]
mod collectives;
#[path = "nodes/handlers.rs"]
mod handlers;
#[path = "nodes/races.rs"]
mod races;
#[path = "nodes/release.rs"]
mod release;
#[path = "nodes/segments.rs"]
mod segments;
#[path = "../../capi/tests/support/mod.rs"]
mod support;
#[path = "nodes/waits.rs"]
mod waits;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};

use multigrain::{
    Barrier, Condvar, Consistency, Error, Grain, Job, Mutex, On, Policy, Region, Result, Semaphore,
    Shared, SharedArray, SharedAtomicU64, SharedSlice,
};
use support::{Setting, TestDir, profile_dir, run_well, settings, workspace};

multigrain::shareable! {
    /// Something with several words.
    #[derive(Debug, PartialEq)]
    struct Body {
        place: [f64; 3],
        number: u32,
        flags: [u16; 2],
    }
}

fn values_and_slices_and_arrays(job: &Job) -> Result<()> {
    let (me, nodes) = (job.node(), job.nodes());
    let body = Body { place: [1.0, 2.0, 3.0], number: 4, flags: [5, 6] };
    let one: Shared<Body> = job.share("one", || job.alloc(body))?;
    assert_eq!(one.get(), body);
    job.barrier(0)?;
    if me == nodes - 1 {
        one.set(Body { number: 40, ..body });
    }
    job.barrier(0)?;
    assert_eq!(one.get().number, 40);

    for (name, grain) in
        [("auto", Grain::Auto), ("bytes", Grain::Bytes(8192)), ("whole", Grain::Whole)]
    {
        let block: SharedSlice<u32> = job.share(name, || job.alloc_slice(50_000, grain))?;
        for index in (me..block.len()).step_by(nodes) {
            block.set(index, u32::try_from(index).unwrap());
        }
        job.barrier(0)?;
        let mut tail = [0; 10];
        block.slice(100..).read(49_890, &mut tail);
        assert_eq!(tail[9], 49_999);
        assert!(block.to_vec().into_iter().eq(0..50_000));
        job.barrier(0)?;
    }

    let array: SharedArray<[u64; 9]> = job.share("array", || job.alloc_array(100))?;
    let elements = array.elements()?;
    for index in (me..100).step_by(nodes) {
        elements[index].set([index as u64; 9]);
    }
    job.barrier(0)?;
    assert!((0..100).all(|index| array.at(index).get() == [index as u64; 9]));
    job.barrier(0)?;
    if me == 0 {
        // SAFETY: every node has passed the barrier and uses it no more.
        #[expect(unsafe_code, reason = "freeing is unsafe")]
        unsafe { array.free() }?;
    }
    Ok(())
}

fn atomics_and_locks(job: &Job) -> Result<()> {
    let nodes = job.nodes() as u64;
    let hits: SharedAtomicU64 = job.share("hits", || job.alloc(AtomicU64::new(0)))?;
    let row: SharedSlice<AtomicU64> = job.share("row", || job.alloc_slice(8, Grain::Auto))?;
    let pair: Mutex<[u64; 2]> =
        job.share("pair", || Mutex::numbered(job, 3, [0; 2], Policy::new()))?;
    for round in 0..200 {
        hits.fetch_add(1, Ordering::SeqCst);
        row[round % 8].fetch_add(1, Ordering::SeqCst);
        let mut pair = pair.lock()?;
        assert_eq!(pair[0], pair[1]);
        pair[0] += 1;
        pair[1] += 1;
    }
    let guard = pair.lock()?;
    assert!(matches!(pair.lock(), Err(Error::NotPermitted(_))));
    assert!(matches!(job.lock(3), Err(Error::NotPermitted(_))));
    drop(guard);
    job.barrier(0)?;
    assert_eq!(hits.load(Ordering::SeqCst), 200 * nodes);
    assert!((0..8).all(|index| row[index].load(Ordering::SeqCst) == 25 * nodes));
    assert_eq!(*pair.lock()?, [200 * nodes; 2]);
    Ok(())
}

fn signals(job: &Job) -> Result<()> {
    let turn: Mutex<u64> = job.share("turn", || Mutex::new(job, 0))?;
    let changed = job.share("changed", || Condvar::new(job))?;
    let nodes = job.nodes() as u64;
    for round in 0..10 {
        let mut turn = turn.lock()?;
        while *turn != round * nodes + job.node() as u64 {
            changed.wait(&mut turn)?;
        }
        *turn += 1;
        changed.notify_all()?;
    }
    let done = job.share("done", || Semaphore::new(job))?;
    done.post(2)?;
    if job.node() == 0 {
        for _ in 0..2 * nodes {
            done.wait()?;
        }
    }
    job.share("all", || Barrier::new(job, job.nodes()))?.wait()
}

fn threads(job: &Job) -> Result<()> {
    let hits: SharedAtomicU64 = job.share("hits", || job.alloc(AtomicU64::new(0)))?;
    for node in 0..job.nodes() {
        let there = |job: &Job, number: u64| number * 100 + job.node() as u64;
        let result = job.spawn(On::Node(node), there, 7)?.join()?;
        assert_eq!(result, 700 + node as u64);
        let words = |_: &Job, (three, say): ([u64; 3], bool)| say.then_some(three.map(|n| n + 1));
        let result = job.spawn(On::Node(node), words, ([1, 2, 3], true))?.join()?;
        assert_eq!(result, Some([2, 3, 4]));
    }
    let threads: Vec<_> = (0..10).map(|_| job.spawn(On::AnyNode, hit, 0)).collect::<Result<_>>()?;
    for thread in threads {
        thread.join()?;
    }
    job.spawn(On::AnyNode, hit_and_say, 0)?.detach()?;
    job.semaphore(3).wait()?;
    assert!(matches!(job.spawn(On::Node(99), hit, 0), Err(Error::NoNode(99, _))));
    job.barrier(0)?;
    assert_eq!(hits.load(Ordering::SeqCst), 11 * job.nodes() as u64);
    Ok(())
}

fn hit_and_say(job: &Job, number: u64) -> u64 {
    hit(job, number);
    job.semaphore(3).post(1).unwrap();
    number
}

fn hit(job: &Job, _: u64) -> u64 {
    let hits = job.lookup::<SharedAtomicU64>("hits").unwrap();
    hits.fetch_add(1, Ordering::SeqCst)
}

fn names(job: &Job) -> Result<()> {
    let one: Shared<u64> = job.share("one", || job.alloc(1))?;
    assert_eq!(job.lookup::<Shared<u64>>("one")?, one);
    assert!(matches!(job.lookup::<Shared<f64>>("one"), Err(Error::Invalid(_))));
    assert!(matches!(job.lookup::<SharedSlice<u64>>("one"), Err(Error::Invalid(_))));
    for name in ["", "\0one", &"n".repeat(62)] {
        assert!(matches!(job.publish(name, one), Err(Error::Invalid(_))), "{name:?}");
    }
    if job.node() == 0 {
        job.publish_ptr("one", std::ptr::NonNull::new(one.as_ptr()).unwrap())?;
    }
    assert_eq!(job.lookup_ptr::<u64>("one")?.as_ptr(), one.as_ptr());
    Ok(())
}

fn hints(job: &Job) -> Result<()> {
    let block: SharedSlice<u64> =
        job.share("block", || job.alloc_slice(4096, Grain::Bytes(4096)))?;
    if job.node() == 0 {
        block.prefetch_write()?;
        block.fill(9);
        block.push()?;
    }
    job.barrier(0)?;
    block.prefetch_read()?;
    block.touch_read()?;
    let before = job.stats();
    assert!(block.to_vec().into_iter().all(|value| value == 9));
    assert_eq!(job.stats().read_faults, before.read_faults);
    job.barrier(0)?;
    if job.node() == job.nodes() - 1 {
        block.touch_write()?;
        let before = job.stats();
        block.fill(10);
        assert_eq!(job.stats().write_faults, before.write_faults);
    }
    job.barrier(0)?;
    assert_eq!(block.get(4095), 10);
    Ok(())
}

/// By the rules of release consistency, which sequential memory fulfils as well.
fn consistencies(job: &Job) -> Result<()> {
    let (me, nodes) = (job.node(), job.nodes());
    let body = Body { place: [1.0, 2.0, 3.0], number: 4, flags: [5, 6] };
    for consistency in Consistency::ALL {
        let policy = Policy::new().consistency(consistency);
        let name = |what: &str| format!("{what} {consistency}");
        let one: Shared<Body> = job.share(&name("one"), || job.alloc_with(body, policy))?;
        let sum: Mutex<[u64; 2]> =
            job.share(&name("sum"), || Mutex::new_with(job, [0; 2], policy))?;
        job.barrier(0)?;
        assert_eq!(one.get(), body);
        job.barrier(0)?;
        if me == nodes - 1 {
            one.set(Body { number: 40, ..body });
        }
        for _ in 0..50 {
            let mut sum = sum.lock()?;
            assert_eq!(sum[0], sum[1]);
            sum[0] += 1;
            sum[1] += 1;
        }
        job.barrier(0)?;
        assert_eq!(one.get().number, 40);
        assert_eq!(*sum.lock()?, [50 * nodes as u64; 2]);

        for grain in [None, Some(4096), Some(usize::MAX)] {
            let policy = grain.map_or(policy, |bytes| policy.grain(bytes));
            let name = |what: &str| format!("{what} {consistency} {grain:?}");
            let row: SharedSlice<u16> =
                job.share(&name("row"), || job.alloc_slice_with(5000, policy))?;
            let array: SharedArray<[u64; 9]> =
                job.share(&name("array"), || job.alloc_array_with(100, policy))?;
            for index in (me..row.len()).step_by(nodes) {
                row.set(index, u16::try_from(index).unwrap());
            }
            for index in (me..100).step_by(nodes) {
                array.at(index).set([index as u64; 9]);
            }
            job.barrier(0)?;
            assert!(row.to_vec().into_iter().eq(0..5000));
            assert!((0..100).all(|index| array.at(index).get() == [index as u64; 9]));
            job.barrier(0)?;
        }
        let nothing = policy.grain(0);
        assert!(matches!(job.alloc_with(0u64, nothing), Err(Error::Invalid(_))));
        assert!(matches!(job.alloc_slice_with::<u64>(0, policy), Err(Error::Invalid(_))));
    }
    Ok(())
}

/// Threads that borrow handles from the job, joined or left to the scope.
fn scopes(job: &Job) -> Result<()> {
    let nodes = job.nodes();
    let block = job.alloc_slice::<u32>(4000, Grain::Bytes(4096))?;
    let total = Mutex::new(job, 0u64)?;
    let fill = |job: &Job, (part, number): (SharedSlice<'_, u32>, u32)| {
        part.iter().for_each(|place| place.set(number));
        (job.node(), part.len())
    };
    job.scope(|scope| {
        let parts = (0..).zip(block.chunks(1000));
        let threads: Vec<_> = parts
            .map(|(number, part)| scope.spawn(On::Node(number % nodes), fill, (part, 7)))
            .collect::<Result<_>>()?;
        for (number, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join()?, (number % nodes, 1000));
        }
        Ok(())
    })?;
    assert!(block.values().all(|value| value == 7));

    // What nobody joins is over all the same.
    let add = |_: &Job, (part, total): (SharedSlice<'_, u32>, Mutex<'_, u64>)| {
        *total.lock().unwrap() += part.values().map(u64::from).sum::<u64>();
    };
    let refused = job.scope(|scope| {
        for part in block.chunks(250) {
            scope.spawn(On::AnyNode, add, (part, total))?;
        }
        scope.spawn(On::Node(99), add, (block, total)).map(drop)
    });
    assert!(matches!(refused, Err(Error::NoNode(99, _))));
    assert_eq!(*total.lock()?, 28_000);
    job.barrier(0)
}

fn iterators(job: &Job) -> Result<()> {
    let block = job.alloc_slice::<u16>(10, Grain::Auto)?;
    for (place, number) in block.into_iter().zip(0..) {
        place.set(number);
    }
    assert!(block.values().rev().eq((0..10).rev()));
    assert_eq!(block.iter().len(), 10);
    assert_eq!(block.iter().nth(4).map(Shared::get), Some(4));
    assert_eq!(block.iter().nth_back(0).map(Shared::get), Some(9));
    assert!(block.chunks(4).map(SharedSlice::to_vec).eq([
        &[0, 1, 2, 3][..],
        &[4, 5, 6, 7],
        &[8, 9]
    ]));
    assert_eq!(block.chunks(4).len(), 3);
    let (low, high) = block.split_at(3);
    assert_eq!((low.to_vec(), high.get(0)), (vec![0, 1, 2], 3));
    let counters = job.alloc_slice::<AtomicU64>(5, Grain::Auto)?;
    counters.iter().for_each(|counter| counter.store(2, Ordering::SeqCst));
    assert_eq!(counters.iter().map(|counter| counter.load(Ordering::SeqCst)).sum::<u64>(), 10);
    Ok(())
}

/// Locks and the like of one job have numbers of their own, on whatever node they are made.
fn own_numbers(job: &Job) -> Result<()> {
    let nodes = job.nodes();
    let mine: Vec<Mutex<usize>> = (0..3).map(|_| Mutex::new(job, 0)).collect::<Result<_>>()?;
    for (index, mutex) in mine.iter().enumerate() {
        job.publish(&format!("{} {index}", job.node()), *mutex)?;
    }
    // One thread holds all of them together: no two are one.
    let all: Vec<Mutex<usize>> = (0..nodes)
        .flat_map(|node| (0..3).map(move |index| format!("{node} {index}")))
        .map(|name| job.lookup(&name))
        .collect::<Result<_>>()?;
    for _ in 0..10 {
        let mut held = all.iter().map(Mutex::lock).collect::<Result<Vec<_>>>()?;
        held.iter_mut().for_each(|value| **value += 1);
    }
    job.barrier(0)?;
    for mutex in &all {
        assert_eq!(*mutex.lock()?, 10 * nodes);
    }
    job.barrier(0)
}

type Scenario = fn(&Job) -> Result<()>;

const SCENARIOS: &[(&str, Scenario)] = &[
    ("values, slices, arrays", values_and_slices_and_arrays),
    ("atomics and locks", atomics_and_locks),
    ("signals", signals),
    ("threads", threads),
    ("scopes", scopes),
    ("iterators", iterators),
    ("own numbers", own_numbers),
    ("names", names),
    ("hints", hints),
    ("consistencies", consistencies),
];

/// Those that run under every guard and transport.
fn all_scenarios() -> impl Iterator<Item = &'static (&'static str, Scenario)> {
    let apart = [waits::SCENARIOS, segments::SCENARIOS, collectives::SCENARIOS];
    SCENARIOS.iter().chain(apart.into_iter().flatten())
}

/// As a node: runs the scenario the environment names.
fn as_node(name: &str) -> ExitCode {
    let mut scenarios = all_scenarios()
        .chain(release::SCENARIOS)
        .chain(races::SCENARIOS)
        .chain(handlers::SCENARIOS);
    let Some((_, scenario)) = scenarios.find(|(known, _)| *known == name) else {
        return failing_node(name);
    };
    multigrain::run(scenario)
}

/// Nodes that fail must end the job, though the others wait for them.
fn failing_node(how: &str) -> ExitCode {
    multigrain::run(|job| {
        if job.node() == 0 {
            assert_ne!(how, "panic", "as told");
            if how == "scope" {
                // The thread waits for this node: so must this node not wait for the thread.
                job.scope(|scope| {
                    let wait = |job: &Job, ()| job.semaphore(1).wait().is_ok();
                    scope.spawn(On::Node(1), wait, ())?;
                    panic!("as told");
                })?;
            }
            if how == "thread" {
                let thread =
                    job.spawn(On::Node(1), |_: &Job, ()| -> u64 { panic!("as told") }, ())?;
                thread.join()?;
            }
            return Err(Error::Invalid("as told".into()));
        }
        job.barrier(0)
    })
}

/// This program under a name of its own, so that what is left of a job can be told from the test.
fn as_program(dir: &TestDir) -> PathBuf {
    let program = dir.path().join("nodes");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    program
}

fn launcher() -> PathBuf {
    support::build(&["multigrain-cli"]).join("multigrain")
}

fn every_scenario_passes_under_every_guard_and_transport() {
    let dir = TestDir::new();
    let program = as_program(&dir);
    for setting in settings(&[1, 3], &["auto", "mprotect"]) {
        for (name, _) in all_scenarios() {
            run_well(&launcher(), &setting, &program, &[NODE_ARGUMENT, name]);
        }
    }
}

fn a_node_that_fails_ends_the_job() {
    let dir = TestDir::new();
    let program = as_program(&dir);
    for (how, code) in [("error", 1), ("panic", 101), ("scope", 101), ("thread", 101)] {
        let two = Setting::nodes(2);
        let ended = support::run(&launcher(), &two, &program, &[NODE_ARGUMENT, how]);
        assert_eq!(ended.code, Some(code), "{how}: {ended:?}");
        assert!(ended.err.contains("as told"), "{how}: {ended:?}");
        assert!(!ended.err.contains("failed to initiate panic"), "{how}: {ended:?}");
    }
}

fn the_examples_give_the_same_on_any_number_of_nodes() {
    // `cargo test` of all targets builds them, `--test nodes` alone does not.
    let mut cargo = Command::new(env!("CARGO"));
    let profile = profile_dir();
    let dev = profile.file_name().is_some_and(|name| name == "debug");
    cargo.args(["build", "--quiet", "-p", "multigrain", "--examples", "--profile"]);
    cargo.arg(if dev { "dev".as_ref() } else { profile.file_name().unwrap() });
    cargo.arg("--target-dir").arg(profile.parent().unwrap()).current_dir(workspace());
    assert!(cargo.status().unwrap().success());
    let examples = profile.join("examples");
    let jacobi = |nodes| {
        let setting = Setting::nodes(nodes);
        let out = run_well(&launcher(), &setting, &examples.join("jacobi"), &["66", "20"]);
        out.trim_start_matches("[0] ").to_owned()
    };
    let alone = jacobi(1);
    assert!(alone.trim().parse::<f64>().unwrap() > 66.0);
    assert_eq!(jacobi(3), alone);
    let setting = Setting { threads: 2, ..Setting::nodes(3) };
    let counted = run_well(&launcher(), &setting, &examples.join("counter"), &[]);
    assert_eq!(counted.matches("] 6000\n").count(), 3, "{counted}");
}

/// First argument of this program when it is a node.
const NODE_ARGUMENT: &str = "--as-node";

/// Its own main: a node must join from the main thread, which a test harness does not give.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, name] = arguments.as_slice()
        && first == NODE_ARGUMENT
    {
        return as_node(name);
    }
    let tests: [(&str, fn()); 12] = [
        (
            "every_scenario_passes_under_every_guard_and_transport",
            every_scenario_passes_under_every_guard_and_transport,
        ),
        ("a_node_that_fails_ends_the_job", a_node_that_fails_ends_the_job),
        (
            "the_examples_give_the_same_on_any_number_of_nodes",
            the_examples_give_the_same_on_any_number_of_nodes,
        ),
        (
            "a_handler_posts_a_semaphore_wherever_it_has_interrupted_its_thread",
            handlers::a_handler_posts_a_semaphore_wherever_it_has_interrupted_its_thread,
        ),
        (
            "falsely_shared_pages_cost_a_diff_a_writer_and_a_fetch_a_reader",
            release::falsely_shared_pages_cost_a_diff_a_writer_and_a_fetch_a_reader,
        ),
        (
            "pages_of_one_writer_cost_nothing_at_a_release",
            release::pages_of_one_writer_cost_nothing_at_a_release,
        ),
        (
            "twins_and_notices_do_not_outlive_the_barriers_that_all_have_passed",
            release::twins_and_notices_do_not_outlive_the_barriers_that_all_have_passed,
        ),
        (
            "memory_of_every_consistency_is_right_in_one_program",
            release::memory_of_every_consistency_is_right_in_one_program,
        ),
        (
            "a_race_is_reported_with_its_address_and_both_nodes",
            races::a_race_is_reported_with_its_address_and_both_nodes,
        ),
        (
            "a_race_under_the_wrong_lock_is_reported_and_the_right_lock_is_silent",
            races::a_race_under_the_wrong_lock_is_reported_and_the_right_lock_is_silent,
        ),
        (
            "a_program_whose_writes_are_in_order_is_not_accused",
            races::a_program_whose_writes_are_in_order_is_not_accused,
        ),
        ("a_check_of_nothing_is_said_to_be_one", races::a_check_of_nothing_is_said_to_be_one),
    ];
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> =
        arguments[1..].iter().filter(|word| !word.starts_with('-')).collect();
    for (name, test) in tests {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())) {
            println!("test {name} ...");
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}
