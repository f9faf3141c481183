//! `multigrain run --emulate`: nodes take at least as long as on that network would, and results are right.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use serde_json::Value;
use support::{multigrain, run};

/// Medians of a job of two nodes, in microseconds.
struct Medians(Value);

impl Medians {
    fn of(options: &str) -> Self {
        let mut command = multigrain();
        command.args([
            "run",
            "-n",
            "2",
            "--no-tag-output",
            "--learn",
            "off",
            "--manager",
            "allocator",
        ]);
        command.args(options.split(' ')).args(["--", env!("CARGO_BIN_EXE_multigrain")]);
        command.args([
            "bench",
            "node",
            "scale",
            "--samples",
            "8",
            "--minipages",
            "64",
            "--batch",
            "8",
        ]);
        let ended = run(&mut command);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{options}: {ended:?}");
        Self(serde_json::from_str(&ended.out).unwrap())
    }

    fn at_least(&self, key: &str, microseconds: f64) {
        let rows = self.0["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        let median = row["ours"]["median_us"].as_f64().unwrap();
        assert!(median >= microseconds, "{key}: {median} us");
    }
}

#[test]
fn a_fetch_takes_a_round_trip_on_every_kind_of_link_and_way_of_waiting() {
    for options in [
        "--emulate 2ms",
        "--emulate 2ms --wait spin",
        "--emulate 2ms --wait block --transport tcp",
        "--emulate 2ms --transport tcp --encrypt on",
    ] {
        let medians = Medians::of(options);
        for key in ["scale-fetch", "barrier-2", "lock-remote"] {
            medians.at_least(key, 4000.0);
        }
    }
}

#[test]
fn a_page_takes_as_long_as_its_bits() {
    // 4096 bytes, and the latency of both ways.
    Medians::of("--emulate 10M").at_least("scale-fetch", 3276.0);
    Medians::of("--emulate 1ms,10M").at_least("scale-fetch", 5276.0);
}

#[test]
fn networks_that_make_no_sense_are_refused_in_one_line() {
    let line = "give a latency of 1us to 100ms, bits a second from 1M to 1000G, or both";
    for network in ["50", "0G", "10s", "50us,", "10G,50us"] {
        let ended = run(multigrain().args(["run", "--emulate", network, "--", "echo", "there"]));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.lines().next().unwrap().contains(line), "{ended:?}");
        let mut command = multigrain();
        command.env("MULTIGRAIN_EMULATE", network).args(["run", "--", "echo", "there"]);
        let ended = run(&mut command);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        let start =
            format!("multigrain: invalid argument: MULTIGRAIN_EMULATE cannot be {network}: ");
        assert!(ended.line().starts_with(&start) && ended.line().contains(line), "{ended:?}");
    }
}
