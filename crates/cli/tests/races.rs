//! `multigrain races`: --check-races finds every planted race and accuses no twin; and what the command
//! says.

mod support;

use support::{Ended, multigrain, run};

fn races(arguments: &[&str]) -> Ended {
    run(multigrain().arg("races").args(arguments))
}

#[test]
fn every_planted_race_is_reported_and_its_twin_is_not() {
    let ended = races(&[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let cases = |nodes| races(&["--list", "--nodes", nodes]).out.lines().count();
    let planted = 3 * (cases("2") + cases("3"));
    let told = format!("{planted} planted races reported, {planted} twins silent, ");
    assert!(planted > 400 && ended.out.starts_with(&told), "{told}: {ended:?}");
}

#[test]
fn the_list_names_every_kind_and_who_writes_and_manages() {
    let listed = races(&["--list"]).out;
    for case in [
        "Barrier, early node 1, late node 0, managed by node 0",
        "Lock, early node 0, late node 2, managed by node 1",
        "UnreadName, early node 2, late node 0",
    ] {
        assert!(listed.lines().any(|line| line == case), "{case}: {listed}");
    }
}

#[test]
fn a_node_without_a_job_and_more_nodes_than_there_are_cases_for_are_refused() {
    let alone = races(&["--node", "/nowhere"]);
    assert_eq!(alone.code, Some(1), "{alone:?}");
    assert!(alone.line().contains("--node is for the command's own jobs"), "{alone:?}");
    assert_eq!(races(&["--nodes", "4"]).code, Some(2));
}
