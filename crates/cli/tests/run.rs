//! `multigrain run` as a user meets it: output, exit codes, and who is blamed.

mod support;

use rustix::process::{Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{
    alive, asleep, assert_gone_within, launcher, multigrain, pid_of, run, start, unique_time,
    wait_until,
};

const SOON: Duration = Duration::from_secs(3);

#[test]
fn a_program_that_knows_nothing_of_us_runs_on_every_node() {
    let ended = run(multigrain().args(["run", "-n", "2", "--", "echo", "hello"]));
    assert_eq!(ended.code, Some(0));
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] hello", "[1] hello"]);
    assert_eq!(ended.err, "");
}

#[test]
fn the_environment_is_that_of_the_contract() {
    let options = "-n 2 -t 3 --guard mprotect --wait block --manager spread --shared 1G --chunk 4 \
                   --consistency lazy-release --check-races --transport tcp -x GREETING=a=b --no-tag-output";
    let script = "[ $MULTIGRAIN_RANK = 1 ] && env | grep -E '^(MULTIGRAIN_|GREETING)'; exit 0";
    let ended = run(&mut launcher(options, script));
    let variables: BTreeMap<&str, &str> =
        ended.out.lines().filter_map(|line| line.split_once('=')).collect();
    for (name, value) in [
        ("MULTIGRAIN_RANK", "1"),
        ("MULTIGRAIN_NODES", "2"),
        ("MULTIGRAIN_THREADS", "3"),
        ("MULTIGRAIN_GUARD", "mprotect"),
        ("MULTIGRAIN_WAIT", "block"),
        ("MULTIGRAIN_MANAGER", "spread"),
        ("MULTIGRAIN_SHARED", "1073741824"),
        ("MULTIGRAIN_CHUNK", "4"),
        ("MULTIGRAIN_CONSISTENCY", "lazy-release"),
        ("MULTIGRAIN_CHECK_RACES", "on"),
        ("GREETING", "a=b"),
    ] {
        assert_eq!(variables.get(name), Some(&value), "{name}");
    }
    assert_eq!(variables["MULTIGRAIN_JOB"].len(), 32);
    assert_eq!(variables["MULTIGRAIN_SECRET"].len(), 64);
    let peers: Vec<&str> = variables["MULTIGRAIN_PEERS"].split(',').collect();
    assert!(peers.len() == 2 && peers.iter().all(|peer| peer.starts_with("tcp:127.0.0.1:")));
}

#[test]
fn nodes_of_one_host_have_certificates_only_if_the_user_wants_them() {
    let script = "[ -n \"$MULTIGRAIN_CREDENTIALS\" ] && echo some || echo none";
    for (options, expected) in [("", "none"), ("--encrypt auto", "none"), ("--encrypt on", "some")]
    {
        let ended = run(&mut launcher(&format!("-n 1 --transport tcp {options}"), script));
        assert_eq!(ended.out.trim(), expected, "{options}");
    }
}

#[test]
fn a_node_inherits_its_own_two_sockets_and_no_others() {
    let script = "echo $MULTIGRAIN_LISTEN_FD $MULTIGRAIN_CONTROL_FD; \
                  for f in /proc/$$/fd/*; do readlink $f; done | grep -c socket:; \
                  readlink /proc/$$/fd/$MULTIGRAIN_LISTEN_FD; cat /proc/$$/personality";
    let ended = run(&mut launcher("-n 3", script));
    for rank in 0..3 {
        let tag = format!("[{rank}] ");
        let lines: Vec<&str> = ended.out.lines().filter_map(|l| l.strip_prefix(&tag)).collect();
        assert_eq!(lines[1], "2", "{}", ended.out);
        assert!(lines[2].starts_with("socket:"), "{}", ended.out);
        assert_eq!(lines[3], "00040000", "address randomization is off");
    }
}

