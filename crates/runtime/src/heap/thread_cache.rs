//! Thread caches: allocation and free without the inventory's lock, and without a step of the engines (ADR 30).
//!
//! A thread takes the next *cache* in turn at its first call; if there are more threads than caches, some share
//! one. A cache keeps an item only if its minipage is this node's alone, so that nothing has to be reclaimed; the
//! items of one slab are a *magazine*. It also keeps a few areas of one allocation, and knows the areas that it has met last, so
//! that threads that allocate and free meet nowhere but in the bits of what is allocated. A full magazine returns half
//! of its items to the inventory; an empty one is filled from there. An area of which nothing is allocated is
//! taken out of all caches before it goes back to the directory.
//!
//! Locks: caches in ascending order, then the inventory.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use multigrain_memory::Shape;
use multigrain_protocol::Cell as _;
use multigrain_protocol::coherence::Holder;
use multigrain_types::{AreaId, Consistency, MinipageId};

use super::Heap;
use super::inventory::{LARGEST_KEPT_BYTES, count_first_use};
use super::slab::{ItemPlace, SlabKey};
use crate::area::{AreaRecord, Items};
use crate::directory;
use crate::driver::Driver;
use crate::error::Error;
use crate::live_items::{LiveItems, SlabCounts};
use crate::shim::{Mutex, MutexGuard, lock};
use crate::tsan::{self, Token};

/// Thread caches of a node.
const CACHES: usize = 64;
/// Bytes of items of one kind in a cache, and how many at most.
const MAGAZINE_BYTES: u64 = 64 << 10;
const MAGAZINE_ITEMS: usize = 64;
/// Kinds in a cache.
const MAGAZINES: usize = 16;
/// Areas of one allocation in a cache, and their bytes.
const BLOCKS: usize = 4;
const BLOCK_BYTES: u64 = 1 << 20;

/// Areas that a cache knows, one of each remainder.
const KNOWN: usize = 64;

/// The caches of a node.
#[derive(Debug)]
pub(super) struct ThreadCaches(Box<[ThreadCache]>);

/// On lines of its own: threads do not meet there.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadCache(Mutex<Contents>);

/// What a cache has.
#[derive(Debug, Default)]
pub(super) struct Contents {
    magazines: Vec<Magazine>,
    blocks: Vec<AreaRecord>,
    known: KnownAreas,
}

/// What is allocated of the areas met last. An id is never another area's, so what is known of one that has gone says
/// what is so: nothing of it is allocated.
#[derive(Debug, Default)]
struct KnownAreas(Vec<Option<(AreaId, Arc<LiveItems>)>>);

impl KnownAreas {
    /// What of an area of this node is allocated, once anything was.
    fn live(&mut self, driver: &Driver, id: AreaId, number: usize) -> Option<&Arc<LiveItems>> {
        let at = id.0 as usize % KNOWN;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        let known = &mut self.0[at];
        if known.as_ref().is_none_or(|(known, _)| *known != id) {
            *known = Some((id, driver.tables().live(id, number)?));
        }
        known.as_ref().map(|(_, live)| live)
    }

    fn forget(&mut self, id: AreaId) {
        let known = self.0.get_mut(id.0 as usize % KNOWN);
        drop(known.and_then(|known| known.take_if(|(known, _)| *known == id)));
    }
}

/// Items of one slab.
#[derive(Debug)]
struct Magazine {
    key: SlabKey,
    /// Of the slab, which it is known by.
    slab: Arc<SlabCounts>,
    items: Vec<ItemPlace>,
}

impl Default for ThreadCaches {
    fn default() -> Self {
        Self((0..CACHES).map(|_| ThreadCache::default()).collect())
    }
}

impl ThreadCaches {
    /// The cache of this thread, and its number.
    fn mine(&self) -> (MutexGuard<'_, Contents>, usize) {
        let number = number();
        (lock(&self.0[number].0), number)
    }

    fn all(&self) -> Vec<MutexGuard<'_, Contents>> {
        self.0.iter().map(|cache| lock(&cache.0)).collect()
    }
}

impl Magazine {
    fn most(&self) -> usize {
        magazine_items(self.key.item_bytes())
    }
}

