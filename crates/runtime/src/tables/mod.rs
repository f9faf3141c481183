//! The protocol's states of this node, shared by its threads.
//!
//! One lock per shard of minipages guards a minipage's state together with its protection: were the page
//! tables changed outside it, two threads could leave them as the state is not. Blocks of states come into
//! being at first use, so an area nobody touches costs nothing, and no cost grows with the number
//! of minipages.

#![expect(
    unsafe_code,
    reason = "states are borrowed under a shard's lock, which the compiler cannot see"
)]

mod blocks;
mod guards;

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use blocks::{BLOCK, Blocks};
pub(crate) use guards::{CellGuard, RunGuard};

use multigrain_memory::MAX_AREAS;
use multigrain_protocol::Engine;
use multigrain_protocol::coherence::{Entry, Holder};
use multigrain_protocol::hlrc::Copy;
use multigrain_protocol::mgs::{Client, Server};
use multigrain_protocol::release::ReleaseTracker;
use multigrain_protocol::sync::{Lock, SyncTables};
use multigrain_types::{AreaId, Consistency, MinipageId, NodeId, Placement, ThreadId};

use crate::area::AreaRecord;
use crate::live_items::LiveItems;
use crate::run::Run;
use crate::shim::{Mutex, lock};

/// Shards; more than the threads of a large machine that fault at once.
const SHARDS: usize = 256;
/// Areas per page of the registry; pages come into being at first use.
const AREAS: usize = 1024;
const PAGES: usize = MAX_AREAS / AREAS;

/// The engines' states of one area's minipages on this node.
#[derive(Debug)]
enum States {
    Sequential { holders: Blocks<Holder>, entries: Blocks<Entry> },
    Eager { clients: Blocks<Client>, servers: Blocks<Server> },
    Lazy { copies: Blocks<Copy> },
}

impl States {
    fn new(consistency: Consistency, minipages: u32) -> Self {
        match Engine::of(consistency) {
            Engine::Sequential => Self::Sequential {
                holders: Blocks::new(minipages),
                entries: Blocks::new(minipages),
            },
            Engine::Eager => {
                Self::Eager { clients: Blocks::new(minipages), servers: Blocks::new(minipages) }
            }
            Engine::Lazy => Self::Lazy { copies: Blocks::new(minipages) },
        }
    }
}

impl States {
    fn is_used(&self, index: u32) -> bool {
        match self {
            Self::Sequential { holders, entries } => {
                holders.is_used(index) || entries.is_used(index)
            }
            Self::Eager { clients, servers } => clients.is_used(index) || servers.is_used(index),
            Self::Lazy { copies } => copies.is_used(index),
        }
    }
}

/// One area on this node.
#[derive(Debug)]
pub(crate) struct AreaStates {
    pub(crate) record: AreaRecord,
    minipages: u32,
    states: States,
    /// Of an area of this node: what is allocated.
    live: OnceLock<Arc<LiveItems>>,
}

impl AreaStates {
    /// What of an area of this node is allocated, once anything was.
    pub(crate) fn live(&self) -> Option<&Arc<LiveItems>> {
        self.live.get()
    }

    /// The same is known from now on.
    pub(crate) fn enter_live(&self, live: &Arc<LiveItems>) {
        self.live.get_or_init(|| Arc::clone(live));
    }

    /// Forgets states that are as at first; whether none is left. Those of release consistent minipages
    /// stay: write notices may name them for long.
    ///
    /// # Safety
    /// The caller holds the locks of all minipages.
    unsafe fn forget(&self, me: NodeId) -> bool {
        let States::Sequential { holders, entries } = &self.states else { return true };
        let owner = self.record.owner;
        let holder = if owner == me { Holder::owner() } else { Holder::default() };
        // SAFETY: the caller's promise.
        let no_holders = unsafe { holders.forget(|state| *state == holder) };
        let entry = Entry::owned_by(owner);
        // SAFETY: the caller's promise.
        let no_entries = unsafe { entries.forget(|state| *state == entry) };
        no_holders && no_entries
    }
}

// SAFETY: the cells are only reached through `CellGuard`, under the shard lock of their minipage.
unsafe impl Sync for AreaStates {}
// SAFETY: the states hold no thread-bound values.
unsafe impl Send for AreaStates {}

type RegistryPage = Box<[OnceLock<Box<AreaStates>>]>;

/// All states of a node.
#[derive(Debug)]
pub(crate) struct SharedTables {
    me: NodeId,
    nodes: u16,
    placement: Placement,
    shards: Box<[Mutex<()>]>,
    areas: Box<[OnceLock<RegistryPage>]>,
    sync: Mutex<SyncTables>,
    tracker: Mutex<ReleaseTracker>,
    /// Retired areas that have states left: messages about them are still on their way.
    retired: Mutex<Vec<AreaId>>,
    /// Whether any area is release consistent: only then is there anything to release.
    relaxed: AtomicBool,
    /// Whether any is lazily so.
    lazy: AtomicBool,
    /// Whether the kernel finds what homes write, where it can.
    tracks: bool,
}

