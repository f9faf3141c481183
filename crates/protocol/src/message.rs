//! The messages between nodes: those of Millipage Figure 3, additions
//! (upgrade, push, reclaim), and those of the other engines. Their numbers on the wire: `encoding.rs`.

use core::fmt;

use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use crate::invalidation_tree::Ranks;

/// The two kinds of fault and of request (Millipage Figure 3: `READ or WRITE_REQUEST`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A read copy is wanted.
    Read,
    /// The writable copy is wanted.
    Write,
}

impl Kind {
    /// The access that is enough for it.
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::Read => Access::ReadOnly,
            Self::Write => Access::ReadWrite,
        }
    }
}

/// Whether the contents of the minipage travel with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attach {
    /// A small message.
    Nothing,
    /// The minipage's bytes follow, straight from the sender's privileged view.
    Page,
    /// What differs between the minipage and its twin follows.
    Diff,
}

/// The turns of others that a node has waited for (ADR 17).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Turns {
    /// How many.
    pub count: u16,
    /// The longest of late, in microseconds of processor time of its node.
    pub longest_us: u32,
}

impl Turns {
    /// It did not wait.
    pub const NONE: Self = Self { count: 0, longest_us: 0 };

    /// It has waited for one more turn.
    #[must_use]
    pub fn and(self, turn_us: u32) -> Self {
        let longest_us = self.longest_us.max(turn_us);
        Self { count: self.count.saturating_add(1), longest_us }
    }

    /// One at least, if so: somebody waits who will end the grant.
    #[must_use]
    pub fn at_least_one(self, if_so: bool) -> Self {
        Self { count: self.count.max(if_so.into()), ..self }
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, longest_us } = self;
        match longest_us {
            0 => write!(out, "{count}"),
            _ => write!(out, "{count} of {longest_us} us"),
        }
    }
}

/// A message between two nodes, or from a node to itself in another role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "a subject and a body")]
pub enum Message {
    /// About one minipage.
    Page { minipage: MinipageId, body: PageMessage },
    /// About one minipage under eager release consistency.
    Mgs { minipage: MinipageId, body: MgsMessage },
    /// About one minipage under lazy release consistency.
    Hlrc { minipage: MinipageId, body: HlrcMessage },
    /// About one synchronization id.
    Sync { id: u64, body: SyncMessage },
}

/// Messages of sequential consistency.
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
    /// `ack_now` and `turns`: for the reply.
    Forward { kind: Kind, requester: NodeId, ack_now: bool, turns: Turns },
    /// The manager lets the pusher supply `target`.
    PushForward { target: NodeId },
    /// Figure 3 "READ_REPLY / WRITE_REPLY": holder to requester with the page; or manager to
    /// requester without it, when the requester holds a copy already (upgrade) or needs none
    /// (reclaim). `ack_now`: others wait already, so the ack must not. `turns`: for how many turns of
    /// others the requester has waited that conflict with its own, one at least if one will end it.
    Reply { kind: Kind, attach: Attach, ack_now: bool, turns: Turns },
    /// A read copy that was not asked for, pusher to target, with the page.
    PushReply,
    /// Figure 3 "INVALIDATE_REQUEST": manager to a replica.
    InvalidateRequest,
    /// The same by a tree, manager to a replica and replica to replica: this one's copy, and those of the nodes `below`.
    InvalidateTree { below: Ranks },
    /// Figure 3 "INVALIDATE_REPLY": replica to manager, or in a tree to who asked, for all below as well.
    InvalidateReply,
    /// Section 3.3, the additional ack that closes a transaction: requester to manager. It may
    /// be deferred, unless somebody waits for it. `turn_us`: how long a turn it was, 0 if nobody was
    /// waited for.
    Ack { turn_us: u32 },
    /// Somebody waits now for the transaction to close: manager to requester.
    AckNow,
}

