//! `multigrain bench` as a user meets it: every row is there, and the counts are those of the
//! protocol. Times are not judged here.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use serde_json::Value;
use std::process::{Command, Stdio};

fn bench(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multigrain"));
    command.arg("bench").args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn job<'a>(result: &'a Value, program: &str) -> &'a Value {
    let jobs = result["jobs"].as_array().unwrap();
    jobs.iter().find(|job| job["program"] == program).unwrap()
}

fn row<'a>(job: &'a Value, key: &str) -> &'a Value {
    let rows = job["rows"].as_array().unwrap();
    rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no row {key}"))
}

/// Messages and page bytes of one operation.
fn counts(job: &Value, key: &str) -> (f64, f64) {
    let counts = &row(job, key)["counts"];
    (counts["messages"].as_f64().unwrap(), counts["page_bytes"].as_f64().unwrap())
}

#[test]
fn paths_has_every_access_path_with_its_operations_and_a_fetch() {
    let result = bench(&["paths", "--quick", "--json", "--apps-dir", "/nonexistent"]);
    let of = |rows: &Value, at: &dyn Fn(&Value) -> Value| -> Vec<String> {
        let paths = rows.as_array().unwrap().iter().map(at);
        paths.map(|path| path["path"].as_str().unwrap().to_owned()).collect()
    };
    let operations = of(&result["operations"]["ways"], &|way| way[0].clone());
    let fetches = of(&result["fetches"], &|fetched| fetched["way"].clone());
    assert_eq!(operations, fetches);
    for path in ["memfd", "file", "sysv", "mdup"] {
        assert!(operations.iter().any(|found| found == path), "{path}: {operations:?}");
    }
    for way in result["operations"]["ways"].as_array().unwrap() {
        for operation in ["make", "first_copy", "copy", "open", "close", "end"] {
            assert!(way[1][operation]["median_us"].as_f64().unwrap() > 0.0, "{operation}: {way}");
        }
    }
    for table in ["characteristics", "programs"] {
        assert_eq!(result[table].as_array().unwrap().len(), 0, "{table}");
    }
    paths_tables(&result);
}

/// ParADE's Tables 1 and 3.
fn paths_tables(result: &Value) {
    let is_time = |time: &Value| time["median_us"].as_f64().unwrap() > 0.0;
    let calls = result["calls"]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 17);
    assert!(calls.iter().all(|call| is_time(&call["page"]) && is_time(&call["large"])));
    assert!(is_time(&result["calls"]["trap"]));
    let made = result["initialization"].as_array().unwrap();
    let sizes = made.iter().map(|of| (of["application"].as_str().unwrap(), of["mib"].as_u64()));
    let papers = [("CG", 64), ("EP", 0), ("Helmholtz", 32), ("MD", 1)];
    assert!(sizes.eq(papers.map(|(application, mib)| (application, Some(mib)))), "{made:?}");
    for of in made {
        let paths = of["paths"].as_array().unwrap();
        assert!(paths.len() == 4 && paths.iter().all(is_time), "{of}");
        for bare in ["floor", "written", "forked"] {
            assert_eq!(of[bare]["samples"], 2, "{of}");
        }
    }
}

