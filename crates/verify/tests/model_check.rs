//! The model check of the protocol, one test a group of configurations; and of the checker itself.

use multigrain_verify::check::{Configuration, Form, Job, Op, check, configurations};

/// Groups with a test below.
const GROUPS: [&str; 13] = [
    "coherence",
    "prefetch",
    "push",
    "reclaim",
    "litmus",
    "lock",
    "barrier",
    "semaphore",
    "condition",
    "try",
    "timed",
    "read-write",
    "progress",
];

fn group(configuration: &Configuration) -> &str {
    configuration.name.split('/').next().unwrap_or_default()
}

/// Checks all of them before it complains about numbers, so that a new table can be read off.
fn check_groups(form: Form, wanted: &[&str]) {
    let mut other_counts = Vec::new();
    for configuration in configurations(form) {
        if !wanted.contains(&group(&configuration)) {
            continue;
        }
        let report = check(&configuration);
        println!(
            "{:40} {:8} states, depth {:3}, {:3} outcomes, {:?}",
            report.name, report.states, report.depth, report.outcomes, report.elapsed
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
    let all = configurations(Form::Long);
    let mut names: Vec<_> = all.iter().map(|row| row.name).collect();
    assert!(all.iter().all(|row| GROUPS.contains(&group(row))), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
}

#[test]
fn coherence_holds_in_every_interleaving() {
    check_groups(Form::Short, &["coherence"]);
}

#[test]
fn prefetch_and_push_hold_in_every_interleaving() {
    check_groups(Form::Short, &["prefetch", "push"]);
}

#[test]
fn reclaim_holds_in_every_interleaving() {
    check_groups(Form::Short, &["reclaim"]);
}

#[test]
fn litmus_tests_end_as_sequential_consistency_has_it() {
    check_groups(Form::Short, &["litmus"]);
}

#[test]
fn locks_hold_in_every_interleaving() {
    check_groups(Form::Short, &["lock"]);
}

#[test]
fn barriers_semaphores_and_conditions_hold_in_every_interleaving() {
    check_groups(Form::Short, &["barrier", "semaphore", "condition"]);
}

#[test]
fn tries_withdrawals_and_read_write_locks_hold_in_every_interleaving() {
    check_groups(Form::Short, &["try", "timed", "read-write"]);
}

#[test]
fn an_access_takes_few_faults_in_every_interleaving() {
    check_groups(Form::Short, &["progress"]);
}

#[test]
#[ignore = "minutes, and only with optimization: cargo test --release -- --ignored"]
fn the_long_form_holds() {
    check_groups(Form::Long, &GROUPS);
}

/// A job that never ends, for tests of the checker.
fn unanswered() -> Configuration {
    let job = Job::new(2)
        .minipage(0, 0)
        .thread(1, &[Op::Read(0), Op::Down(3)])
        .thread(0, &[Op::Barrier { id: 0, local: 1, total: 2 }]);
    Configuration { name: "checker/unanswered", states: 0, job }
}

#[test]
fn a_deadlock_is_found_and_reported_step_by_step() {
    let report = check(&unanswered());
    assert!(!report.is_clean());
    let counterexample = report.counterexample.expect("nobody posts, nobody comes");
    assert_eq!(counterexample.property, "no deadlock");
    let page = "Page { minipage: m0.0, body:";
    let steps = [
        format!(
            "thread 0 on node 1 faults to read m0; sends {page} Request {{ kind: Read }} }} to node 0"
        ),
        "thread 1 on node 0 waits to barrier 0 (1 here, 2 in all)".to_owned(),
        format!(
            "node 0 takes {page} Request {{ kind: Read }} }} of node 1; \
             sends {page} Reply {{ kind: Read, attach: Page, ack_now: false, turns: 0 }} }} with 0 to node 1; \
             m0 goes from ReadWrite to ReadOnly on node 0"
        ),
        format!(
            "node 1 takes {page} Reply {{ kind: Read, attach: Page, ack_now: false, turns: 0 }} }} with 0 of node 0; \
             m0 goes from NoAccess to ReadOnly on node 1; thread 0 wakes"
        ),
        format!(
            "thread 0 on node 1 resumes to read m0; sends {page} Ack {{ turn_us: 0 }} }} (deferred) to node 0"
        ),
        "thread 0 on node 1 does read m0".to_owned(),
        "thread 0 on node 1 waits to wait for semaphore 3".to_owned(),
    ];
    let told = counterexample.to_string();
    assert!(told.starts_with("does not hold: no deadlock\n   1. "), "{told}");
    let mut expected = steps.to_vec();
    let mut found = counterexample.steps.clone();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected, "in some order: {told}");
}

#[test]
fn misuse_by_the_checked_program_is_reported_as_refused_input() {
    let job = Job::new(1).thread(0, &[Op::Lock(0), Op::Lock(0)]);
    let report = check(&Configuration { name: "checker/misuse", states: 0, job });
    let counterexample = report.counterexample.expect("the lock is held already");
    assert_eq!(counterexample.property, "the engines accept every input");
    assert_eq!(counterexample.steps.len(), 2);
    assert!(counterexample.last.iter().any(|line| line.contains("held by this thread")));
}

#[test]
fn a_wrong_number_of_states_is_not_clean() {
    let job = Job::new(1).minipage(0, 0).thread(0, &[Op::Write(0, 1)]);
    let row = |states| Configuration { name: "checker/count", states, job: job.clone() };
    assert!(check(&row(2)).is_clean());
    assert!(!check(&row(3)).is_clean());
}
