//! Named segments as C programs use them, on 1 to 4 nodes under every guard and transport.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use support::c::{compile, guards, launcher};
use support::{Setting, TestDir, run, run_well, settings};

#[test]
fn a_segment_lives_as_its_name_and_its_attaches_say() {
    let dir = TestDir::new();
    let program = compile(&dir, "segments");
    for setting in settings(&[1, 2, 4], guards()) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn a_segment_is_the_same_whatever_the_job_has_and_with_learning() {
    let dir = TestDir::new();
    let program = compile(&dir, "segments");
    for options in [&["--learn", "on"] as &[_], &["--tracking", "scans"]] {
        let setting = Setting { options, ..Setting::nodes(3) };
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn threads_of_all_nodes_make_use_and_remove_the_same_segments() {
    let dir = TestDir::new();
    let program = compile(&dir, "segment_threads");
    for setting in settings(&[1, 2, 4], guards()) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn what_an_attach_does_not_allow_ends_the_program_with_a_line() {
    let dir = TestDir::new();
    let program = compile(&dir, "segments");
    let lines = [
        ("never", "in a named segment that this node is not attached to"),
        ("detached", "in a named segment that this node is not attached to"),
        ("to read", "in a named segment that this node is attached to for reading alone"),
    ];
    for (what, line) in lines {
        for setting in settings(&[1, 2], guards()) {
            let ended = run(&launcher(), &setting, &program, &[what]);
            assert_ne!(ended.code, Some(0), "{what} as {setting:?}: {ended:?}");
            assert!(ended.err.contains(line), "{what} as {setting:?}: {ended:?}");
        }
    }
}

/// Pages that moved while two nodes wrote to one in turn.
fn moved(setting: &Setting, program: &std::path::Path, arguments: &[&str]) -> u64 {
    let out = run_well(&launcher(), setting, program, arguments);
    let number = out.trim().rsplit(' ').next().and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{out}"))
}

#[test]
fn paper_s2_1_a_time_window_bounds_how_often_a_page_moves() {
    let dir = TestDir::new();
    let program = compile(&dir, "windows");
    for setting in settings(&[2], guards()) {
        let without = moved(&setting, &program, &["0"]);
        for arguments in [&["100000"] as &[_], &["100000", "page"]] {
            let with = moved(&setting, &program, arguments);
            assert!(with < without, "{with} and {without} as {setting:?}");
        }
    }
}

#[test]
fn a_time_window_is_known_to_all_nodes_when_it_is_set() {
    let dir = TestDir::new();
    let program = compile(&dir, "window_settings");
    for setting in settings(&[1, 4], guards()) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn pages_go_compressed_where_that_is_shorter_and_arrive_as_they_were() {
    let dir = TestDir::new();
    let program = compile(&dir, "compression");
    for setting in settings(&[2, 3], guards()) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn no_other_node_sees_locked_pages_in_part() {
    let dir = TestDir::new();
    let program = compile(&dir, "page_locks");
    for setting in settings(&[1, 2, 4], guards()) {
        run_well(&launcher(), &setting, &program, &[]);
    }
}

#[test]
fn programs_of_one_job_attach_to_the_same_segment() {
    let dir = TestDir::new();
    let (writes, reads) = (compile(&dir, "writes"), compile(&dir, "reads"));
    let path = reads.to_str().unwrap();
    for others in ["1", "2"] {
        for setting in settings(&[2], guards()) {
            run_well(&launcher(), &setting, &writes, &["seven", ":", "-n", others, path]);
        }
    }
    for (wrong, line) in [
        (&["seven", ":", "-n", "1"] as &[_], "after ': -n 1' comes a program"),
        (&["seven", ":", "-n", "0", path], "after ': -n' comes a number of nodes"),
        (&["seven", ":", "-n", "1", "/no/such/program"], "/no/such/program"),
    ] {
        let ended = run(&launcher(), &Setting::nodes(2), &writes, wrong);
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert!(ended.err.contains(line), "{ended:?}");
    }
}
