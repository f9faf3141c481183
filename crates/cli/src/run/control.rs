//! The control channel as the launcher has it: what a node tells, cut into lines anywhere, and the question the other way.
//!
//! Its words are [`multigrain_types::control`].

use multigrain_types::control;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A longer line is dropped; it cannot be one of the protocol: not even what as many threads as a node may have wait for.
const MAX_LINE_BYTES: usize = 1 << 24;

/// One line of a node, fit for the terminal.
pub(super) type Message = control::Message<String>;

/// The message of a line; none for what is not of the protocol.
pub(super) fn parse(line: &str) -> Option<Message> {
    Some(control::Message::parse(line)?.map(printable))
}

/// What comes from elsewhere, or quotes an unauthenticated connection: no control characters reach the terminal, nor what turns
/// the direction of its text.
pub(super) fn printable(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.trim_end().chars().map(|c| if c.is_control() || turns(c) { '?' } else { c }).collect()
}

/// Asks what a node's threads wait for. A node that reads nothing is not asked again for long: what
/// it has not read fills the socket, and it cannot answer.
pub(super) fn ask(channel: impl AsFd, question: u64) {
    let _ = rustix::net::send(channel, format!("{question}\n").as_bytes(), SendFlags::NOSIGNAL);
}

/// What one node tells its launcher.
#[derive(Default)]
pub(super) struct Channel {
    /// The launcher's end; none where an agent has that, and says what comes.
    fd: Option<OwnedFd>,
    partial: Vec<u8>,
}

impl Channel {
    /// Takes over the launcher's end, which becomes non-blocking.
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd: Some(fd), partial: Vec::new() })
    }

    /// Reads what is there, at most one `buffer` full, and returns the messages in it; false says
    /// that there is no more, now or ever.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> (Vec<Message>, Received) {
        loop {
            let Some(fd) = &self.fd else { return (Vec::new(), Received::Blocked) };
            return match rustix::io::read(fd, &mut *buffer) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => (Vec::new(), Received::Blocked),
                Ok(0) | Err(_) => (Vec::new(), Received::End),
                Ok(count) => (self.feed(&buffer[..count]), Received::Some),
            };
        }
    }

    /// This end, if it is here.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The messages in what was received.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.partial.len() <= MAX_LINE_BYTES {
                self.partial.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                if line.len() <= MAX_LINE_BYTES {
                    messages.extend(parse(String::from_utf8_lossy(&line).trim_end()));
                }
            }
        }
        messages
    }
}

/// How a read of the channel went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// There may be more.
    Some,
    /// Nothing is there now.
    Blocked,
    /// The node's end is closed.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_line_reaches_the_terminal_but_text() {
        let refused = Message::Refused("a wrong? secret".into());
        assert_eq!(parse("refused a wrong\x1b secret"), Some(refused));
        let race = Message::Race { object: "a?b".into(), text: "4 bytes".into() };
        assert_eq!(parse("race a\x07b\t4 bytes \r"), Some(race));
        assert_eq!(printable("a\u{202e}b\u{2066}\u{e4}\n"), "a?b?\u{e4}");
        assert_eq!(parse("hello"), None);
    }

    #[test]
    fn lines_are_joined_over_reads_and_a_monster_is_dropped() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut channel = Channel::new(ours.into()).unwrap();
        assert_eq!(channel.feed(b"rea"), []);
        assert_eq!(channel.feed(b"dy\nleft\nle"), [Message::Ready, Message::Left]);
        let monster = vec![b'x'; MAX_LINE_BYTES / 2];
        for _ in 0..3 {
            assert_eq!(channel.feed(&monster), []);
        }
        assert_eq!(channel.feed(b"\nready\n"), [Message::Ready]);
    }
}
