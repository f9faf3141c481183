//! Effects: what an engine wants done.

use multigrain_types::{Access, MinipageId, NodeId, ThreadId};
use smallvec::SmallVec;

use crate::message::{Message, Turns};

/// Who acknowledges a message of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AckFrom {
    /// The node that it was sent to.
    Node(NodeId),
    /// Any, as far as this node can tell: it may be passed on. Or the engine itself has looked who it is.
    Any,
}

/// One thing an engine wants done. Engines name page data and never hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the types module")]
pub enum Effect {
    /// Send a message; `message.attach()` says whether the minipage's bytes go with it.
    Send { to: NodeId, message: Message },
    /// Send a message that nobody waits for: it may go with the next one to that node, but before
    /// this node answers anything that it receives.
    SendDeferred { to: NodeId, message: Message },
    /// The bytes that came with the message at hand become the minipage, then it is opened.
    Install { minipage: MinipageId, access: Access },
    /// Change the protection of the minipage's vpages; done when this returns.
    Protect { minipage: MinipageId, from: Access, to: Access },
    /// A spurious fault: make the page tables agree with the state again.
    Reprotect { minipage: MinipageId, access: Access },
    /// A waiting thread may go on.
    Wake { thread: ThreadId },
    /// What a waiting thread asked for is not to be had, or not in time; [`Effect::Wake`] comes later.
    Refuse { thread: ThreadId },
    /// A woken thread holds the minipage until its instruction is through if that is `urgent`, for
    /// somebody waits, and until the node has had its turn ([`crate::window_length`]), having waited for so
    /// many of others: then the world steps [`crate::Input::Retired`].
    Hold { thread: ThreadId, minipage: MinipageId, turns: Turns, urgent: bool },
    /// The minipage came back to its owner after a free and may be used again.
    Reclaimed { minipage: MinipageId },
    /// The access becomes `ReadWrite`, and what is written from now on is found by [`crate::ReleaseWorld::written`].
    Track { minipage: MinipageId, from: Access },
    /// Keep a copy of the minipage's bytes, to find later what was written (a twin). Before an
    /// [`Effect::Install`] those are the bytes that came: the twin is there before any thread writes.
    MakeTwin { minipage: MinipageId },
    /// The twin is of no more use.
    DropTwin { minipage: MinipageId },
    /// The bytes that came with the message at hand become the home's; no thread has access.
    Store { minipage: MinipageId },
    /// Buffer the diff that came with the message at hand, until [`Effect::MergeDiffs`].
    BufferDiff { minipage: MinipageId },
    /// Write what buffered diffs name into the minipage, in the order they came; if it is `open`, threads
    /// of this node may write other bytes of it meanwhile.
    MergeDiffs { minipage: MinipageId, open: bool },
    /// Forward the oldest of the buffered diffs, with this message.
    ForwardDiff { to: NodeId, message: Message },
    /// The minipage becomes zero, then it is opened.
    InstallZero { minipage: MinipageId, access: Access },
    /// Release tracker: the minipage enters the delayed update queue (MGS 3.2.2), before it is opened.
    Dirty { minipage: MinipageId },
    /// Release tracker: the minipage leaves the delayed update queue; its writes are on their way.
    Clean { minipage: MinipageId },
    /// Release tracker: the minipage's writes go with that flush. `awaited`: the flush has not ended before
    /// an [`Effect::Acked`] by that node; `notice`: other nodes are notified that it was written.
    Flushed { minipage: MinipageId, flush: u64, awaited: Option<AckFrom>, notice: bool },
    /// Release tracker: so many of the flush's messages were acknowledged.
    Acked { flush: u64, count: u32, by: AckFrom },
    /// Bookkeeping: a request was queued behind another (Millipage 4.4, competing requests).
    Competing { minipage: MinipageId },
}

/// The effects of one step; four fit without allocation.
pub type Effects = SmallVec<[Effect; 4]>;
