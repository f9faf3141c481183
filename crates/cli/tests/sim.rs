//! `multigrain sim` as a user meets it.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use support::{multigrain, run};

/// What a run did, as its line ends.
fn trace_of(arguments: &[&str]) -> String {
    let ended = run(multigrain().arg("sim").args(arguments));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut lines = ended.out.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("seed ") && first.contains(", version "), "{first}");
    let line = lines.next().unwrap();
    line.rsplit_once("; run ").unwrap().1.to_owned()
}

#[test]
fn a_seed_replays_its_run_exactly_and_another_does_not() {
    let arguments = ["--nodes", "3", "--steps", "20000", "--seed"];
    let of = |seed| trace_of(&[&arguments[..], &[seed]].concat());
    assert_eq!(of("5"), of("5"));
    assert_ne!(of("5"), of("6"));
}

#[test]
fn what_cannot_be_simulated_is_refused_in_one_line() {
    for wrong in [["--nodes", "1"], ["--nodes", "10001"], ["--hours", "0"], ["--hours", "NaN"]] {
        let ended = run(multigrain().arg("sim").args(wrong));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.line().starts_with("multigrain: sim: "), "{ended:?}");
        assert!(ended.line().contains("choose"), "{ended:?}");
    }
}