#[test]
fn the_exit_code_is_that_of_the_failing_node() {
    let ended = run(&mut launcher("-n 4", "[ $MULTIGRAIN_RANK = 2 ] && exit 3; sleep 60"));
    assert_eq!(ended.code, Some(3));
    assert!(ended.line().starts_with("multigrain: node 2 (pid "), "{ended:?}");
    assert!(ended.line().ends_with(") exited with code 3; the job ends"), "{ended:?}");
    assert!(ended.took < SOON);
}

#[test]
fn a_killed_node_ends_the_others_even_those_that_ignore_sigterm() {
    let time = unique_time();
    let script = format!("trap '' TERM; echo pid $$; sleep {time}; sleep {time}");
    let mut job = start(&mut launcher("-n 4", &script));
    let lines = job.lines(4);
    kill_process(pid_of(2, &lines), Signal::KILL).unwrap();
    let ended = job.wait();
    assert_eq!(ended.code, Some(137));
    assert!(ended.line().ends_with("was killed by signal 9 (SIGKILL); the job ends"));
    assert!(ended.line().starts_with("multigrain: node 2 "));
    assert!(ended.took < SOON, "{ended:?}");
    assert_eq!(alive(&time), [""; 0]);
}

#[test]
fn nodes_that_lost_a_peer_are_not_blamed() {
    // Node 1 dies when the others have gone: processes without a command line.
    let script = "echo ready >&$MULTIGRAIN_CONTROL_FD
        there() { grep -qs . /proc/$(cat $PIDS/$1)/cmdline; }
        if [ $MULTIGRAIN_RANK = 1 ]; then
            for other in 0 2; do
                until [ -s $PIDS/$other ] && ! there $other; do sleep 0.01; done
            done
            kill -SEGV $$
        fi
        echo $$ > $PIDS/$MULTIGRAIN_RANK
        echo 'lost 1 connection reset' >&$MULTIGRAIN_CONTROL_FD; exit 75";
    let pids = std::env::temp_dir().join(format!("multigrain-pids-{}", std::process::id()));
    std::fs::create_dir(&pids).unwrap();
    let ended = run(launcher("-n 3", script).env("PIDS", &pids));
    std::fs::remove_dir_all(&pids).unwrap();
    assert_eq!(ended.code, Some(139), "{ended:?}");
    assert!(ended.line().contains("node 1 (pid "), "{ended:?}");
    assert!(ended.line().contains("signal 11 (SIGSEGV)"), "{ended:?}");
}

#[test]
fn a_peer_that_hangs_is_named_and_killed() {
    let script = "echo ready >&$MULTIGRAIN_CONTROL_FD
        if [ $MULTIGRAIN_RANK = 1 ]; then kill -STOP $$; fi
        echo 'lost 1 no answer' >&$MULTIGRAIN_CONTROL_FD; exit 75";
    let ended = run(&mut launcher("-n 2", script));
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.line().contains("was lost by node 0: no answer"), "{ended:?}");
    assert!(ended.took < SOON);
}

#[test]
fn leaving_without_finalize_is_a_failure_while_others_stay() {
    let script = "echo ready >&$MULTIGRAIN_CONTROL_FD; [ $MULTIGRAIN_RANK = 1 ] || sleep 60";
    let ended = run(&mut launcher("-n 3", script));
    assert_eq!(ended.code, Some(1));
    assert!(ended.line().contains("node 1 (pid "), "{ended:?}");
    assert!(ended.line().ends_with("left without mg_finalize; the job ends"), "{ended:?}");
    assert!(ended.took < SOON);
}

