//! `multigrain litmus`: every test on real nodes, in configurations that cover every guard,
//! transport, manager, layout and placement; and the errors of the command.

mod support;

use support::{Ended, multigrain, run};

fn litmus(arguments: &[&str]) -> Ended {
    run(multigrain().arg("litmus").args(arguments))
}

/// Runs all tests in a configuration, with few rounds, in every placement.
fn all_tests(configuration: &str) {
    let mut arguments = vec!["--rounds", "32"];
    arguments.extend(configuration.split_whitespace());
    let ended = litmus(&arguments);
    assert_eq!(ended.code, Some(0), "{configuration}: {ended:?}");
    let tests = litmus(&["--list"]).out.lines().count();
    for placement in ["one", "own"] {
        let heads = ended.out.lines().filter(|line| line.starts_with("Test "));
        let of_placement = heads.filter(|line| line.ends_with(&format!("({placement})")));
        assert_eq!(of_placement.count(), tests, "{placement}: {}", ended.out);
    }
    let verdicts = |word| ended.out.lines().filter(|line| *line == word).count();
    assert_eq!(verdicts("No"), 0, "{}", ended.out);
    assert!(verdicts("Ok") > 2 * tests, "{}", ended.out);
    assert!(ended.out.contains(" 0 forbidden outcomes"), "{}", ended.out);
}

#[test]
fn no_forbidden_outcome_with_userfaultfd_and_minipages_of_one_page() {
    all_tests("--guard uffd --transport unix --manager allocator --layout page");
}

#[test]
fn no_forbidden_outcome_with_userfaultfd_and_variables_in_one_minipage() {
    all_tests("--guard uffd --transport tcp --manager first --layout minipage");
}

#[test]
fn no_forbidden_outcome_with_mprotect_and_minipages_of_one_page() {
    all_tests("--guard mprotect --transport tcp --manager spread --layout page");
}

#[test]
fn no_forbidden_outcome_with_mprotect_and_whole_pages() {
    all_tests("--guard mprotect --transport unix --manager allocator --layout pages");
}

#[test]
fn a_histogram_reads_as_litmus7_writes_it_and_the_figures_go_into_a_file() {
    let file = std::env::temp_dir().join(format!("multigrain-litmus-{}.md", std::process::id()));
    let path = file.to_str().expect("a path of text");
    let ended = litmus(&[
        "mp",
        "--rounds",
        "32",
        "--guard",
        "mprotect",
        "--transport",
        "unix",
        "--manager",
        "first",
        "--layout",
        "page",
        "--placement",
        "own",
        "--proof",
        path,
    ]);
    let written = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines[0], "Test MP Forbidden (own)");
    assert!(lines[1].starts_with("Histogram (") && lines[1].ends_with(" states, 3 allowed)"));
    let states = lines.iter().filter_map(|line| line.split_once(":>"));
    let counts: u64 = states.map(|(count, _)| count.trim().parse::<u64>().expect("a count")).sum();
    assert_eq!(counts, 32, "{}", ended.out);
    assert!(lines.contains(&r"Condition ~exists (1:r0=1 /\ 1:r1=0)"), "{}", ended.out);
    assert!(lines.contains(&"Observation MP Never 0 32"), "{}", ended.out);
    let written = written.expect("the proof is there");
    assert!(
        written.contains("## Litmus tests on real nodes\n\n`multigrain litmus mp "),
        "{written}"
    );
    assert!(written.contains("\n| MP | 1 | 32 | "), "{written}");
}

#[test]
fn an_unknown_test_is_a_usage_error_that_says_where_the_names_are() {
    let ended = litmus(&["SB+nonsense"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("SB+nonsense") && ended.err.contains("--list"), "{}", ended.err);
}
