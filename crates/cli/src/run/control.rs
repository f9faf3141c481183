//! The control channel: what a node tells the launcher, one line of text per message.
//!
//! The other way goes a number a line: the question what the node's threads wait for (`deadlock`). A node
//! that reads end-of-file knows that the launcher is gone.

use multigrain_types::deadlock::Report;
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde_json::{Map, Value};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A longer line is dropped; it cannot be one of the protocol: not even what as many threads as a node may have wait for.
const MAX_LINE_BYTES: usize = 1 << 24;

/// How far the application is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// Steps done.
    pub(super) done: u64,
    /// Steps in all.
    pub(super) total: u64,
}

/// One line of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    /// `joining`: mg_init is about to meet the others.
    Joining,
    /// `ready`: mg_init is done.
    Ready,
    /// `progress DONE TOTAL`.
    Progress(Count),
    /// `refused TEXT`: an unauthenticated connection was turned away.
    Refused(String),
    /// `note TEXT`: something the user should know.
    Note(String),
    /// `race OBJECT<TAB>TEXT`: bytes of this object were written by two nodes without synchronization.
    Race { object: String, text: String },
    /// `lost RANK [@SECONDS] TEXT`: this node noticed, at that time of the host's monotonic clock,
    /// that a peer is gone.
    Lost { rank: usize, at: Option<Duration>, text: String },
    /// `crash SIGNAL TEXT`: a signal is about to end this node; where its access went.
    Crash { signal: i32, text: String },
    /// `waits {...}`: what the node's threads wait for.
    Waits(Report),
    /// `fatal TEXT`: this node is about to die of an error of its own.
    Fatal(String),
    /// `stats {...}`.
    Stats(Map<String, Value>),
    /// `left`: mg_finalize is done.
    Left,
    /// `closed`: nothing more will come; the process may live on. An agent says so of its nodes.
    Closed,
}

impl Message {
    /// None for what is not of the protocol, or of a newer one.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "joining" => Some(Self::Joining),
            "ready" => Some(Self::Ready),
            "left" => Some(Self::Left),
            "closed" => Some(Self::Closed),
            "refused" => Some(Self::Refused(printable(rest))),
            "note" => Some(Self::Note(printable(rest))),
            "race" => {
                let (object, text) = rest.split_once('\t')?;
                Some(Self::Race { object: printable(object), text: printable(text) })
            }
            "crash" => {
                let (signal, text) = rest.split_once(' ')?;
                Some(Self::Crash { signal: signal.parse().ok()?, text: printable(text) })
            }
            "fatal" => Some(Self::Fatal(printable(rest))),
            "progress" => {
                let (done, total) = rest.split_once(' ')?;
                let count = Count { done: done.parse().ok()?, total: total.trim().parse().ok()? };
                Some(Self::Progress(count))
            }
            "lost" => {
                let (rank, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let timed = rest.strip_prefix('@').and_then(|rest| rest.split_once(' '));
                let timed = timed.and_then(|(at, text)| Some((parse_time(at)?, text)));
                let (at, text) = timed.map_or((None, rest), |(at, text)| (Some(at), text));
                Some(Self::Lost { rank: rank.parse().ok()?, at, text: printable(text) })
            }
            "waits" => serde_json::from_str(rest).ok().map(Self::Waits),
            "stats" => serde_json::from_str(rest).ok().map(Self::Stats),
            _ => None,
        }
    }
}

/// Seconds, a point, and nine digits of nanoseconds.
fn parse_time(text: &str) -> Option<Duration> {
    let (seconds, nanos) = text.split_once('.')?;
    let nanos = nanos.parse().ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(seconds.parse().ok()?, nanos))
}

/// The text may quote an unauthenticated connection: no control characters reach the terminal.
fn printable(text: &str) -> String {
    text.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
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
                    messages.extend(Message::parse(String::from_utf8_lossy(&line).trim_end()));
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
    fn every_line_of_the_protocol_is_understood() {
        let count = Count { done: 3, total: 10 };
        let lost = |at| Message::Lost { rank: 2, at, text: "connection reset".into() };
        let at = Duration::new(7, 5);
        for (line, message) in [
            ("joining", Message::Joining),
            ("ready", Message::Ready),
            ("left", Message::Left),
            ("progress 3 10", Message::Progress(count)),
            ("refused a wrong\x1b secret", Message::Refused("a wrong? secret".into())),
            ("note nothing to check", Message::Note("nothing to check".into())),
            (
                "race it\t4 bytes of it",
                Message::Race { object: "it".into(), text: "4 bytes of it".into() },
            ),
            ("lost 2 connection reset", lost(None)),
            ("lost 2 @7.000000005 connection reset", lost(Some(at))),
            ("lost 2", Message::Lost { rank: 2, at: None, text: String::new() }),
            ("crash 11 at 0x0", Message::Crash { signal: 11, text: "at 0x0".into() }),
            ("fatal out of memory", Message::Fatal("out of memory".into())),
        ] {
            assert_eq!(Message::parse(line), Some(message), "{line}");
        }
        let report = Report { question: 3, sent: 9, ..Report::default() };
        let line = format!("waits {}", serde_json::to_string(&report).unwrap());
        assert_eq!(Message::parse(&line), Some(Message::Waits(report)));
        let Some(Message::Stats(stats)) = Message::parse(r#"stats {"upgrades": 4}"#) else {
            panic!("stats not understood");
        };
        assert_eq!(stats["upgrades"], 4);
    }

    #[test]
    fn nonsense_is_ignored() {
        for line in [
            "",
            "hello",
            "progress",
            "progress 1",
            "progress x y",
            "lost",
            "lost x",
            "crash 11",
            "crash x at",
            "stats",
            "stats [1]",
            "stats {",
            "waits",
            "waits {}",
        ] {
            assert_eq!(Message::parse(line), None, "{line}");
        }
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