#[test]
fn paths_draws_its_figures_and_measures_the_parts_it_is_asked_for() {
    let place = std::env::temp_dir().join(format!("multigrain-paths-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let (parts, svg) = (["--only", "fetches,programs"], place.to_str().unwrap());
    let result = bench(
        &[&["paths", "--quick", "--json", "--apps-dir", "/nonexistent", "--svg", svg], &parts[..]]
            .concat(),
    );
    let figures = ["paths-10.svg", "paths-11.svg"]
        .map(|figure| std::fs::read_to_string(place.join(figure)).unwrap());
    std::fs::remove_dir_all(&place).unwrap();
    assert_eq!(result.as_object().unwrap().len(), 2);
    // The background, and one for each path and guard and for the four floors.
    let ways = result["fetches"].as_array().unwrap().len();
    assert_eq!(figures[0].matches("<rect").count(), 1 + ways + 4);
    assert_eq!(figures[1].matches("<rect").count(), 1);
}

#[test]
fn costs_has_every_row_of_table_1_and_the_counts_of_the_protocol() {
    let result =
        bench(&["costs", "--quick", "--json", "--transport", "unix", "--wait", "adaptive"]);
    assert!(result["machine"]["cpus"].as_u64().unwrap() >= 1);

    let memory = job(&result, "memory");
    for key in ["access-fault", "set-protection-none-read", "set-protection-read-none", "lookup"] {
        let row = row(memory, key);
        assert!(row["ours"]["median_us"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["ours"]["p99_us"].is_number() && row["ratio"].is_number(), "{row}");
        assert!(row["paper_us"].is_string() && row["floor"]["what"].is_string(), "{row}");
    }
    let local = job(&result, "local");
    for key in ["malloc-64", "malloc-64-threads-2", "malloc-102400", "malloc-102400-threads-2"] {
        assert!(row(local, key)["ratio"].as_f64().unwrap() > 0.0, "{key}");
    }
    for key in ["fault-local", "get-protection", "lock-cached", "barrier-1"] {
        assert!(row(local, key)["ours"]["samples"].as_u64().unwrap() > 0, "{key}");
    }

    let pair = job(&result, "pair");
    for key in ["message-0", "message-512", "message-1024", "message-4096"] {
        assert!(row(pair, key)["ratio"].is_number(), "{key}");
    }
    // Request, reply, ack: Millipage 3.3. An upgrade's reply has no page in it.
    for bytes in [128, 512, 1024, 4096, 65536] {
        for kind in ["read", "write"] {
            let key = format!("{kind}-fetch-{bytes}");
            assert_eq!(counts(pair, &key), (3.0, f64::from(bytes)), "{key}");
        }
    }
    // As many as of ours, in turn with them.
    let (bare, ours) = (row(pair, "bare-read-fetch-4096"), row(pair, "read-fetch-4096"));
    assert_eq!(bare["ours"]["samples"], ours["ours"]["samples"]);
    assert!(bare["ratio"].is_number() && bare["counts"].is_null(), "{bare}");
    assert_eq!(counts(pair, "read-fetch-asleep"), (3.0, 4096.0));
    assert_eq!(counts(pair, "read-fetch-computing"), (3.0, 4096.0));
    assert_eq!(counts(pair, "read-fetch-first"), (3.0, 4096.0));
    assert_eq!(counts(pair, "upgrade"), (3.0, 0.0));
    assert_eq!(counts(pair, "barrier-2"), (2.0, 0.0));
    assert_eq!(counts(pair, "allreduce-2"), (2.0, 0.0));
    for key in ["barrier-threads-16", "barrier-threads-64"] {
        assert!(row(pair, key)["ours"]["median_us"].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(counts(pair, "lock-remote"), (2.0, 0.0));
    assert_eq!(row(pair, "lock-cached")["counts"]["page_bytes"], 0.0);

    let many = job(&result, "many");
    assert_eq!(counts(many, "read-fetch-forward"), (4.0, 4096.0));
    assert_eq!(counts(many, "read-fetch-direct"), (3.0, 4096.0));
    // Each read copy more is asked to go and says that it went.
    assert_eq!(counts(many, "write-fetch-copies-0"), (3.0, 4096.0));
    assert_eq!(counts(many, "write-fetch-copies-1"), (5.0, 4096.0));
    assert_eq!(counts(many, "barrier-3"), (4.0, 0.0));

    let twins = job(&result, "memory");
    for key in ["twin-4096", "diff-none", "diff-word", "diff-all", "apply-word", "apply-all"] {
        assert!(row(twins, key)["ratio"].as_f64().unwrap() > 0.0, "{key}");
    }
    release_rows(&result);

    let bars = result["bars"].as_array().unwrap();
    assert!(bars.iter().all(|bar| bar["pass"].is_boolean() && bar["limit"].is_number()));
    assert!(bars.len() >= 7, "{bars:?}");
}

/// MGS Table 5 and home-based lazy release: what each operation sends. A diff of a word is 20 bytes.
fn release_rows(result: &Value) {
    let is = |job: &&Value, nodes| job["program"] == "release" && job["nodes"] == nodes;
    let jobs = result["jobs"].as_array().unwrap();
    let two = jobs.iter().find(|job| is(job, 2)).unwrap();
    let four = jobs.iter().find(|job| is(job, 4)).unwrap();
    for key in ["eager-read-fetch", "eager-write-fetch", "lazy-read-fetch"] {
        let (messages, bytes) = counts(two, key);
        // Node 1 may say late that it has come to the barrier in which it serves.
        assert!((2.0..=2.1).contains(&messages) && (4096.0..4100.0).contains(&bytes), "{key}");
        assert!(row(two, key)["ratio"].is_number(), "{key}");
    }
    assert!((1.0..=1.1).contains(&counts(two, "eager-upgrade").0));
    assert!(counts(two, "lazy-upgrade").0 <= 0.1);
    assert!((2.0..=2.1).contains(&counts(two, "lazy-release-1").0));
    assert_eq!(counts(two, "lazy-barrier"), (2.0, 0.0));
    assert_eq!(row(two, "lazy-barrier")["counts"]["notices"], 32.0);
    for job in [two, four] {
        // REL, 1WGR, ACK1W, RACK; REL, 1WINV, 1WDATA, RACK; REL, INV, DIFF, RACK.
        assert_eq!(counts(job, "eager-release-single"), (4.0, 0.0));
        assert_eq!(counts(job, "eager-release-1"), (4.0, 4096.0));
        assert_eq!(counts(job, "eager-release-2"), (4.0, 20.0));
    }
    // Each writer more that is not the home is asked and sends what it wrote; it had not released
    // it, and so waits for its own RACK.
    assert_eq!(counts(four, "eager-release-3"), (8.0, 40.0));
    assert_eq!(counts(four, "eager-release-4"), (12.0, 60.0));
    for key in ["lazy-release-1000-full", "lazy-release-1000-word"] {
        assert!(row(two, key)["ratio"].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(row(two, "eager-upgrade")["paper_us"], "622");
    assert!(two["fetch_parts"]["protocol_us"].is_number() && four["fetch_parts"].is_null());
}

#[test]
fn views_has_a_slowdown_for_each_number_of_views_and_draws_them() {
    let file = std::env::temp_dir().join(format!("multigrain-views-{}.svg", std::process::id()));
    let result = bench(&["views", "--max", "512K", "--json", "--svg", file.to_str().unwrap()]);
    let series = result["series"].as_array().unwrap();
    assert_eq!(series.len(), 1);
    assert_eq!(series[0]["bytes"], 512 << 10);
    let points = series[0]["points"].as_array().unwrap();
    let views: Vec<u64> = points.iter().map(|point| point["views"].as_u64().unwrap()).collect();
    assert_eq!(views, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1664]);
    assert!(points.iter().all(|point| point["slowdown"].as_f64().unwrap() > 0.0));
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(svg.contains("<polyline") && svg.contains("512 KiB"));
}

/// The programs of `apps/sysv`, in a directory of this test's own.
fn sysv_programs() -> String {
    let place = format!("{}/mirage", env!("CARGO_TARGET_TMPDIR"));
    let mut make = Command::new("make");
    make.args(["-s", "-C", concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/sysv")]);
    make.arg(format!("OUT={place}"))
        .args(["battleship", "matmul"].map(|of| format!("{place}/{of}")));
    assert!(make.stdin(Stdio::null()).status().unwrap().success());
    place
}

#[test]
fn mirage_has_its_faults_and_pages_with_the_counts_of_the_protocol() {
    let result = bench(&[
        "mirage",
        "--quick",
        "--json",
        "--only",
        "faults,compression",
        "--apps-dir",
        "/nonexistent",
    ]);
    let of = |rows: &Value, key: &str| {
        let rows = rows.as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == key);
        let counts = &row.unwrap_or_else(|| panic!("no row {key}"))["counts"];
        (counts["messages"].as_f64().unwrap(), counts["page_bytes"].as_f64().unwrap())
    };
    let faults = &result["faults"];
    let fetches = faults["fetches"].as_array().unwrap();
    // Five ways here, two of them on the paper's network, too. Parts are no messages of the protocol.
    assert_eq!(fetches.len(), 7);
    for fetched in fetches {
        for bytes in [1024, 2048, 4096] {
            let counts = of(&fetched["rows"], &format!("read-fetch-{bytes}"));
            assert_eq!(counts, (3.0, f64::from(bytes)), "{}", fetched["way"]);
        }
        assert_eq!(of(&fetched["rows"], "upgrade"), (3.0, 0.0), "{}", fetched["way"]);
    }
    for network in faults["invalidations"].as_array().unwrap() {
        assert_eq!(of(&network[1], "write-fetch-copies-0"), (3.0, 4096.0));
        assert_eq!(of(&network[1], "write-fetch-copies-1"), (5.0, 4096.0));
    }
    for network in ["here", "paper"] {
        let rows = &result["compression"][network];
        for (packets, written) in [(1, 896), (2, 1920), (3, 2944), (4, 4096)] {
            assert_eq!(of(rows, &format!("upto-{written}-none")), (3.0, 4096.0));
            for codec in ["rle", "lz4", "zstd"] {
                let (messages, bytes) = of(rows, &format!("upto-{written}-{codec}"));
                assert_eq!(messages, 3.0);
                let most = f64::from(packets * 1024);
                assert!(bytes > most - 1024.0 && bytes <= most, "{codec}: {bytes} of {written}");
            }
        }
    }
}

#[test]
fn mirage_has_its_programs_with_what_they_move() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: sites need root");
        return;
    }
    let parts = "battleship,matmul,summary";
    let programs = sysv_programs();
    let result = bench(&["mirage", "--quick", "--json", "--only", parts, "--apps-dir", &programs]);
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    let battleship = &result["battleship"];
    for game in battleship["table_5"].as_array().unwrap() {
        let (turns, pages) = (number(&game["turns"]), number(&game["counts"]["pages"]));
        assert_eq!(turns, 197.0);
        // A turn of two sites moves the page once at least (Figure 5).
        let two_sites = game["name"].as_str().unwrap().starts_with("two sites");
        assert!(if two_sites { pages > 0.9 * turns } else { pages < 10.0 }, "{game}");
    }
    let codecs = battleship["figure_6"][0][1].as_array().unwrap();
    let bytes =
        |game: &Value| number(&game["counts"]["page_bytes"]) / number(&game["counts"]["pages"]);
    assert!(codecs.len() == 4 && bytes(&codecs[0]) > 3900.0, "{codecs:?}");
    assert!(codecs[1..].iter().all(|game| bytes(game) < 1024.0), "{codecs:?}");
    let size = &result["matmul"]["sizes"][0];
    let sites = size["sites"].as_array().unwrap();
    assert_eq!((number(&size["size"]), sites.len()), (60.0, 2));
    for of in sites {
        // A, B and C have 11 pages; the worker fetches the first two matrices and the master the third.
        assert!(number(&of["plain"]["counts"]["pages"]) >= 11.0, "{of}");
        let bytes = |how: &str| number(&of[how]["counts"]["page_bytes"]);
        assert!(bytes("compressed") < 0.8 * bytes("plain"), "{of}");
    }
    let summary = result["summary"].as_array().unwrap();
    assert_eq!(summary.len(), 6);
    assert!(
        summary.iter().all(|way| way["game"]["turns"] == 197.0 && way["product"]["ms"].is_number())
    );
}

#[test]
fn the_measuring_nodes_are_no_command_of_the_user() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_multigrain")).args(["bench", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let is_command = |name| help.lines().any(|line| line.trim_start().starts_with(name));
    assert!(is_command("costs ") && is_command("views ") && !is_command("node "), "{help}");
}
