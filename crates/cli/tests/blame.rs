//! However a job of real nodes ends: one line, which names the node that failed first and says why, and
//! the exit code that goes with it.
//!
//! This test binary is also the program of the job: the launcher starts it with the name of the
//! one test that is a node.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Job, Mutex, Policy, Result};
use multigrain_transport::Header;
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, getpid, kill_process, pidfd_getfd, pidfd_open,
};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use support::{Ended, multigrain, run, start};

/// The exit code of a node that lost a peer.
const LOST_PEER: Option<i32> = Some(75);

/// A job of `nodes` nodes that do what `deed` says.
fn job(nodes: u16, deed: &str) -> std::process::Command {
    let mut command = multigrain();
    command.args(["run", "-n", &nodes.to_string(), "--timeout", "60", "--"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "node", "--ignored", "--nocapture"]);
    command.env("DEED", deed);
    command
}

/// The only line on stderr, of the launcher or of anybody.
fn only_line(ended: &Ended) -> &str {
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    ended.line()
}

#[test]
fn a_node_killed_while_the_job_starts_is_the_only_one_that_is_named() {
    for round in 0..40 {
        let command = &mut job(4, "work");
        let begun = Instant::now();
        let job = start(command);
        let victim = round % 4;
        let pid = loop {
            let found = job.nodes().into_iter().find(|(rank, _)| *rank == victim);
            if let Some((_, pid)) = found {
                break pid;
            }
        };
        // Not a wait for something: when the node dies is what differs from round to round, over
        // the 20 ms in which debug builds join on a machine with nothing else to do.
        thread::sleep(Duration::from_micros(500 * round as u64));
        kill_process(pid, Signal::KILL).unwrap();
        let ended = job.wait();
        let pid = pid.as_raw_nonzero();
        let line = format!(
            "multigrain: node {victim} (pid {pid}) was killed by signal 9 (SIGKILL); the job ends"
        );
        assert_eq!((only_line(&ended), ended.code), (line.as_str(), Some(137)), "round {round}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_node_that_ends_without_joining_is_named_before_the_others_give_up() {
    for (nodes, rank) in [(3, 2), (3, 0)] {
        let ended = run(&mut job(nodes, &format!("stay away {rank}")));
        let line = only_line(&ended);
        assert!(line.starts_with(&format!("multigrain: node {rank} (pid ")), "{ended:?}");
        let end = ") ended without mg_init, while others joined; the job ends";
        assert!(line.ends_with(end), "{ended:?}");
        assert_eq!(ended.code, Some(1));
        assert!(ended.took < Duration::from_secs(10), "{ended:?}");
    }
}

#[test]
fn a_node_that_exits_with_an_error_is_the_only_one_that_is_named() {
    for deed in ["fail early", "fail late"] {
        let ended = run(&mut job(3, deed));
        let line = only_line(&ended);
        assert!(line.starts_with("multigrain: node 1 (pid "), "{ended:?}");
        assert!(line.ends_with(") exited with code 3; the job ends"), "{ended:?}");
        assert_eq!(ended.code, Some(3));
    }
}

#[test]
fn a_peer_that_breaks_the_protocol_is_named_with_what_it_did() {
    for (deed, reason) in [
        ("answer", "it answers thread 0, which has not asked it"),
        ("grant", "Lock(Grant) for the synchronization in state Grant meets Lock {"),
        ("announce", "frame kind 65 makes no sense"),
    ] {
        let ended = run(&mut job(2, deed));
        let line = only_line(&ended);
        assert!(line.starts_with("multigrain: node 1 (pid "), "{ended:?}");
        let said = format!(") was lost by node 0: broke the protocol: {reason}");
        assert!(line.contains(&said), "{ended:?}");
        assert!(line.ends_with("; the job ends"), "{ended:?}");
        assert_eq!(ended.code, LOST_PEER);
    }
}

#[test]
fn a_peer_with_more_threads_that_wait_than_a_node_has_is_named_with_the_limit() {
    let ended = run(&mut job(2, "requests"));
    let line = only_line(&ended);
    let said = ") went beyond a limit at node 0: more than 4096 threads of it wait, the most a node has; the job ends";
    assert!(line.starts_with("multigrain: node 1 (pid ") && line.ends_with(said), "{ended:?}");
    assert_eq!(ended.code, LOST_PEER);
}

#[test]
fn a_node_that_announces_an_area_again_is_named_and_not_who_hears_of_it() {
    let ended = run(&mut job(2, "announce again"));
    let line = only_line(&ended);
    assert!(line.starts_with("multigrain: node 0 (pid "), "{ended:?}");
    let said = ") was lost by node 1: broke the protocol: it announces area 0 again; the job ends";
    assert!(line.ends_with(said), "{ended:?}");
    assert_eq!(ended.code, LOST_PEER);
}

/// The program of the job; does nothing without the launcher.
#[test]
#[ignore = "a node of the job"]
fn node() {
    let Ok(deed) = std::env::var("DEED") else { return };
    let rank = std::env::var("MULTIGRAIN_RANK").unwrap();
    let manager = std::env::var("MULTIGRAIN_PEERS").unwrap();
    if deed == format!("stay away {rank}") {
        std::process::exit(0);
    }
    if deed == "fail early" && rank == "1" {
        std::process::exit(3);
    }
    assert!(multigrain::run(|job| work(job, &deed, &manager)) == ExitCode::SUCCESS);
}

fn work(job: &Job, deed: &str, peers: &str) -> Result<()> {
    let total = job.share("total", || Mutex::numbered(job, 7, 0u64, Policy::new()))?;
    if job.node() == 1 && deed == "fail late" {
        std::process::exit(3);
    }
    if job.node() == 1 && matches!(deed, "answer" | "grant" | "requests" | "announce") {
        send_to_node_0(deed, peers.split(',').next().unwrap());
        // It does no more: the job ends it.
        loop {
            thread::park();
        }
    }
    if job.node() == 0 && deed == "announce again" {
        announce_again_to_node_1(peers.split(',').next().unwrap());
        loop {
            thread::park();
        }
    }
    loop {
        *total.lock()? += 1;
    }
}

/// The announcement of the first area there is, many times, straight into node 0's link to node 1.
fn announce_again_to_node_1(own_address: &str) {
    let mut link = link_to(own_address.strip_prefix("unix:@").unwrap());
    // As postcard writes it: id and owner, base, place in the object, bytes, minipages of one page,
    // items, a consistency, and no named segment.
    let bits = |place: u32| (multigrain_memory::VIEWS_BASE >> (7 * place)).to_le_bytes()[0];
    let digits = multigrain_memory::VIEWS_BASE.ilog2() / 7;
    let base = (0..=digits).map(|place| bits(place) & 0x7f | if place < digits { 0x80 } else { 0 });
    let body: Vec<u8> =
        [0, 0].into_iter().chain(base).chain([0, 0x80, 0x20, 0, 0, 1, 8, 1, 1, 0, 0, 0]).collect();
    let header = Header { kind: 65, from: 0, payload: body.len() as u64, ..Header::default() };
    let frame = [&header.encode()[..], &body].concat();
    let _ = link.write_all(&frame.repeat(1000));
}

/// Frames that no correct node sends, straight into this node's link to node 0.
fn send_to_node_0(deed: &str, address: &str) {
    let mut link = link_to(address.strip_prefix("unix:@").unwrap());
    let frame = |kind, subject| Header { kind, subject, from: 1, ..Header::default() };
    let frames = match deed {
        "answer" => vec![frame(72, 0)],
        "grant" => vec![frame(22, 2)],
        "requests" => (0..5000).map(|id| frame(25, 2 * id)).collect(),
        _ => vec![frame(65, 0)],
    };
    let bytes: Vec<u8> = frames.iter().flat_map(Header::encode).collect();
    // The other end hangs up as soon as it has seen enough.
    let _ = link.write_all(&bytes);
}

/// This process's connection to, or through, the socket of that abstract name.
fn link_to(name: &str) -> UnixStream {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let is_link = |stream: &UnixStream| {
        // The end that was connected to has the name itself; the socket it listens on has no peer.
        let ends = stream.peer_addr().and_then(|peer| Ok([peer, stream.local_addr()?]));
        let named = |end: &SocketAddr| end.as_abstract_name() == Some(name.as_bytes());
        ends.is_ok_and(|ends| ends.iter().any(named))
    };
    let mut streams = (0..1024).filter_map(|number| {
        let fd: OwnedFd = pidfd_getfd(own.as_fd(), number, PidfdGetfdFlags::empty()).ok()?;
        Some(UnixStream::from(fd))
    });
    streams.find(is_link).expect("there is a link")
}

impl support::Running {
    /// The nodes that have been started, by rank.
    fn nodes(&self) -> Vec<(usize, Pid)> {
        let launcher = self.pid();
        let children = format!("/proc/{launcher}/task/{launcher}/children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let rank_of = |pid: &str| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            let mut words = environment.split(|&byte| byte == 0);
            let rank = words.find_map(|word| word.strip_prefix(b"MULTIGRAIN_RANK="))?;
            std::str::from_utf8(rank).ok()?.parse().ok()
        };
        let node = |pid: &str| Some((rank_of(pid)?, Pid::from_raw(pid.parse().ok()?)?));
        children.split_whitespace().filter_map(node).collect()
    }
}
