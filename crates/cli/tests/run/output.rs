//! What comes out of a job: output, counters, and what happens to a reader that is slow or goes away.

use crate::support::{
    alive, asleep, does, launcher, multigrain, not_tried, run, start, unique_time, wait_until,
};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn the_summary_and_the_stats_file_hold_the_counters() {
    let file = std::env::temp_dir().join(format!("multigrain-stats-{}", std::process::id()));
    let options = format!("-n 2 --summary --stats {}", file.display());
    let script = r#"exec >&$MULTIGRAIN_CONTROL_FD; echo ready
        echo 'stats {"read_faults": 1000, "locks": 0}'; echo left"#;
    let ended = run(&mut launcher(&options, script));
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("multigrain: 2 nodes, "), "{ended:?}");
    assert!(ended.err.contains("2,000 read"), "{ended:?}");
    assert!(!ended.err.contains("sync"), "a row of zeros: {ended:?}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(json["nodes"][1]["stats"]["read_faults"], 1000);
    assert_eq!(json["total"]["read_faults"], 2000);
}

#[test]
fn the_stats_file_says_why_a_job_that_ended_badly_has_no_counters() {
    let file = std::env::temp_dir().join(format!("multigrain-no-stats-{}", std::process::id()));
    let options = format!("-n 2 --timeout 1 --stats {}", file.display());
    let script = r#"exec >&$MULTIGRAIN_CONTROL_FD; echo ready
        [ $MULTIGRAIN_RANK = 1 ] && echo 'stats {"locks": 3}'; exec sleep 100"#;
    let ended = run(&mut launcher(&options, script));
    assert_eq!(ended.code, Some(124));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(json["why"], "time-out after 1 s; the job ends");
    assert_eq!((&json["counted_nodes"], &json["total"]["locks"]), (&1.into(), &3.into()));
    let why = json["nodes"][0]["no_stats"].as_str().unwrap();
    assert!(why.contains("sends its counters in mg_finalize"), "{why}");
    assert_eq!(json["nodes"][1].get("no_stats"), None);
}

#[test]
fn big_output_of_many_nodes_keeps_its_lines() {
    let script = "seq -f 'line %.0f of some length, to fill the pipes' 100000; printf partial";
    let ended = run(&mut launcher("-n 4", script));
    let mut next = [1_usize; 4];
    let mut partial = 0;
    for line in ended.out.lines() {
        let rank: usize = line[1..2].parse().unwrap();
        if line[4..] == *"partial" {
            partial += 1;
            continue;
        }
        assert_eq!(line[4..], format!("line {} of some length, to fill the pipes", next[rank]));
        next[rank] += 1;
    }
    assert_eq!((next, partial), ([100_001; 4], 4));
}

#[test]
fn a_slow_reader_loses_nothing() {
    let mut job = start(&mut launcher("-n 2", "seq 500000; exit 0"));
    // Until the pipe to the reader is full, and the writer has to wait. Its 16 pages may be full in part: each
    // write begins a new one if the last has no room for its end.
    wait_until("the pipe is full and both nodes wait", || {
        job.unread() > 30_000 && asleep("seq 500000")
    });
    let first = job.lines(1).len();
    let ended = job.wait();
    assert_eq!(first + ended.out.lines().count(), 1_000_000);
    assert_eq!(ended.code, Some(0));
}

#[test]
fn a_single_node_is_passed_through_as_it_is() {
    let ended = run(&mut launcher("-n 1", "printf 'a\\nb'; printf oops >&2"));
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("a\nb", "oops"));
    assert_eq!(run(&mut launcher("-n 1 --tag-output", "echo a")).out, "[0] a\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_job_quietly() {
    let time = unique_time();
    let script = format!("yes & sleep {time}");
    let mut command = launcher("-n 2", &script);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn a_reader_that_takes_nothing_does_not_hold_a_job_that_a_signal_has_ended() {
    let time = unique_time();
    let job = start(&mut launcher("-n 2", &format!("yes {time}")));
    wait_until("the pipe is full and both nodes wait", || job.unread() > 30_000 && asleep(&time));
    job.signal(Signal::TERM);
    // Its stdout is read after its end alone.
    let stat = format!("/proc/{}/stat", job.pid());
    wait_until("the launcher has ended", || {
        std::fs::read_to_string(&stat).unwrap().contains(") Z ")
    });
    let ended = job.wait();
    assert_eq!(ended.code, Some(143));
    assert!(ended.err.contains("multigrain: output was lost: nobody reads it\n"), "{}", ended.err);
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn output_for_a_closed_stdout_is_an_error_and_closed_descriptors_are_none() {
    let of = |script: &str| run(std::process::Command::new("bash").args(["-c", script]));
    let launch = format!("{} run -n 2 --", env!("CARGO_BIN_EXE_multigrain"));
    let lost = of(&format!("{launch} echo lost >&-"));
    let line = "multigrain: output was lost, stdout is closed\n";
    assert_eq!((lost.code, lost.err.as_str()), (Some(125), line));
    assert_eq!(of(&format!("{launch} true >&-")).code, Some(0));
    assert_eq!(of(&format!("{launch} cat <&- 2>&-")).code, Some(0));
    if !does("unshare --mount true") {
        return not_tried("`unshare --mount` is not allowed");
    }
    let bare = of(&format!("unshare --mount bash -c 'mount -t tmpfs x /dev; {launch} true <&-'"));
    assert_eq!(bare.code, Some(125), "{bare:?}");
    assert!(bare.err.starts_with("multigrain: ") && bare.err.lines().count() == 1, "{bare:?}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = launcher("-n 2", "echo lost");
    let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(125));
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(line.starts_with("multigrain: output was lost") && line.lines().count() == 1, "{line}");
}

#[test]
fn a_stats_file_that_cannot_be_written_is_an_error() {
    for (script, code) in [("exit 0", 125), ("exit 3", 3)] {
        let output = launcher("-n 1 --stats /dev/full", script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        let lines = said.matches("multigrain: the file of --stats could not be written").count();
        assert_eq!(lines, 1, "{said}");
    }
}

#[test]
fn stdin_goes_to_node_0_alone() {
    let mut command = launcher("-n 2", "cat");
    let file = std::fs::File::open("/etc/hostname").unwrap();
    let ended = run(command.stdin(file));
    let expected = std::fs::read_to_string("/etc/hostname").unwrap();
    assert_eq!(ended.out, format!("[0] {expected}"));
}

/// Copies of it ran, and nothing said that they are no nodes.
#[test]
fn a_program_without_the_library_is_named_where_there_is_a_summary() {
    let apart = "is not linked with Multigrain: 4 copies have run that share nothing";
    let ended = run(multigrain().args(["run", "-n", "4", "--summary", "true"]));
    assert!(ended.code == Some(0) && ended.err.contains(apart), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    let quiet = run(multigrain().args(["run", "-n", "4", "true"]));
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""), "scripts see no line");
    let alone = run(multigrain().args(["run", "-n", "1", "--summary", "true"]));
    assert!(!alone.err.contains("copies"), "{alone:?}");
    // It has the library in itself, and does not join.
    let ours = [env!("CARGO_BIN_EXE_multigrain"), "--version"];
    let ours = run(multigrain().args(["run", "-n", "4", "--summary"]).args(ours));
    let line = "no node has called mg_init, so that nothing is shared";
    assert!(ours.code == Some(0) && ours.err.contains(line), "{ours:?}");
}
