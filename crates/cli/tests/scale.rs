//! `multigrain scale` as a user meets it: a table, a plot, and one line for what is wrong.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use serde_json::Value;
use support::{Ended, multigrain, run};

/// All costs, so that nothing is measured.
const COSTS: [&str; 15] = [
    "--latency-us=10",
    "--bandwidth-gbit=10",
    "--fault-us=8",
    "--service-us=4",
    "--send-us=2.5",
    "--wake-us=20",
    "--element-ns=2",
    "--apps",
    "sor,lu,jacobi",
    "--nodes",
    "2,64",
    "--input",
    "small",
    "--manager",
    "spread",
];

fn scale(arguments: &[&str]) -> Ended {
    run(multigrain().arg("scale").args(arguments))
}

#[test]
fn a_projection_has_a_point_for_each_number_of_nodes_and_draws_them() {
    let file = std::env::temp_dir().join(format!("multigrain-scale-{}.svg", std::process::id()));
    let svg = file.to_str().unwrap();
    let ended = scale(&[&COSTS[..], &["--json", "--svg", svg]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(result["costs"]["byte_ps"], 800);
    let apps = result["apps"].as_array().unwrap();
    let names: Vec<&str> = apps.iter().map(|app| app["app"].as_str().unwrap()).collect();
    assert_eq!(names, ["sor", "lu", "jacobi"]);
    for app in apps {
        let points = app["points"].as_array().unwrap();
        let nodes: Vec<u64> = points.iter().map(|point| point["nodes"].as_u64().unwrap()).collect();
        assert_eq!(nodes, [2, 64]);
        let two = &points[0];
        assert!(two["speed_up"].as_f64().unwrap() > 1.0, "{app}");
        assert!(two["speed_up"].as_f64().unwrap() < 2.0, "{app}");
        assert!(two["messages"].as_u64() < points[1]["messages"].as_u64(), "{app}");
    }
    let plot = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(plot.matches("<polyline").count(), 3);
    assert!(plot.contains(">jacobi</text>") && plot.contains(">64</text>"));
}

#[test]
fn the_table_is_for_people_and_names_the_input() {
    let ended = scale(&COSTS);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("lu --size 1024 --block 32; 2.00 ns an element"), "{ended:?}");
    assert!(ended.out.lines().any(|line| line.starts_with("64 ")), "{ended:?}");
}

/// On a network of 10 us and 10 Gbit/s, with nodes as fast as ours.
#[test]
fn nearest_neighbours_with_inputs_that_fill_the_machines_keep_most_of_64_nodes() {
    for input in ["filling", "growing"] {
        let given = [&COSTS[..7], &["--apps", "sor,jacobi", "--nodes", "8,64", "--json"]].concat();
        let ended = scale(&[&given[..], &["--input", input, "--manager", "spread"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let result: Value = serde_json::from_str(&ended.out).unwrap();
        for app in result["apps"].as_array().unwrap() {
            for point in app["points"].as_array().unwrap() {
                assert!(point["efficiency"].as_f64().unwrap() > 0.7, "{input}: {app}");
            }
            let of = |point: usize| app["points"][point]["flags"].as_str().unwrap();
            assert_eq!(of(0) == of(1), input == "filling", "{app}");
        }
    }
}

#[test]
fn bad_input_gets_one_line() {
    for (arguments, code, says) in [
        (&["--apps", "sor,mandelbrot"][..], 2, "mandelbrot"),
        (&["--nodes", "0"], 2, "1 to 1024"),
        (&["--latency-us=-3"], 2, "0.001 to 1000000"),
        (&["--element-ns=2", "--costs", "/nonexistent"], 1, "cannot read /nonexistent"),
        (&["--element-ns=2", "--costs", "/proc/version"], 1, "bench costs --json"),
        (&[&COSTS[..6], &["--apps-dir", "/nonexistent"]].concat(), 1, "make apps"),
        (&["--apps-dir", "/nonexistent"], 1, "make apps"),
        (&["--validate", "--apps-dir", "/nonexistent"], 1, "make apps"),
    ] {
        let ended = scale(arguments);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(says), "{ended:?}");
        assert_eq!(ended.own_lines().len(), 1, "{ended:?}");
        assert!(!ended.err.contains("measuring costs"), "{ended:?}");
        assert_eq!(ended.out, "");
    }
}