impl Heap {
    /// An item that this thread has kept, or may keep from now on, and whether it was used before.
    pub(super) fn take_kept(&self, driver: &Driver, key: SlabKey) -> Option<(usize, bool)> {
        if driver.races().are_checked() {
            return None;
        }
        let (mut kept, number) = self.caches.mine();
        let magazine = kept.magazines.iter_mut().find(|magazine| magazine.key == key)?;
        if magazine.items.is_empty() {
            let most = magazine.most() / 2;
            self.inventory(driver).lend(key, most, &mut magazine.items);
        }
        let ItemPlace { area, index, used } = magazine.items.pop()?;
        kept.known.live(driver, area, number)?.allocate(index);
        driver.counters().add_shared(number, key.item_bytes());
        tsan::take(Token::Free);
        let record = &driver.tables().area(area)?.record;
        if !used {
            count_first_use(driver.counters(), key, record, index);
        }
        Some((record.item_address(index as usize), used))
    }

    /// From now on this thread keeps items of that slab.
    pub(super) fn keep_magazine(&self, key: SlabKey, live: &LiveItems) {
        let (mut kept, _) = self.caches.mine();
        let known = kept.magazines.iter().any(|magazine| magazine.key == key);
        if !known && kept.magazines.len() < MAGAZINES {
            let slab = Arc::clone(live.slab());
            kept.magazines.push(Magazine { key, slab, items: Vec::new() });
        }
    }

    /// Frees an allocation of this node, if its thread may keep it; else nothing is done.
    pub(super) fn keep(
        &self,
        driver: &Driver,
        address: usize,
        record: &AreaRecord,
    ) -> Option<Result<(), Error>> {
        if record.owner != driver.me() || driver.races().are_checked() {
            return None;
        }
        let (mut kept, number) = self.caches.mine();
        let Contents { magazines, blocks, known } = &mut *kept;
        let live = known.live(driver, record.area.id, number)?;
        if is_block(live) {
            let block = address == record.area.base && !record.items.array;
            return block.then(|| keep_block(driver, (record, live), blocks, number))?;
        }
        let same = |magazine: &&mut Magazine| Arc::ptr_eq(&magazine.slab, live.slab());
        let magazine = magazines.iter_mut().find(same)?;
        let (index, minipage) = record.item_at(address)?;
        if record.items.chunk == 1 && !is_own(driver, record, minipage) {
            return None;
        }
        let Some(may_be_last) = live.free(index) else {
            return Some(Err(Error::free_twice(address)));
        };
        tsan::give(Token::Free);
        driver.counters().add_shared(number, live.bytes().wrapping_neg());
        magazine.items.push(ItemPlace { area: record.area.id, index, used: true });
        if magazine.items.len() > magazine.most() {
            let half = magazine.items.drain(..magazine.items.len() / 2);
            self.inventory(driver).take_back(magazine.key, half);
        }
        let may_end = may_be_last && is_spare(record, live);
        drop(kept);
        if may_end && self.end_if_unused(driver, record) {
            self.give_back(driver, record.area.id);
        }
        Some(Ok(()))
    }

    /// An area of one allocation that this thread has kept, and that fits.
    pub(super) fn take_block(
        &self,
        driver: &Driver,
        (shape, bytes): (Shape, u64),
        items: &Items,
        consistency: Consistency,
    ) -> Option<usize> {
        if items.array || items.count != 1 || driver.races().are_checked() {
            return None;
        }
        let (mut kept, number) = self.caches.mine();
        let fits = |block: &AreaRecord| {
            let alike = block.area.shape == shape && block.consistency == consistency;
            alike && block.holds(bytes)
        };
        let at = kept.blocks.iter().rposition(fits)?;
        let Contents { blocks, known, .. } = &mut *kept;
        let live = known.live(driver, blocks[at].area.id, number)?;
        let block = blocks.swap_remove(at);
        live.set_bytes(items.bytes);
        live.allocate(0);
        driver.counters().add_shared(number, items.bytes);
        tsan::take(Token::Free);
        Some(block.area.base)
    }

