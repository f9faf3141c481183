//! The control channel between a node and its launcher: one line of text a message.
//!
//! Role: the only list of its words, written by the runtime and read by the launcher. The other way goes a
//! number a line, the question what the node's threads wait for ([`crate::deadlock`]); a node that reads
//! end-of-file knows that the launcher is gone.

use core::fmt::{self, Display};
use core::time::Duration;

/// How far the application is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Steps done.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
}

/// What a node tells its launcher; its [`Display`] is the line, without the end of line, and allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<Text> {
    /// `mg_init` is about to meet the others.
    Joining {
        /// The process that has called it, by its own number.
        pid: i32,
    },
    /// `mg_init` is done.
    Ready,
    /// `mg_init` has failed; the program may go on.
    NotJoined(Text),
    /// How far the program is.
    Progress(Count),
    /// An unauthenticated connection was turned away.
    Refused(Text),
    /// Something the user should know.
    Note(Text),
    /// Bytes of this object were written by two nodes without synchronization.
    Race {
        /// What the bytes are part of; the launcher sums up by it.
        object: Text,
        /// The line about it.
        text: Text,
    },
    /// This node noticed that a peer is gone.
    Lost {
        /// The peer.
        rank: u16,
        /// When, by the host's monotonic clock: of a chain of losses the first one matters.
        at: Option<Duration>,
        /// How it was noticed.
        text: Text,
    },
    /// A signal is about to end this node.
    Crash {
        /// Its number.
        signal: i32,
        /// Where the access went, of a fault.
        text: Text,
    },
    /// What the node's threads wait for: a [`crate::deadlock::Report`] as JSON.
    Waits(Text),
    /// Of a job of System V programs: which of its processes wait, and for what; empty if none does.
    Blocked(Text),
    /// Of a job of System V programs: they wait for ever, and for what.
    Deadlock(Text),
    /// This node is about to die of an error of its own.
    Fatal(Text),
    /// Its counters, a JSON object.
    Stats(Text),
    /// `mg_finalize` is done.
    Left,
    /// Nothing more will come; the process may live on. An agent says so of its nodes.
    Closed,
}

impl<Text: Display> Display for Message<Text> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joining { pid } => write!(out, "joining {pid}"),
            Self::Ready => out.write_str("ready"),
            Self::NotJoined(text) => write!(out, "not-joined {text}"),
            Self::Progress(Count { done, total }) => write!(out, "progress {done} {total}"),
            Self::Refused(text) => write!(out, "refused {text}"),
            Self::Note(text) => write!(out, "note {text}"),
            Self::Race { object, text } => write!(out, "race {object}\t{text}"),
            Self::Lost { rank, at: Some(at), text } => {
                write!(out, "lost {rank} @{}.{:09} {text}", at.as_secs(), at.subsec_nanos())
            }
            Self::Lost { rank, at: None, text } => write!(out, "lost {rank} {text}"),
            Self::Crash { signal, text } => write!(out, "crash {signal} {text}"),
            Self::Waits(report) => write!(out, "waits {report}"),
            Self::Blocked(text) => write!(out, "blocked {text}"),
            Self::Deadlock(text) => write!(out, "deadlock {text}"),
            Self::Fatal(text) => write!(out, "fatal {text}"),
            Self::Stats(stats) => write!(out, "stats {stats}"),
            Self::Left => out.write_str("left"),
            Self::Closed => out.write_str("closed"),
        }
    }
}

