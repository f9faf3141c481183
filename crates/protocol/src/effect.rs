//! What an engine wants done, and the world that does it.

use multigrain_types::{Access, MinipageId, NodeId, ThreadId};
use smallvec::SmallVec;

use crate::message::{Message, SyncMessage};
use crate::release::WriteNotices;
use crate::sync::SyncInput;

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
    /// A woken thread holds the minipage until its instruction is through if that is `urgent`, for
    /// somebody waits, and until the node has had its turn ([`crate::window`]), having waited for so
    /// many of others: then the world steps [`crate::Input::Retired`].
    Hold { thread: ThreadId, minipage: MinipageId, turns: u16, urgent: bool },
    /// The minipage came back to its owner after a free and may be used again.
    Reclaimed { minipage: MinipageId },
    /// The access becomes `ReadWrite`, and what is written from now on is found by [`World::written`].
    Track { minipage: MinipageId, from: Access },
    /// Keep a copy of the minipage's bytes, to tell later what was written. Before an
    /// [`Effect::Install`] those are the bytes that came: the twin is there before any thread writes.
    MakeTwin { minipage: MinipageId },
    /// The twin is of no more use.
    DropTwin { minipage: MinipageId },
    /// The bytes that came with the message at hand become the home's; no thread has access.
    Store { minipage: MinipageId },
    /// Keep the diff that came with the message at hand, until [`Effect::MergeDiffs`].
    BufferDiff { minipage: MinipageId },
    /// Write what kept diffs name into the minipage, in the order they came; if it is `open`, threads
    /// of this node may write other bytes of it meanwhile.
    MergeDiffs { minipage: MinipageId, open: bool },
    /// Send on the oldest of the kept diffs, with this message.
    ForwardDiff { to: NodeId, message: Message },
    /// The minipage becomes zero, then it is opened.
    InstallZero { minipage: MinipageId, access: Access },
    /// ReleaseTracker: the minipage enters the delayed update queue (MGS 3.2.2), before it is opened.
    Dirty { minipage: MinipageId },
    /// ReleaseTracker: the minipage leaves the delayed update queue; its writes are on their way.
    Clean { minipage: MinipageId },
    /// ReleaseTracker: the minipage's writes go with that flush. `awaited`: the flush has not ended before
    /// an [`Effect::Acked`]; `notice`: other nodes must hear that it was written.
    Flushed { minipage: MinipageId, flush: u64, awaited: bool, notice: bool },
    /// ReleaseTracker: so many of the flush's messages were acknowledged.
    Acked { flush: u64, count: u32 },
    /// Bookkeeping: a request was queued behind another (Millipage 4.4, competing requests).
    Competing { minipage: MinipageId },
}

/// The effects of one step; four fit without allocation.
pub type Effects = SmallVec<[Effect; 4]>;

/// Why a world need not do what only release consistency asks for.
const NO_RELEASE: &str = "no minipage of this world is release consistent";