/// MGS Table 5: the messages between client and server. What the local client and the remote
/// client of one node exchange is no message here (see [`crate::mgs`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MgsMessage {
    /// RREQ, client to server.
    ReadRequest,
    /// WREQ, client to server.
    WriteRequest,
    /// REL, client to server.
    Release,
    /// WNOTIFY, client to server: a read copy has become writable.
    WriteNotify,
    /// ACK, client to server: acknowledges INV, nothing was written.
    Ack,
    /// DIFF, client to server: acknowledges INV, with what was written.
    Diff,
    /// 1WDATA, client to server: acknowledges 1WINV, with the page.
    SingleWriterData,
    /// ACK1W, client to server: acknowledges 1WGR.
    SingleWriterAck,
    /// RDAT, server to client.
    ReadData,
    /// WDAT, server to client.
    WriteData,
    /// RACK, server to client.
    ReleaseAck,
    /// INV, server to client.
    Invalidate,
    /// 1WINV, server to client.
    SingleWriterInvalidate,
    /// 1WGR, server to client.
    SingleWriterGrant,
}

/// Home-based lazy release consistency: the messages between a node and the home of a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "a node in a role, and counts in the words of the tracker")]
pub enum HlrcMessage {
    /// The minipage is wanted at `requester`, which knows of `epoch` migrations. `waits`: a
    /// thread waits for it, so that the job cannot be quiescent before it has come.
    Fetch { requester: NodeId, epoch: u64, waits: bool },
    /// The minipage, from its home.
    Data,
    /// The minipage is zero and nobody else has it: the requester becomes its home.
    FirstTouch,
    /// The minipage, and the requester is its home from now on: its writers change.
    HomeTransfer,
    /// What `writer` wrote, part of its flush number `flush`; the sender knows of `epoch` migrations.
    Diff { writer: NodeId, flush: u64, epoch: u64 },
    /// The home has merged so many diffs of that flush, of this minipage and of others. The engines
    /// acknowledge one by one; the runtime makes one of several.
    DiffAck { flush: u64, count: u32 },
}

/// Messages about a synchronization id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "one variant per engine")]
pub enum SyncMessage {
    Lock(LockMessage),
    Barrier(BarrierMessage),
    Semaphore(SemaphoreMessage),
    Condition(ConditionMessage),
    ReadWrite(ReadWriteMessage),
}

/// Messages of the lock engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`to` is the node after the receiver; `tell` is said below")]
pub enum LockMessage {
    /// A node asks the lock's manager for the token. `tell`: if the token does not come at once, the node
    /// before it in line says so.
    Request { tell: bool },
    /// The manager has the last node in line pass the token to `to` when it is done.
    Recall { to: NodeId, tell: bool },
    /// The token itself.
    Grant,
    /// A node has more idle tokens than it keeps: the manager may have this one back.
    Offer,
    /// A node asks the one before it in line whether the lock is taken still.
    Probe,
    /// It is: to the next node in line, which has asked.
    Busy,
}

/// Messages of the barrier engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields count threads")]
pub enum BarrierMessage {
    /// `arrivals` threads of a node have come to a barrier of `total` threads. `quiescent`: with those that wait there
    /// already they are all the threads of that node, so many; 0 if others run.
    Arrive { arrivals: u32, total: u32, quiescent: u32 },
    /// `arrivals` threads of this node may go on. `quiescent`: no thread of the job ran when this was
    /// decided, so homes move now.
    Release { arrivals: u32, quiescent: bool },
    /// As [`BarrierMessage::Arrive`], from a node to the one above it in the tree of the job: of its own threads, and
    /// those of all nodes below it.
    Combine { arrivals: u32, total: u32, quiescent: bool },
    /// As [`BarrierMessage::Release`], from a node to one below it, for that one's threads and those of all nodes
    /// below.
    Open { arrivals: u32, quiescent: bool },
    /// A thread begins on a node that has declared that it is quiescent: it is not, unless the barrier has been
    /// decided already.
    Retract,
    /// The manager has taken it back; if it had decided before, the release is here by now. The thread may run.
    Retracted,
}

