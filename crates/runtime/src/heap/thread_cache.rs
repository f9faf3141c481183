//! Thread caches: allocation and free without the inventory's lock, and without a step of the engines (ADR 30).
//!
//! A thread takes the next *cache* in turn at its first call; if there are more threads than caches, some share
//! one. A cache keeps an item only if its minipage is this node's alone, so that nothing has to be reclaimed; the
//! items of one slab are a *magazine*. It also keeps a few areas of one allocation. A full magazine returns half
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
use super::inventory::LARGEST_KEPT_BYTES;
use super::slab::SlabKey;
use crate::area::{AreaRecord, Items};
use crate::directory;
use crate::driver::Driver;
use crate::error::Error;
use crate::live_items::LiveItems;
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
}

/// Items of one slab.
#[derive(Debug)]
struct Magazine {
    key: SlabKey,
    /// Of the slab, which it is known by.
    areas: Arc<AtomicUsize>,
    items: Vec<(AreaId, u32)>,
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
        let most = MAGAZINE_BYTES / self.key.item_bytes().max(1);
        usize::try_from(most).unwrap_or(MAGAZINE_ITEMS).clamp(4, MAGAZINE_ITEMS)
    }
}

impl Heap {
    /// An item that this thread has kept, or may keep from now on.
    pub(super) fn take_kept(&self, driver: &Driver, key: SlabKey) -> Option<usize> {
        if driver.races().are_checked() {
            return None;
        }
        let (mut kept, number) = self.caches.mine();
        let magazine = kept.magazines.iter_mut().find(|magazine| magazine.key == key)?;
        if magazine.items.is_empty() {
            let most = magazine.most() / 2;
            self.inventory(driver).lend(key, most, &mut magazine.items);
        }
        let (id, index) = magazine.items.pop()?;
        let live = driver.tables().live(id, number)?;
        live.allocate(index);
        live.end_loan();
        driver.counters().add_shared(number, key.item_bytes());
        tsan::take(Token::Free);
        let record = driver.tables().area(id)?.record;
        Some(record.item_address(index as usize))
    }

    /// From now on this thread keeps items of that slab.
    pub(super) fn keep_magazine(&self, key: SlabKey, live: &LiveItems) {
        let (mut kept, _) = self.caches.mine();
        let known = kept.magazines.iter().any(|magazine| magazine.key == key);
        if !known && kept.magazines.len() < MAGAZINES {
            let areas = Arc::clone(live.areas());
            kept.magazines.push(Magazine { key, areas, items: Vec::new() });
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
        let live = &driver.tables().live(record.area.id, number())?;
        if is_block(live) {
            let block = address == record.area.base && !record.items.array;
            return block.then(|| self.keep_block(driver, record, live))?;
        }
        let (index, minipage) = record.item_at(address)?;
        if record.items.chunk == 1 && !is_own(driver, record, minipage) {
            return None;
        }
        let (mut kept, number) = self.caches.mine();
        let same = |magazine: &&mut Magazine| Arc::ptr_eq(&magazine.areas, live.areas());
        let magazine = kept.magazines.iter_mut().find(same)?;
        live.lend();
        let Some(last) = live.free(index) else {
            live.end_loan();
            return Some(Err(Error::free_twice(address)));
        };
        tsan::give(Token::Free);
        driver.counters().add_shared(number, live.bytes().wrapping_neg());
        magazine.items.push((record.area.id, index));
        if magazine.items.len() > magazine.most() {
            let half = magazine.items.drain(..magazine.items.len() / 2);
            self.inventory(driver).take_back(magazine.key, half);
        }
        drop(kept);
        if last && self.end_if_unused(driver, record) {
            self.give_back(driver, record.area.id);
        }
        Some(Ok(()))
    }

    fn keep_block(
        &self,
        driver: &Driver,
        record: &AreaRecord,
        live: &LiveItems,
    ) -> Option<Result<(), Error>> {
        let area = record.area;
        let mut used = driver.tables().used(area.id, 0..area.minipages());
        if !record.consistency.is_sequential() || used.next().is_some() {
            return None;
        }
        let (mut kept, number) = self.caches.mine();
        let bytes: u64 = kept.blocks.iter().map(|block| block.area.bytes).sum();
        if kept.blocks.len() >= BLOCKS || bytes + area.bytes > BLOCK_BYTES {
            return None;
        }
        if live.free(0).is_none() {
            return Some(Err(Error::free_twice(area.base)));
        }
        tsan::give(Token::Free);
        driver.counters().add_shared(number, live.bytes().wrapping_neg());
        kept.blocks.push(*record);
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
        let live = driver.tables().live(kept.blocks[at].area.id, number)?;
        let block = kept.blocks.swap_remove(at);
        live.set_bytes(items.bytes);
        live.allocate(0);
        driver.counters().add_shared(number, items.bytes);
        tsan::take(Token::Free);
        Some(block.area.base)
    }

    /// Nothing of an area may be allocated any more: whether it is to go back to the directory, out of all caches.
    pub(super) fn end_if_unused(&self, driver: &Driver, record: &AreaRecord) -> bool {
        let Some(live) = driver.tables().live(record.area.id, number()) else { return false };
        let spare =
            record.area.bytes > LARGEST_KEPT_BYTES || live.areas().load(Ordering::Relaxed) > 1;
        if !spare || is_block(&live) || !live.is_empty() {
            return false;
        }
        let mut caches = self.caches.all();
        let mut inventory = self.inventory(driver);
        // Before the locks were taken somebody may have allocated.
        if !live.is_empty() {
            return false;
        }
        for magazine in caches.iter_mut().flat_map(|kept| &mut kept.magazines) {
            let items = magazine.items.extract_if(.., |(area, _)| *area == record.area.id);
            inventory.take_back(magazine.key, items);
        }
        inventory.end_unused(record)
    }

    /// Nothing is allocated of an area of this node, and its inventory has forgotten it.
    fn give_back(&self, driver: &Driver, id: AreaId) {
        self.returned.add(id);
        directory::return_area(driver, id);
    }

    /// There is no room: what caches keep goes back to the inventory, and what is unused then to the directory.
    pub(super) fn empty_thread_caches(&self, driver: &Driver) {
        let mut caches = self.caches.all();
        let mut inventory = self.inventory(driver);
        let mut unused = Vec::new();
        for kept in &mut caches {
            for magazine in &mut kept.magazines {
                unused.extend(magazine.items.iter().map(|(area, _)| *area));
                inventory.take_back(magazine.key, magazine.items.drain(..));
            }
            unused.extend(kept.blocks.drain(..).map(|record| record.area.id));
        }
        unused.sort_unstable();
        unused.dedup();
        let records = unused.into_iter().filter_map(|id| driver.tables().area(id));
        let returned: Vec<_> = records
            .map(|states| states.record)
            .filter(|record| inventory.end_unused(record))
            .collect();
        drop((inventory, caches));
        returned.iter().for_each(|record| self.give_back(driver, record.area.id));
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
    live.areas().load(Ordering::Relaxed) == 0
}

/// Whether no other node can have a copy of a minipage of this node's, nor ask for one unless the program uses
/// what it has freed.
fn is_own(driver: &Driver, record: &AreaRecord, minipage: u32) -> bool {
    if !record.consistency.is_sequential() || record.items.span(record.area.shape) > 1 {
        return false;
    }
    let tables = driver.tables();
    let untouched = tables.used(record.area.id, minipage..minipage + 1).next().is_none();
    let id = MinipageId::new(record.area.id, minipage);
    untouched || *tables.lock(id).holder() == Holder::owner()
}
