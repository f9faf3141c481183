//! What operations cost, in messages and faults, and what the counters of a job say.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::run_in_every_way;
use crate::support::c::{compile, guards, launcher, must_succeed, source};
use crate::support::{Setting, TestDir, run_well, settings};
use serde_json::Value;

/// Runs a program well on two nodes: its summary, and its file of statistics.
/// Nothing is fetched ahead: what comes so in time is no trap.
fn summarized(dir: &TestDir, program: &Path, arguments: &[&str]) -> (String, String) {
    let file = dir.path().join("stats.json");
    let mut command = Command::new(launcher());
    command.args(["run", "-n", "2", "--learn", "off", "--summary", "--timeout", "60", "--stats"]);
    command.arg(&file);
    let ended = command.arg(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {said}");
    (said, fs::read_to_string(&file).unwrap())
}

#[test]
fn what_homes_write_is_found_by_faults_or_without() {
    let dir = TestDir::new();
    let program = compile(&dir, "tracking");
    let faults = Setting::nodes(2);
    run_well(&launcher(), &faults, &program, &["faults"]);
    let options = &["--learn", "on"];
    run_well(&launcher(), &Setting { options, ..faults.clone() }, &program, &["ahead"]);
    let options = &["--tracking", "scans"];
    run_well(&launcher(), &Setting { options, ..faults }, &program, &["scans"]);
}

#[test]
fn a_flush_of_many_pages_gets_one_answer() {
    run_in_every_way("flush", &[2], 1);
}

#[test]
fn faults_cost_the_messages_the_paper_says() {
    run_in_every_way("counts", &[2], 1);
}

#[test]
fn locks_that_needed_no_message_are_not_remote() {
    run_in_every_way("remote", &[1, 2, 3], 1);
}

#[test]
fn a_node_that_computes_behind_close_waits_answers() {
    run_in_every_way("computes", &[2, 3], 1);
}

#[test]
fn scans_get_their_minipages_in_runs() {
    let dir = TestDir::new();
    let program = compile(&dir, "runs");
    for setting in settings(&[1, 2, 3], guards()) {
        let setting = Setting { options: &["--learn", "on"], ..setting };
        run_well(&launcher(), &setting, &program, &["counts"]);
        for consistency in ["sequential", "eager-release", "lazy-release", "auto"] {
            let setting = Setting { consistency, ..setting.clone() };
            run_well(&launcher(), &setting, &program, &[]);
            let released: &[&str] = match consistency {
                "sequential" => &[],
                "eager-release" => &["released", "eager"],
                _ => &["released"],
            };
            if !released.is_empty() {
                run_well(&launcher(), &setting, &program, released);
            }
            if setting.nodes == 2 && setting.guard == "mprotect" {
                run_well(&launcher(), &setting, &program, &["zeros"]);
            }
        }
    }
}

#[test]
fn what_a_node_reads_and_then_writes_is_fetched_once() {
    let dir = TestDir::new();
    let program = compile(&dir, "migratory");
    for setting in settings(&[2], guards()) {
        let setting = Setting { options: &["--learn", "on"], ..setting };
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn small_blocks_that_nodes_write_in_turn_are_opened_together() {
    let dir = TestDir::new();
    let program = compile(&dir, "small_blocks");
    for setting in settings(&[2], guards()) {
        let setting = Setting { consistency: "auto", options: &["--learn", "on"], ..setting };
        for arguments in [&["fine"][..], &["fine", "others"], &["fine", "locked"]] {
            run_well(&launcher(), &setting, &program, arguments);
        }
    }
}

/// ADR 66.
#[test]
fn small_blocks_that_adapt_cost_a_release_no_more_than_their_pages() {
    let dir = TestDir::new();
    let program = compile(&dir, "small_blocks");
    for setting in settings(&[2], guards()) {
        for consistency in ["lazy-release", "auto"] {
            let setting = Setting { consistency, options: &["--learn", "on"], ..setting.clone() };
            for arguments in [&[][..], &["others"], &["locked"]] {
                run_well(&launcher(), &setting, &program, arguments);
            }
        }
    }
}

#[test]
fn what_barriers_take_and_a_node_needs_again_each_time_comes_without_faults() {
    let dir = TestDir::new();
    let program = compile(&dir, "two_writers");
    for setting in settings(&[2], guards()) {
        for consistency in ["lazy-release", "auto"] {
            let options = &["--learn", "on"];
            let setting = Setting { consistency, options, ..setting.clone() };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

/// ADR 67.
#[test]
fn pages_that_are_needed_in_no_order_come_together_once_most_are() {
    let dir = TestDir::new();
    let program = compile(&dir, "scattered");
    for setting in settings(&[2], guards()) {
        for consistency in ["lazy-release", "auto"] {
            let options = &["--learn", "on"];
            let setting = Setting { consistency, options, ..setting.clone() };
            run_well(&launcher(), &setting, &program, &[]);
            run_well(&launcher(), &setting, &program, &["writes"]);
        }
    }
}

/// ADR 62.
#[test]
fn the_node_that_allocates_serves_no_more_than_its_share_of_a_large_job() {
    let dir = TestDir::new();
    let program = compile(&dir, "managers");
    let of_all = |nodes, options, percent| {
        run_well(&launcher(), &Setting { options, ..Setting::nodes(nodes) }, &program, percent);
    };
    of_all(16, &[], &["12", "1"]);
    of_all(9, &[], &["20", "1"]);
    of_all(16, &[], &["12", "1", "own"]);
    of_all(16, &["--manager", "allocator"], &["100", "30"]);
    of_all(8, &[], &["100", "30"]);
}

#[test]
fn a_lock_that_is_free_for_a_thread_that_stays_away_goes_to_those_that_wait() {
    let dir = TestDir::new();
    let program = compile(&dir, "lock_gap");
    for nodes in [1, 2] {
        run_well(&launcher(), &Setting::nodes(nodes), &program, &[]);
    }
}

#[test]
fn a_lock_that_a_node_has_taken_again_and_again_goes_to_another_one_while_that_node_makes_no_call()
{
    let dir = TestDir::new();
    let program = compile(&dir, "lock_left");
    for setting in settings(&[2], &guards()[..1]) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn a_block_that_is_read_again_and_again_comes_alone() {
    let dir = TestDir::new();
    let program = compile(&dir, "reads_again");
    for setting in settings(&[2], guards()) {
        let setting = Setting { consistency: "auto", options: &["--learn", "on"], ..setting };
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn homes_move_to_threads_that_one_of_another_node_has_started_and_joins() {
    let dir = TestDir::new();
    let program = compile(&dir, "workers");
    for consistency in ["lazy-release", "auto"] {
        for setting in settings(&[1, 2, 4], guards()) {
            run_well(&launcher(), &Setting { consistency, ..setting }, &program, &[]);
        }
    }
}

#[test]
fn the_end_of_a_job_says_where_its_time_went_and_counts_what_the_program_did() {
    let dir = TestDir::new();
    let program = compile(&dir, "times");
    let (said, stats) = summarized(&dir, &program, &[]);
    let titles = "  seconds         compute   fault wait    lock wait barrier wait   other wait\n";
    assert!(said.contains(titles), "{said}");
    assert!(said.contains("           4 barrier calls            2 lock calls"), "{said}");
    assert!(!said.contains("_"), "raw names: {said}");
    for zeros in ["release", " other "] {
        assert!(!said.contains(&format!("\n  {zeros}")), "{zeros}: {said}");
    }
    assert!(stats.contains("\"barriers\": 4"), "in sum, without mg_finalize's: {stats}");
    assert_eq!(stats.matches("\"lock_wait_ns\": ").count(), 3, "of nodes and in sum: {stats}");
}

/// A trap counts as one that lazy release would avoid only if its node has neither released nor acquired since
/// the one before, whatever it synchronizes by.
#[test]
fn every_release_and_acquire_ends_an_interval_of_the_sharing_counts() {
    let dir = TestDir::new();
    let program = compile(&dir, "intervals");
    for by in ["semaphore", "unlock", "condition", "rwlock", "join"] {
        let stats: Value = serde_json::from_str(&summarized(&dir, &program, &[by]).1).unwrap();
        let of_nodes = stats["nodes"].as_array().unwrap().iter();
        let shared = of_nodes.flat_map(|node| node["stats"]["sharing"].as_array().unwrap());
        let sum = |count: &str| shared.clone().map(|of| of[count].as_u64().unwrap()).sum::<u64>();
        assert!(sum("faults") >= 4, "{by}: {stats}");
        assert_eq!(sum("again"), 0, "{by}: {stats}");
    }
}

/// As many faults of each node on the one allocation would be spared, but for a few.
fn too_fine(stats: &str, expected: u64) {
    let stats: Value = serde_json::from_str(stats).unwrap();
    for node in stats["nodes"].as_array().unwrap() {
        let shared = &node["stats"]["sharing"][0];
        let count = shared["too_fine"].as_u64().unwrap();
        assert!(count <= expected && count + 25 > expected, "{shared}");
    }
}

/// Minipages that are finer than their use are a line, those of a page are not.
#[test]
fn an_allocation_whose_minipages_are_used_together_has_a_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "fine");
    let source = fs::read_to_string(source("fine.c")).unwrap();
    let place = source.lines().position(|line| line.contains("the place")).unwrap() + 1;
    let grain =
        |said: &str| said.lines().find(|line| line.starts_with("  grain ")).map(str::to_owned);
    let (said, stats) = summarized(&dir, &program, &["fine"]);
    let line = grain(&said).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(&format!("(main, fine.c:{place}): a node uses")), "{line}");
    // 64 elements of 64 bytes fill a page: of those one trap remains, and of each 16th of them one of four.
    too_fine(&stats, 1575);
    let (said, stats) = summarized(&dir, &program, &["apart"]);
    too_fine(&stats, 75);
    assert_eq!(grain(&said), None, "few");
    assert_eq!(grain(&summarized(&dir, &program, &["coarse"]).0), None);
}

/// A trap behind the loss of a neighbour had been one with a coarser grain, too.
#[test]
fn a_trap_behind_the_loss_of_a_neighbour_is_not_too_fine() {
    let dir = TestDir::new();
    let written = dir.path().join("written");
    let program = compile(&dir, "lost_neighbour");
    let (_, stats) = summarized(&dir, &program, &[written.to_str().unwrap()]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    for (node, expected) in [(0, (1, 0)), (1, (4, 1))] {
        let shared = &stats["nodes"][node]["stats"]["sharing"][0];
        let count = |key: &str| shared[key].as_u64().unwrap();
        assert_eq!((count("faults"), count("too_fine")), expected, "node {node}: {shared}");
    }
}

/// The line about false sharing says where the allocation was made: by file and line, and in a program without
/// names by its place in the executable.
#[test]
fn an_allocation_of_any_size_is_named_by_its_place_in_the_program() {
    let dir = TestDir::new();
    let program = compile(&dir, "places");
    let stripped = dir.path().join("stripped");
    must_succeed(Command::new("strip").arg(&program).arg("-o").arg(&stripped));
    let line = fs::read_to_string(source("places.c")).unwrap();
    let line = line.lines().position(|line| line.contains("the place")).unwrap() + 1;
    for bytes in ["256", "65536"] {
        for (program, place) in
            [(&program, format!("(main, places.c:{line})")), (&stripped, "(stripped+0x".to_owned())]
        {
            let (said, _) = summarized(&dir, program, &[bytes]);
            let sharing = said.lines().find(|line| line.starts_with("  sharing ")).unwrap_or(&said);
            assert!(sharing.contains(&place), "{bytes} bytes, {place}: {sharing}");
        }
    }
}

#[test]
fn calls_that_synchronize_are_counted_by_their_kind_and_summed() {
    let dir = TestDir::new();
    let program = compile(&dir, "calls");
    let (said, stats) = summarized(&dir, &program, &[]);
    for line in [
        "  rwlocks            4 read calls            2 write calls\n",
        "  sems               6 wait calls            2 post calls\n",
        "  conds              2 wait calls            4 signal calls\n",
    ] {
        assert!(said.contains(line), "{line}{said}");
    }
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["total"]["sem_waits"], 6, "{stats}");
}