/// Messages of the semaphore engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`count` is in units, `thread` is of the node that waits")]
pub enum SemaphoreMessage {
    /// One thread wants one unit.
    Request { thread: ThreadId },
    /// A waiting thread of this node has its unit.
    Grant { thread: ThreadId },
    /// Adds units.
    Post { count: u32 },
    /// One thread wants a unit if there is one.
    Try { thread: ThreadId },
    /// A thread waits no longer, unless its grant is on its way.
    Withdraw { thread: ThreadId },
    /// A thread that tried, or has withdrawn, has no unit.
    Refused { thread: ThreadId },
}

/// Messages of the condition variable engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "`all` tells broadcast from signal; `thread` is of the node that waits"
)]
pub enum ConditionMessage {
    /// One thread is about to wait and still holds its lock.
    Enqueue { thread: ThreadId },
    /// The manager has queued it: the lock may be released.
    Queued { thread: ThreadId },
    /// Wakes the longest waiting thread of the job, or all of them.
    Signal { all: bool },
    /// A waiting thread of this node shall take its lock again and go on.
    Wake { thread: ThreadId },
    /// A thread waits no longer, unless its wake-up is on its way.
    Withdraw { thread: ThreadId },
    /// It is out of the queue: it takes its lock again, and was not signalled.
    Refused { thread: ThreadId },
}

/// Messages of the engine of read-write locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`thread` is of the node that waits, `kind` what it wants to do")]
pub enum ReadWriteMessage {
    /// One thread wants the lock.
    Request { thread: ThreadId, kind: Kind },
    /// It has it.
    Grant { thread: ThreadId },
    /// One thread wants the lock if it can be had at once.
    Try { thread: ThreadId, kind: Kind },
    /// It cannot.
    Refused { thread: ThreadId },
    /// A thread that had it is done.
    Release { kind: Kind },
}

impl Message {
    /// Whether the contents of the minipage travel with this message.
    #[must_use]
    pub fn attach(&self) -> Attach {
        match self {
            Self::Page { body: PageMessage::Reply { attach, .. }, .. } => *attach,
            Self::Page { body: PageMessage::PushReply, .. } => Attach::Page,
            Self::Mgs { body, .. } => body.attach(),
            Self::Hlrc { body: HlrcMessage::Data | HlrcMessage::HomeTransfer, .. } => Attach::Page,
            Self::Hlrc { body: HlrcMessage::Diff { .. }, .. } => Attach::Diff,
            Self::Page { .. } | Self::Hlrc { .. } | Self::Sync { .. } => Attach::Nothing,
        }
    }

    /// Whether many neighbouring minipages may be asked for, answered and acknowledged by one frame with this
    /// message: then it leaves [`crate::Words::extra`] unused. Nothing that is merged or forwarded with diffs
    /// may, for their order counts.
    #[must_use]
    pub fn goes_in_runs(&self) -> bool {
        use HlrcMessage as H;
        use MgsMessage as M;
        match self {
            Self::Page { .. } => true,
            Self::Mgs { body, .. } => {
                matches!(body, M::ReadRequest | M::WriteRequest | M::ReadData | M::WriteData)
            }
            Self::Hlrc { body, .. } => matches!(body, H::Fetch { .. } | H::Data | H::FirstTouch),
            Self::Sync { .. } => false,
        }
    }

    /// The same about another minipage; of a message that is about none, the message.
    #[must_use]
    pub fn about(self, minipage: MinipageId) -> Self {
        match self {
            Self::Page { body, .. } => Self::Page { minipage, body },
            Self::Mgs { body, .. } => Self::Mgs { minipage, body },
            Self::Hlrc { body, .. } => Self::Hlrc { minipage, body },
            Self::Sync { .. } => self,
        }
    }