impl SharedTables {
    pub(crate) fn new(me: NodeId, nodes: u16, placement: Placement) -> Self {
        Self {
            me,
            nodes,
            placement,
            shards: (0..SHARDS).map(|_| Mutex::new(())).collect(),
            areas: (0..PAGES).map(|_| OnceLock::new()).collect(),
            sync: Mutex::new(SyncTables::default()),
            tracker: Mutex::new(ReleaseTracker::new(me)),
            retired: Mutex::default(),
            relaxed: AtomicBool::new(false),
            lazy: AtomicBool::new(false),
            tracks: false,
        }
    }

    /// The same, where the kernel finds what homes write, or not.
    pub(crate) fn with_tracking(self, tracks: bool) -> Self {
        Self { tracks, ..self }
    }

    /// Enters an area; false if its id is taken or out of range.
    pub(crate) fn add(&self, record: AreaRecord, minipages: u32) -> bool {
        let (page, index) = registry_place(record.area.id);
        let Some(page) = self.areas.get(page) else { return false };
        let page = page.get_or_init(|| (0..AREAS).map(|_| OnceLock::new()).collect());
        if !record.consistency.is_sequential() {
            self.relaxed.store(true, Ordering::Release);
        }
        if record.consistency.is_lazy() {
            self.lazy.store(true, Ordering::Release);
        }
        let states = States::new(record.consistency, minipages);
        page[index]
            .set(Box::new(AreaStates { record, minipages, states, live: OnceLock::new() }))
            .is_ok()
    }

    /// What a thread of this node holds, in the words of a program.
    pub(crate) fn held_by(&self, thread: ThreadId) -> Vec<String> {
        lock(&self.sync).held_by(thread)
    }

    /// Whether a thread of this node holds a lock.
    pub(crate) fn owns_lock(&self, thread: ThreadId, id: u64) -> bool {
        lock(&self.sync).owner_of(id) == Some(thread)
    }

    /// Whether the token of a lock stays here for a window.
    pub(crate) fn keeps_lock(&self, id: u64) -> bool {
        lock(&self.sync).lock(id).is_some_and(Lock::is_kept)
    }

    /// Whether any area of the job is release consistent.
    pub(crate) fn is_relaxed(&self) -> bool {
        self.relaxed.load(Ordering::Acquire)
    }

    /// Whether any area of the job is lazily release consistent.
    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy.load(Ordering::Acquire)
    }

    /// Write notices this node keeps; none without lazily release consistent areas.
    pub(crate) fn notices_kept(&self) -> usize {
        if self.is_lazy() { lock(&self.tracker).log().notices() } else { 0 }
    }

    /// Messages that wait for flushes to end; none without release consistent areas.
    pub(crate) fn held(&self) -> usize {
        if self.is_relaxed() { lock(&self.tracker).held() } else { 0 }
    }

    /// Locks that threads of this node hold, in ascending order.
    pub(crate) fn owned_locks(&self) -> Vec<(u64, ThreadId)> {
        lock(&self.sync).owned_locks().collect()
    }

    /// An area by its id.
    pub(crate) fn area(&self, id: AreaId) -> Option<&AreaStates> {
        let (page, index) = registry_place(id);
        self.areas.get(page)?.get()?.get(index)?.get().map(AsRef::as_ref)
    }

    /// Whether all of these exist.
    pub(crate) fn knows_run(&self, run: Run) -> bool {
        self.area(run.first().area()).is_some_and(|area| run.end() <= area.minipages)
    }

    /// Whether the minipage exists; ids from peers are checked with this before use.
    pub(crate) fn knows(&self, minipage: MinipageId) -> bool {
        self.area(minipage.area()).is_some_and(|area| minipage.index() < area.minipages)
    }

    /// Who keeps the directory entry of a minipage of this area.
    fn manager_of(&self, area: &AreaStates, minipage: MinipageId) -> NodeId {
        match self.placement {
            Placement::First => NodeId(0),
            Placement::Allocator => area.record.owner,
            Placement::Spread => {
                let turn = minipage.area().0.wrapping_add(minipage.index()) % u32::from(self.nodes);
                NodeId(u16::try_from(turn).unwrap_or(0))
            }
        }
    }

    /// Whether this node keeps the directory entry of a known minipage.
    pub(crate) fn manages(&self, minipage: MinipageId) -> bool {
        let area = self.area(minipage.area());
        area.is_some_and(|area| self.manager_of(area, minipage) == self.me)
    }

    /// What a minipage promises; sequential if it is unknown here.
    pub(crate) fn consistency_of(&self, minipage: MinipageId) -> Consistency {
        self.area(minipage.area()).map_or(Consistency::Sequential, |area| area.record.consistency)
    }

    /// Whether an area is sequentially consistent.
    pub(crate) fn is_sequential(&self, id: AreaId) -> bool {
        self.area(id).is_some_and(|area| area.record.consistency.is_sequential())
    }

    /// Minipages of an area that this node may have states of: of others it knows nobody with a copy.
    pub(crate) fn used(
        &self,
        id: AreaId,
        minipages: Range<u32>,
    ) -> impl Iterator<Item = MinipageId> {
        let area = self.area(id).filter(|_| !minipages.is_empty());
        let blocks = minipages.start / BLOCK..minipages.end.div_ceil(BLOCK);
        let used = move |&block: &u32| area.is_some_and(|area| area.states.is_used(block * BLOCK));
        blocks.filter(used).flat_map(move |block| {
            let first = (block * BLOCK).max(minipages.start);
            let end = (block * BLOCK).saturating_add(BLOCK).min(minipages.end);
            (first..end).map(move |index| MinipageId::new(id, index))
        })
    }

    /// Retires an area, in the way of the caller, while no thread of this node has states of any
    /// minipage; and forgets what retired areas leave behind, as far as nobody needs it.
    pub(crate) fn retire<T>(&self, id: AreaId, retire: impl FnOnce() -> T) -> T {
        let mut retired = lock(&self.retired);
        let _all: Vec<_> = self.shards.iter().map(lock).collect();
        let done = retire();
        retired.push(id);
        // SAFETY: all minipages are locked.
        retired.retain(|&id| !self.area(id).is_none_or(|area| unsafe { area.forget(self.me) }));
        done
    }

    /// Locks the states of a known minipage until the result is dropped.
    ///
    /// # Panics
    /// If the minipage is unknown: callers translate or check ids first.
    pub(crate) fn lock(&self, minipage: MinipageId) -> CellGuard<'_> {
        let area = self.area(minipage.area()).expect("minipage ids are checked where they come in");
        let lock = lock(&self.shards[shard_of(minipage)]);
        CellGuard::new(self, area, minipage, Some(lock))
    }

    /// Locks the states of known minipages until the result is dropped.
    ///
    /// # Panics
    /// If they are unknown: callers translate or check ids first.
    pub(crate) fn lock_run(&self, run: Run) -> RunGuard<'_> {
        let area = self.area(run.first().area()).expect("ids are checked where they come in");
        // Neighbours have shards of their own, up to the number of shards. Everybody locks them in this order.
        let mut shards: Vec<_> = run.minipages().take(SHARDS).map(shard_of).collect();
        shards.sort_unstable();
        let locks = shards.into_iter().map(|shard| lock(&self.shards[shard])).collect();
        RunGuard::new(self, area, run, locks)
    }
}

