//! Short runs of the simulator. A seed that ever failed becomes a test of its own here, named after
//! the fault, with the plan that the failure printed; so far none has.

use multigrain_verify::sim::{Deaths, Plan, Report, run};

/// A run that must hold.
fn holds(plan: Plan) -> Report {
    match run(&plan) {
        Ok(report) => report,
        Err(failure) => panic!("{failure}"),
    }
}

/// Seeds one after the other, none of them with a death.
fn seeds(seeds: core::ops::Range<u64>, nodes: u16, virtual_ms: u64) {
    let mut accesses = 0;
    for seed in seeds {
        let plan = Plan {
            virtual_ns: virtual_ms * 1_000_000,
            deaths: Deaths::Never,
            ..Plan::new(seed, nodes)
        };
        let report = holds(plan);
        println!("{plan}: {} steps, {}", report.steps, report.network);
        accesses += report.accesses;
    }
    assert!(accesses > 1000, "only {accesses} accesses were checked");
}

#[test]
fn two_nodes_hold_under_all_network_conditions() {
    seeds(1..41, 2, 100);
}

#[test]
fn three_nodes_hold_under_all_network_conditions() {
    seeds(1..41, 3, 100);
}

#[test]
fn eight_nodes_hold_under_all_network_conditions() {
    seeds(1..25, 8, 100);
}

#[test]
fn a_hundred_nodes_hold() {
    seeds(1..5, 100, 20);
}

#[test]
fn ten_thousand_nodes_hold() {
    let plan = Plan { threads: 1, minipages: 64, virtual_ns: 1, ..Plan::new(3, 10_000) };
    let report = holds(Plan { deaths: Deaths::Never, ..plan });
    assert!(report.accesses > 10_000, "only {} accesses were checked", report.accesses);
}

#[test]
fn many_threads_of_few_minipages_hold() {
    for seed in 1..9 {
        let plan = Plan { threads: 16, minipages: 8, virtual_ns: 20_000_000, ..Plan::new(seed, 3) };
        holds(Plan { deaths: Deaths::Never, ..plan });
    }
}

#[test]
fn few_minipages_that_are_freed_and_used_again_hold() {
    for seed in 1..33 {
        let plan = Plan { threads: 3, minipages: 8, virtual_ns: 300_000_000, ..Plan::new(seed, 2) };
        holds(Plan { deaths: Deaths::Never, ..plan });
    }
}

#[test]
fn the_plans_that_seeds_draw_hold() {
    let mut largest = 0;
    for seed in 1..33 {
        let plan = Plan { steps: 50_000, ..Plan::drawn(seed) };
        largest = largest.max(plan.nodes);
        holds(plan);
    }
    assert!(largest > 200, "no seed drew more than {largest} nodes");
}

#[test]
fn a_death_ends_the_job_and_nobody_saw_a_wrong_value_before() {
    let mut deaths = 0;
    for seed in 1..25 {
        let plan = Plan { virtual_ns: 50_000_000, deaths: Deaths::Always, ..Plan::new(seed, 6) };
        deaths += u32::from(holds(plan).died.is_some());
    }
    assert!(deaths > 12, "only {deaths} nodes died");
}

#[test]
fn a_plan_is_the_same_run_each_time_and_another_seed_is_another_run() {
    let plan = |seed| Plan { virtual_ns: 50_000_000, ..Plan::new(seed, 8) };
    let runs = [5, 5, 6].map(|seed| holds(plan(seed)));
    let [first, second, other] = runs.each_ref().map(|run| (run.fingerprint, run.steps));
    assert_eq!(first, second);
    assert_ne!(first.0, other.0);
}
