//! A node comes into being: its memory, its links to all others, and its launcher.

#![expect(unsafe_code, reason = "file descriptors arrive by number")]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use multigrain_memory::{Memory, TrackingKind};
use multigrain_transport::{BootConfig, Mesh, TransportError};

use crate::config::Config;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::program;
use crate::receiver::WaitMode;

/// How long a node waits for its peers at start, and so much longer for each link of two nodes of the job:
/// those of a host make them all with its processors.
const BOOT_DEADLINE: Duration = Duration::from_secs(30);
const BOOT_DEADLINE_FOR_EACH: Duration = Duration::from_micros(500);

/// The shared memory of a node.
pub(super) fn memory(config: &Config) -> Result<Memory, Error> {
    let memory =
        multigrain_memory::Config { shared_bytes: config.shared_bytes, guard: config.guard };
    let memory = Memory::new(&memory)?;
    Ok(match config.tracking {
        TrackingKind::Faults => memory,
        TrackingKind::Scans => memory.with_tracking()?,
    })
}

/// The launcher's end of this node's life, if it has a launcher.
pub(super) fn control(config: &Config) -> Option<BorrowedFd<'static>> {
    // SAFETY: the launcher gave this descriptor to this process for its whole life.
    let control = config.control_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })?;
    let _ = rustix::io::fcntl_setfd(control, rustix::io::FdFlags::CLOEXEC);
    Some(control)
}

pub(super) fn boot_mesh(
    config: &Config,
    secret: [u8; 32],
    launcher: &Launcher,
) -> Result<Mesh, Error> {
    let listener = config.listen_fd.map(listener).transpose()?;
    let boot = BootConfig {
        rank: config.rank,
        peers: config.peers.clone(),
        listener,
        job: config.job,
        secret,
        build: program::build_number()?,
        deadline: config.boot.unwrap_or_else(|| boot_deadline(config.peers.len())),
    };
    let mut refused = |line: String| launcher.refused(&line);
    let _ = launcher.tell(format_args!("joining"));
    let mesh = Mesh::boot(boot, &mut refused).map_err(|error| {
        let late = matches!(error, TransportError::Missing { .. });
        let help = if late { "; `multigrain run --boot-timeout` gives them longer" } else { "" };
        let why = format!("{error}{help}");
        if let Some(peer) = error.lost_peer() {
            launcher.lost_at_start(peer, &why);
        }
        Error::System(why)
    })?;
    if matches!(config.wait, WaitMode::Block | WaitMode::Adaptive) {
        mesh.wake_when_taken()?;
    }
    Ok(mesh)
}

fn boot_deadline(nodes: usize) -> Duration {
    let links = u32::try_from(nodes * nodes / 2).unwrap_or(u32::MAX);
    BOOT_DEADLINE + BOOT_DEADLINE_FOR_EACH * links
}

/// The listening socket that the launcher made.
///
/// # Errors
/// [`Error::Invalid`]: the descriptor is closed, or something else.
fn listener(fd: RawFd) -> Result<OwnedFd, Error> {
    // SAFETY: only asked what it is; a number that is no descriptor is refused by the kernel.
    let known = unsafe { BorrowedFd::borrow_raw(fd) };
    if rustix::net::sockopt::socket_acceptconn(known) != Ok(true) {
        return Err(Error::Invalid(format!(
            "MULTIGRAIN_LISTEN_FD is {fd}, which is no listening socket; start the program with \
             `multigrain run`, and leave its descriptors open"
        )));
    }
    // SAFETY: the launcher gave this descriptor to this process and to nobody else.
    let listener = unsafe { OwnedFd::from_raw_fd(fd) };
    let _ = rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC);
    Ok(listener)
}