#[test]
fn refused_connections_are_named_once_and_a_node_that_says_why_it_ends_is_quoted_in_the_verdict() {
    let script = "exec >&$MULTIGRAIN_CONTROL_FD
        echo 'refused a visitor'; echo 'refused a visitor'; echo nonsense; echo 'fatal no luck'; exit 4";
    let ended = run(&mut launcher("-n 1", script));
    assert_eq!(ended.own_lines().len(), 2, "{ended:?}");
    assert_eq!(ended.own_lines()[0], "multigrain: node 0: a visitor");
    assert!(ended.own_lines()[1].ends_with(") failed: no luck; the job ends"), "{ended:?}");
    assert_eq!(ended.code, Some(4));
}

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
    // Until the pipe to the reader is full, and who writes has to wait.
    wait_until("the pipe is full and both nodes wait", || {
        job.unread() > 60_000 && asleep("seq 500000")
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

#[test]
fn mistakes_get_one_line_and_the_codes_of_a_shell() {
    let code = |words: &[&str]| run(multigrain().arg("run").args(words)).code;
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["-n", "0", "true"]), Some(2));
    assert_eq!(code(&["-n", "1025", "true"]), Some(2));
    assert_eq!(code(&["--guard", "wall", "true"]), Some(2));
    assert_eq!(code(&["--shared", "12Q", "true"]), Some(2));
    assert_eq!(code(&["--stats", "/nonexistent/file", "true"]), Some(2));
    assert_eq!(code(&["--tracking", "dogs", "true"]), Some(2));
    let missing = run(multigrain().args(["run", "-n", "4", "no-such-program"]));
    assert_eq!(missing.code, Some(127));
    assert!(missing.line().starts_with("multigrain: no-such-program: no such program"));
    let unusable = run(multigrain().args(["run", "-n", "4", "/etc/passwd"]));
    assert_eq!(unusable.code, Some(126));
    assert!(unusable.line().contains("is not executable"));
}

#[test]
fn what_every_node_would_refuse_the_launcher_refuses() {
    for (options, variable, line) in [
        ("--tracking scans --check-races", ("", ""), "--check-races finds races by faults"),
        ("--tracking scans --guard uffd", ("", ""), "--tracking scans needs the guard mprotect"),
        ("--check-races", ("MULTIGRAIN_TRACKING", "scans"), "--check-races finds races by faults"),
        ("-x MULTIGRAIN_TRACKING=scans --check-races", ("", ""), "--check-races finds races"),
        (
            "--tag-output",
            ("MULTIGRAIN_WAIT", "doze"),
            "invalid argument: MULTIGRAIN_WAIT cannot be",
        ),
        ("--tag-output", ("MULTIGRAIN_THREADS", "4097"), "invalid argument: MULTIGRAIN_THREADS"),
        ("-x MULTIGRAIN_CHUNK=65537", ("", ""), "invalid argument: MULTIGRAIN_CHUNK cannot be"),
    ] {
        let mut command = multigrain();
        command.args(["run", "-n", "3"]).args(options.split(' ')).args(["--", "echo", "there"]);
        if !variable.0.is_empty() {
            command.env(variable.0, variable.1);
        }
        let ended = run(&mut command);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.line().starts_with(&format!("multigrain: {line}")), "{ended:?}");
    }
    for (option, value, limit) in [
        ("-t", "4097", "4096"),
        ("-t", "65536", "4096"),
        ("--chunk", "65537", "65536"),
        ("--shared", "16T", "17587891077120 bytes, almost 16T"),
        ("--shared", "999T", "almost 16T, at most"),
    ] {
        let ended =
            run(multigrain().args(["run", "-n", "3", option, value, "--", "echo", "there"]));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.contains(limit), "{ended:?}");
    }
    let ended = run(multigrain().args(["run", "--tracking", "scans", "--", "echo", "there"]));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "there\n"), "{ended:?}");
}

#[test]
fn too_few_descriptors_give_one_line_that_names_ulimit() {
    let time = unique_time();
    let launch = format!("ulimit -n 60; exec \"$0\" run -n 20 sleep {time}");
    let mut command = std::process::Command::new("bash");
    let ended = run(command.args(["-c", &launch, env!("CARGO_BIN_EXE_multigrain")]));
    assert_eq!(ended.code, Some(125));
    assert!(ended.line().contains("ulimit -n"), "{ended:?}");
    assert_gone_within(SOON, &time);
}

