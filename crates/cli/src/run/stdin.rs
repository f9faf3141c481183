//! The launcher's stdin, for node 0.
//!
//! A file or a pipe is inherited. A terminal cannot be: node 0 is not in the terminal's
//! foreground process group and would be stopped when it reads; so the launcher reads for it.

use rustix::io::Errno;
use rustix::process::getpgrp;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;

/// What node `rank` gets as stdin.
///
/// # Errors
/// There is no /dev/null. `Stdio::null` would find that out when the program is started, where a missing
/// file is the program's interpreter.
pub(super) fn for_node(rank: u32) -> io::Result<Stdio> {
    let stdin = io::stdin();
    Ok(match (rank, stdin.is_terminal()) {
        (0, false) => Stdio::inherit(),
        (0, true) if in_foreground() => Stdio::piped(),
        (_, _) => none()?,
    })
}

/// A stdin without anything.
///
/// # Errors
/// As for [`for_node`].
pub(super) fn none() -> io::Result<Stdio> {
    Ok(File::open("/dev/null")?.into())
}

fn in_foreground() -> bool {
    rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// Whether a node on another host gets input: not from a terminal that this job is in the background of.
pub(super) fn is_for_nodes() -> bool {
    !io::stdin().is_terminal() || in_foreground()
}

/// How what is typed or piped into the launcher comes to node 0, where that does not inherit it.
pub(super) struct Input {
    /// From a terminal, to node 0 on this host.
    pub(super) terminal: Option<TerminalStdin>,
    /// To node 0 on another host.
    pub(super) remote: Option<RemoteStdin>,
}

/// The launcher's stdin, read for node 0 on another host, in pieces that its agent has room for.
pub(super) struct RemoteStdin {
    /// Bytes that the agent takes yet.
    room: usize,
    /// Whether the event loop tells when there is something: it cannot of a file.
    pub(super) is_watched: bool,
}

/// Bytes on their way to node 0, at most.
const WINDOW_BYTES: usize = 256 << 10;

impl RemoteStdin {
    pub(super) fn new() -> Self {
        Self { room: WINDOW_BYTES, is_watched: false }
    }

    /// The agent has passed so much on.
    pub(super) fn has_taken(&mut self, bytes: usize) {
        self.room = self.room.saturating_add(bytes).min(WINDOW_BYTES);
    }

    /// Whether more may be read.
    pub(super) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Reads once; nothing is the end, and None says that there is nothing now.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Option<Vec<u8>> {
        let most = buffer.len().min(self.room);
        if !is_for_nodes() {
            return Some(Vec::new());
        }
        match rustix::io::read(io::stdin(), &mut buffer[..most]) {
            Ok(count) => {
                self.room -= count;
                Some(buffer[..count].to_vec())
            }
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(_) => Some(Vec::new()),
        }
    }
}

/// Carries what is typed to node 0.
pub(super) struct TerminalStdin {
    pipe: OwnedFd,
    pending: Vec<u8>,
    ended: bool,
}

/// What it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// For the user to type.
    Input,
    /// For node 0 to read.
    Room,
    /// For nothing: it can be dropped.
    Nothing,
}

impl TerminalStdin {
    /// Takes over the writing end of node 0's stdin.
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe, pending: Vec::new(), ended: false })
    }

    /// Reads once from the terminal, which is known to have something, and passes it on.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Waiting {
        // In the background a read would stop the launcher, and with it the care for the job.
        let count =
            if in_foreground() { rustix::io::read(io::stdin(), &mut *buffer) } else { Ok(0) };
        match count {
            Ok(0) => self.ended = true,
            Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.ended = true,
        }
        self.write()
    }

    /// Writes what node 0 takes.
    pub(super) fn write(&mut self) -> Waiting {
        while !self.pending.is_empty() {
            match rustix::io::write(&self.pipe, &self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Waiting::Room,
                Err(_) => return Waiting::Nothing,
            }
        }
        if self.ended { Waiting::Nothing } else { Waiting::Input }
    }
}

impl AsFd for TerminalStdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
