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

#[test]
fn programs_on_release_consistent_memory_run_and_write_their_own_section() {
    let file = std::env::temp_dir().join(format!("multigrain-sim-{}.md", std::process::id()));
    let proof = ["--runs", "20", "--proof", file.to_str().unwrap()];
    let ended = run(multigrain().args(["sim", "--release", "--seed", "7"]).args(proof));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let mut lines = ended.out.lines();
    assert!(lines.next().unwrap().starts_with("seed 7, version "), "{ended:?}");
    assert!(lines.next().unwrap().starts_with("20 runs held, "), "{ended:?}");
    assert!(ended.out.contains("steps/cpu s"), "{ended:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(text.contains("<!-- sim-release -->"), "{text}");
    assert!(text.contains("`multigrain sim --release --seed 7 --runs 20`"), "{text}");
}

#[test]
fn what_is_drawn_for_release_consistent_memory_cannot_be_given() {
    let ended = run(multigrain().args(["sim", "--release", "--nodes", "4"]));
    assert_eq!(ended.code, Some(2), "{ended:?}");
}