fn registry_place(id: AreaId) -> (usize, usize) {
    (id.0 as usize / AREAS, id.0 as usize % AREAS)
}

fn shard_of(minipage: MinipageId) -> usize {
    (minipage.index() as usize ^ (minipage.area().0 as usize).wrapping_mul(61)) % SHARDS
}

#[cfg(test)]
mod tests {
    use multigrain_protocol::Cell as _;

    use super::*;
    use crate::area::Items;
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
                let mut cell = tables.lock(minipage);
                let now = core::mem::take(cell.holder());
                *cell.holder() = if now == Holder::default() { Holder::owner() } else { now };
                let entry = cell.entry().clone();
                *cell.entry() = entry;
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(swap);
            scope.spawn(swap);
        });
        assert_eq!(*tables.lock(minipage).holder(), Holder::owner());
        assert!(!tables.knows(MinipageId::new(id, 1)));
    }

    #[test]
    fn every_id_the_memory_takes_has_a_place_in_the_registry() {
        let tables = SharedTables::new(NodeId(0), 2, Placement::First);
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        let shape = Shape::Pages { pages: 1 };
        let consistency = Consistency::Sequential;
        let record = |id: u32| {
            let area =
                Area { id: AreaId(id), base: VIEWS_BASE, file_offset: 0, bytes: 4096, shape };
            AreaRecord { area, owner: NodeId(0), items, consistency }
        };
        let last = u32::try_from(MAX_AREAS).unwrap() - 1;
        assert_eq!(last, (1 << 24) - 1);
        // All below 70,000, and far apart up to the last one.
        let many = if cfg!(miri) { 0..300 } else { 0..70_000 };
        for id in many.clone().chain([100_000, 1 << 19, last]) {
            assert!(tables.add(record(id), 1), "area {id}");
            assert!(!tables.add(record(id), 1), "area {id} is there already");
        }
        for id in many.chain([100_000, 1 << 19, last]) {
            assert!(tables.knows(MinipageId::new(AreaId(id), 0)), "area {id}");
        }
        assert!(!tables.add(record(last + 1), 1));
        assert!(!tables.knows(MinipageId::new(AreaId(last + 1), 0)));
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
        let unknown = MinipageId::new(AreaId(4), 0);
        assert_eq!(tables.consistency_of(unknown), Consistency::Sequential);
    }

    #[test]
    fn a_minipage_costs_less_than_64_bytes_of_state() {
        let bytes = size_of::<Holder>() + size_of::<Entry>();
        assert!(bytes < 64, "{bytes} bytes a minipage");
    }
}
