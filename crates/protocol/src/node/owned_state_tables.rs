//! Tables that own their states, for the simulator, the model checker and tests.

use std::collections::BTreeMap;

use multigrain_types::tree::Fan;
use multigrain_types::{Consistency, MinipageId, NodeId};

use super::state_tables::{Cell, SyncCell, Tables};
use crate::coherence::{Entry, Holder};
use crate::consistency::{EngineKind, Homes};
use crate::hlrc::Copy;
use crate::invalidation_tree::TreeShape;
use crate::mgs::{Client, Server};
use crate::migration::DYNAMIC_AFTER;
use crate::release::ReleaseTracker;
use crate::sync::SyncTables;

/// Plain maps of states.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedTables {
    me: NodeId,
    placements: BTreeMap<MinipageId, Placement>,
    sequential: BTreeMap<MinipageId, (Holder, Entry)>,
    eager: BTreeMap<MinipageId, (Client, Server)>,
    lazy: BTreeMap<MinipageId, Copy>,
    dynamic_after: u8,
    tracks: bool,
    invalidations: TreeShape,
    sync: SyncTables,
    tracker: ReleaseTracker,
}

/// Manager and allocating node of a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Placement {
    manager: NodeId,
    owner: NodeId,
    consistency: Consistency,
}

impl OwnedTables {
    /// Tables of node `me` for sequentially consistent minipages given with their manager and
    /// their allocating node.
    pub fn new(
        me: NodeId,
        minipages: impl IntoIterator<Item = (MinipageId, NodeId, NodeId)>,
    ) -> Self {
        let mut tables = Self {
            me,
            placements: BTreeMap::new(),
            sequential: BTreeMap::new(),
            eager: BTreeMap::new(),
            lazy: BTreeMap::new(),
            dynamic_after: DYNAMIC_AFTER,
            tracks: false,
            invalidations: TreeShape::default(),
            sync: SyncTables::default(),
            tracker: ReleaseTracker::new(me),
        };
        for (minipage, manager, owner) in minipages {
            tables.add(minipage, manager, owner, Consistency::Sequential);
        }
        tables
    }

    /// The same, whose homes are dynamic after so many migrations at barriers, if their consistency lets them.
    #[must_use]
    pub fn with_dynamic_homes_after(self, dynamic_after: u8) -> Self {
        Self { dynamic_after, ..self }
    }

    /// The same, where the world finds what homes that stay write, or not.
    #[must_use]
    pub fn with_tracking(self, tracks: bool) -> Self {
        Self { tracks, ..self }
    }

    /// The same, on a node on which so many threads have begun.
    #[must_use]
    pub fn with_threads(self, threads: u32) -> Self {
        Self { sync: SyncTables::with_threads(threads), ..self }
    }

    /// The same, on a node that keeps so many idle tokens of locks.
    #[must_use]
    pub fn with_idle_tokens(self, keep: u32) -> Self {
        Self { sync: self.sync.with_idle_tokens(keep), ..self }
    }

    /// The same, in a job of `nodes` nodes whose flushes, intervals and migrations are counted on
    /// from a number.
    #[must_use]
    pub fn counting_from(self, number: u64, nodes: u16) -> Self {
        Self { tracker: ReleaseTracker::starting_at(self.me, nodes, number), ..self }
    }

    /// The same, in a job whose tree has this fan; to be said last.
    #[must_use]
    pub fn with_fan(self, fan: Fan) -> Self {
        Self { sync: self.sync.with_fan(fan), tracker: self.tracker.with_fan(fan), ..self }
    }

    /// The same, in which invalidations go so.
    #[must_use]
    pub fn with_invalidations(self, invalidations: TreeShape) -> Self {
        Self { invalidations, ..self }
    }

    /// Adds one minipage.
    pub fn add(
        &mut self,
        minipage: MinipageId,
        manager: NodeId,
        owner: NodeId,
        consistency: Consistency,
    ) {
        self.placements.insert(minipage, Placement { manager, owner, consistency });
    }

    /// The states of one sequentially consistent minipage, if it was ever used here.
    #[must_use]
    pub fn cell(&self, minipage: MinipageId) -> Option<&(Holder, Entry)> {
        self.sequential.get(&minipage)
    }

    /// The states of one eagerly consistent minipage, if it was ever used here.
    #[must_use]
    pub fn eager(&self, minipage: MinipageId) -> Option<&(Client, Server)> {
        self.eager.get(&minipage)
    }

    /// The state of one lazily consistent minipage, if it was ever used here.
    #[must_use]
    pub fn lazy(&self, minipage: MinipageId) -> Option<&Copy> {
        self.lazy.get(&minipage)
    }

