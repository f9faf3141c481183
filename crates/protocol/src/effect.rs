//! What an engine wants done, and the world that does it.

use multigrain_types::{Access, MinipageId, NodeId, ThreadId};
use smallvec::SmallVec;

use crate::message::Message;

/// One thing an engine wants done. Engines name page data and never hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the types module")]
pub enum Effect {
    /// Send a message; `message.attach()` says whether the minipage's bytes go with it.
    Send { to: NodeId, message: Message },
    /// Send a message that nobody waits for: it may go with the next one to that node, but before
    /// this node answers anything that it receives.
    SendLater { to: NodeId, message: Message },
    /// The bytes that came with the message at hand become the minipage, then it is opened.
    Install { minipage: MinipageId, access: Access },
    /// Change the protection of the minipage's vpages; done when this returns.
    Protect { minipage: MinipageId, from: Access, to: Access },
    /// A spurious fault: make the page tables agree with the state again.
    Reprotect { minipage: MinipageId, access: Access },
    /// A waiting thread may go on.
    Wake { thread: ThreadId },
    /// The minipage came back to its owner after a free and may be used again.
    Reclaimed { minipage: MinipageId },
    /// Bookkeeping: a request was queued behind another (Millipage 4.4, competing requests).
    Competing { minipage: MinipageId },
}

/// The effects of one step; four fit without allocation.
pub type Effects = SmallVec<[Effect; 4]>;

/// What a node lives in: real memory and sockets, a simulated cluster, or a checker's state.
///
/// A world asserts that no page is read for sending while it is writable on that node, and that
/// none is installed while it is accessible.
pub trait World {
    /// Sends to another node. Messages between two nodes arrive in the order sent.
    fn send(&mut self, to: NodeId, message: Message);
    /// See [`Effect::SendLater`]. Order is kept: it arrives before whatever is sent after it.
    fn send_later(&mut self, to: NodeId, message: Message);
    /// See [`Effect::Install`].
    fn install(&mut self, minipage: MinipageId, access: Access);
    /// See [`Effect::Protect`].
    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access);
    /// See [`Effect::Reprotect`].
    fn reprotect(&mut self, minipage: MinipageId, access: Access);
    /// See [`Effect::Wake`].
    fn wake(&mut self, thread: ThreadId);
    /// See [`Effect::Reclaimed`].
    fn reclaimed(&mut self, minipage: MinipageId);
    /// See [`Effect::Competing`].
    fn competing(&mut self, minipage: MinipageId);
}
