//! The protocol's states of this node, shared by its threads.
//!
//! One lock per shard of minipages guards a minipage's state together with its protection
//! (KERNEL-FACTS: "a lock per minipage around state and PTE together"). Blocks of states come into
//! being at first use, so an area nobody touches costs nothing, and no cost grows with the number
//! of minipages.

#![expect(
    unsafe_code,
    reason = "states are lent under a shard's lock, which the compiler cannot see"
)]

use core::cell::UnsafeCell;
use std::sync::{OnceLock, PoisonError};

use multigrain_protocol::coherence::{Entry, Holder};
use multigrain_protocol::sync::SyncTables;
use multigrain_protocol::{Cell, Tables};
use multigrain_types::{AreaId, Consistency, MinipageId, NodeId, Placement};

use crate::areas::AreaRecord;
use crate::shim::{Mutex, MutexGuard};

/// Shards; more than the threads of a large machine that fault at once.
const SHARDS: usize = 256;
/// Minipages per block of states.
const BLOCK: usize = 256;
/// Areas per page of the registry, and pages.
const AREAS: usize = 256;

type Row<T> = Box<[UnsafeCell<T>]>;

/// The states of one area's minipages on this node.
#[derive(Debug)]
pub(crate) struct AreaStates {
    pub(crate) record: AreaRecord,
    minipages: u32,
    holders: Box<[OnceLock<Row<Holder>>]>,
    entries: Box<[OnceLock<Row<Entry>>]>,
}

// SAFETY: the cells are only reached through `Lent`, under the shard lock of their minipage.
unsafe impl Sync for AreaStates {}
// SAFETY: the states hold no thread-bound values.
unsafe impl Send for AreaStates {}

type RegistryPage = Box<[OnceLock<AreaStates>]>;

/// All states of a node.
#[derive(Debug)]
pub(crate) struct SharedTables {
    me: NodeId,
    nodes: u16,
    placement: Placement,
    shards: Box<[Mutex<()>]>,
    areas: Box<[OnceLock<RegistryPage>]>,
    sync: Mutex<SyncTables>,
}

impl SharedTables {
    pub(crate) fn new(me: NodeId, nodes: u16, placement: Placement) -> Self {
        Self {
            me,
            nodes,
            placement,
            shards: (0..SHARDS).map(|_| Mutex::new(())).collect(),
            areas: (0..AREAS).map(|_| OnceLock::new()).collect(),
            sync: Mutex::new(SyncTables::default()),
        }
    }

    /// Enters an area; false if its id is taken or out of range.
    pub(crate) fn add(&self, record: AreaRecord, minipages: u32) -> bool {
        let (page, index) = registry_place(record.area.id);
        let Some(page) = self.areas.get(page) else { return false };
        let page = page.get_or_init(|| (0..AREAS).map(|_| OnceLock::new()).collect());
        let blocks = (minipages as usize).div_ceil(BLOCK);
        let states = AreaStates {
            record,
            minipages,
            holders: (0..blocks).map(|_| OnceLock::new()).collect(),
            entries: (0..blocks).map(|_| OnceLock::new()).collect(),
        };
        page[index].set(states).is_ok()
    }

    /// An area by its id.
    pub(crate) fn area(&self, id: AreaId) -> Option<&AreaStates> {
        let (page, index) = registry_place(id);
        self.areas.get(page)?.get()?.get(index)?.get()
    }

    /// Whether the minipage exists; ids from peers are checked with this before use.
    pub(crate) fn knows(&self, minipage: MinipageId) -> bool {
        self.area(minipage.area()).is_some_and(|area| minipage.index() < area.minipages)
    }

    /// Who keeps the directory entry of a minipage.
    pub(crate) fn manager_of(&self, minipage: MinipageId) -> NodeId {
        match self.placement {
            Placement::First => NodeId(0),
            Placement::Allocator => {
                self.area(minipage.area()).map_or(NodeId(0), |area| area.record.owner)
            }
            Placement::Spread => {
                let turn = minipage.area().0.wrapping_add(minipage.index()) % u32::from(self.nodes);
                NodeId(u16::try_from(turn).unwrap_or(0))
            }
        }
    }

    /// What a minipage promises; sequential if it is unknown here.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the protocols of release consistency"))]
    pub(crate) fn consistency_of(&self, minipage: MinipageId) -> Consistency {
        self.area(minipage.area()).map_or(Consistency::Sequential, |area| area.record.consistency)
    }