impl<'line> Message<&'line str> {
    /// The message of a line. None for what is not of the protocol, or of a newer one.
    #[must_use]
    pub fn parse(line: &'line str) -> Option<Self> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "joining" => {
                Some(Self::Joining { pid: rest.parse().ok().filter(|&pid: &i32| pid > 0)? })
            }
            "ready" => Some(Self::Ready),
            "not-joined" => Some(Self::NotJoined(rest)),
            "left" => Some(Self::Left),
            "closed" => Some(Self::Closed),
            "refused" => Some(Self::Refused(rest)),
            "note" => Some(Self::Note(rest)),
            "race" => rest.split_once('\t').map(|(object, text)| Self::Race { object, text }),
            "crash" => {
                let (signal, text) = rest.split_once(' ')?;
                Some(Self::Crash { signal: signal.parse().ok()?, text })
            }
            "blocked" => Some(Self::Blocked(rest)),
            "deadlock" => Some(Self::Deadlock(rest)),
            "fatal" => Some(Self::Fatal(rest)),
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
                Some(Self::Lost { rank: rank.parse().ok()?, at, text })
            }
            "waits" => Some(Self::Waits(rest)),
            "stats" => Some(Self::Stats(rest)),
            _ => None,
        }
    }
}

impl<Text> Message<Text> {
    /// The same message with its texts made anew.
    #[must_use]
    pub fn map<New>(self, new: impl Fn(Text) -> New) -> Message<New> {
        match self {
            Self::Joining { pid } => Message::Joining { pid },
            Self::Ready => Message::Ready,
            Self::NotJoined(text) => Message::NotJoined(new(text)),
            Self::Progress(count) => Message::Progress(count),
            Self::Refused(text) => Message::Refused(new(text)),
            Self::Note(text) => Message::Note(new(text)),
            Self::Race { object, text } => Message::Race { object: new(object), text: new(text) },
            Self::Lost { rank, at, text } => Message::Lost { rank, at, text: new(text) },
            Self::Crash { signal, text } => Message::Crash { signal, text: new(text) },
            Self::Waits(report) => Message::Waits(new(report)),
            Self::Blocked(text) => Message::Blocked(new(text)),
            Self::Deadlock(text) => Message::Deadlock(new(text)),
            Self::Fatal(text) => Message::Fatal(new(text)),
            Self::Stats(stats) => Message::Stats(new(stats)),
            Self::Left => Message::Left,
            Self::Closed => Message::Closed,
        }
    }
}

/// Seconds, a point, and nine digits of nanoseconds.
fn parse_time(text: &str) -> Option<Duration> {
    let (seconds, nanos) = text.split_once('.')?;
    let nanos = nanos.parse().ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(seconds.parse().ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let at = Some(Duration::new(7, 5));
        for (line, message) in [
            ("joining 7", Message::Joining { pid: 7 }),
            ("ready", Message::Ready),
            ("left", Message::Left),
            ("closed", Message::Closed),
            ("progress 3 10", Message::Progress(Count { done: 3, total: 10 })),
            ("refused a wrong secret", Message::Refused("a wrong secret")),
            ("note nothing to check", Message::Note("nothing to check")),
            ("race it\t4 bytes of it", Message::Race { object: "it", text: "4 bytes of it" }),
            ("lost 2 gone", Message::Lost { rank: 2, at: None, text: "gone" }),
            ("lost 2 @7.000000005 gone", Message::Lost { rank: 2, at, text: "gone" }),
            ("crash 11 at 0x0", Message::Crash { signal: 11, text: "at 0x0" }),
            ("waits {}", Message::Waits("{}")),
            ("blocked pid 3", Message::Blocked("pid 3")),
            ("deadlock pid 3", Message::Deadlock("pid 3")),
            ("fatal out of memory", Message::Fatal("out of memory")),
            ("not-joined no room", Message::NotJoined("no room")),
            ("stats {}", Message::Stats("{}")),
        ] {
            assert_eq!(Message::parse(line), Some(message.clone()), "{line}");
            assert_eq!(message.map(str::to_owned).to_string(), line);
        }
    }

    #[test]
    fn nonsense_is_no_message() {
        for line in [
            "",
            "hello",
            "joining",
            "joining x",
            "joining -5",
            "progress",
            "progress 1",
            "progress x y",
            "lost",
            "lost x",
            "lost 70000 gone",
            "race it",
            "crash 11",
            "crash x at",
        ] {
            assert_eq!(Message::parse(line), None, "{line}");
        }
    }
}
