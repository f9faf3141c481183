//! What nodes say to each other: the messages of Millipage Figure 3, those a real system adds
//! (upgrade, push, reclaim), and those of the synchronization engines.

use multigrain_types::{MinipageId, NodeId};

/// The two kinds of fault and of request (Millipage Figure 3: `READ or WRITE_REQUEST`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A read copy is wanted.
    Read,
    /// The writable copy is wanted.
    Write,
}

/// Whether the contents of the minipage travel with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attach {
    /// A small message.
    Nothing,
    /// The minipage's bytes follow, straight from the sender's privileged view.
    Page,
}

/// A message between two nodes, or from a node to itself in another role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "a subject and what is said about it")]
pub enum Message {
    /// About one minipage.
    Page { minipage: MinipageId, body: PageMessage },
    /// About one synchronization id.
    Sync { id: u32, body: SyncMessage },
}

/// What is said about a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields are a kind and a node in a role")]
pub enum PageMessage {
    /// Figure 3 "On Read or Write Fault": requester to manager.
    Request { kind: Kind },
    /// The owner wants the minipage back whatever it holds, for reuse after a free.
    ReclaimRequest,
    /// A holder asks to hand read copies to every node (section 4.3, TSP).
    PushRequest,
    /// Figure 3 "Forward pmsg to p": manager to the replica that shall supply `requester`.
    /// `hurry`: others wait already.
    Forward { kind: Kind, requester: NodeId, hurry: bool },
    /// The manager lets the pusher supply `target`.
    PushForward { target: NodeId },
    /// Figure 3 "READ_REPLY / WRITE_REPLY": holder to requester with the page; or manager to
    /// requester without it, when the requester holds a copy already (upgrade) or needs none
    /// (reclaim). `hurry`: others wait already, so the ack must not.
    Reply { kind: Kind, attach: Attach, hurry: bool },
    /// A read copy that was not asked for, pusher to target, with the page.
    PushReply,
    /// Figure 3 "INVALIDATE_REQUEST": manager to a replica.
    InvalidateRequest,
    /// Figure 3 "INVALIDATE_REPLY": replica to manager.
    InvalidateReply,
    /// Section 3.3, the additional ack that closes a transaction: requester to manager. It may
    /// wait for company, unless somebody waits for it.
    Ack,
    /// Somebody waits now for the transaction to close: manager to requester.
    Hurry,
}

/// What is said about a synchronization id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "one variant per engine")]
pub enum SyncMessage {
    Lock(LockMessage),
    Barrier(BarrierMessage),
    Semaphore(SemaphoreMessage),
    Condition(ConditionMessage),
}

/// Messages of the lock engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`to` is the node after the receiver")]
pub enum LockMessage {
    /// A node asks the lock's manager for the token.
    Request,
    /// The manager tells the last node in line to pass the token to `to` when it is done.
    Recall { to: NodeId },
    /// The token itself.
    Grant,
}

/// Messages of the barrier engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields count threads")]
pub enum BarrierMessage {
    /// `arrivals` threads of a node have come to a barrier of `total` threads.
    Arrive { arrivals: u32, total: u32 },
    /// `arrivals` threads of this node may go on.
    Release { arrivals: u32 },
}

/// Messages of the semaphore engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`count` is in units")]
pub enum SemaphoreMessage {
    /// One thread wants one unit.
    Request,
    /// One waiting thread of this node has its unit.
    Grant,
    /// Adds units.
    Post { count: u32 },
}

/// Messages of the condition variable engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`all` tells broadcast from signal")]
pub enum ConditionMessage {
    /// One thread is about to wait and still holds its lock.
    Enqueue,
    /// The manager has queued it: the lock may be released.
    Queued,
    /// Wakes the longest waiting thread of the job, or all of them.
    Signal { all: bool },
    /// The longest waiting thread of this node shall take its lock again and go on.
    Wake,
}

impl Message {
    /// Whether the contents of the minipage travel with this message.
    #[must_use]
    pub fn attach(&self) -> Attach {
        match self {
            Self::Page { body: PageMessage::Reply { attach, .. }, .. } => *attach,
            Self::Page { body: PageMessage::PushReply, .. } => Attach::Page,
            Self::Page { .. } | Self::Sync { .. } => Attach::Nothing,
        }
    }
}

impl PageMessage {
    /// This message about a minipage.
    #[must_use]
    pub fn about(self, minipage: MinipageId) -> Message {
        Message::Page { minipage, body: self }
    }
}

macro_rules! about_id {
    ($($engine:ident: $message:ty),*) => {$(
        impl $message {
            /// This message about a synchronization id.
            #[must_use]
            pub fn about(self, id: u32) -> Message {
                Message::Sync { id, body: SyncMessage::$engine(self) }
            }
        }
    )*};
}

about_id!(Lock: LockMessage, Barrier: BarrierMessage, Semaphore: SemaphoreMessage, Condition: ConditionMessage);
