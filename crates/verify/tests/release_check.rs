//! Release consistency: all interleavings of small jobs, and random runs of random ones.

use multigrain_verify::release::{Configuration, Job, Op, check, configurations, simulate};

/// Checks a group before it complains about numbers, so that a new table can be read off.
fn check_group(group: &str) {
    let mut other_counts = Vec::new();
    for configuration in configurations() {
        if !configuration.name.starts_with(group) {
            continue;
        }
        let report = check(&configuration);
        println!(
            "{:50} {:8} states, depth {:3}, {:?}",
            report.name, report.states, report.depth, report.elapsed
        );
        if let Some(counterexample) = &report.counterexample {
            panic!("{}: {counterexample}", report.name);
        }
        if !report.is_clean() {
            let (name, expected, states) = (report.name, report.expected, report.states);
            other_counts.push(format!("{name}: {states} unique states, not {expected}"));
        }
    }
    assert!(other_counts.is_empty(), "{other_counts:#?}");
}

#[test]
fn every_configuration_is_in_a_tested_group_and_named_once() {
    let all = configurations();
    let mut names: Vec<_> = all.iter().map(|row| row.name).collect();
    let groups = ["eager/", "lazy/", "tracked/", "auto/", "ahead/", "mixed/", "starts/", "trees/"];
    assert!(names.iter().all(|name| groups.iter().any(|group| name.starts_with(group))));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
}

#[test]
fn eager_release_consistency_holds_in_every_interleaving() {
    check_group("eager/");
}

#[test]
fn lazy_release_consistency_holds_in_every_interleaving() {
    check_group("lazy/");
}

#[test]
fn homes_whose_writes_are_found_hold_in_every_interleaving() {
    check_group("tracked/");
}

#[test]
fn dynamic_homes_hold_in_every_interleaving() {
    check_group("auto/");
}

#[test]
fn minipages_that_are_opened_ahead_hold_in_every_interleaving() {
    check_group("ahead/");
}

#[test]
fn the_consistencies_hold_beside_each_other_in_every_interleaving() {
    check_group("mixed/");
}

#[test]
fn threads_that_begin_and_end_anywhere_hold_in_every_interleaving() {
    check_group("starts/");
}

#[test]
fn barriers_by_a_tree_see_what_was_written_move_homes_and_take_back() {
    check_group("trees/");
}

/// What is found in a job that must not hold, under either protocol.
fn found(job: fn(Job) -> Job) -> Vec<(String, Vec<String>)> {
    let jobs = [job(Job::new(2).eager(0, 0)), job(Job::new(2).lazy(0))];
    let reports = jobs.map(|job| check(&Configuration { name: "checker", states: 0, job }));
    let found = reports.into_iter().map(|report| report.counterexample);
    found.map(|found| found.expect("it does not hold")).map(|it| (it.property, it.last)).collect()
}

#[test]
fn a_program_with_a_data_race_is_found_out() {
    let racy = |job: Job| {
        job.thread(0, &[Op::Read(0, 0), Op::Read(0, 0)])
            .thread(1, &[Op::Write(0, 0, 1), Op::Write(0, 0, 2)])
    };
    for (property, last) in found(racy) {
        assert_eq!(property, "a read returns the last write that happens before it");
        assert!(last.iter().any(|line| line.contains("; latest is ")), "{last:#?}");
    }
}

#[test]
fn a_deadlock_is_found() {
    for (property, last) in found(|job| job.thread(0, &[Op::Write(0, 0, 1), Op::Down(3)])) {
        assert_eq!(property, "when nothing can happen all is done");
        assert!(last.iter().any(|line| line == "some threads wait for ever"), "{last:#?}");
    }
}

/// Seeds one after the other.
fn seeds(seeds: core::ops::Range<u64>) {
    let (mut steps, mut accesses) = (0, 0);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        match simulate(seed) {
            Ok(run) => {
                steps += run.steps;
                accesses += run.accesses;
            }
            Err(failure) => panic!("{failure}"),
        }
    }
    println!("{count} seeds: {steps} steps, {accesses} accesses");
    assert!(accesses as u64 > 10 * count, "only {accesses} accesses were checked");
}

#[test]
fn random_programs_hold() {
    seeds(0..4000);
}

#[test]
#[ignore = "minutes, and only with optimization: cargo test --release -- --ignored"]
fn many_random_programs_hold() {
    seeds(4000..500_000);
}
