//! Memory of every kind: allocation, consistency, system calls on it, and that it goes back.

use super::run_in_every_way;
use crate::support::c::{compile, guards, launcher};
use crate::support::{Setting, TestDir, run, run_well};

#[test]
fn memory_is_coherent_whatever_its_kind_and_history() {
    run_in_every_way("memory", &[1, 2, 4], 1);
}

#[test]
fn what_the_system_takes_out_of_page_tables_comes_back_at_each_access() {
    run_in_every_way("dropped", &[1, 2], 1);
}

#[test]
fn the_rest_of_mallocs_family_is_as_mallocs_is() {
    run_in_every_way("malloc", &[1, 2], 1);
    let dir = TestDir::new();
    let program = compile(&dir, "malloc");
    for consistency in ["eager-release", "lazy-release", "auto"] {
        run_well(&launcher(), &Setting { consistency, ..Setting::nodes(2) }, &program, &[]);
    }
}

#[test]
fn fresh_memory_costs_no_fault_and_is_counted_with_two_threads_as_well() {
    run_in_every_way("fresh", &[1, 2], 2);
}

#[test]
fn pages_that_a_node_has_not_touched_are_there_when_it_writes_them() {
    run_in_every_way("pages", &[2, 3], 1);
}

#[test]
fn memory_of_every_consistency_is_what_its_rules_promise() {
    run_in_every_way("consistency", &[1, 2, 4], 1);
}

#[test]
fn a_job_sets_what_memory_promises_that_asks_for_nothing() {
    let dir = TestDir::new();
    let program = compile(&dir, "consistency");
    for consistency in ["eager-release", "lazy-release"] {
        let setting = Setting { consistency, ..Setting::nodes(2) };
        run_well(&launcher(), &setting, &program, &[consistency]);
    }
}

#[test]
fn a_system_that_maps_no_more_areas_is_named_and_the_job_goes_on() {
    let dir = TestDir::new();
    let program = compile(&dir, "areas");
    let ended = run(&launcher(), &Setting::nodes(2), &program, &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("raise vm.max_map_count"), "{ended:?}");
}

#[test]
fn a_limit_of_addresses_that_is_reached_later_is_named_and_not_that_of_mappings() {
    let dir = TestDir::new();
    let program = compile(&dir, "areas");
    for &guard in guards() {
        let setting = Setting { guard, ..Setting::nodes(2) };
        let ended = run(&launcher(), &setting, &program, &["limited"]);
        assert_eq!(ended.code, Some(0), "{guard}: {ended:?}");
        assert!(ended.err.contains("`ulimit -v` allows "), "{guard}: {ended:?}");
        assert!(!ended.err.contains("raise vm.max_map_count"), "{guard}: {ended:?}");
    }
}

#[test]
fn what_a_node_could_not_map_is_given_back_by_all() {
    let dir = TestDir::new();
    let program = compile(&dir, "unmapped");
    for &guard in guards() {
        for node in ["0", "1", "2"] {
            let setting = Setting { guard, options: &["--shared", "1500M"], ..Setting::nodes(3) };
            let ended = run(&launcher(), &setting, &program, &[node]);
            assert_eq!(ended.code, Some(0), "{setting:?}: {ended:?}");
            // At the first of the eight times, the second, the fourth and the last.
            assert_eq!(
                ended.err.matches("no room to map area").count(),
                4,
                "{setting:?}: {ended:?}"
            );
        }
    }
}

#[test]
fn hints_and_system_calls_on_shared_buffers_work() {
    run_in_every_way("hints", &[1, 2, 4], 1);
}

#[test]
fn system_calls_and_stdio_on_memory_that_is_elsewhere_lose_nothing() {
    run_in_every_way("io", &[1, 2], 1);
}

#[test]
fn a_range_that_leaves_its_allocation_is_refused_and_so_is_a_private_name() {
    run_in_every_way("ranges", &[1, 2], 1);
}

