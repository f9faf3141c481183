//! `multigrain check` as a user meets it.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use support::{multigrain, run};

#[test]
fn a_chosen_group_is_checked_and_added_up() {
    let ended = run(multigrain().args(["check", "lock/over", "litmus/load-buffering"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 3, "{ended:?}");
    let states = |line: &str| {
        let before = line.split(" states").next().and_then(|text| text.rsplit(' ').next());
        before.and_then(|number| number.replace(',', "").parse::<u64>().ok())
    };
    assert!(lines[0].starts_with("litmus/load-buffering"), "{}", lines[0]);
    assert!(lines[0].contains("3 outcomes") && lines[0].ends_with("holds"), "{}", lines[0]);
    assert!(lines[1].starts_with("lock/over-data"), "{}", lines[1]);
    // Each row has found the number that its configuration says, or it would not hold.
    let sum = states(lines[0]).unwrap() + states(lines[1]).unwrap();
    let expected = format!("2 configurations, {sum} states, 3 litmus outcomes");
    assert!(sum > 100 && lines[2].starts_with(&expected), "{ended:?}");
}

#[test]
fn release_consistency_is_in_the_same_table() {
    let ended = run(multigrain().args(["check", "lock/over", "lazy/counter", "mixed/one-lock"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), 7, "{ended:?}");
    for (line, name) in lines.iter().zip(["lock/over-data", "lazy/counter", "lazy/counter-at"]) {
        assert!(line.starts_with(name) && line.ends_with("holds"), "{line}");
    }
    assert!(lines[4].starts_with("mixed/one-lock "), "{}", lines[4]);
    assert!(lines[6].starts_with("6 configurations, "), "{}", lines[6]);
}

#[test]
fn the_long_form_lists_more_configurations_than_the_short_one() {
    let lines = |arguments: &[&str]| {
        let ended = run(multigrain().args(["check", "--list"]).args(arguments));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out.lines().count()
    };
    assert!(lines(&["--long"]) > lines(&[]));
    assert_eq!(lines(&["lock/over-data"]), 1);
}

#[test]
fn an_unknown_name_is_refused_in_one_line() {
    let ended = run(multigrain().args(["check", "lock", "cohesion"]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
    let expected = "multigrain: check: no configuration begins with cohesion; \
                    multigrain check --list has them";
    assert_eq!(ended.line(), expected);
}

/// What a command prints with `--json`.
fn json_of(arguments: &[&str]) -> serde_json::Value {
    let ended = run(multigrain().args(arguments).arg("--json"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

#[test]
fn results_for_programs_are_one_object_and_nothing_else() {
    let found = json_of(&["check", "lock/over", "litmus/load-buffering"]);
    assert_eq!((&found["command"], &found["holds"]), (&"check".into(), &true.into()));
    assert_eq!((&found["done"], &found["of"]), (&2.into(), &2.into()));
    let second = &found["results"][1];
    assert_eq!((&second["name"], &second["holds"]), (&"lock/over-data".into(), &true.into()));
    assert_eq!(second["states"], second["expected"]);
    let run = &json_of(&["sim", "--nodes", "3", "--steps", "20000", "--seed", "5"])["results"][0];
    assert_eq!((&run["seed"], &run["nodes"]), (&5.into(), &3.into()));
    let runs = json_of(&["sim", "--release", "--seed", "7", "--runs", "20"]);
    assert_eq!(runs["results"].as_array().map(Vec::len), Some(20));
    let here = ["litmus", "mp", "--guard", "mprotect", "--transport", "unix", "--manager", "first"];
    let litmus = json_of(&[&here[..], &["--layout", "page", "--placement", "own"]].concat());
    let of_test = &litmus["results"][0];
    assert_eq!((&of_test["test"], &of_test["forbidden"]), (&"MP".into(), &0.into()));
    assert_eq!(of_test["outcomes"][0]["allowed"], true);
}

#[test]
fn what_is_cut_short_says_how_far_it_came_and_how_to_have_all() {
    let ended = run(multigrain().args(["check", "--long", "--within", "1"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let last = ended.err.lines().last().unwrap();
    assert!(last.contains(" of ") && last.ends_with("--within 0 does all"), "{ended:?}");
    assert!(ended.took.as_secs() < 60, "{ended:?}");
}

#[test]
fn figures_of_a_part_are_no_proof() {
    let file = std::env::temp_dir().join(format!("multigrain-check-{}.md", std::process::id()));
    let proof = ["check", "lock/over", "--proof", file.to_str().unwrap()];
    assert_eq!(run(multigrain().args(proof)).code, Some(2));
    assert!(!file.exists());
}
