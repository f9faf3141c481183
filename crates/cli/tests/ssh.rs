//! Jobs over hosts with a real sshd in each (`support/network.rs`).
//!
//! This test binary is also the program of a job, as in `hosts.rs`.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use rustix::process::Signal;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use support::network::{Network, Quirk};
use support::{Ended, assert_gone_within, count, run, start, unique_time, wait_until};

/// Longer than a host may go unheard, with what it takes to end a job.
const SOON: Duration = Duration::from_secs(5);
fn has_counted(ended: &Ended, nodes: usize) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = format!("the total is {}", nodes * 100);
    assert_eq!(ended.out.matches(&line).count(), nodes, "{ended:?}");
}

#[test]
fn nodes_share_memory_over_hosts_that_ssh_reaches() {
    let Some(network) = Network::new(2, false) else { return };
    has_counted(&run(&mut network.nodes("--hosts h1:2,h2:2 --timeout 60")), 4);
    let peers = run(network.job("--hosts h1,h2").args(["sh", "-c", "echo $MULTIGRAIN_PEERS"]));
    assert_eq!(peers.out.matches("tcp:10.77.0.2:").count(), 2, "{peers:?}");
    assert_eq!(peers.out.matches("tcp:10.77.0.3:").count(), 2, "{peers:?}");
}

#[test]
fn hosts_that_know_only_version_6_are_hosts_too() {
    let Some(network) = Network::new(2, true) else { return };
    has_counted(&run(&mut network.nodes("--hosts h1:2,h2 --timeout 60")), 3);
}

#[test]
fn a_cut_cable_ends_the_job_on_both_sides() {
    let Some(network) = Network::new(2, false) else { return };
    let time = unique_time();
    let sleep = format!("sleep {time} & (setsid sleep {time} &); echo pid $$; sleep {time}");
    let mut job = start(network.job("--hosts h1,h2").args(["bash", "-c", &sleep]));
    job.lines(2);
    network.plug(2, false);
    assert_gone_within(SOON, &format!("sleep {time}"));
    let ended = job.wait();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    let line = "on h2) was lost with its host: no word from its agent for 3 s; the job ends";
    assert!(ended.line().ends_with(line), "{ended:?}");
}

/// Until its agent speaks a host may be slow; ssh itself learns that it is cut off.
#[test]
fn a_cable_cut_before_the_agent_speaks_ends_the_job() {
    let Some(network) = Network::new(2, false) else { return };
    let sleep = format!("sleep {}", unique_time());
    let script = format!(
        "#!/bin/bash\nexec $(type -Pa ssh | sed -n 2p) -F $CONFIG \"${{@:1:$#-1}}\" \"{sleep}; ${{@: -1}}\"\n"
    );
    let job = start(network.job_by_ssh(&script, "--hosts h1,h2").arg("true"));
    wait_until("both shells run", || (1..=2).all(|host| !network.processes(host).is_empty()));
    network.plug(2, false);
    let cut = Instant::now();
    let ended = job.wait();
    // Longer than a slow login, which ssh cannot tell from that.
    assert!(cut.elapsed() < Duration::from_secs(25), "{:?}: {ended:?}", cut.elapsed());
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.line().contains("host h2: no agent could be started"), "{ended:?}");
}

/// ssh asks whether its server is there while that looks for the user's key, too.
#[test]
fn a_login_that_takes_its_time_is_waited_for() {
    let slow = |host| Quirk { login_seconds: if host == 2 { 4 } else { 0 }, ..Quirk::default() };
    let Some(network) = Network::with(2, false, slow) else { return };
    let script = "#!/bin/bash\nexec $(type -Pa ssh | sed -n 2p) -F $CONFIG \"$@\"\n";
    let ended = run(network.job_by_ssh(script, "--hosts h1,h2").arg("true"));
    assert_eq!((ended.code, ended.own_lines().len()), (Some(0), 0), "{ended:?}");
}

/// What ssh then says of its connection is no line of its own.
#[test]
fn a_host_whose_processes_are_all_killed_gets_one_line() {
    let Some(network) = Network::new(2, false) else { return };
    let script =
        "#!/bin/bash\nexec $(type -Pa ssh | sed -n 2p) -o LogLevel=INFO -F $CONFIG \"$@\"\n";
    for _ in 0..3 {
        let sleep = ["bash", "-c", "echo up; exec sleep 60"];
        let mut job = start(network.job_by_ssh(script, "--hosts h1,h2").args(sleep));
        job.lines(2);
        network.signal(2, Signal::KILL);
        let ended = job.wait();
        assert!(ended.line().contains(" closed by remote host.; the job ends"), "{ended:?}");
        assert_gone_within(SOON, "sleep 60");
    }
}

#[test]
fn a_host_that_vanishes_ends_the_job() {
    let Some(network) = Network::new(2, false) else { return };
    let time = unique_time();
    let sleep = format!("sleep {time} & (setsid sleep {time} &); echo pid $$; sleep {time}");
    let mut job = start(network.job("--hosts h1,h2").args(["bash", "-c", &sleep]));
    job.lines(2);
    network.signal(2, Signal::KILL);
    let ended = job.wait();
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.err.contains(" on h2) was lost with its host"), "{ended:?}");
    assert_gone_within(SOON, &time);
}

/// The program of the jobs; does nothing without the launcher.
#[test]
#[ignore = "a node of the job"]
fn node() {
    if std::env::var("MULTIGRAIN_RANK").is_ok() {
        assert!(multigrain::run(count) == ExitCode::SUCCESS);
    }
}
