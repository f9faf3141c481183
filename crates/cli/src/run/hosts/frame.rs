//! What the launcher and the agent of a host say to each other: the messages, and their form on the channel.
//!
//! A message is its length in four bytes, little-endian, and its encoding by postcard. Both ends are of one
//! build, which [`GREETING`] sees to before the first message: so there are no versions here.

use super::super::verdict::Status;
use multigrain_transport::interfaces::Whereabouts;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::net::IpAddr;

/// What an agent says first: all that comes before is what a shell says at login. The build of the agent
/// follows, and a line end.
pub(super) const GREETING: &str = "multigrain agent, build ";

/// A longer message is none.
const MAX_BYTES: usize = 64 << 20;

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;

/// Of the node's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Stream {
    Out,
    Err,
}

/// What an agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Order {
    /// To look at the host: answered by [`Word::Found`].
    Look(Job),
    /// To bind the listening sockets of its nodes: answered by [`Word::Bound`].
    Bind { unix: bool, tcp: Option<IpAddr> },
    /// To start its nodes: answered by [`Word::Started`]. One address a node of the job, by rank, and variables
    /// beyond those of the job.
    Start { peers: Vec<String>, secret: String },
    /// This signal for all its nodes.
    Signal(i32),
    /// The question what the threads of a node wait for.
    Ask { rank: u32, question: u64 },
    /// Input for node 0.
    Input(Vec<u8>),
    /// There is no more input for node 0.
    EndOfInput,
    /// To read no output of its nodes, or to go on.
    Pause(bool),
    /// To go on without heartbeats: the launcher is about to be stopped; or no more so.
    Hold(bool),
    /// The launcher is there; its time comes back in [`Word::Beat`].
    Beat { stamp: u64 },
    /// To kill what its nodes have left: answered by the ends of all streams, and [`Word::Swept`].
    Sweep,
    /// To go.
    End,
}

/// What an agent has to know of its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Job {
    pub(super) id: String,
    /// Nodes in the job; those on this host have the ranks from `first` up to, but not, `end`.
    pub(super) nodes: u32,
    pub(super) first: u32,
    pub(super) end: u32,
    /// The launcher's, in bytes of the system; so the words of the command.
    pub(super) directory: Vec<u8>,
    pub(super) command: Vec<Vec<u8>>,
    pub(super) variables: Vec<(String, String)>,
    /// Whether node 0 gets input.
    pub(super) input: bool,
}

/// What an agent says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) enum Word {
    Found(Found),
    /// Addresses of its nodes, by rank, as their neighbours see them and as other hosts do.
    Bound {
        near: Vec<String>,
        far: Vec<String>,
    },
    /// Process ids of its nodes, by rank.
    Started {
        pids: Vec<i32>,
    },
    /// What was asked for cannot be had: the launcher's exit code, and why.
    Failed {
        code: u8,
        why: String,
    },
    /// What a node has written.
    Output {
        rank: u32,
        stream: Stream,
        bytes: Vec<u8>,
    },
    /// A node writes nothing there any more.
    EndOfOutput {
        rank: u32,
        stream: Stream,
    },
    /// What a node tells its launcher, as it stands on its control channel.
    Control {
        rank: u32,
        bytes: Vec<u8>,
    },
    /// A node is dead, and all that it said on its control channel is told.
    Ended {
        rank: u32,
        status: Status,
    },
    /// So many bytes of input are taken.
    Taken {
        bytes: usize,
    },
    /// The agent is there: the launcher's time, and its own, in nanoseconds of the monotonic clocks.
    Beat {
        stamp: u64,
        now: u64,
    },
    /// Nothing of its nodes is left.
    Swept,
}

impl Word {
    /// What an agent has found, if it says that.
    pub(super) fn found(self) -> Option<Found> {
        if let Self::Found(found) = self { Some(found) } else { None }
    }

    /// The addresses of its nodes, near and far, if it says that.
    pub(super) fn bound(self) -> Option<(Vec<String>, Vec<String>)> {
        if let Self::Bound { near, far } = self { Some((near, far)) } else { None }
    }

    /// The process ids of its nodes, if it says that.
    pub(super) fn started(self) -> Option<Vec<i32>> {
        if let Self::Started { pids } = self { Some(pids) } else { None }
    }
}

/// What an agent finds on its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Found {
    pub(super) whereabouts: Whereabouts,
    /// Files that have to be the same on all hosts: what each is, its path, and its build.
    pub(super) files: Vec<Built>,
}

/// A file, and which build it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Built {
    /// `program` or `library`.
    pub(super) what: String,
    pub(super) path: String,
    pub(super) build: String,
}

/// The bytes of a message.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    let head = vec![0; LENGTH_BYTES];
    // It fails for what has no length, and every message has one.
    let mut bytes = postcard::to_extend(message, head).unwrap_or_default();
    let length = u32::try_from(bytes.len().saturating_sub(LENGTH_BYTES)).unwrap_or(u32::MAX);
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// Bytes that have come, and are not taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// How many of them are taken.
    taken: usize,
}

/// What is no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

impl Inbox {
    /// More bytes have come.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes that are there.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Takes some of them.
    pub(super) fn take(&mut self, count: usize) {
        self.taken += count;
    }

    /// The next message, if it is there as a whole.
    ///
    /// # Errors
    /// What is there is no message, and nothing after it can be one.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Nonsense> {
        let Some((head, rest)) = self.rest().split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > MAX_BYTES {
            return Err(Nonsense);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let (message, behind) = postcard::take_from_bytes(message).map_err(|_| Nonsense)?;
        if !behind.is_empty() {
            return Err(Nonsense);
        }
        self.take(LENGTH_BYTES + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_went_however_they_are_cut() {
        let words = [
            Word::Output { rank: 3, stream: Stream::Err, bytes: b"a\0b".to_vec() },
            Word::Ended { rank: 1, status: Status::Killed { signal: 9, core: true } },
            Word::Swept,
        ];
        let bytes: Vec<u8> = words.iter().flat_map(encode).collect();
        for step in 1..bytes.len() {
            let (mut inbox, mut got) = (Inbox::default(), Vec::new());
            for piece in bytes.chunks(step) {
                inbox.feed(piece);
                while let Some(word) = inbox.next::<Word>().unwrap() {
                    got.push(word);
                }
            }
            assert_eq!(got, words, "in steps of {step}");
            assert!(inbox.rest().is_empty());
        }
    }

    #[test]
    fn what_is_no_message_is_noticed() {
        for wrong in [&[255, 255, 255, 255][..], &[1, 0, 0, 0, 250], &[2, 0, 0, 0, 11, 11]] {
            let mut inbox = Inbox::default();
            inbox.feed(wrong);
            assert_eq!(inbox.next::<Word>(), Err(Nonsense), "{wrong:?}");
        }
    }
}