    /// The synchronization states.
    #[must_use]
    pub fn sync_tables(&self) -> &SyncTables {
        &self.sync
    }

    /// What releases of this node wait for.
    #[must_use]
    pub fn release_tracker(&self) -> &ReleaseTracker {
        &self.tracker
    }

    fn placement(&self, minipage: MinipageId) -> Placement {
        self.placements.get(&minipage).copied().unwrap_or_default()
    }

    /// Borrows a minipage; what was never used here has its first states from now on.
    fn borrow(&mut self, minipage: MinipageId) -> OwnedCell<'_> {
        match EngineKind::of(self.placement(minipage).consistency) {
            EngineKind::Sequential => {
                self.sequential_states(minipage);
            }
            EngineKind::Eager => {
                self.eager_states(minipage);
            }
            EngineKind::Lazy => {
                self.lazy_state(minipage);
            }
        }
        OwnedCell { tables: self, minipage }
    }

    fn lazy_state(&mut self, minipage: MinipageId) -> &mut Copy {
        let (me, owner) = (self.me, self.placement(minipage).owner);
        let first = || if owner == me { Copy::owner() } else { Copy::away(owner) };
        self.lazy.entry(minipage).or_insert_with(first)
    }

    fn eager_states(&mut self, minipage: MinipageId) -> &mut (Client, Server) {
        let (me, owner) = (self.me, self.placement(minipage).owner);
        self.eager.entry(minipage).or_insert_with(|| {
            let client = if owner == me { Client::owner() } else { Client::default() };
            (client, Server::owned_by(owner))
        })
    }

    fn sequential_states(&mut self, minipage: MinipageId) -> &mut (Holder, Entry) {
        let (me, owner) = (self.me, self.placement(minipage).owner);
        self.sequential.entry(minipage).or_insert_with(|| {
            let holder = if owner == me { Holder::owner() } else { Holder::default() };
            (holder, Entry::owned_by(owner))
        })
    }
}

/// The states of one minipage.
#[derive(Debug)]
pub struct OwnedCell<'a> {
    tables: &'a mut OwnedTables,
    minipage: MinipageId,
}

impl Cell for OwnedCell<'_> {
    type TrackerGuard<'a>
        = &'a mut ReleaseTracker
    where
        Self: 'a;

    fn manager(&self) -> NodeId {
        self.tables.placement(self.minipage).manager
    }
    fn owner(&self) -> NodeId {
        self.tables.placement(self.minipage).owner
    }
    fn consistency(&self) -> Consistency {
        self.tables.placement(self.minipage).consistency
    }
    fn invalidations(&self) -> TreeShape {
        self.tables.invalidations
    }
    fn dynamic_after(&self) -> Option<u8> {
        (Homes::of(self.consistency()) == Homes::Dynamic).then_some(self.tables.dynamic_after)
    }
    fn tracked(&self) -> bool {
        self.tables.tracks && Homes::of(self.consistency()) == Homes::Migratory
    }
    fn holder(&mut self) -> &mut Holder {
        &mut self.tables.sequential_states(self.minipage).0
    }
    fn entry(&mut self) -> &mut Entry {
        &mut self.tables.sequential_states(self.minipage).1
    }
    fn client(&mut self) -> &mut Client {
        &mut self.tables.eager_states(self.minipage).0
    }
    fn server(&mut self) -> &mut Server {
        &mut self.tables.eager_states(self.minipage).1
    }
    fn copy(&mut self) -> &mut Copy {
        self.tables.lazy_state(self.minipage)
    }
    fn tracker(&mut self) -> &mut ReleaseTracker {
        &mut self.tables.tracker
    }
}

impl SyncCell for &mut OwnedTables {
    type CellGuard<'a>
        = OwnedCell<'a>
    where
        Self: 'a;
    type TrackerGuard<'a>
        = &'a mut ReleaseTracker
    where
        Self: 'a;

    fn tables(&mut self) -> &mut SyncTables {
        &mut self.sync
    }
    fn minipage(&mut self, minipage: MinipageId) -> OwnedCell<'_> {
        self.borrow(minipage)
    }
    fn tracker(&mut self) -> &mut ReleaseTracker {
        &mut self.tracker
    }
}

impl Tables for OwnedTables {
    type CellGuard<'a> = OwnedCell<'a>;
    type Sync<'a> = &'a mut OwnedTables;
    type TrackerGuard<'a> = &'a mut ReleaseTracker;

    fn minipage(&mut self, minipage: MinipageId) -> OwnedCell<'_> {
        self.borrow(minipage)
    }
    fn sync(&mut self) -> &mut OwnedTables {
        self
    }
    fn tracker(&mut self) -> &mut ReleaseTracker {
        &mut self.tracker
    }
}
