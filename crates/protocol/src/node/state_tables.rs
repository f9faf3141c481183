//! Where a node keeps the states of its engines.

use multigrain_types::{Consistency, MinipageId, NodeId};

use crate::coherence::{Entry, Holder};
use crate::consistency::Homes;
use crate::invalidation_tree::TreeShape;
use crate::migration::DYNAMIC_AFTER;
use crate::release::ReleaseTracker;
use crate::sync::SyncTables;
use crate::{hlrc, mgs};

/// The engines of one minipage on one node, borrowed for one step.
pub trait Cell {
    /// The tracker, locked until dropped.
    type TrackerGuard<'a>: core::ops::DerefMut<Target = ReleaseTracker>
    where
        Self: 'a;

    /// The node that keeps the directory entry: manager, or home under [`Consistency::EagerRelease`].
    fn manager(&self) -> NodeId;
    /// The node that allocated it: its first home under [`Consistency::LazyRelease`].
    fn owner(&self) -> NodeId;
    /// What was asked for when it was allocated.
    fn consistency(&self) -> Consistency;
    /// Sequential: when and how invalidations go by a tree.
    fn invalidations(&self) -> TreeShape {
        TreeShape::default()
    }
    /// Lazy: after so many migrations at barriers the home is dynamic; `None`: never.
    fn dynamic_after(&self) -> Option<u8> {
        (Homes::of(self.consistency()) == Homes::Dynamic).then_some(DYNAMIC_AFTER)
    }
    /// Lazy: whether the world finds what the home's threads write ([`crate::ReleaseWorld::written`]).
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
    fn tracker(&mut self) -> Self::TrackerGuard<'_>;
}

/// The synchronization states of a node, borrowed for one step. While they are, minipages may be borrowed
/// as well, never the other way.
pub trait SyncCell {
    /// The states of one minipage, locked until dropped.
    type CellGuard<'a>: Cell
    where
        Self: 'a;
    /// The tracker, locked until dropped.
    type TrackerGuard<'a>: core::ops::DerefMut<Target = ReleaseTracker>
    where
        Self: 'a;

    /// The synchronization states.
    fn tables(&mut self) -> &mut SyncTables;
    /// The states of one minipage, locked until dropped.
    fn minipage(&mut self, minipage: MinipageId) -> Self::CellGuard<'_>;
    /// The tracker, locked until dropped.
    fn tracker(&mut self) -> Self::TrackerGuard<'_>;
}

/// Where a node keeps its engines' states. The runtime's tables are shared by threads and lock what
/// is borrowed; the checker's are plain maps.
pub trait Tables {
    /// The states of one minipage, locked until dropped.
    type CellGuard<'a>: Cell
    where
        Self: 'a;
    /// The synchronization states, locked until dropped.
    type Sync<'a>: SyncCell
    where
        Self: 'a;
    /// The tracker, locked until dropped.
    type TrackerGuard<'a>: core::ops::DerefMut<Target = ReleaseTracker>
    where
        Self: 'a;

    /// The states of one minipage, locked until dropped.
    fn minipage(&mut self, minipage: MinipageId) -> Self::CellGuard<'_>;
    /// The synchronization states, locked until dropped.
    fn sync(&mut self) -> Self::Sync<'_>;
    /// The tracker, locked until dropped.
    fn tracker(&mut self) -> Self::TrackerGuard<'_>;
}
