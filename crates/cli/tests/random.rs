//! `multigrain random`: programs of every consistency on real nodes, and what the command says when
//! one fails.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use support::{Ended, multigrain, run};

fn random(arguments: &str) -> Ended {
    run(multigrain().arg("random").args(arguments.split_whitespace()))
}

/// Runs programs of a mode; each takes other nodes, threads, transports and ways to wait.
fn programs_of(mode: &str) {
    let ended = random(&format!("--seed 1 --runs 8 --length 60 --json --consistency {mode}"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let summary: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&summary["jobs"], &summary["wrong"]), (&8.into(), &0.into()), "{ended:?}");
    assert!(summary["operations"].as_u64().unwrap() > 500, "{ended:?}");
    assert!(ended.err.contains("8 of 8: --seed 8 "), "{}", ended.err);
}

#[test]
fn reads_on_sequential_memory_are_those_of_a_sequential_execution() {
    programs_of("sequential");
}

#[test]
fn reads_on_eager_memory_are_those_of_a_sequential_execution() {
    programs_of("eager-release");
}

#[test]
fn reads_on_lazy_memory_are_those_of_a_sequential_execution() {
    programs_of("lazy-release");
}

#[test]
fn reads_on_memory_that_adapts_are_those_of_a_sequential_execution() {
    programs_of("auto");
}

#[test]
fn reads_on_memories_of_all_kinds_are_those_of_a_sequential_execution() {
    programs_of("mixed");
}

#[test]
fn reads_of_pages_that_threads_of_a_node_open_release_and_acquire_at_one_time_are_those_of_a_sequential_execution()
 {
    for mode in ["lazy-release", "auto"] {
        let ended = random(&format!(
            "--sweeps --seed 1 --runs 3 --nodes 2 --threads 4 --guard mprotect --json --consistency {mode}"
        ));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[test]
fn a_node_that_finds_other_bytes_ends_the_job_and_the_line_says_how_to_repeat_it() {
    let ended = random("--seed 4 --runs 3 --nodes 2 --guard mprotect --length 20 --spoil");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("multigrain: random: seed 4 is wrong"), "{}", ended.err);
    assert!(ended.err.contains(" expected [") && ended.err.contains("], found ["), "{}", ended.err);
    let again = "  again: multigrain random --runs 1 --times 20 --seed 4 --nodes 2 ";
    assert!(ended.err.contains(again), "{}", ended.err);
    assert!(ended.out.contains("1 jobs, "), "the first failure ends it: {}", ended.out);
}

#[test]
fn a_job_that_does_not_end_is_ended_and_called_a_hang() {
    let ended = random("--seed 4 --runs 1 --nodes 2 --length 20 --limit 2 --stall");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("seed 4 hangs\n  multigrain: deadlock: node "), "{}", ended.err);
    assert!(ended.err.contains("--seed 4 --nodes 2 "), "{}", ended.err);
    assert!(ended.out.contains("0 wrong, 1 hung"), "{}", ended.out);
    let left: Vec<_> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains("random --node") && line.contains("--stall"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_seed_means_one_program() {
    let show = |seed| random(&format!("--show --runs 1 --length 40 --seed {seed}")).out;
    assert_eq!(show(7), show(7));
    assert_ne!(show(7), show(8));
}
