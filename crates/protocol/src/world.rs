//! The world that a node acts on.

use std::sync::Arc;

use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use crate::message::{Message, SyncMessage, Turns};
use crate::release::WriteNotices;
use crate::sync::{Operand, SyncInput};

/// What a node lives in: real memory and sockets, a simulated cluster, or a checker's state.
///
/// A world asserts that no page is installed while it is accessible, and that no page under
/// sequential consistency is read for sending while it is writable on that node. (Under release
/// consistency it may be: what is written meanwhile, nobody may read before the next release.)
pub trait World {
    /// Sends to another node. Messages between two nodes arrive in the order sent.
    fn send(&mut self, to: NodeId, message: Message);
    /// See [`crate::Effect::SendDeferred`]. Order is kept as for [`World::send`].
    fn send_deferred(&mut self, to: NodeId, message: Message);
    /// See [`crate::Effect::Install`].
    fn install(&mut self, minipage: MinipageId, access: Access);
    /// See [`crate::Effect::Protect`].
    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access);
    /// See [`crate::Effect::Reprotect`].
    fn reprotect(&mut self, minipage: MinipageId, access: Access);
    /// See [`crate::Effect::Wake`].
    fn wake(&mut self, thread: ThreadId);
    /// See [`crate::Effect::Refuse`].
    fn refuse(&mut self, thread: ThreadId);
    /// See [`crate::Effect::Hold`].
    fn hold(&mut self, thread: ThreadId, minipage: MinipageId, turns: Turns, urgent: bool);
    /// See [`crate::Effect::Reclaimed`].
    fn reclaimed(&mut self, minipage: MinipageId);
    /// See [`crate::Effect::Competing`].
    fn competing(&mut self, minipage: MinipageId);

    /// Sends an operand or a result of collective operation `id`, before the message to that node that it
    /// belongs to.
    fn send_operand(&mut self, to: NodeId, id: u64, operand: &Operand);
    /// The result of the collective operation that a thread is about to be woken from.
    fn result(&mut self, thread: ThreadId, values: Arc<[u8]>);

    /// What release consistency needs of this world; `None` if none of its minipages is release
    /// consistent.
    fn release_world(&mut self) -> Option<&mut dyn ReleaseWorld> {
        None
    }

    /// Observed, for the detection of data races: the synchronization engines have granted what a
    /// thread asks of them; before its effects.
    fn on_request(&mut self, asked: &SyncInput) {
        let _ = asked;
    }
    /// Observed: the synchronization engines want this message sent, perhaps to this node itself. It
    /// may have to wait for a flush: [`World::send`] comes later, or [`World::on_receive`] if it is for this
    /// node.
    fn on_send(&mut self, to: NodeId, id: u64, message: SyncMessage) {
        let _ = (to, id, message);
    }
    /// Observed: the synchronization engines are about to take this message, perhaps of this node
    /// itself.
    fn on_receive(&mut self, from: NodeId, id: u64, message: SyncMessage) {
        let _ = (from, id, message);
    }
}

/// What release consistency needs beyond a [`World`].
pub trait ReleaseWorld {
    /// Sends write notices, before the message that makes the receiver act on them.
    fn send_notices(&mut self, to: NodeId, notices: WriteNotices);
    /// No message follows what was just given to [`ReleaseWorld::send_notices`]: it goes by itself, ahead of
    /// all that is sent to that node later.
    fn send_notices_alone(&mut self);
    /// These minipages, in order, are about to lose write access one after the other: a world may
    /// do what it costs for all at once.
    fn closing(&mut self, minipages: &[MinipageId]);
    /// Read copies, in order, are about to lose all access one after the other, for an acquire: likewise.
    fn losing(&mut self, minipages: &[MinipageId]);
    /// A flush has sent all it has: the batch goes.
    fn send_batched(&mut self);
    /// See [`crate::Effect::MakeTwin`].
    fn make_twin(&mut self, minipage: MinipageId);
    /// See [`crate::Effect::DropTwin`].
    fn drop_twin(&mut self, minipage: MinipageId);
    /// See [`crate::Effect::Store`].
    fn store(&mut self, minipage: MinipageId);
    /// See [`crate::Effect::Track`].
    fn track(&mut self, minipage: MinipageId, from: Access);
    /// Lazily consistent minipages that threads of this node may have written since they were tracked
    /// or found last; any of them may be named that was tracked once.
    fn written(&mut self) -> Vec<MinipageId>;
    /// See [`crate::Effect::BufferDiff`].
    fn buffer_diff(&mut self, minipage: MinipageId);
    /// See [`crate::Effect::MergeDiffs`].
    fn merge_diffs(&mut self, minipage: MinipageId, open: bool);
    /// See [`crate::Effect::ForwardDiff`].
    fn forward_diff(&mut self, to: NodeId, message: Message);
    /// See [`crate::Effect::InstallZero`].
    fn install_zero(&mut self, minipage: MinipageId, access: Access);
    /// Takes all access to the writable minipage from this node's threads if every byte of it is
    /// zero; true if it did.
    fn close_if_zero(&mut self, minipage: MinipageId) -> bool;
    /// Takes write access to the writable minipage from this node's threads if it is as its twin; true if it
    /// did.
    fn close_if_unwritten(&mut self, minipage: MinipageId) -> bool;
}
