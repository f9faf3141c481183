//! A channel between the launcher and an agent: messages both ways over two pipes, and a timeout for each end.
//!
//! Nothing here blocks. A cut link gives neither an error nor an end of stream. So the launcher sends a heartbeat
//! every [`PERIOD`], which the agent answers, and each end takes the other for gone when its [`FailureDetector`] does.

use super::super::agent_chunks::{Chunks, chunk};
use super::failure_detector::{FailureDetector, PERIOD};
use super::frame::{Inbox, Malformed, encode};
use rustix::io::Errno;
use serde::{Serialize, de::DeserializeOwned};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Whose end it is. A launcher's requests go in [`Chunks`]; an agent's events go as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Launcher,
    Agent,
}

/// More than a heartbeat, in bytes: part of a message that takes its time.
const MUCH: usize = 1 << 10;

/// One end.
#[derive(Debug)]
pub(super) struct AgentChannel {
    side: Side,
    chunks: Chunks,
    input: OwnedFd,
    output: OwnedFd,
    inbox: Inbox,
    /// What is not written yet.
    outbox: Vec<u8>,
    other_end: FailureDetector,
    /// When the last heartbeat was sent.
    beat: Option<Instant>,
    /// Nothing more can be written.
    broken: bool,
    /// Nothing is to be written yet.
    held: bool,
}

/// How a read went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Something,
    Nothing,
    End,
}

impl AgentChannel {
    /// Over two pipes, which no longer block.
    pub(super) fn new(side: Side, input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        Ok(Self {
            side,
            chunks: Chunks::default(),
            input,
            output,
            inbox: Inbox::default(),
            outbox: Vec::new(),
            other_end: FailureDetector::new(Instant::now()),
            beat: None,
            broken: false,
            held: false,
        })
    }

    /// What to wait for input on.
    pub(super) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// What to wait for room on, while there is a [`Self::backlog`].
    pub(super) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Reads what is there, at most one `buffer` full.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Received {
        match rustix::io::read(&self.input, &mut *buffer) {
            Ok(0) => Received::End,
            Ok(count) => {
                match self.side {
                    Side::Launcher => self.inbox.feed(&buffer[..count]),
                    Side::Agent => self.chunks.open(&buffer[..count], |part| self.inbox.feed(part)),
                }
                // Heartbeats must not fill a length that is wrong for ever: of an agent, whole messages count, or much of one. Of a
                // launcher everything does: its watchdog's heartbeats are empty chunks.
                if self.side == Side::Agent || count >= MUCH || self.inbox.has_message() {
                    self.other_end.arrival(Instant::now());
                }
                Received::Something
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    /// The bytes that were read, for what comes before the first message.
    pub(super) fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// The same, to look at.
    pub(super) fn unread(&self) -> &[u8] {
        self.inbox.rest()
    }

    /// Bytes that were read, and are not taken.
    pub(super) fn ahead(&self) -> usize {
        self.inbox.len()
    }

    /// The next message that was read.
    ///
    /// # Errors
    /// What came is no message.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Malformed> {
        self.inbox.next()
    }

    /// Says something, now or when there is room.
    pub(super) fn say(&mut self, message: &impl Serialize) {
        self.say_bytes(&encode(message));
    }

    /// The same of bytes that are no message.
    pub(super) fn say_bytes(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.outbox.extend_from_slice(bytes);
            self.flush();
        }
    }

    /// Keeps what is said to itself, until [`Self::release`].
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// Says what was held back.
    pub(super) fn release(&mut self) {
        self.held = false;
        self.flush();
    }

    /// Writes what there is room for.
    pub(super) fn flush(&mut self) {
        if self.held {
            return;
        }
        let mut written = 0;
        while written < self.outbox.len() {
            match self.write(&self.outbox[written..]) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    // The end of the input tells.
                    self.broken = true;
                    written = self.outbox.len();
                }
            }
        }
        self.outbox.drain(..written);
    }

    /// Writes some of these bytes; how many.
    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        if self.side == Side::Agent {
            return rustix::io::write(&self.output, bytes);
        }
        let (piece, count) = chunk(bytes);
        match rustix::io::write(&self.output, &piece)? {
            whole if whole == piece.len() => Ok(count),
            // No pipe does that.
            _ => Err(Errno::IO),
        }
    }

    /// Bytes that wait for room.
    pub(super) fn backlog(&self) -> usize {
        if self.held { 0 } else { self.outbox.len() }
    }

    /// Whether it is time for a heartbeat, whatever else was sent: nothing else has to be answered. True once a [`PERIOD`].
    pub(super) fn is_beat_due(&mut self) -> bool {
        let is_due = self.beat.is_none_or(|beat| beat.elapsed() >= PERIOD);
        if is_due {
            self.beat = Some(Instant::now());
        }
        is_due
    }

    /// How long the other end may be silent.
    pub(super) fn timeout(&self) -> Duration {
        self.other_end.timeout()
    }

    /// Whether the other end is gone: how long it has been silent for at least, if so.
    pub(super) fn silence(&mut self) -> Option<Duration> {
        self.other_end.suspects(Instant::now()).then(|| self.timeout())
    }

    /// The other end is there: its timeout begins.
    pub(super) fn restart_timer(&mut self) {
        self.other_end.restart(Instant::now());
    }

    /// The nodes run.
    pub(super) fn start(&mut self) {
        self.other_end.start(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::Request;
    use super::*;

    #[test]
    fn what_finds_no_room_is_written_when_there_is_some() {
        let (theirs, output) = rustix::pipe::pipe().unwrap();
        let (input, _never) = rustix::pipe::pipe().unwrap();
        let mut one = AgentChannel::new(Side::Launcher, input, output).unwrap();
        let (_, unused) = rustix::pipe::pipe().unwrap();
        let mut other = AgentChannel::new(Side::Agent, theirs, unused).unwrap();
        let request = Request::Input(vec![7; 100_000]);
        for _ in 0..3 {
            one.say(&request);
        }
        assert!(one.backlog() > 0, "a pipe holds less");
        let (mut buffer, mut requests) = (vec![0; 1 << 16], 0);
        while requests < 3 {
            assert_eq!(other.read(&mut buffer), Received::Something);
            while let Some(got) = other.next::<Request>().unwrap() {
                assert!(got == request);
                requests += 1;
            }
            one.flush();
        }
        assert_eq!((one.backlog(), other.read(&mut buffer)), (0, Received::Nothing));
        drop(one);
        assert_eq!(other.read(&mut buffer), Received::End);
    }
}
