//! A node comes into being: the links that it begins with, and its launcher.

#![expect(unsafe_code, reason = "file descriptors arrive by number")]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use multigrain_transport::{BootConfig, Conditions, Mesh};
use multigrain_types::NodeId;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt;

use crate::config::Config;
use crate::directory::names::Names;
use crate::driver::Driver;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::node_programs::Programs;
use crate::program;
use crate::receiver::WaitMode;

/// The launcher's end of this node's life, if it has a launcher.
///
/// # Errors
/// [`Error::Invalid`]: there is no such socket.
pub(super) fn control(config: &Config) -> Result<Option<BorrowedFd<'static>>, Error> {
    let Some(fd) = config.launch.control_fd else { return Ok(None) };
    // SAFETY: the launcher gave this descriptor to this process for its whole life.
    let control = unsafe { BorrowedFd::borrow_raw(fd) };
    let known = sockopt::socket_type(control);
    known.and_then(|_| fcntl_setfd(control, FdFlags::CLOEXEC)).map_err(|errno| {
        let why = "is not the socket that `multigrain run` gives a node";
        Error::Invalid(format!("MULTIGRAIN_CONTROL_FD: descriptor {fd} {why} ({errno})"))
    })?;
    Ok(Some(control))
}

/// This node's listening sockets that its launcher made. To be taken once: a node without peers closes them.
///
/// # Errors
/// [`Error::Invalid`]: there is no such socket.
pub(super) fn listeners(config: &Config) -> Result<Vec<OwnedFd>, Error> {
    config.launch.listen_fds.iter().map(|&fd| listener(fd)).collect()
}

fn listener(fd: RawFd) -> Result<OwnedFd, Error> {
    // SAFETY: it is only asked what it is.
    let found = unsafe { BorrowedFd::borrow_raw(fd) };
    let listens = sockopt::socket_acceptconn(found);
    if !listens.is_ok_and(|listens| listens) {
        let why = "is not the listening socket that `multigrain run` gives a node";
        return Err(Error::Invalid(format!("MULTIGRAIN_LISTEN_FD: descriptor {fd} {why}")));
    }
    let _ = fcntl_setfd(found, FdFlags::CLOEXEC);
    // SAFETY: the launcher gave this descriptor to this process and to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn boot_mesh(
    config: &Config,
    secret: [u8; 32],
    launcher: &Launcher,
) -> Result<Mesh, Error> {
    let boot = BootConfig {
        rank: config.rank,
        peers: config.launch.peers.clone(),
        listeners: listeners(config)?,
        job: config.launch.job,
        secret,
        credentials: config.launch.credentials.clone(),
        build: match config.launch.programs.are_several() {
            // Those of one program compare their builds when they know each other.
            true => program::library_number(),
            false => program::build_number()?,
        },
        deadline: config.launch.boot_deadline(config.launch.peers.len()),
        transport: config.launch.links.transport,
        conditions: Conditions {
            emulate: config.launch.links.emulate,
            part: config.launch.links.handshake,
        },
    };
    let mut refused = |line: String| launcher.refused(&line);
    let mesh = Mesh::boot(boot, &mut refused).map_err(|error| {
        let why = format!("{error}{}", error.advice());
        let Some(peer) = error.lost_peer() else { return Error::System(why) };
        launcher.lost_at_start(peer, &why);
        Error::Peer(why)
    })?;
    if matches!(config.wait, WaitMode::Block | WaitMode::Adaptive) {
        mesh.wake_when_taken()?;
    }
    Ok(mesh)
}

/// In a job of several programs: whether this node has the build that the first node of its program has.
///
/// # Errors
/// [`Error::Peer`] if not.
pub(super) fn compare_builds(driver: &Driver, programs: &Programs) -> Result<(), Error> {
    let ranks = programs.ranks(driver.me(), driver.nodes());
    if !programs.are_several() || ranks.len() == 1 {
        return Ok(());
    }
    let own = usize::try_from(program::build_number()?)
        .map_err(|_| Error::System("a build's number is no address of this machine".into()))?;
    let first = NodeId(ranks.start);
    let name = format!("\0build {}", first.0);
    if driver.me() == first {
        return Names::publish(driver, name.as_bytes(), own);
    }
    if Names::lookup(driver, name.as_bytes())? == own {
        return Ok(());
    }
    let line =
        format!("runs another build of the program than {first}: start both with the same file");
    Err(Error::Peer(format!("{} {line}", driver.me())))
}
