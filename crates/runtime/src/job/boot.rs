//! A node comes into being: its memory, its links to all others, and its launcher.

#![expect(unsafe_code, reason = "file descriptors arrive by number")]

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use multigrain_memory::{Memory, TrackingKind};
use multigrain_transport::{BootConfig, Mesh};

use crate::config::Config;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::program;
use crate::receiver::WaitMode;

/// How long a node waits for its peers at start.
const BOOT_DEADLINE: Duration = Duration::from_secs(30);

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

/// Where peers connect to, if the launcher has made it. To be taken once: a node without peers closes it.
pub(super) fn listener(config: &Config) -> Option<OwnedFd> {
    // SAFETY: the launcher gave this descriptor to this process and to nobody else.
    config.listen_fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn boot_mesh(
    config: &Config,
    secret: [u8; 32],
    launcher: &Launcher,
) -> Result<Mesh, Error> {
    let listener = listener(config);
    if let Some(listener) = &listener {
        let _ = rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::CLOEXEC);
    }
    let boot = BootConfig {
        rank: config.rank,
        peers: config.peers.clone(),
        listener,
        job: config.job,
        secret,
        build: program::build_number()?,
        deadline: BOOT_DEADLINE,
    };
    let mut refused = |line: String| launcher.refused(&line);
    let _ = launcher.tell(format_args!("joining"));
    let mesh = Mesh::boot(boot, &mut refused).inspect_err(|error| {
        if let Some(peer) = error.lost_peer() {
            launcher.lost_at_start(peer, &error.to_string());
        }
    })?;
    if matches!(config.wait, WaitMode::Block | WaitMode::Adaptive) {
        mesh.wake_when_taken()?;
    }
    Ok(mesh)
}