/// The launcher in a world that `prepare` makes first, with namespaces of its own; None where those are
/// not allowed.
fn in_namespaces(prepare: &str, arguments: &str) -> Option<support::Ended> {
    let namespaces = ["--user", "--map-root-user", "--net", "--mount"];
    let allowed = Command::new("unshare").args(namespaces).arg("true").output();
    if !allowed.is_ok_and(|tried| tried.status.success()) {
        eprintln!("no namespaces here");
        return None;
    }
    let script = format!("{prepare}; exec {} {arguments}", env!("CARGO_BIN_EXE_multigrain"));
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", &script]).stdin(Stdio::null());
    Some(run(&mut command))
}

#[test]
fn a_loopback_interface_that_is_down_is_named_as_the_cause() {
    let tcp = "run -n 2 --transport tcp echo there";
    let Some(down) = in_namespaces("true", tcp) else { return };
    assert_eq!((down.code, down.out.as_str()), (Some(125), ""), "{down:?}");
    assert!(down.line().contains("ip link set lo up"), "{down:?}");
    let unix = in_namespaces("true", "run -n 2 echo there").unwrap();
    assert_eq!((unix.code, unix.out.lines().count()), (Some(0), 2), "{unix:?}");
}

#[test]
fn a_missing_dev_is_named_as_the_cause_and_the_warden_does_without() {
    let no_dev = "mount -t tmpfs none /dev";
    let Some(two) = in_namespaces(no_dev, "run -n 2 echo there") else { return };
    assert_eq!((two.code, two.out.as_str()), (Some(125), ""), "{two:?}");
    assert!(two.line().contains("/dev/null, the stdin of node 1 (is /dev mounted?)"), "{two:?}");
    // Its warden waits for the launcher's end, instead of having taken it for dead.
    let warden = "run --timeout 10 sh -c 'until cat $(grep -l mg-warden $(sed \"s|[0-9][0-9]*|/proc/&/comm|g\" \
                  /proc/$PPID/task/$PPID/children) | sed s/comm/status/) | grep -q State:.S; \
                  do sleep 0.01; done'";
    let one = in_namespaces(no_dev, warden).unwrap();
    assert_eq!(one.code, Some(0), "{one:?}");
}

#[test]
fn a_mistyped_option_is_refused_and_not_run_as_a_program() {
    for (words, line) in [
        ("run --gaurd uffd -n 2 true", "error: unexpected argument '--gaurd' found"),
        ("run -np 4 true", "error: invalid value 'p' for '--nodes <N>'"),
        ("run --version", "error: unexpected argument '--version' found"),
        ("run -z -- true", "error: unexpected argument '-z' found"),
    ] {
        let ended = run(multigrain().args(words.split(' ')));
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.err.starts_with(line), "{ended:?}");
    }
    let ended = run(multigrain().args(["run", "--gaurd", "uffd", "true"]));
    assert!(ended.err.contains("a similar argument exists: '--guard'"), "{ended:?}");
}

#[test]
fn a_mistyped_command_gets_a_hint() {
    for (given, meant) in [("rnu", "run"), ("ru", "run"), ("chekc", "check"), ("sacle", "scale")] {
        let ended = run(multigrain().arg(given));
        assert_eq!(ended.code, Some(2));
        let hint = ended.err.lines().find(|line| line.contains("similar subcommand"));
        assert!(hint.is_some_and(|hint| hint.contains(&format!("'{meant}'"))), "{ended:?}");
    }
    let ended = run(multigrain().arg("something"));
    assert!(ended.code == Some(2) && !ended.err.contains("similar"), "{ended:?}");
}

#[test]
fn options_after_the_program_are_the_programs() {
    for words in ["run printf %s --version -n 3 --", "run -n 1 -- printf %s --version -n 3 --"] {
        let ended = run(multigrain().args(words.split(' ')));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "--version-n3--"), "{ended:?}");
    }
}
