//! Unauthenticated connections flood the ports a job listens on, from before its start until its end: the result is
//! right, and few lines report them.
//!
//! This test binary is also the program of the job: the launcher starts it with the name of the
//! one test that is a node.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use multigrain::{Job, Policy, Result, SharedArray};
use multigrain_transport::{Header, PROTOCOL_VERSION};
use rustix::net::sockopt::set_socket_linger;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::{multigrain, start, wait_until};

const NODES: usize = 4;
/// The node that tells where the others listen, and that joins late, while they are flooded: when
/// it is told to on its stdin, which is the launcher's.
const TELLER: usize = 0;
/// Connections that were refused when it joins.
const EARLY: u64 = 100;
/// Connections that then say nothing, to each node.
const SILENT: usize = 150;

#[test]
fn a_job_under_a_flood_of_connections_ends_well_and_says_little() {
    flooded_job(Duration::from_secs(5));
}

#[test]
#[ignore = "takes ten minutes"]
fn a_job_under_a_long_flood_of_connections_ends_well_and_says_little() {
    flooded_job(Duration::from_secs(600));
}

/// The program of the job; does nothing without the launcher.
#[test]
#[ignore = "a node of the flooded job"]
fn node() {
    let Ok(seconds) = std::env::var("FLOOD_SECONDS") else { return };
    if std::env::var("MULTIGRAIN_RANK") == Ok(TELLER.to_string()) {
        let said = ["MULTIGRAIN_JOB", "MULTIGRAIN_PEERS"].map(|name| std::env::var(name).unwrap());
        println!("\njob and peers {}", said.join(" "));
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
    let time = Duration::from_secs(seconds.parse().unwrap());
    assert!(multigrain::run(|job| count(job, time)) == ExitCode::SUCCESS);
}

/// Rounds in which every node counts under a lock and shows its round to all others.
fn count(job: &Job, time: Duration) -> Result<()> {
    let started = Instant::now();
    let (me, nodes) = (job.node(), job.nodes());
    let rounds: SharedArray<u64> = job.share("rounds", || job.alloc_array(nodes))?;
    let rounds = rounds.elements()?;
    let go_on = job.share("go on", || job.alloc(1u64))?;
    let total = job.share("total", || multigrain::Mutex::numbered(job, 7, 0u64, Policy::new()))?;
    let mut round = 0;
    while go_on.get() == 1 {
        round += 1;
        *total.lock()? += 1;
        rounds[me].set(round);
        job.barrier(0)?;
        assert!(rounds.iter().all(|other| other.get() == round), "round {round}");
        if me == 0 && started.elapsed() > time {
            go_on.set(0);
        }
        job.barrier(0)?;
    }
    if me == 0 {
        assert_eq!(*total.lock()?, round * nodes as u64);
        println!("\nright after {round} rounds");
    }
    Ok(())
}

/// What unauthenticated connections do.
#[derive(Clone, Copy, Debug)]
enum Manner {
    HangUp,
    Garbage,
    Cut,
    Oversized,
    WrongVersion,
    WrongJob,
    WrongSecret,
}

const MANNERS: [Manner; 7] = [
    Manner::HangUp,
    Manner::Garbage,
    Manner::Cut,
    Manner::Oversized,
    Manner::WrongVersion,
    Manner::WrongJob,
    Manner::WrongSecret,
];

/// A HELLO of rank 3 of 4, put together from the documented layout, with a secret that is not the job's.
fn hello(job: u128) -> Vec<u8> {
    let header = Header { kind: 240, from: 3, payload: 66, ..Header::default() };
    let mut bytes = header.encode().to_vec();
    bytes.extend(b"MGRN");
    for word in [PROTOCOL_VERSION, 3, 4] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(job.to_le_bytes());
    bytes.resize(106, 0x5a);
    bytes
}

impl Manner {
    fn says(self, job: u128) -> Vec<u8> {
        let mut hello = hello(if matches!(self, Self::WrongJob) { !job } else { job });
        match self {
            Self::HangUp => hello.clear(),
            Self::Garbage => hello = b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".repeat(9),
            Self::Cut => hello.truncate(50),
            Self::Oversized => {
                hello[32..40].fill(0xff);
                hello.resize(60_000, 1);
            }
            Self::WrongVersion => hello[44] = 99,
            Self::WrongJob | Self::WrongSecret => {}
        }
        hello
    }

    /// The code of the check that refuses it, as it goes over the wire, unless the node has no room or its job is
    /// complete; none of who does not wait for an answer.
    fn refused_by(self) -> Option<u64> {
        match self {
            Self::HangUp | Self::Cut => None,
            Self::Garbage | Self::Oversized => Some(1),
            Self::WrongVersion => Some(2),
            Self::WrongJob => Some(3),
            Self::WrongSecret => Some(4),
        }
    }
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok()?;
    // A reset at the end instead of a time of waiting: the ports must last.
    set_socket_linger(&socket, Some(Duration::ZERO)).ok()?;
    Some(socket)
}

/// What the flood was answered: how many times it was refused, and by which checks.
#[derive(Debug, Default)]
struct Refused {
    times: AtomicU64,
    /// A bit for each code.
    codes: AtomicU64,
    /// The last answer that was not the right one.
    wrong: Mutex<Option<String>>,
}

/// The flood ends with this, also where the test fails.
struct Flooding<'a>(&'a AtomicBool);

