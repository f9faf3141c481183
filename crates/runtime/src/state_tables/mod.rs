//! The protocol's states of this node, shared by its threads.
//!
//! One lock per shard of minipages guards a minipage's state together with its protection: if the page tables
//! changed outside of it, two threads could leave them in disagreement with the state. Blocks of states are
//! allocated at first use, so an area that nobody touches costs nothing.

#![expect(
    unsafe_code,
    reason = "states are borrowed under a shard's lock, which the compiler cannot see"
)]

mod blocks;
mod guards;
mod packed;

use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use blocks::{BLOCK, Blocks};
pub(crate) use guards::{CellGuard, RunGuard};
use packed::PackedStates;

use multigrain_memory::MAX_AREAS;
use multigrain_protocol::EngineKind;
use multigrain_protocol::coherence::{Entry, Holder};
use multigrain_protocol::hlrc::Copy;
use multigrain_protocol::mgs::{Client, Server};
use multigrain_protocol::release::ReleaseTracker;
use multigrain_protocol::sync::{Lock, SyncTables};
use multigrain_types::deadlock::BlockingCall;
use multigrain_types::{AreaId, Consistency, Managed, MinipageId, NodeId, Placement, ThreadId};

use crate::area::AreaRecord;
use crate::compression::SegmentContents;
use crate::live_items::LiveItems;
use crate::minipage_run::Run;
use crate::segment_sharing::SegmentUse;
use crate::shim::{Mutex, lock};

/// Shards; more than the threads of a large machine that fault at once.
const SHARDS: usize = 256;

/// On a line of its own: threads with shards of their own do not meet there.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(Mutex<()>);

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
        match EngineKind::of(consistency) {
            EngineKind::Sequential => Self::Sequential {
                holders: Blocks::new(minipages),
                entries: Blocks::new(minipages),
            },
            EngineKind::Eager => {
                Self::Eager { clients: Blocks::new(minipages), servers: Blocks::new(minipages) }
            }
            EngineKind::Lazy => Self::Lazy { copies: Blocks::new(minipages) },
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

    /// Forgets blocks of states that are as at first on this node; whether none is left.
    ///
    /// # Safety
    /// The caller holds the locks of all minipages.
    unsafe fn forget(&self, owner: NodeId, me: NodeId) -> bool {
        let owned = owner == me;
        match self {
            Self::Sequential { holders, entries } => {
                let holder = if owned { Holder::owner() } else { Holder::default() };
                let entry = Entry::owned_by(owner);
                // SAFETY: the caller's promise.
                let no_holders = unsafe { holders.forget(|state| *state == holder) };
                // SAFETY: the caller's promise.
                no_holders & unsafe { entries.forget(|state| *state == entry) }
            }
            Self::Eager { clients, servers } => {
                let client = if owned { Client::owner() } else { Client::default() };
                let server = Server::owned_by(owner);
                // SAFETY: the caller's promise.
                let no_clients = unsafe { clients.forget(|state| *state == client) };
                // SAFETY: the caller's promise.
                no_clients & unsafe { servers.forget(|state| *state == server) }
            }
            Self::Lazy { copies } => {
                let copy = if owned { Copy::owner() } else { Copy::away(owner) };
                // SAFETY: the caller's promise.
                unsafe { copies.forget(|state| *state == copy) }
            }
        }
    }
}

/// One area on this node. Its record stays for ever, for messages about a retired area may come late; the rest
/// goes, or is packed, and comes into being again as it was if one does.
#[derive(Debug)]
pub(crate) struct AreaStates {
    pub(crate) record: AreaRecord,
    /// Who manages its minipages.
    placement: Placement,
    /// How this node shares it with others, if it is a named segment.
    sharing: Option<Box<SegmentUse>>,
    /// How this node sends its contents, if it is one.
    contents: Option<Box<SegmentContents>>,
    /// Looked at under the lock of a shard, whichever; taken away under the locks of all.
    kept: UnsafeCell<OnceLock<Box<UntilRetired>>>,
}

/// What is kept of an area until it is retired.
#[derive(Debug)]
struct UntilRetired {
    /// None of a retired area whose states are packed; they come into being again if a late message asks for one.
    states: OnceLock<States>,
    /// The states that it had when it was retired, if they were not as at first.
    packed: Option<Box<PackedStates>>,
    /// Of an area of this node: what is allocated, once anything was.
    live: OnceLock<Arc<LiveItems>>,
}

