//! The launcher's stdin, which arrives over the channel, for node 0.

use super::super::super::event_source::Source;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// The writing end of node 0's stdin.
pub(super) struct StdinPipe {
    pipe: OwnedFd,
    pending: Vec<u8>,
    ended: bool,
    /// Node 0 reads no more.
    broken: bool,
    watched: bool,
}

impl StdinPipe {
    pub(super) fn new(pipe: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe, pending: Vec::new(), ended: false, broken: false, watched: false })
    }

    /// More has come.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Writes what node 0 takes, and waits for room for the rest; how many bytes were taken.
    pub(super) fn write(&mut self, set: &OwnedFd) -> usize {
        let mut taken = 0;
        while taken < self.pending.len() && !self.broken {
            match rustix::io::write(&self.pipe, &self.pending[taken..]) {
                Ok(count) => taken += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.broken = true,
            }
        }
        self.pending.drain(..taken);
        let waits = !self.pending.is_empty() && !self.broken;
        if waits != self.watched {
            self.watched = waits;
            // Neither fails but for want of memory.
            let _ = match waits {
                true => epoll::add(set, &self.pipe, Source::Relay.data(), EventFlags::OUT),
                false => epoll::delete(set, &self.pipe),
            };
        }
        taken
    }

    /// Whether it can be closed.
    pub(super) fn is_over(&self) -> bool {
        self.broken || (self.ended && self.pending.is_empty())
    }
}
