//! Applies faults to a running job.

use super::fault::{Fault, Limit, STOP, Target};
use super::leftovers::{self, Process};
use super::node_sockets;
use super::running::Running;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

/// What half-open connections say: nothing, the start of a frame, and another protocol.
const FIRST_BYTES: [&[u8]; 3] = [b"", &[240, 0, 2, 0], b"GET / HTTP/1.1\r\n"];

/// Does it; false if what it needs is not there yet.
///
/// # Errors
/// The system does not allow it.
pub(super) fn apply(fault: &Fault, job: &mut Running) -> io::Result<bool> {
    match *fault {
        Fault::Kill(target) => signal(job, target, Signal::KILL),
        Fault::Stop(target) => {
            let stopped = signal(job, target, Signal::STOP)?;
            if stopped {
                job.pass(STOP)?;
                signal(job, target, Signal::CONT)?;
            }
            Ok(stopped)
        }
        Fault::Cut { node, link, how } => {
            with_link(job, node, link, |socket| Ok(shutdown(socket, how)?))
        }
        Fault::Silence { node, link } => with_link(job, node, link, node_sockets::deafen),
        Fault::Unauthenticated { node } => {
            let Some(node) = job.node(node) else { return Ok(false) };
            for first_bytes in FIRST_BYTES {
                let connections =
                    [unauthenticated(&node, first_bytes)?, unauthenticated(&node, first_bytes)?];
                // One of the two says that it will say no more, unless it was turned away by now.
                let _ = shutdown(&connections[0], Shutdown::Write);
                job.held.extend(connections);
            }
            Ok(true)
        }
        Fault::Limit { kind, target, limit: Limit::Later(more) } => {
            let (Some(pid), Some(resource)) = (pid_of(job, target), kind.resource()) else {
                return Ok(false);
            };
            if target == Target::Launcher {
                until_it_runs(pid);
            }
            lower(pid, resource, more)
        }
        Fault::Shm | Fault::Limit { .. } => Ok(true),
    }
}

fn pid_of(job: &mut Running, target: Target) -> Option<Pid> {
    match target {
        Target::Node(rank) => job.node(rank).map(|node| node.pid),
        Target::Launcher => Some(job.launcher()),
        Target::Watchdog => job.processes().iter().find(|one| one.is_watchdog()).map(|one| one.pid),
    }
}

fn signal(job: &mut Running, target: Target, signal: Signal) -> io::Result<bool> {
    match pid_of(job, target) {
        Some(pid) => Ok(kill_process(pid, signal).map(|()| true)?),
        None => Ok(false),
    }
}

fn with_link(
    job: &mut Running,
    rank: u32,
    link: usize,
    harm: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> io::Result<bool> {
    let Some(node) = job.node(rank) else { return Ok(false) };
    let links = node_sockets::of(&node)?;
    if links.is_empty() {
        return Ok(false);
    }
    harm(&links[link % links.len()])?;
    Ok(true)
}

/// A connection to a node's listening socket, with the beginning of a conversation, which the node
/// may have broken off already.
fn unauthenticated(node: &Process, first_bytes: &[u8]) -> io::Result<OwnedFd> {
    let rank = node.rank().unwrap_or(0) as usize;
    let peers = node.variable("MULTIGRAIN_PEERS").unwrap_or_default();
    let address = peers.split(',').nth(rank).unwrap_or_default();
    if let Some(name) = address.strip_prefix("unix:@") {
        let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
        let _ = stream.write_all(first_bytes);
        return Ok(stream.into());
    }
    let mut stream = TcpStream::connect(address.strip_prefix("tcp:").unwrap_or(address))?;
    let _ = stream.write_all(first_bytes);
    Ok(stream.into())
}

/// Waits until the launcher has blocked its signals, as it does first: what befalls it before that befalls the
/// dynamic loader. Or until it has ended.
fn until_it_runs(launcher: Pid) {
    let path = format!("/proc/{}/status", launcher.as_raw_nonzero());
    let blocks = |line: &str| {
        let mask = line.strip_prefix("SigBlk:");
        mask.is_some_and(|mask| mask.trim().bytes().any(|digit| digit != b'0'))
    };
    while std::fs::read_to_string(&path)
        .is_ok_and(|text| !text.lines().any(|line| blocks(line) || line.starts_with("State:\tZ")))
    {
        std::thread::yield_now();
    }
}

/// Lowers a limit of a running process to what it uses now and `more`.
fn lower(pid: Pid, resource: Resource, more: u64) -> io::Result<bool> {
    let limit = leftovers::usage(pid, resource)?.saturating_add(more);
    let old = prlimit(Some(pid), resource, Rlimit { current: Some(limit), maximum: None });
    match old {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::PERM) => {
            // The hard limit cannot be raised; it is lowered with the other.
            let both = Rlimit { current: Some(limit), maximum: Some(limit) };
            Ok(prlimit(Some(pid), resource, both).map(|_| true)?)
        }
        Err(error) => Err(error.into()),
    }
}