impl AreaStates {
    fn new(record: AreaRecord, placement: Placement) -> Self {
        let sharing = record.is_named().then(Box::default);
        let contents = record
            .is_named()
            .then(|| Box::new(SegmentContents::new(record.compression(), record.area.minipages())));
        Self {
            record,
            placement,
            sharing,
            contents,
            kept: UnsafeCell::new(UntilRetired::new(&record).into()),
        }
    }

    /// What its minipages promise.
    pub(crate) fn consistency(&self) -> Consistency {
        self.record.consistency
    }

    /// How this node shares it with others, if it is a named segment.
    pub(crate) fn sharing(&self) -> Option<&SegmentUse> {
        self.sharing.as_deref()
    }

    /// Forgets states that are as at first, and packs others of release consistent minipages, which write notices
    /// may name for long; whether there is no more to come.
    ///
    /// # Safety
    /// The caller holds the locks of all minipages.
    unsafe fn forget(&self, me: NodeId) -> bool {
        // SAFETY: the caller's promise: nobody looks at it.
        let place = unsafe { &mut *self.kept.get() };
        let Some(kept) = place.get_mut() else { return true };
        kept.live.take();
        let Some(states) = kept.states.get() else { return true };
        // SAFETY: the caller's promise.
        let none = unsafe { states.forget(self.record.owner, me) };
        // SAFETY: the caller's promise.
        let packed = if none { None } else { unsafe { PackedStates::of(states) } };
        if none {
            place.take();
        } else if packed.is_some() {
            kept.packed = packed.map(Box::new);
            kept.states.take();
        }
        none || !self.record.consistency.is_sequential()
    }
}

impl UntilRetired {
    fn new(record: &AreaRecord) -> Box<Self> {
        let states = States::new(record.consistency, record.area.minipages());
        Box::new(Self { states: states.into(), packed: None, live: OnceLock::new() })
    }
}

// SAFETY: what is kept is only reached under the lock of a shard, and its cells through `CellGuard`,
// under that of their minipage.
unsafe impl Sync for AreaStates {}
// SAFETY: the states hold no thread-bound values.
unsafe impl Send for AreaStates {}

type RegistryPage = Box<[OnceLock<AreaStates>]>;

