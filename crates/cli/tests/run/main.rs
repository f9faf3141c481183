//! `multigrain run` as a user meets it: output, exit codes, and who is blamed.

mod mistakes;
mod output;
#[path = "../support/mod.rs"]
mod support;

use rustix::process::{Signal, kill_process};
use std::collections::BTreeMap;
use std::time::Duration;
use support::{alive, launcher, multigrain, pid_of, run, start, unique_time};

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
                   --consistency lazy-release --check-races --transport tcp -x BANNER=a=b --no-tag-output";
    let script = "[ $MULTIGRAIN_RANK = 1 ] && env | grep -E '^(MULTIGRAIN_|BANNER)'; exit 0";
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
        ("BANNER", "a=b"),
    ] {
        assert_eq!(variables.get(name), Some(&value), "{name}");
    }
    assert_eq!(variables["MULTIGRAIN_JOB"].len(), 32);
    assert!(variables["MULTIGRAIN_SECRET_FD"].parse::<u32>().unwrap() > 2);
    let peers: Vec<&str> = variables["MULTIGRAIN_PEERS"].split(',').collect();
    assert!(peers.len() == 2 && peers.iter().all(|peer| peer.starts_with("tcp:127.0.0.1:")));
}

#[test]
fn what_a_node_proves_itself_with_is_in_a_pipe_and_in_no_environment() {
    let script = "cat /proc/self/fd/$MULTIGRAIN_SECRET_FD; tr '\\0' '\\n' < /proc/$$/environ; env";
    for (options, certificate) in [("", false), ("--encrypt auto", false), ("--encrypt on", true)] {
        let options = format!("-n 1 --transport tcp {options}");
        let ended = run(&mut launcher(&options, script));
        let mut lines = ended.out.lines();
        let (secret, own) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(secret.len() == 64 && secret.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_eq!(!own.is_empty(), certificate, "{options}");
        let rest: Vec<&str> = lines.collect();
        assert!(rest.iter().any(|line| line.starts_with("MULTIGRAIN_SECRET_FD=")), "{ended:?}");
        let mut secrets = own.split('.').filter(|part| part.len() > 63).chain([secret]);
        assert!(secrets.all(|part| rest.iter().all(|line| !line.contains(part))), "{ended:?}");
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
