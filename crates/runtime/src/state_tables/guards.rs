//! Lock guards: the states of a minipage, or of synchronization, while one step holds them.

#![expect(
    unsafe_code,
    reason = "states are borrowed under a shard's lock, which the compiler cannot see"
)]

use multigrain_protocol::coherence::{Entry, Holder};
use multigrain_protocol::hlrc::Copy;
use multigrain_protocol::mgs::{Client, Server};
use multigrain_protocol::release::ReleaseTracker;
use multigrain_protocol::sync::SyncTables;
use multigrain_protocol::{Cell, EngineKind, SyncCell, Tables};
use multigrain_types::{Access, Consistency, MinipageId, NodeId};

use super::{AreaStates, SharedTables, States};
use crate::minipage_run::Run;
use crate::shim::{MutexGuard, lock};

/// The states of one minipage, under its shard's lock.
#[derive(Debug)]
pub(crate) struct CellGuard<'a> {
    tables: &'a SharedTables,
    area: &'a AreaStates,
    minipage: MinipageId,
    /// None under a [`RunGuard`], which has it.
    _lock: Option<MutexGuard<'a, ()>>,
}

/// Why a state of another protocol is never asked for.
const OTHER: &str = "engines are chosen by the consistency of the area";

impl<'a> CellGuard<'a> {
    pub(super) fn new(
        tables: &'a SharedTables,
        area: &'a AreaStates,
        minipage: MinipageId,
        lock: Option<MutexGuard<'a, ()>>,
    ) -> Self {
        Self { tables, area, minipage, _lock: lock }
    }

    /// The access this node's threads have.
    pub(crate) fn access(&mut self) -> Access {
        match EngineKind::of(self.consistency()) {
            EngineKind::Sequential => self.holder().access(),
            EngineKind::Eager => self.client().access(),
            EngineKind::Lazy => self.copy().access(),
        }
    }

    fn states(&self) -> &States {
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { self.tables.states(self.area) }
    }

    fn is_owned(&self) -> bool {
        self.area.record.owner == self.tables.me
    }
}

impl Cell for CellGuard<'_> {
    type TrackerGuard<'b>
        = MutexGuard<'b, ReleaseTracker>
    where
        Self: 'b;

    fn manager(&self) -> NodeId {
        self.tables.manager_of(self.area, self.minipage)
    }

    fn owner(&self) -> NodeId {
        self.area.record.owner
    }

    fn consistency(&self) -> Consistency {
        self.area.record.consistency
    }

    fn tracked(&self) -> bool {
        self.tables.tracks && self.area.record.is_trackable()
    }

    fn holder(&mut self) -> &mut Holder {
        let States::Sequential { holders, .. } = self.states() else { unreachable!("{OTHER}") };
        let owned = self.is_owned();
        let first = || if owned { Holder::owner() } else { Holder::default() };
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { &mut *holders.get(self.minipage.index(), first).get() }
    }

    fn entry(&mut self) -> &mut Entry {
        let States::Sequential { entries, .. } = self.states() else { unreachable!("{OTHER}") };
        let first = || Entry::owned_by(self.area.record.owner);
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { &mut *entries.get(self.minipage.index(), first).get() }
    }

    fn client(&mut self) -> &mut Client {
        let States::Eager { clients, .. } = self.states() else { unreachable!("{OTHER}") };
        let owned = self.is_owned();
        let first = || if owned { Client::owner() } else { Client::default() };
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { &mut *clients.get(self.minipage.index(), first).get() }
    }

    fn server(&mut self) -> &mut Server {
        let States::Eager { servers, .. } = self.states() else { unreachable!("{OTHER}") };
        let first = || Server::owned_by(self.area.record.owner);
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { &mut *servers.get(self.minipage.index(), first).get() }
    }

    fn copy(&mut self) -> &mut Copy {
        let States::Lazy { copies } = self.states() else { unreachable!("{OTHER}") };
        let (owned, owner) = (self.is_owned(), self.area.record.owner);
        let first = || if owned { Copy::owner() } else { Copy::away(owner) };
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { &mut *copies.get(self.minipage.index(), first).get() }
    }

    fn tracker(&mut self) -> MutexGuard<'_, ReleaseTracker> {
        lock(&self.tables.tracker)
    }
}

/// The synchronization states, under their lock.
#[derive(Debug)]
pub(crate) struct SyncGuard<'a> {
    tables: &'a SharedTables,
    states: MutexGuard<'a, SyncTables>,
}

impl SyncCell for SyncGuard<'_> {
    type CellGuard<'b>
        = CellGuard<'b>
    where
        Self: 'b;
    type TrackerGuard<'b>
        = MutexGuard<'b, ReleaseTracker>
    where
        Self: 'b;

    fn tables(&mut self) -> &mut SyncTables {
        &mut self.states
    }

    fn minipage(&mut self, minipage: MinipageId) -> CellGuard<'_> {
        self.tables.lock(minipage)
    }

    fn tracker(&mut self) -> MutexGuard<'_, ReleaseTracker> {
        lock(&self.tables.tracker)
    }
}

impl Tables for &SharedTables {
    type CellGuard<'a>
        = CellGuard<'a>
    where
        Self: 'a;
    type Sync<'a>
        = SyncGuard<'a>
    where
        Self: 'a;
    type TrackerGuard<'a>
        = MutexGuard<'a, ReleaseTracker>
    where
        Self: 'a;

    fn minipage(&mut self, minipage: MinipageId) -> CellGuard<'_> {
        self.lock(minipage)
    }

    fn sync(&mut self) -> SyncGuard<'_> {
        SyncGuard { tables: self, states: lock(&self.sync) }
    }

    fn tracker(&mut self) -> MutexGuard<'_, ReleaseTracker> {
        lock(&self.tracker)
    }
}

/// The states of neighbouring minipages, under the locks of them all.
#[derive(Debug)]
pub(crate) struct RunGuard<'a> {
    tables: &'a SharedTables,
    area: &'a AreaStates,
    run: Run,
    _locks: Vec<MutexGuard<'a, ()>>,
}

impl<'a> RunGuard<'a> {
    pub(super) fn new(
        tables: &'a SharedTables,
        area: &'a AreaStates,
        run: Run,
        locks: Vec<MutexGuard<'a, ()>>,
    ) -> Self {
        Self { tables, area, run, _locks: locks }
    }
}

impl Tables for &RunGuard<'_> {
    type CellGuard<'a>
        = CellGuard<'a>
    where
        Self: 'a;
    type Sync<'a>
        = SyncGuard<'a>
    where
        Self: 'a;
    type TrackerGuard<'a>
        = MutexGuard<'a, ReleaseTracker>
    where
        Self: 'a;

    fn minipage(&mut self, minipage: MinipageId) -> CellGuard<'_> {
        assert!(self.run.contains(minipage), "{minipage} is not of the run that is locked");
        CellGuard::new(self.tables, self.area, minipage, None)
    }

    fn sync(&mut self) -> SyncGuard<'_> {
        unreachable!("synchronization states are locked before minipages")
    }

    fn tracker(&mut self) -> MutexGuard<'_, ReleaseTracker> {
        lock(&self.tables.tracker)
    }
}