/// All states of a node.
#[derive(Debug)]
pub(crate) struct SharedTables {
    me: NodeId,
    nodes: u16,
    shards: Box<[Shard]>,
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
    pub(crate) fn new(me: NodeId, nodes: u16) -> Self {
        Self {
            me,
            nodes,
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
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

    /// Enters an area, managed so; false if its id is taken or out of range.
    pub(crate) fn add(&self, record: AreaRecord, placement: Placement) -> bool {
        let (page, index) = registry_place(record.area.id);
        let Some(page) = self.areas.get(page) else { return false };
        let page = page.get_or_init(|| (0..AREAS).map(|_| OnceLock::new()).collect());
        if !record.consistency.is_sequential() {
            self.relaxed.store(true, Ordering::Release);
        }
        if record.consistency.is_lazy() {
            self.lazy.store(true, Ordering::Release);
        }
        page[index].set(AreaStates::new(record, placement)).is_ok()
    }

    /// Whether all threads of this node but one wait at a barrier: the one that asks.
    pub(crate) fn all_others_wait_at(&self, id: u64) -> bool {
        lock(&self.sync).all_others_wait_at(id)
    }

    /// What a thread of this node holds, in the words of a program.
    pub(crate) fn held_by(&self, thread: ThreadId) -> Vec<String> {
        lock(&self.sync).held_by(thread)
    }

    /// Whether a thread of this node holds a lock.
    pub(crate) fn owns_lock(&self, thread: ThreadId, id: u64) -> bool {
        lock(&self.sync).owner_of(id) == Some(thread)
    }

    /// Whether a thread of this node holds a read-write lock, be it to read.
    pub(crate) fn owns_read_write_lock(&self, thread: ThreadId, id: u64) -> bool {
        lock(&self.sync).holds_read_write_lock(thread, id)
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
    pub(crate) fn withheld(&self) -> usize {
        if self.is_relaxed() { lock(&self.tracker).withheld() } else { 0 }
    }

    /// What threads of this node hold: locks in ascending order, then read-write locks.
    pub(crate) fn owned_locks(&self) -> Vec<(BlockingCall, ThreadId)> {
        let sync = lock(&self.sync);
        let locks = sync.owned_locks().map(|(id, thread)| (BlockingCall::Lock(id), thread));
        let others = sync.owned_read_write_locks();
        locks.chain(others.map(|(id, thread)| (BlockingCall::ReadWriteLock(id), thread))).collect()
    }

    /// Locks that threads of this node wait for.
    pub(crate) fn awaited_locks(&self) -> Vec<(u64, ThreadId)> {
        lock(&self.sync).awaited_locks().collect()
    }

    /// Threads of the job that are in a queue of this node.
    pub(crate) fn queued(&self) -> Vec<(NodeId, ThreadId)> {
        lock(&self.sync).queued_at_read_write_locks().collect()
    }

    /// An area by its id.
    pub(crate) fn area(&self, id: AreaId) -> Option<&AreaStates> {
        let (page, index) = registry_place(id);
        self.areas.get(page)?.get()?.get(index)?.get()
    }

    /// What is kept of an area.
    ///
    /// # Safety
    /// The caller holds the lock of a shard as long as it has the result.
    unsafe fn kept<'a>(&self, area: &'a AreaStates) -> &'a UntilRetired {
        // SAFETY: it is taken away only under the locks of all shards.
        let kept = unsafe { &*area.kept.get() };
        kept.get_or_init(|| {
            lock(&self.retired).push(area.record.area.id);
            UntilRetired::new(&area.record)
        })
    }

    /// The states of an area.
    ///
    /// # Safety
    /// As of [`Self::kept`].
    unsafe fn states<'a>(&self, area: &'a AreaStates) -> &'a States {
        // SAFETY: the caller's promise.
        let kept = unsafe { self.kept(area) };
        kept.states.get_or_init(|| {
            lock(&self.retired).push(area.record.area.id);
            let packed = kept.packed.as_ref().expect("states are taken away as they are packed");
            packed.states(area.record.area.minipages())
        })
    }

    /// What of an area of this node is allocated, once anything was. Threads that give different numbers do not
    /// meet.
    pub(crate) fn live(&self, id: AreaId, number: usize) -> Option<Arc<LiveItems>> {
        let area = self.area(id)?;
        let _lock = lock(&self.shards[number % SHARDS].0);
        // SAFETY: a shard is locked.
        unsafe { self.kept(area) }.live.get().map(Arc::clone)
    }

    /// The same is known from now on.
    pub(crate) fn enter_live(&self, id: AreaId, live: &Arc<LiveItems>) {
        let Some(area) = self.area(id) else { return };
        let _lock = lock(&self.shards[0].0);
        // SAFETY: a shard is locked.
        unsafe { self.kept(area) }.live.get_or_init(|| Arc::clone(live));
    }

    /// Whether all of these exist.
    pub(crate) fn knows_run(&self, run: Run) -> bool {
        self.area(run.first().area()).is_some_and(|area| run.end() <= area.record.area.minipages())
    }

    /// Whether the minipage exists; ids from peers are checked with this before use.
    pub(crate) fn knows(&self, minipage: MinipageId) -> bool {
        self.area_with(minipage).is_some()
    }

    /// The area of a minipage, if that exists.
    pub(crate) fn area_with(&self, minipage: MinipageId) -> Option<&AreaStates> {
        self.area(minipage.area()).filter(|area| minipage.index() < area.record.area.minipages())
    }

    /// Who keeps the directory entry of a minipage of this area.
    fn manager_of(&self, area: &AreaStates, minipage: MinipageId) -> NodeId {
        let AreaRecord { owner, area: memory, .. } = area.record;
        let managed = Managed { owner, minipages: memory.minipages() };
        area.placement.manager(minipage, managed, self.nodes)
    }

    /// Who keeps the directory entry of a minipage; none if it is unknown here.
    pub(crate) fn manager(&self, minipage: MinipageId) -> Option<NodeId> {
        self.area(minipage.area()).map(|area| self.manager_of(area, minipage))
    }

    /// Whether this node keeps the directory entry of a known minipage.
    pub(crate) fn manages(&self, minipage: MinipageId) -> bool {
        self.manager(minipage) == Some(self.me)
    }

    /// What a minipage promises; sequential if it is unknown here.
    pub(crate) fn consistency_of(&self, minipage: MinipageId) -> Consistency {
        self.area(minipage.area()).map_or(Consistency::Sequential, AreaStates::consistency)
    }

    /// How this node shares a named segment with others; none of any other area.
    pub(crate) fn segment_sharing(&self, id: AreaId) -> Option<&SegmentUse> {
        self.area(id)?.sharing()
    }

    /// How this node sends the contents of a named segment; none of any other area.
    pub(crate) fn contents(&self, id: AreaId) -> Option<&SegmentContents> {
        self.area(id)?.contents.as_deref()
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
        let blocks = minipages.start / BLOCK..minipages.end.div_ceil(BLOCK);
        let used: Vec<u32> = match self.area(id).filter(|_| !minipages.is_empty()) {
            Some(area) => {
                let _lock = lock(&self.shards[shard_of(MinipageId::new(id, minipages.start))].0);
                // SAFETY: a shard is locked.
                let states = unsafe { self.states(area) };
                blocks.filter(|block| states.is_used(block * BLOCK)).collect()
            }
            None => Vec::new(),
        };
        used.into_iter().flat_map(move |block| {
            let first = (block * BLOCK).max(minipages.start);
            let end = (block * BLOCK).saturating_add(BLOCK).min(minipages.end);
            (first..end).map(move |index| MinipageId::new(id, index))
        })
    }

    /// Retires an area, in the way of the caller, while no thread of this node has states of any
    /// minipage; and forgets what retired areas leave behind, as far as nobody needs it.
    pub(crate) fn retire<T>(&self, id: AreaId, retire: impl FnOnce() -> T) -> T {
        let _all: Vec<_> = self.shards.iter().map(|shard| lock(&shard.0)).collect();
        let done = retire();
        let mut retired = lock(&self.retired);
        retired.push(id);
        // SAFETY: all minipages are locked.
        retired.retain(|&id| self.area(id).is_some_and(|area| !unsafe { area.forget(self.me) }));
        done
    }

    /// Does something while no thread of this node has states of any minipage.
    pub(crate) fn alone<T>(&self, act: impl FnOnce() -> T) -> T {
        let _all: Vec<_> = self.shards.iter().map(|shard| lock(&shard.0)).collect();
        act()
    }

    /// Locks the states of a known minipage until the result is dropped.
    ///
    /// # Panics
    /// If the minipage is unknown: callers translate or check ids first.
    pub(crate) fn lock(&self, minipage: MinipageId) -> CellGuard<'_> {
        let area = self.area(minipage.area()).expect("minipage ids are checked where they come in");
        let lock = lock(&self.shards[shard_of(minipage)].0);
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
        let locks = shards.into_iter().map(|shard| lock(&self.shards[shard].0)).collect();
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
    use crate::area::{Items, Origin};
    use multigrain_memory::{Area, Shape, VIEWS_BASE};

    /// Miri is the judge here: without the lock it reports a race.
    #[test]
    fn a_minipage_is_lent_to_one_thread_at_a_time() {
        let tables = SharedTables::new(NodeId(0), 2);
        let (id, shape) = (AreaId(3), Shape::Pages { pages: 1 });
        let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes: 4096, shape };
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        let consistency = Consistency::Sequential;
        assert!(tables.add(
            AreaRecord { area, owner: NodeId(0), items, consistency, origin: Origin::Heap },
            Placement::First
        ));
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
        let tables = SharedTables::new(NodeId(0), 2);
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        let shape = Shape::Pages { pages: 1 };
        let consistency = Consistency::Sequential;
        let record = |id: u32| {
            let area =
                Area { id: AreaId(id), base: VIEWS_BASE, file_offset: 0, bytes: 4096, shape };
            AreaRecord { area, owner: NodeId(0), items, consistency, origin: Origin::Heap }
        };
        let last = u32::try_from(MAX_AREAS).unwrap() - 1;
        assert_eq!(last, (1 << 24) - 1);
        // All below 70,000, and far apart up to the last one.
        let many = if cfg!(miri) { 0..300 } else { 0..70_000 };
        for id in many.clone().chain([100_000, 1 << 19, last]) {
            assert!(tables.add(record(id), Placement::First), "area {id}");
            assert!(!tables.add(record(id), Placement::First), "area {id} is there already");
        }
        for id in many.chain([100_000, 1 << 19, last]) {
            assert!(tables.knows(MinipageId::new(AreaId(id), 0)), "area {id}");
        }
        assert!(!tables.add(record(last + 1), Placement::First));
        assert!(!tables.knows(MinipageId::new(AreaId(last + 1), 0)));
    }

    #[test]
    fn a_minipage_has_the_consistency_of_its_area() {
        let tables = SharedTables::new(NodeId(0), 2);
        let shape = Shape::Pages { pages: 1 };
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        for (id, consistency) in (0..).map(AreaId).zip(Consistency::ALL) {
            let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes: 4096, shape };
            assert!(tables.add(
                AreaRecord { area, owner: NodeId(0), items, consistency, origin: Origin::Heap },
                Placement::First
            ));
            assert_eq!(tables.consistency_of(MinipageId::new(id, 0)), consistency);
        }
        let unknown = MinipageId::new(AreaId(4), 0);
        assert_eq!(tables.consistency_of(unknown), Consistency::Sequential);
    }

    #[test]
    fn states_of_retired_areas_are_packed_and_a_late_message_finds_them() {
        let tables = SharedTables::new(NodeId(0), 9);
        let (pages, far) = (40_000, 30_000);
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        let [lazy, eager] = [0, 1].map(AreaId);
        for (id, consistency) in
            [(lazy, Consistency::LazyRelease), (eager, Consistency::EagerRelease)]
        {
            let (bytes, shape) = (pages * 4096, Shape::Pages { pages: 1 });
            let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes, shape };
            let origin = Origin::Heap;
            let record = AreaRecord { area, owner: NodeId(0), items, consistency, origin };
            assert!(tables.add(record, Placement::First));
        }
        let (count, rounds) = if cfg!(miri) { (40, 1) } else { (512, 3) };
        let used = (0..count).chain([far]);
        let copy = |index: u32| match index % 3 {
            0 => Copy::owner(),
            node => Copy::away(NodeId(u16::try_from(node).unwrap())),
        };
        let server = |index: u32| Server::owned_by(NodeId(u16::try_from(index % 5).unwrap()));
        for index in used.clone() {
            *tables.lock(MinipageId::new(lazy, index)).copy() = copy(index);
            *tables.lock(MinipageId::new(eager, index)).server() = server(index);
        }
        let is_kept = |id| {
            // SAFETY: no other thread has the tables.
            let kept = unsafe { &*tables.area(id).unwrap().kept.get() };
            kept.get().is_some_and(|kept| kept.states.get().is_some())
        };
        for round in 0..rounds {
            tables.retire(lazy, || ());
            tables.retire(eager, || ());
            assert!(!is_kept(lazy) && !is_kept(eager), "retired for time {round}");
            // SAFETY: as above.
            let kept = unsafe { &*tables.area(lazy).unwrap().kept.get() }.get();
            let packed = kept.and_then(|kept| kept.packed.as_deref());
            let Some(PackedStates::Lazy { copies }) = packed else { panic!("{packed:?}") };
            assert!(copies.bytes() < 400, "{} bytes", copies.bytes());
            for index in used.clone() {
                assert_eq!(*tables.lock(MinipageId::new(lazy, index)).copy(), copy(index));
                assert_eq!(*tables.lock(MinipageId::new(eager, index)).server(), server(index));
            }
            assert_eq!(*tables.lock(MinipageId::new(lazy, far - 40)).copy(), Copy::owner());
            assert_eq!(*tables.lock(MinipageId::new(eager, 600)).client(), Client::owner());
        }
        // What a late message changes is packed the next time.
        for index in used {
            *tables.lock(MinipageId::new(lazy, index)).copy() = Copy::owner();
        }
        *tables.lock(MinipageId::new(lazy, 77)).copy() = Copy::away(NodeId(8));
        tables.retire(lazy, || ());
        assert_eq!(*tables.lock(MinipageId::new(lazy, 77)).copy(), Copy::away(NodeId(8)));
        assert_eq!(*tables.lock(MinipageId::new(lazy, 78)).copy(), Copy::owner());
        *tables.lock(MinipageId::new(lazy, 77)).copy() = Copy::owner();
        tables.retire(lazy, || ());
        // SAFETY: as above.
        let kept = unsafe { &*tables.area(lazy).unwrap().kept.get() };
        assert!(kept.get().is_none(), "all is as at first");
    }

    #[test]
    fn states_that_are_all_different_are_kept_as_they_are() {
        let mut blocks: Blocks<u32> = Blocks::new(64);
        blocks.put(1, core::array::from_fn(|index| u32::try_from(index).unwrap()));
        // SAFETY: no other thread has the blocks.
        assert!(unsafe { packed::Packed::of(&blocks) }.is_none());
    }

    #[test]
    fn a_minipage_costs_less_than_64_bytes_of_state() {
        let bytes = size_of::<Holder>() + size_of::<Entry>();
        assert!(bytes < 64, "{bytes} bytes a minipage");
    }
}