#[test]
fn freed_memory_goes_back_to_the_system_and_to_all_nodes() {
    let dir = TestDir::new();
    let program = compile(&dir, "room");
    for &guard in guards() {
        let options = &["--shared", "64M"];
        let setting = Setting { guard, options, ..Setting::nodes(2) };
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn memory_that_a_node_frees_and_another_makes_again_is_written_in_order() {
    let dir = TestDir::new();
    let program = compile(&dir, "handed_on");
    let options = &["--check-races"];
    for (nodes, threads) in [(2, 2), (4, 3)] {
        let setting =
            Setting { threads, consistency: "lazy-release", options, ..Setting::nodes(nodes) };
        for _ in 0..5 {
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
fn memory_that_is_free_is_to_be_had_by_any_node_for_any_use() {
    let dir = TestDir::new();
    let program = compile(&dir, "spare");
    let options = &["--shared", "64M"];
    for &guard in guards() {
        for (nodes, consistency) in [(1, "sequential"), (2, "lazy-release"), (8, "sequential")] {
            let setting = Setting { guard, consistency, options, ..Setting::nodes(nodes) };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
fn threads_that_make_and_free_one_item_make_no_area_for_it() {
    let dir = TestDir::new();
    let program = compile(&dir, "pairs");
    for consistency in ["sequential", "lazy-release", "auto"] {
        for _ in 0..4 {
            let setting = Setting { consistency, ..Setting::nodes(1) };
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

#[test]
fn a_node_that_it_says_nothing_to_costs_a_node_little() {
    let dir = TestDir::new();
    let program = compile(&dir, "own_memory");
    let of = |nodes| {
        let options = &["--no-tag-output"];
        let ended = run(&launcher(), &Setting { options, ..Setting::nodes(nodes) }, &program, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out.trim().parse::<u32>().unwrap()
    };
    let [few, many] = [2, 66].map(of);
    assert!(many <= few + 5 * 64, "{few} KiB of 2 nodes, {many} KiB of 66");
}

#[test]
fn areas_that_come_and_go_leave_next_to_nothing() {
    let dir = TestDir::new();
    let program = compile(&dir, "given_back");
    for nodes in [1, 3] {
        run_well(&launcher(), &Setting::nodes(nodes), &program, &[]);
    }
    for consistency in ["eager-release", "lazy-release"] {
        // What is learnt of areas has a bound of its own, which so few do not reach.
        let setting = Setting { consistency, options: &["--learn", "off"], ..Setting::nodes(3) };
        run_well(&launcher(), &setting, &program, &["read"]);
        run_well(&launcher(), &setting, &program, &["unread"]);
    }
}

#[test]
fn a_name_for_what_was_freed_and_taken_away_gives_no_address() {
    let dir = TestDir::new();
    let program = compile(&dir, "dangling");
    run_well(&launcher(), &Setting::nodes(2), &program, &[]);
}

#[test]
fn a_tebibyte_is_freed_at_once_and_is_no_minipage() {
    let dir = TestDir::new();
    let program = compile(&dir, "room");
    let options = &["--shared", "2T"];
    let ended = run(&launcher(), &Setting { options, ..Setting::nodes(2) }, &program, &["huge"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("has at most 1 GiB; choose a smaller grain"), "{ended:?}");
}

#[test]
fn a_node_has_no_huge_pages_of_its_own() {
    run_in_every_way("small", &[1, 2], 1);
}

#[test]
fn touches_that_are_far_apart_cost_little() {
    let dir = TestDir::new();
    let program = compile(&dir, "sparse");
    let options = &["--shared", "128G"];
    run_well(&launcher(), &Setting { options, ..Setting::nodes(2) }, &program, &[]);
}

#[test]
fn a_million_minipages_work() {
    run_in_every_way("million", &[2], 1);
}

/// What is freed reads as zeros: a node that could write it said that it had, in four of five runs.
#[test]
fn memory_that_is_freed_was_written_by_nobody() {
    let dir = TestDir::new();
    let program = compile(&dir, "freed_array");
    let options = &["--check-races", "--learn", "on"];
    for &guard in guards() {
        let setting = Setting { guard, options, consistency: "auto", ..Setting::nodes(7) };
        for _ in 0..3 {
            run_well(&launcher(), &setting, &program, &[]);
        }
    }
}

/// Whoever does an operation on it gets a code, or the signal of any access.
#[test]
fn an_atomic_operation_on_what_is_being_freed_accuses_nobody() {
    let dir = TestDir::new();
    let program = compile(&dir, "freed_atomic");
    for guard in guards() {
        let setting = Setting { guard, ..Setting::nodes(2) };
        let ended = run(&launcher(), &setting, &program, &[]);
        assert!(!ended.err.contains("broke the protocol"), "{ended:?}");
        assert!(matches!(ended.code, Some(0 | 139)), "{ended:?}");
    }
}
