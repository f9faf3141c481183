//! The inputs of a node, and violations: inputs that it refuses.

use multigrain_types::{MinipageId, NodeId, ThreadId};

use crate::message::{Kind, Message};
use crate::release::WriteNotices;
use crate::sync::{Operand, SyncInput};

/// What can happen to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the engines")]
pub enum Input {
    /// A thread trapped on a minipage.
    Fault { thread: ThreadId, minipage: MinipageId, kind: Kind },
    /// The same, by an instruction that was granted the minipage before and has lost it: the grant is
    /// pinned until the instruction is through.
    PinnedRetry { thread: ThreadId, minipage: MinipageId, kind: Kind },
    /// A copy is wanted, nobody waits.
    Prefetch { minipage: MinipageId, kind: Kind },
    /// A copy is wanted to read, and a thread of this node goes on when it is here: it faults for it
    /// next, unless it has come before.
    AwaitedPrefetch { minipage: MinipageId },
    /// A thread of this node is likely to write a lazily consistent minipage: a read copy of it, or the home,
    /// is opened for writes.
    OpenAhead { minipage: MinipageId },
    /// Hand read copies to every node.
    Push { minipage: MinipageId },
    /// A woken thread is about to retry its access.
    Resumed { thread: ThreadId, minipage: MinipageId },
    /// A thread that was asked to hold the minipage has done its access, or gives it up. This node has had it for
    /// `turn_us` of its processor time, 0 if that is not known.
    Retired { thread: ThreadId, minipage: MinipageId, turn_us: u32 },
    /// This node allocated the minipage and it was freed.
    Reclaim { minipage: MinipageId },
    /// A thread synchronizes.
    Sync(SyncInput),
    /// A thread is about to notify others by means of its own: it is woken when what this node wrote
    /// can be seen.
    Release { thread: ThreadId },
    /// A node is about to be notified by other means: it is sent the write notices first.
    Notify { node: NodeId },
    /// This node was notified by other means: it invalidates what the write notices named.
    Acquire,
    /// A message came in.
    Message { from: NodeId, message: Message },
    /// What comes with a collective operation's message that follows it came in. Boxed, as notices are: every input is moved
    /// on its way to an engine, and these are rare.
    Operand { from: NodeId, id: u64, operand: Box<Operand> },
    /// Write notices came in.
    WriteNotices { from: NodeId, notices: Box<WriteNotices> },
}

// Each step moves one, mostly more than once.
const _: () = assert!(size_of::<Input>() <= 64);

/// An input that must not have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A peer sent what no correct peer sends in this state.
    #[error("protocol violation by {from}: {}", what_came(role, state, event))]
    Peer {
        /// The node that sent it (this node itself for a broken engine).
        from: NodeId,
        /// The role that was asked.
        role: &'static str,
        /// Its state.
        state: String,
        /// What came.
        event: String,
    },
    /// The program broke a rule of the synchronization calls.
    #[error("{0}")]
    Misuse(String),
    /// More is in use than any node may have.
    #[error("{text}")]
    Limit {
        /// By whom: a peer, or threads of this node.
        from: NodeId,
        /// How much that is, and of what.
        text: String,
    },
}

impl Violation {
    /// The same, if it was found in what this node `me` told itself, by the peer that led to that.
    #[must_use]
    pub(super) fn of_peer(mut self, me: NodeId, peer: NodeId) -> Self {
        if let Self::Peer { from, .. } = &mut self
            && *from == me
        {
            *from = peer;
        }
        self
    }

    /// What is wrong, in words, without who did it.
    #[must_use]
    pub fn what(self) -> String {
        match self {
            Self::Peer { role, state, event, .. } => what_came(role, &state, &event),
            Self::Misuse(text) | Self::Limit { text, .. } => text,
        }
    }
}

/// What must not have come to a role in its state.
fn what_came(role: &str, state: &str, event: &str) -> String {
    format!("{event} for the {role} in state {state}")
}