/// What a node lives in: real memory and sockets, a simulated cluster, or a checker's state.
///
/// A world asserts that no page is installed while it is accessible, and that no page under
/// sequential consistency is read for sending while it is writable on that node. (Under release
/// consistency it may be: what is written meanwhile, nobody may read before the next release.)
/// A world without release consistent minipages leaves out the methods that only they need.
pub trait World {
    /// Sends to another node. Messages between two nodes arrive in the order sent, but for those that
    /// may pass what is kept ([`crate::Words::may_pass`]).
    fn send(&mut self, to: NodeId, message: Message);
    /// See [`Effect::SendDeferred`]. Order is kept as for [`World::send`].
    fn send_deferred(&mut self, to: NodeId, message: Message);
    /// See [`Effect::Install`].
    fn install(&mut self, minipage: MinipageId, access: Access);
    /// See [`Effect::Protect`].
    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access);
    /// See [`Effect::Reprotect`].
    fn reprotect(&mut self, minipage: MinipageId, access: Access);
    /// See [`Effect::Wake`].
    fn wake(&mut self, thread: ThreadId);
    /// See [`Effect::Hold`].
    fn hold(&mut self, thread: ThreadId, minipage: MinipageId, turns: u16, urgent: bool);
    /// See [`Effect::Reclaimed`].
    fn reclaimed(&mut self, minipage: MinipageId);
    /// See [`Effect::Competing`].
    fn competing(&mut self, minipage: MinipageId);

    /// The synchronization engines have granted what a thread asks of them; before its effects.
    fn asks(&mut self, asked: &SyncInput) {
        let _ = asked;
    }
    /// The synchronization engines want this message sent, perhaps to this node itself. It may have to
    /// wait for a flush: [`World::send`] comes later, or [`World::takes`] if it is for this node.
    fn posts(&mut self, to: NodeId, id: u32, message: SyncMessage) {
        let _ = (to, id, message);
    }
    /// The synchronization engines are about to take this message, perhaps of this node itself.
    fn takes(&mut self, from: NodeId, id: u32, message: SyncMessage) {
        let _ = (from, id, message);
    }
    /// Sends what this node knows of writes, before the message that makes the receiver act on it.
    fn send_notices(&mut self, to: NodeId, notices: WriteNotices) {
        let _ = (to, notices);
        unreachable!("{NO_RELEASE}")
    }
    /// No message follows what was just given to [`World::send_notices`]: it goes by itself, ahead of all
    /// that is sent to that node later.
    fn send_notices_alone(&mut self) {}
    /// These minipages, in order, are about to lose write access one after the other: a world may
    /// do what it costs for all at once.
    fn closing(&mut self, minipages: &[MinipageId]) {
        let _ = minipages;
    }
    /// A flush has sent all it has: what was kept back to go together shall go.
    fn send_batched(&mut self) {}
    /// See [`Effect::MakeTwin`].
    fn make_twin(&mut self, minipage: MinipageId) {
        let _ = minipage;
        unreachable!("{NO_RELEASE}")
    }
    /// See [`Effect::DropTwin`].
    fn drop_twin(&mut self, minipage: MinipageId) {
        let _ = minipage;
        unreachable!("{NO_RELEASE}")
    }
    /// See [`Effect::Store`].
    fn store(&mut self, minipage: MinipageId) {
        let _ = minipage;
        unreachable!("{NO_RELEASE}")
    }
    /// See [`Effect::Track`].
    fn track(&mut self, minipage: MinipageId, from: Access) {
        let _ = (minipage, from);
        unreachable!("{NO_RELEASE}")
    }
    /// Lazily consistent minipages that threads of this node may have written since they were tracked
    /// or found last; any of them may be named that was tracked once.
    fn written(&mut self) -> Vec<MinipageId> {
        Vec::new()
    }
    /// See [`Effect::BufferDiff`].
    fn buffer_diff(&mut self, minipage: MinipageId) {
        let _ = minipage;
        unreachable!("{NO_RELEASE}")
    }
    /// See [`Effect::MergeDiffs`].
    fn merge_diffs(&mut self, minipage: MinipageId, open: bool) {
        let _ = (minipage, open);
        unreachable!("{NO_RELEASE}")
    }
    /// See [`Effect::ForwardDiff`].
    fn forward_diff(&mut self, to: NodeId, message: Message) {
        let _ = (to, message);
        unreachable!("{NO_RELEASE}")
    }
    /// See [`Effect::InstallZero`].
    fn install_zero(&mut self, minipage: MinipageId, access: Access) {
        let _ = (minipage, access);
        unreachable!("{NO_RELEASE}")
    }
    /// Takes all access to the writable minipage from this node's threads if every byte of it is
    /// zero; true if it did.
    fn close_if_zero(&mut self, minipage: MinipageId) -> bool {
        let _ = minipage;
        unreachable!("{NO_RELEASE}")
    }
}
