//! The events of a holder, by concern.

use core::fmt;

use multigrain_types::{NodeId, ThreadId};

use crate::invalidation_tree::Ranks;
use crate::message::{Attach, Kind, Turns};

/// What can happen to a holder.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum HolderEvent {
    /// Threads of this node want it, or to hand it out.
    Access(AccessEvent),
    /// The manager wants its copy.
    Supply(SupplyEvent),
    /// An invalidation comes, by a tree or from the manager, or is answered.
    Invalidation(NodeId, InvalidationEvent),
    /// A grant comes, or is used.
    Grant(GrantEvent),
    /// The minipage was freed; this node allocated it.
    Reclaim,
}

/// Threads of this node want the minipage, or to hand it out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum AccessEvent {
    /// A thread of this node trapped.
    Fault { thread: ThreadId, kind: Kind },
    /// The same, and its instruction has lost the minipage before: it is granted with a pin.
    PinnedRetry { thread: ThreadId, kind: Kind },
    /// A copy is wanted and nobody waits for it.
    Prefetch { kind: Kind },
    /// Read copies shall go to every node.
    Push,
}

/// The manager wants this node's copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum SupplyEvent {
    Forward { kind: Kind, requester: NodeId, ack_now: bool, turns: Turns },
    PushForward { target: NodeId },
}

/// An invalidation comes, or is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidationEvent {
    /// The manager wants this node's copy invalidated.
    Invalidate,
    /// The manager, or the node above in the tree, wants this node's copy and those of others invalidated.
    InvalidateTree {
        /// The others.
        below: Ranks,
    },
    /// A node that it was passed on to has no copy any more, nor has any of that one's subtree.
    Reply,
}

/// A grant comes, or is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum GrantEvent {
    Reply {
        kind: Kind,
        attach: Attach,
        ack_now: bool,
        turns: Turns,
    },
    PushReply,
    /// A woken thread is about to retry its access.
    Resumed {
        thread: ThreadId,
    },
    /// The access of a thread that holds the minipage is done, or gives it up; its node has had it for so long.
    Retired {
        thread: ThreadId,
        turn_us: u32,
    },
    /// Another node waits for the ack.
    AckNow,
}

/// The event without its concern.
impl fmt::Debug for HolderEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Access(event) => event.fmt(out),
            Self::Supply(event) => event.fmt(out),
            Self::Invalidation(_, event) => event.fmt(out),
            Self::Grant(event) => event.fmt(out),
            Self::Reclaim => out.write_str("Reclaim"),
        }
    }
}