impl Drop for Flooding<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Refused for their number, or because the job has all its nodes.
const NO_ROOM: [u64; 2] = [12, 13];

/// Connections to one node of a job, one after the other, until it has ended.
fn flood(address: SocketAddr, job: u128, ended: &AtomicBool, refused: &Refused) {
    for manner in MANNERS.iter().cycle() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut socket) = connect(address) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let said = socket.write_all(&manner.says(job));
        let patience = Duration::from_millis(if said.is_ok() { 100 } else { 1 });
        let mut answer = [0; Header::BYTES];
        let _ = socket.set_read_timeout(Some(patience));
        let Some(right) = manner.refused_by() else { continue };
        if socket.read_exact(&mut answer).is_ok() {
            // The operand of the code is above.
            let code = Header::decode(&answer).unwrap().value & 0xffff;
            if answer[0] != 242 || code != right && !NO_ROOM.contains(&code) {
                let wrong = format!("{manner:?} is answered {}, refused by {code}", answer[0]);
                *refused.wrong.lock().unwrap() = Some(wrong);
            }
            refused.codes.fetch_or(1 << code, Ordering::Relaxed);
            refused.times.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Connects and keeps silent; once refused, somebody else comes.
fn keep_silent(address: SocketAddr, ended: &AtomicBool) {
    let mut silent: Vec<Option<TcpStream>> = (0..SILENT).map(|_| connect(address)).collect();
    while !ended.load(Ordering::Relaxed) {
        for place in &mut silent {
            let open = place.as_ref().is_some_and(|socket| {
                let _ = socket.set_nonblocking(true);
                let news = socket.peek(&mut [0]);
                news.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
            });
            if !open {
                *place = connect(address);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn flooded_job(time: Duration) {
    let limit = time + Duration::from_secs(90);
    let mut command = multigrain();
    command.args(["run", "-n", &NODES.to_string(), "--transport", "tcp", "--timeout"]);
    command.arg(limit.as_secs().to_string()).arg("--").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "node", "--ignored", "--nocapture"]);
    command.env("FLOOD_SECONDS", time.as_secs().to_string());
    let mut job = start(command.stdin(Stdio::piped()));
    let said = loop {
        let line = job.lines(1).remove(0);
        if let Some(said) = line.strip_prefix(&format!("[{TELLER}] job and peers ")) {
            break said.to_owned();
        }
    };
    let (id, peers) = said.split_once(' ').unwrap();
    let id = u128::from_str_radix(id, 16).unwrap();
    let addresses: Vec<SocketAddr> =
        peers.split(',').map(|peer| peer.strip_prefix("tcp:").unwrap().parse().unwrap()).collect();
    assert_eq!(addresses.len(), NODES);

    let (ended, refused) = (AtomicBool::new(false), Refused::default());
    let told = thread::scope(|scope| {
        let (ended, refused) = (&ended, &refused);
        let flooding = Flooding(ended);
        for &address in &addresses {
            scope.spawn(move || flood(address, id, ended, refused));
            scope.spawn(move || keep_silent(address, ended));
        }
        wait_until("connections are refused while the job starts", || {
            refused.times.load(Ordering::Relaxed) >= EARLY
        });
        job.say("join");
        let told = job.wait();
        drop(flooding);
        told
    });
    assert_eq!(refused.wrong.into_inner().unwrap(), None);
    let (refused, codes) = (refused.times.into_inner(), refused.codes.into_inner());
    for manner in MANNERS {
        let reached = manner.refused_by().is_none_or(|code| codes & (1 << code) != 0);
        assert!(
            reached,
            "no connection was refused by the check that {manner:?} is for: {codes:#b}"
        );
    }
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.out.contains("] right after "), "{told:?}");
    assert!(refused > 500, "a flood of {refused} is none");
    let lines = told.own_lines();
    assert!(lines.iter().all(|line| line.contains("refused a connection from ")), "{lines:#?}");
    // Whoever comes is the same outsider, or has gone before anybody looks.
    assert!((1..=2).contains(&lines.len()), "{lines:#?}");
    println!("{refused} connections were refused, in {} lines", lines.len());
}
