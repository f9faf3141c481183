//! Release consistency: all interleavings of small jobs, and random runs of random ones.

use multigrain_verify::release::{check, configurations, simulate};

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
fn eager_release_consistency_holds_in_every_interleaving() {
    check_group("eager/");
}

#[test]
fn lazy_release_consistency_holds_in_every_interleaving() {
    check_group("lazy/");
}

#[test]
fn the_consistencies_hold_beside_each_other_in_every_interleaving() {
    check_group("mixed/");
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
    println!("{count} seeds, {steps} steps, {accesses} accesses");
    assert!(accesses as u64 > 10 * count, "only {accesses} accesses were checked");
}

#[test]
fn random_programs_hold() {
    seeds(0..4000);
}

#[test]
#[ignore = "minutes, and only with optimization: cargo test --release -- --ignored"]
fn many_random_programs_hold() {
    seeds(4000..2_000_000);
}
