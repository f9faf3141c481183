//! One node of the protocol: routes inputs to the engines and applies their effects.

mod dispatch;
mod migration;
mod owned;
mod release;
mod step;

use multigrain_types::{Consistency, MinipageId, NodeId, ThreadId};
pub use owned::{OwnedCell, OwnedTables};

use crate::coherence::{Entry, Holder};
use crate::message::{Kind, Message};
use crate::release::{ReleaseTracker, WriteNotices};
use crate::sync::{SyncInput, SyncTables};
use crate::{hlrc, mgs};

/// What can happen to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the engines")]
pub enum Input {
    /// A thread trapped on a minipage.
    Fault { thread: ThreadId, minipage: MinipageId, kind: Kind },
    /// The same, by an instruction that was granted the minipage before and has lost it.
    PinnedRetry { thread: ThreadId, minipage: MinipageId, kind: Kind },
    /// A copy is wanted, nobody waits.
    Prefetch { minipage: MinipageId, kind: Kind },
    /// A copy is wanted to read, and a thread of this node goes on when it is here: it faults for it
    /// next, unless it has come before.
    AwaitedPrefetch { minipage: MinipageId },
    /// Hand read copies to every node.
    Push { minipage: MinipageId },
    /// A woken thread is about to retry its access.
    Resumed { thread: ThreadId, minipage: MinipageId },
    /// A thread that was told to hold the minipage has done its access, or gives it up.
    Retired { thread: ThreadId, minipage: MinipageId },
    /// This node allocated the minipage and it was freed.
    Reclaim { minipage: MinipageId },
    /// A thread synchronizes.
    Sync(SyncInput),
    /// A thread is about to tell others by means of its own: it is woken when what this node wrote
    /// can be seen.
    Release { thread: ThreadId },
    /// A node is about to be told by other means: it gets the write notices first.
    Notify { node: NodeId },
    /// This node was told by other means: it forgets what the write notices named.
    Acquire,
    /// A message came in.
    Message { from: NodeId, message: Message },
    /// Write notices came in.
    WriteNotices { from: NodeId, notices: WriteNotices },
}

/// An input that must not have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A peer sent what no correct peer sends in this state.
    #[error("protocol violation by {from}: {event} for the {role} in state {state}")]
    Peer {
        /// Who sent it (this node itself for a broken engine).
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

/// The engines of one minipage on one node, lent for one step.
pub trait Cell {
    /// Lends the tracker.
    type ReleaseTracker<'a>: core::ops::DerefMut<Target = ReleaseTracker>
    where
        Self: 'a;

    /// The node that keeps the directory entry: manager, or home under [`Consistency::EagerRelease`].
    fn manager(&self) -> NodeId;
    /// What was asked for when it was allocated.
    fn consistency(&self) -> Consistency;
    /// Lazy: after so many moves of the home at barriers it goes from hand to hand; `None`: never.
    fn dynamic_after(&self) -> Option<u8> {
        (self.consistency() == Consistency::Auto).then_some(hlrc::DYNAMIC_AFTER)
    }
    /// Lazy: whether the world finds what the home's threads write ([`crate::World::written`]).
    fn tracked(&self) -> bool {
        false
    }
    /// Sequential: this node's copy.
    fn holder(&mut self) -> &mut Holder;
    /// Sequential: the directory entry; asked for on the manager only.
    fn entry(&mut self) -> &mut Entry;
    /// Eager: this node's copy.
    fn client(&mut self) -> &mut mgs::Client;
    /// Eager: the directory; asked for on the home only.
    fn server(&mut self) -> &mut mgs::Server;
    /// Lazy: this node's copy, or the home.
    fn copy(&mut self) -> &mut hlrc::Copy;
    /// The tracker, locked until dropped. It may be locked while a cell is, never the other way.
    fn tracker(&mut self) -> Self::ReleaseTracker<'_>;
}

/// The synchronization states of a node, lent for one step. While they are, minipages may be lent
/// as well, never the other way.
pub trait SyncCell {
    /// Lends the states of one minipage.
    type Lent<'a>: Cell
    where
        Self: 'a;
    /// Lends the tracker.
    type ReleaseTracker<'a>: core::ops::DerefMut<Target = ReleaseTracker>
    where
        Self: 'a;

    /// The synchronization states.
    fn tables(&mut self) -> &mut SyncTables;
    /// The states of one minipage, locked until dropped.
    fn minipage(&mut self, minipage: MinipageId) -> Self::Lent<'_>;
    /// The tracker, locked until dropped.
    fn tracker(&mut self) -> Self::ReleaseTracker<'_>;
}

/// Where a node keeps its engines' states. The runtime's tables are shared by threads and lock what
/// they lend; the checker's are plain maps.
pub trait Tables {
    /// Lends the states of one minipage.
    type Lent<'a>: Cell
    where
        Self: 'a;
    /// Lends the synchronization states.
    type Sync<'a>: SyncCell
    where
        Self: 'a;
    /// Lends the tracker.
    type ReleaseTracker<'a>: core::ops::DerefMut<Target = ReleaseTracker>
    where
        Self: 'a;

    /// The states of one minipage, locked until dropped.
    fn minipage(&mut self, minipage: MinipageId) -> Self::Lent<'_>;
    /// The synchronization states, locked until dropped.
    fn sync(&mut self) -> Self::Sync<'_>;
    /// The tracker, locked until dropped.
    fn tracker(&mut self) -> Self::ReleaseTracker<'_>;
}

/// A node: its place in the job and its tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node<T> {
    /// This node's rank.
    pub me: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
    /// The engines' states.
    pub tables: T,
}