    /// Nothing of an area may be allocated any more: whether it is to go back to the directory, out of all caches.
    pub(super) fn end_if_unused(&self, driver: &Driver, record: &AreaRecord) -> bool {
        let Some(live) = driver.tables().live(record.area.id, number()) else { return false };
        if !is_spare(record, &live) || is_block(&live) || !live.is_empty() {
            return false;
        }
        let mut caches = self.caches.all();
        let mut inventory = self.inventory(driver);
        // Before the locks were taken somebody may have allocated.
        if !live.is_empty() {
            return false;
        }
        for kept in &mut caches {
            for magazine in &mut kept.magazines {
                let items = magazine.items.extract_if(.., |item| item.area == record.area.id);
                inventory.take_back(magazine.key, items);
            }
            kept.known.forget(record.area.id);
        }
        inventory.end_unused(record)
    }

    /// Nothing is allocated of an area of this node, and its inventory has forgotten it.
    fn give_back(&self, driver: &Driver, id: AreaId) {
        self.returned.add(id);
        directory::return_area(driver, id);
    }

    /// Up to so many areas of which nothing is allocated, and which nobody keeps any more: they are to go back to the
    /// directory. What caches keep goes back to the inventory.
    pub(super) fn spare_areas(&self, driver: &Driver, most: usize) -> Vec<AreaId> {
        let mut caches = self.caches.all();
        let mut inventory = self.inventory(driver);
        for kept in &mut caches {
            for magazine in &mut kept.magazines {
                inventory.take_back(magazine.key, magazine.items.drain(..));
            }
            kept.blocks.drain(..).for_each(|record| inventory.take_block(record.area.id));
            kept.known.0.clear();
        }
        let spare = inventory.take_spare(most);
        drop((inventory, caches));
        spare.iter().for_each(|&id| self.returned.add(id));
        spare
    }
}

/// The number of this thread's cache.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(CACHES) };
    }
    MINE.with(|mine| {
        if mine.get() == CACHES {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % CACHES);
        }
        mine.get()
    })
}

/// Whether an area is one allocation, and of no slab.
fn is_block(live: &LiveItems) -> bool {
    live.slab().areas.load(Ordering::Relaxed) == 0
}

/// Whether an area of which nothing is allocated goes back: it is large, or its slab has others, and a magazine's items besides
/// its own that no thread keeps. Else the next allocation would make it anew.
fn is_spare(record: &AreaRecord, live: &LiveItems) -> bool {
    let slab = live.slab();
    let items = usize::try_from(record.items.count).unwrap_or(usize::MAX);
    let enough = items.saturating_add(magazine_items(live.bytes()));
    record.area.bytes > LARGEST_KEPT_BYTES
        || (slab.areas.load(Ordering::Relaxed) > 1 && slab.free.load(Ordering::Relaxed) >= enough)
}

/// How many items of so many bytes a magazine has.
fn magazine_items(bytes: u64) -> usize {
    let most = MAGAZINE_BYTES / bytes.max(1);
    usize::try_from(most).unwrap_or(MAGAZINE_ITEMS).clamp(4, MAGAZINE_ITEMS)
}

/// Keeps an area of one allocation, if no other node can have a copy of any of its minipages and there is room.
fn keep_block(
    driver: &Driver,
    (record, live): (&AreaRecord, &LiveItems),
    blocks: &mut Vec<AreaRecord>,
    number: usize,
) -> Option<Result<(), Error>> {
    let area = record.area;
    let bytes: u64 = blocks.iter().map(|block| block.area.bytes).sum();
    if blocks.len() >= BLOCKS || bytes + area.bytes > BLOCK_BYTES {
        return None;
    }
    if driver.tables().used(area.id, 0..area.minipages()).next().is_some() {
        return None;
    }
    if live.free(0).is_none() {
        return Some(Err(Error::free_twice(area.base)));
    }
    tsan::give(Token::Free);
    driver.counters().add_shared(number, live.bytes().wrapping_neg());
    blocks.push(*record);
    Some(Ok(()))
}

/// Whether no other node can have a copy of a minipage of this node's, nor ask for one unless the program uses
/// what it has freed: no state of it has come into being here, under whatever consistency, or its holder is as at first.
fn is_own(driver: &Driver, record: &AreaRecord, minipage: u32) -> bool {
    if record.items.span(record.area.shape) > 1 {
        return false;
    }
    let tables = driver.tables();
    let id = MinipageId::new(record.area.id, minipage);
    tables.used(record.area.id, minipage..minipage + 1).next().is_none()
        || (record.consistency.is_sequential() && *tables.lock(id).holder() == Holder::owner())
}