    /// Lends the states of a known minipage until the result is dropped.
    ///
    /// # Panics
    /// If the minipage is unknown: callers translate or check ids first.
    pub(crate) fn lend(&self, minipage: MinipageId) -> Lent<'_> {
        let area = self.area(minipage.area()).expect("minipage ids are checked where they come in");
        let lock = lock(&self.shards[shard_of(minipage)]);
        Lent { tables: self, area, minipage, _lock: lock }
    }
}

fn registry_place(id: AreaId) -> (usize, usize) {
    (id.0 as usize / AREAS, id.0 as usize % AREAS)
}

fn shard_of(minipage: MinipageId) -> usize {
    (minipage.index() as usize ^ (minipage.area().0 as usize).wrapping_mul(61)) % SHARDS
}

/// A panic elsewhere must not stop the node from telling its peers: take the lock all the same.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The states of one minipage, under its shard's lock.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    tables: &'a SharedTables,
    area: &'a AreaStates,
    minipage: MinipageId,
    _lock: MutexGuard<'a, ()>,
}

impl Cell for Lent<'_> {
    fn holder(&mut self) -> &mut Holder {
        let (block, index) = self.place();
        let owned = self.area.record.owner == self.tables.me;
        let first = || if owned { Holder::owner() } else { Holder::default() };
        let row = self.area.holders[block]
            .get_or_init(|| (0..BLOCK).map(|_| UnsafeCell::new(first())).collect());
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { &mut *row[index].get() }
    }

    fn entry(&mut self) -> &mut Entry {
        let (block, index) = self.place();
        let first = || Entry::owned_by(self.area.record.owner);
        let row = self.area.entries[block]
            .get_or_init(|| (0..BLOCK).map(|_| UnsafeCell::new(first())).collect());
        // SAFETY: the shard lock of this minipage is held as long as `self` is borrowed.
        unsafe { &mut *row[index].get() }
    }
}

impl Lent<'_> {
    fn place(&self) -> (usize, usize) {
        let index = self.minipage.index() as usize;
        (index / BLOCK, index % BLOCK)
    }
}

impl Tables for &SharedTables {
    type Lent<'a>
        = Lent<'a>
    where
        Self: 'a;
    type Sync<'a>
        = MutexGuard<'a, SyncTables>
    where
        Self: 'a;

    fn manager(&self, minipage: MinipageId) -> NodeId {
        self.manager_of(minipage)
    }

    fn minipage(&mut self, minipage: MinipageId) -> Lent<'_> {
        self.lend(minipage)
    }

    fn sync(&mut self) -> MutexGuard<'_, SyncTables> {
        lock(&self.sync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::areas::Items;
    use multigrain_memory::{Area, Shape, VIEWS_BASE};

    /// Miri is the judge here: without the lock it reports a race.
    #[test]
    fn a_minipage_is_lent_to_one_thread_at_a_time() {
        let tables = SharedTables::new(NodeId(0), 2, Placement::First);
        let (id, shape) = (AreaId(3), Shape::Pages { pages: 1 });
        let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes: 4096, shape };
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        let consistency = Consistency::Sequential;
        assert!(tables.add(AreaRecord { area, owner: NodeId(0), items, consistency }, 1));
        let minipage = MinipageId::new(id, 0);
        let swap = || {
            for _ in 0..8 {
                let mut lent = tables.lend(minipage);
                let now = core::mem::take(lent.holder());
                *lent.holder() = if now == Holder::default() { Holder::owner() } else { now };
                let entry = lent.entry().clone();
                *lent.entry() = entry;
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(swap);
            scope.spawn(swap);
        });
        assert_eq!(*tables.lend(minipage).holder(), Holder::owner());
        assert!(!tables.knows(MinipageId::new(id, 1)));
    }

    #[test]
    fn a_minipage_has_the_consistency_of_its_area() {
        let tables = SharedTables::new(NodeId(0), 2, Placement::First);
        let shape = Shape::Pages { pages: 1 };
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        for (id, consistency) in (0..).map(AreaId).zip(Consistency::ALL) {
            let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes: 4096, shape };
            assert!(tables.add(AreaRecord { area, owner: NodeId(0), items, consistency }, 1));
            assert_eq!(tables.consistency_of(MinipageId::new(id, 0)), consistency);
        }
        let unknown = MinipageId::new(AreaId(3), 0);
        assert_eq!(tables.consistency_of(unknown), Consistency::Sequential);
    }

    #[test]
    fn a_minipage_costs_less_than_64_bytes_of_state() {
        let bytes = size_of::<UnsafeCell<Holder>>() + size_of::<UnsafeCell<Entry>>();
        assert!(bytes < 64, "{bytes} bytes a minipage");
    }
}
