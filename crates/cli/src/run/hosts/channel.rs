//! A channel between the launcher and an agent: messages both ways over two pipes, and who is still there.
//!
//! Nothing here waits. A cut link gives neither an error nor the end of the stream: each end says something
//! every [`PERIOD`], and who has heard nothing for [`PATIENCE`] takes the other for gone.

use super::frame::{Inbox, Nonsense, encode};
use rustix::io::Errno;
use serde::{Serialize, de::DeserializeOwned};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two words, at the latest.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// Who is silent for so long is gone.
pub(in super::super) const PATIENCE: Duration = Duration::from_secs(3);

/// One end.
#[derive(Debug)]
pub(super) struct Channel {
    input: OwnedFd,
    output: OwnedFd,
    inbox: Inbox,
    /// What is not written yet.
    outbox: Vec<u8>,
    heard: Instant,
    looked: Instant,
    said: Option<Instant>,
    /// Nothing more can be written.
    broken: bool,
}

/// How a read went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    Something,
    Nothing,
    End,
}

impl Channel {
    /// Over two pipes, which no longer block.
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let (heard, looked) = (Instant::now(), Instant::now());
        let (inbox, outbox) = (Inbox::default(), Vec::new());
        Ok(Self { input, output, inbox, outbox, heard, looked, said: None, broken: false })
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
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Heard {
        match rustix::io::read(&self.input, &mut *buffer) {
            Ok(0) => Heard::End,
            Ok(count) => {
                self.heard = Instant::now();
                self.inbox.feed(&buffer[..count]);
                Heard::Something
            }
            Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
            Err(_) => Heard::End,
        }
    }

    /// The bytes that were read, for what comes before the first message.
    pub(super) fn inbox(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// The next message that was read.
    ///
    /// # Errors
    /// What came is no message.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Nonsense> {
        self.inbox.next()
    }

    /// Says something, now or when there is room.
    pub(super) fn say(&mut self, message: &impl Serialize) {
        self.say_bytes(&encode(message));
    }

    /// The same of bytes that are no message.
    pub(super) fn say_bytes(&mut self, bytes: &[u8]) {
        self.said = Some(Instant::now());
        if !self.broken {
            self.outbox.extend_from_slice(bytes);
            self.flush();
        }
    }

    /// Writes what there is room for.
    pub(super) fn flush(&mut self) {
        let mut written = 0;
        while written < self.outbox.len() {
            match rustix::io::write(&self.output, &self.outbox[written..]) {
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

    /// Bytes that wait for room.
    pub(super) fn backlog(&self) -> usize {
        self.outbox.len()
    }

    /// Whether it is time to say something.
    pub(super) fn is_beat_due(&self) -> bool {
        self.said.is_none_or(|said| said.elapsed() >= PERIOD)
    }

    /// Whether the other end is gone. A process that was stopped looks again before it believes that.
    pub(super) fn is_silent(&mut self) -> bool {
        let (now, looked) = (Instant::now(), self.looked);
        self.looked = now;
        if now.duration_since(looked) > PATIENCE / 2 {
            self.heard = now;
        }
        now.duration_since(self.heard) >= PATIENCE
    }

    /// Restarts the silence timer.
    pub(super) fn forgive(&mut self) {
        self.heard = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Order;
    use super::*;

    #[test]
    fn what_finds_no_room_is_written_when_there_is_some() {
        let (theirs, output) = rustix::pipe::pipe().unwrap();
        let (input, _never) = rustix::pipe::pipe().unwrap();
        let mut one = Channel::new(input, output).unwrap();
        let (_, unused) = rustix::pipe::pipe().unwrap();
        let mut other = Channel::new(theirs, unused).unwrap();
        let order = Order::Input(vec![7; 100_000]);
        for _ in 0..3 {
            one.say(&order);
        }
        assert!(one.backlog() > 0, "a pipe holds less");
        let (mut buffer, mut orders) = (vec![0; 1 << 16], 0);
        while orders < 3 {
            assert_eq!(other.read(&mut buffer), Heard::Something);
            while let Some(got) = other.next::<Order>().unwrap() {
                assert!(got == order);
                orders += 1;
            }
            one.flush();
        }
        assert_eq!((one.backlog(), other.read(&mut buffer)), (0, Heard::Nothing));
        drop(one);
        assert_eq!(other.read(&mut buffer), Heard::End);
    }
}
