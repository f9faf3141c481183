//! The events of a copy, by concern.

use core::fmt;

use multigrain_types::{NodeId, ThreadId};

use crate::message::Kind;

/// What can happen to a copy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum CopyEvent {
    /// Threads of this node want it.
    Access(AccessEvent),
    /// Another node wants it, or contents come.
    Fetch(FetchEvent),
    /// Writes go to the home.
    Flush(FlushEvent),
    /// Acquire: another node wrote it. What was written here goes with the node's next flush.
    Notice {
        /// The number of that flush.
        flush: u64,
    },
    /// All threads of the job are at a barrier: the home from now on.
    Migrate {
        /// The home.
        home: NodeId,
    },
}

/// Threads of this node want the minipage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum AccessEvent {
    /// A thread of this node trapped.
    Fault { thread: ThreadId, kind: Kind },
    /// A copy is wanted and nobody waits for it.
    Prefetch { kind: Kind },
    /// A copy to read is wanted, and a thread goes on when it is here.
    AwaitedPrefetch,
    /// A thread is likely to write what is here to be read.
    OpenAhead,
}

/// A fetch, and its answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum FetchEvent {
    /// `zero`: the world has just closed the minipage, for every byte of it is zero.
    /// `waits`: a thread of the requester waits for it.
    Fetch { requester: NodeId, zero: bool, waits: bool },
    /// Contents.
    Data { from: NodeId },
    /// Contents, and this node is the home from now on.
    HomeTransfer,
    /// The minipage is zero, and this node is the home from now on.
    FirstTouch,
}

/// Writes go to the home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum FlushEvent {
    /// This node's writes shall be seen; part of flush number `flush`.
    Release { flush: u64 },
    /// The world has found that threads of this node wrote it, as it does at a tracked home and where a minipage
    /// was opened ahead.
    FoundWritten,
    /// The world has just closed the minipage, which was opened ahead, and nobody has written it.
    FoundUnwritten,
    /// The diff is buffered already.
    Diff { writer: NodeId, flush: u64 },
    /// The home has merged `count` diffs of this copy.
    DiffAck { from: NodeId, flush: u64, count: u32 },
}

/// The event without its concern.
impl fmt::Debug for CopyEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(event) => event.fmt(out),
            Self::Fetch(event) => event.fmt(out),
            Self::Flush(event) => event.fmt(out),
            Self::Notice { flush } => out.debug_struct("Notice").field("flush", flush).finish(),
            Self::Migrate { home } => out.debug_struct("Migrate").field("home", home).finish(),
        }
    }
}