    /// The minipage it is about.
    #[must_use]
    pub fn minipage(&self) -> Option<MinipageId> {
        match *self {
            Self::Page { minipage, .. }
            | Self::Mgs { minipage, .. }
            | Self::Hlrc { minipage, .. } => Some(minipage),
            Self::Sync { .. } => None,
        }
    }
}

impl MgsMessage {
    /// This message about a minipage.
    #[must_use]
    pub fn about(self, minipage: MinipageId) -> Message {
        Message::Mgs { minipage, body: self }
    }

    fn attach(self) -> Attach {
        match self {
            Self::ReadData | Self::WriteData | Self::SingleWriterData => Attach::Page,
            Self::Diff => Attach::Diff,
            Self::ReadRequest
            | Self::WriteRequest
            | Self::Release
            | Self::WriteNotify
            | Self::Ack
            | Self::SingleWriterAck
            | Self::ReleaseAck
            | Self::Invalidate
            | Self::SingleWriterInvalidate
            | Self::SingleWriterGrant => Attach::Nothing,
        }
    }
}

impl HlrcMessage {
    /// This message about a minipage.
    #[must_use]
    pub fn about(self, minipage: MinipageId) -> Message {
        Message::Hlrc { minipage, body: self }
    }
}

impl SyncMessage {
    /// Whether it lets threads go from a barrier at which the whole job was quiescent.
    #[must_use]
    pub fn is_quiescent_release(self) -> bool {
        matches!(
            self,
            Self::Barrier(
                BarrierMessage::Release { quiescent: true, .. }
                    | BarrierMessage::Open { quiescent: true, .. }
            )
        )
    }

    /// Whether it goes by the tree of the job, from a node to the one above or below it.
    #[must_use]
    pub fn goes_by_tree(self) -> bool {
        let Self::Barrier(message) = self else { return false };
        matches!(message, BarrierMessage::Combine { .. } | BarrierMessage::Open { .. })
    }

    /// Whether what this node wrote must be seen by the node that acts on it (a release leaves the node).
    #[must_use]
    pub fn carries_release(self) -> bool {
        match self {
            Self::Lock(LockMessage::Grant)
            | Self::Barrier(
                BarrierMessage::Arrive { .. }
                | BarrierMessage::Release { .. }
                | BarrierMessage::Combine { .. }
                | BarrierMessage::Open { .. },
            )
            | Self::Semaphore(SemaphoreMessage::Grant { .. } | SemaphoreMessage::Post { .. })
            | Self::ReadWrite(ReadWriteMessage::Grant { .. } | ReadWriteMessage::Release { .. }) => {
                true
            }
            Self::Lock(
                LockMessage::Request { .. }
                | LockMessage::Recall { .. }
                | LockMessage::Offer
                | LockMessage::Probe
                | LockMessage::Busy,
            )
            | Self::Barrier(BarrierMessage::Retract | BarrierMessage::Retracted)
            | Self::Semaphore(
                SemaphoreMessage::Request { .. }
                | SemaphoreMessage::Try { .. }
                | SemaphoreMessage::Withdraw { .. }
                | SemaphoreMessage::Refused { .. },
            )
            | Self::Condition(_)
            | Self::ReadWrite(
                ReadWriteMessage::Request { .. }
                | ReadWriteMessage::Try { .. }
                | ReadWriteMessage::Refused { .. },
            ) => false,
        }
    }
}

impl ReadWriteMessage {
    /// The thread it is about, of the node that waits.
    pub(crate) fn thread(self) -> Option<ThreadId> {
        match self {
            Self::Request { thread, .. }
            | Self::Grant { thread }
            | Self::Try { thread, .. }
            | Self::Refused { thread } => Some(thread),
            Self::Release { .. } => None,
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
            pub fn about(self, id: u64) -> Message {
                Message::Sync { id, body: SyncMessage::$engine(self) }
            }
        }
    )*};
}

about_id!(
    Lock: LockMessage,
    Barrier: BarrierMessage,
    Semaphore: SemaphoreMessage,
    Condition: ConditionMessage,
    ReadWrite: ReadWriteMessage
);
