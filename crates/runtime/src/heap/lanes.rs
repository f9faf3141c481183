//! What threads keep of what they have freed: allocation and free without the inventory's lock, and without a step
//! of the engines.
//!
//! A thread has a *lane*, the next in turn at its first call; of many threads some share one. An item is kept
//! only if its minipage is this node's alone, so that nothing has to be reclaimed; and areas of one allocation,
//! a few. All else goes through the inventory: a lane gives half of its items back when it has too many, and
//! takes some when it has none. An area of which nothing is allocated is taken out of all lanes before it goes
//! back to the directory.
//!
//! Locks: lanes in ascending order, then the inventory.

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

/// Lanes of a node.
const LANES: usize = 64;
/// Bytes of items of one kind in a lane, and how many at most.
const SHELF_BYTES: u64 = 64 << 10;
const SHELF_ITEMS: usize = 64;
/// Kinds in a lane.
const SHELVES: usize = 16;
/// Areas of one allocation in a lane, and their bytes.
const BLOCKS: usize = 4;
const BLOCK_BYTES: u64 = 1 << 20;

/// The lanes of a node.
#[derive(Debug)]
pub(super) struct Lanes(Box<[Lane]>);

/// On lines of its own: threads do not meet there.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Lane(Mutex<Kept>);

/// What a lane has.
#[derive(Debug, Default)]
pub(super) struct Kept {
    shelves: Vec<Shelf>,
    blocks: Vec<AreaRecord>,
}

/// Items of one slab.
#[derive(Debug)]
struct Shelf {
    key: SlabKey,
    /// Of the slab, which it is known by.
    areas: Arc<AtomicUsize>,
    items: Vec<(AreaId, u32)>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self((0..LANES).map(|_| Lane::default()).collect())
    }
}

impl Lanes {
    /// The lane of this thread, and its number.
    fn mine(&self) -> (MutexGuard<'_, Kept>, usize) {
        let number = number();
        (lock(&self.0[number].0), number)
    }

    fn all(&self) -> Vec<MutexGuard<'_, Kept>> {
        self.0.iter().map(|lane| lock(&lane.0)).collect()
    }
}

impl Shelf {
    fn most(&self) -> usize {
        let most = SHELF_BYTES / self.key.item_bytes().max(1);
        usize::try_from(most).unwrap_or(SHELF_ITEMS).clamp(4, SHELF_ITEMS)
    }
}

impl Heap {
    /// An item that this thread has kept, or may keep from now on.
    pub(super) fn take_kept(&self, driver: &Driver, key: SlabKey) -> Option<usize> {
        if driver.races().are_checked() {
            return None;
        }
        let (mut kept, number) = self.lanes.mine();
        let shelf = kept.shelves.iter_mut().find(|shelf| shelf.key == key)?;
        if shelf.items.is_empty() {
            let most = shelf.most() / 2;
            self.inventory(driver).lend(key, most, &mut shelf.items);
        }
        let (id, index) = shelf.items.pop()?;
        let live = driver.tables().live(id, number)?;
        live.allocate(index);
        live.end_loan();
        driver.counters().add_shared(number, key.item_bytes());
        tsan::take(Token::Free);
        let record = driver.tables().area(id)?.record;
        Some(record.item_address(index as usize))
    }

    /// From now on this thread keeps items of that slab.
    pub(super) fn keep_shelf(&self, key: SlabKey, live: &LiveItems) {
        let (mut kept, _) = self.lanes.mine();
        let known = kept.shelves.iter().any(|shelf| shelf.key == key);
        if !known && kept.shelves.len() < SHELVES {
            let areas = Arc::clone(live.areas());
            kept.shelves.push(Shelf { key, areas, items: Vec::new() });
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
        let twice = || Error::NotPermitted(format!("free of {address:#x}, which is free already"));
        let (mut kept, number) = self.lanes.mine();
        let same = |shelf: &&mut Shelf| Arc::ptr_eq(&shelf.areas, live.areas());
        let shelf = kept.shelves.iter_mut().find(same)?;
        live.lend();
        let Some(last) = live.free(index) else {
            live.end_loan();
            return Some(Err(twice()));
        };
        tsan::give(Token::Free);
        driver.counters().add_shared(number, live.bytes().wrapping_neg());
        shelf.items.push((record.area.id, index));
        if shelf.items.len() > shelf.most() {
            let half = shelf.items.drain(..shelf.items.len() / 2);
            self.inventory(driver).take_back(shelf.key, half);
        }
        drop(kept);
        if last && self.end_if_unused(driver, record) {
            directory::return_area(driver, record.area.id);
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
        let (mut kept, number) = self.lanes.mine();
        let bytes: u64 = kept.blocks.iter().map(|block| block.area.bytes).sum();
        if kept.blocks.len() >= BLOCKS || bytes + area.bytes > BLOCK_BYTES {
            return None;
        }
        if live.free(0).is_none() {
            let text = format!("free of {:#x}, which is free already", area.base);
            return Some(Err(Error::NotPermitted(text)));
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
        let (mut kept, number) = self.lanes.mine();
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

    /// Nothing of an area may be allocated any more: whether it is to go back to the directory, out of all lanes.
    pub(super) fn end_if_unused(&self, driver: &Driver, record: &AreaRecord) -> bool {
        let Some(live) = driver.tables().live(record.area.id, number()) else { return false };
        let spare =
            record.area.bytes > LARGEST_KEPT_BYTES || live.areas().load(Ordering::Relaxed) > 1;
        if !spare || is_block(&live) || !live.is_empty() {
            return false;
        }
        let mut lanes = self.lanes.all();
        let mut inventory = self.inventory(driver);
        // Before the locks were taken somebody may have allocated.
        if !live.is_empty() {
            return false;
        }
        for shelf in lanes.iter_mut().flat_map(|kept| &mut kept.shelves) {
            let items = shelf.items.extract_if(.., |(area, _)| *area == record.area.id);
            inventory.take_back(shelf.key, items);
        }
        inventory.end_unused(record)
    }

    /// There is no room: what lanes keep goes back to the inventory, and what is unused then to the directory.
    pub(super) fn empty_lanes(&self, driver: &Driver) {
        let mut lanes = self.lanes.all();
        let mut inventory = self.inventory(driver);
        let mut unused = Vec::new();
        for kept in &mut lanes {
            for shelf in &mut kept.shelves {
                unused.extend(shelf.items.iter().map(|(area, _)| *area));
                inventory.take_back(shelf.key, shelf.items.drain(..));
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
        drop((inventory, lanes));
        returned.iter().for_each(|record| directory::return_area(driver, record.area.id));
    }
}

/// The number of this thread's lane.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(LANES) };
    }
    MINE.with(|mine| {
        if mine.get() == LANES {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % LANES);
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
