//! Allocation: minipages for variables (Millipage 2.3, dynamic layout).
//!
//! - Up to half a page: minipages of one size class share pages, each in a view of its own. The
//!   class is the number of minipages that fit a page, so 148 bytes make 27 views and 672 make 6,
//!   as in Table 2.
//! - Up to a page: one minipage.
//! - Beyond: divided into minipages of the grain asked for, a page by default; above [`LARGEST_SLAB_BYTES`] in an area
//!   of its own.
//!
//! That is sequentially consistent memory. Under release consistency the minipage is a page: small
//! allocations of a class share one (chunking, Millipage 4.4), larger ones have several. [`Policy`]
//! has the rules. An area has one consistency, and so has a page.
//!
//! A node allocates from areas it owns, without a message, and is the first holder of what it
//! allocates. A freed minipage is reclaimed (all other copies are invalidated) before it is used
//! again; it goes back to the node that allocated it. An area of which nothing is allocated goes back to the
//! directory, for any node and any shape, and its bytes to the system (ADR 26).

mod grain;
mod inventory;
mod named_segments;
mod resize;
mod returned_areas;
mod shortage;
mod slab;
mod thread_cache;
// Miri has no memory objects, and no schedule of shuttle runs these.
#[cfg(test)]
#[cfg(not(any(miri, feature = "shuttle")))]
mod tests;

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

pub use grain::Policy;
use grain::{ArrayCut, bounded, is_paged};
use inventory::{Freed, Inventory};
use multigrain_memory::{SegmentId, Shape};
use multigrain_protocol::Input;
use multigrain_types::{AreaId, Consistency, MinipageId, PAGE_BYTES, SegmentPolicy};
use returned_areas::ReturnedAreas;
use shortage::Shortage;
use slab::SlabKey;
use thread_cache::ThreadCaches;

use crate::area::{AreaRecord, Items};
use crate::config::Config;
use crate::directory;
use crate::driver::Driver;
use crate::error::Error;
use crate::error_code;
use crate::frames::{Asker, Request};
use crate::minipage_run::runs_of;
use crate::races::Ordered;
use crate::shim::{Mutex, MutexGuard, lock};
use crate::tsan::{self, Token};

/// Largest allocation that shares an area with others of its size class.
const LARGEST_SLAB_BYTES: usize = 64 << 10;

/// What this node has allocated, and how it allocates.
#[derive(Debug)]
pub(crate) struct Heap {
    inventory: Mutex<Inventory>,
    caches: ThreadCaches,
    returned: ReturnedAreas,
    /// The chunking level of later allocations (Millipage 4.4).
    chunking: AtomicU32,
}

/// The consistency that a policy stands for: the segment's, unless it has its own.
fn consistency_for(driver: &Driver, policy: Policy) -> Result<Consistency, Error> {
    if policy.grain == Some(0) {
        return Err(Error::Invalid("a grain of 0 bytes".into()));
    }
    let segment = driver.memory().policy(SegmentId::FIRST);
    Ok(policy.consistency.unwrap_or(segment.consistency))
}

impl Heap {
    /// The heap of the node's first segment, which is shared so.
    pub(crate) fn new(policy: SegmentPolicy) -> Self {
        let (inventory, caches) = (Mutex::default(), ThreadCaches::default());
        let (returned, chunking) = (ReturnedAreas::default(), AtomicU32::new(policy.chunk));
        Self { inventory, caches, returned, chunking }
    }

    /// Sets the chunking level of later allocations of this node; 1 is off.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0 and beyond 65,536.
    pub(crate) fn set_chunking(&self, level: u32) -> Result<(), Error> {
        let largest = Config::LARGEST_CHUNK;
        if !(1..=largest).contains(&level) {
            let line = format!("a chunking level of {level}: it is 1 (off) to {largest}");
            return Err(Error::Invalid(line));
        }
        self.chunking.store(level, Ordering::Relaxed);
        Ok(())
    }

    /// The inventory, with what has come back since they were opened last.
    fn inventory(&self, driver: &Driver) -> MutexGuard<'_, Inventory> {
        let mut inventory = lock(&self.inventory);
        for minipage in driver.engine().take_reclaimed() {
            inventory.end_free(minipage);
        }
        inventory
    }

    /// `bytes` of shared memory as a policy wants it, fresh or used before; 0 bytes are 1.
    ///
    /// # Errors
    /// A grain of zero bytes, or no room.
    pub(crate) fn malloc_with(
        &self,
        driver: &Driver,
        bytes: usize,
        policy: Policy,
    ) -> Result<usize, Error> {
        let (address, _) = self.allocate(driver, (bytes, 1), policy)?;
        driver.races().note_allocation(address, bytes);
        Ok(address)
    }

    /// `bytes` of zeroed shared memory; 0 bytes are 1.
    ///
    /// # Errors
    /// No room.
    pub(crate) fn calloc(&self, driver: &Driver, bytes: usize) -> Result<usize, Error> {
        let (address, used) = self.allocate(driver, (bytes, 1), Policy::new())?;
        driver.races().note_allocation(address, bytes);
        if used {
            self.zero(address, bytes);
        }
        Ok(address)
    }

    /// Bytes with an alignment of a page at most, whether they were used before.
    fn allocate(
        &self,
        driver: &Driver,
        (bytes, align): (usize, usize),
        policy: Policy,
    ) -> Result<(usize, bool), Error> {
        let bytes = bytes.max(1);
        let size = (bytes, align);
        let consistency = consistency_for(driver, policy)?;
        let large = bytes > LARGEST_SLAB_BYTES;
        let key = match policy.grain {
            None if large => return self.block(driver, bytes, PAGE_BYTES, consistency),
            None if is_paged(consistency, bytes) => SlabKey::paged(size, consistency),
            None => SlabKey::new(size, self.chunking.load(Ordering::Relaxed), consistency),
            Some(grain) if large || bytes.div_ceil(PAGE_BYTES) > grain.div_ceil(PAGE_BYTES) => {
                return self.block(driver, bytes, grain, consistency);
            }
            Some(_) => SlabKey::new(size, 1, consistency),
        };
        self.slab_item(driver, key)
    }

    /// An item of a slab, and whether it was used before.
    fn slab_item(&self, driver: &Driver, key: SlabKey) -> Result<(usize, bool), Error> {
        if let Some(taken) = self.take_kept(driver, key) {
            return Ok(taken);
        }
        let mut shortage = Shortage::new();
        'again: loop {
            let mut grow = {
                let mut heap = self.inventory(driver);
                match heap.slab(key).take() {
                    slab::Taken::Item { area, index, used, populate } => {
                        // Under the lock: populating opens every minipage of these pages, which
                        // must not happen once one of them has been handed out.
                        if let Some(pages) = populate {
                            self.populate(driver, area, pages)?;
                        }
                        let states = driver.tables().area(area).expect("slabs hold own areas");
                        let live =
                            heap.count(driver.counters(), key, &states.record, (index, used));
                        drop(heap);
                        driver.tables().enter_live(area, &live);
                        self.keep_magazine(key, &live);
                        tsan::take(Token::Free);
                        return Ok((states.record.item_address(index as usize), used));
                    }
                    slab::Taken::Full { next_bytes } => next_bytes,
                }
            };
            let record = loop {
                let (shape, items) = (key.shape(), key.items(grow));
                let made = directory::new_area(driver, shape, grow, items, key.consistency());
                match (made, key.smaller(grow)) {
                    (Err(Error::NoMemory(_)), Some(smaller)) => grow = smaller,
                    (Err(Error::NoMemory(_)), None) if shortage.relieve(self, driver) => {
                        continue 'again;
                    }
                    (made, _) => break made?,
                }
            };
            self.inventory(driver).slab(key).add(record);
        }
    }

    /// `bytes` in one block of minipages of `grain` bytes, rounded up to pages, of the job's
    /// consistency.
    ///
    /// # Errors
    /// Zero bytes or grain, or no room.
    pub(crate) fn malloc_grain(
        &self,
        driver: &Driver,
        bytes: usize,
        grain: usize,
    ) -> Result<usize, Error> {
        if bytes == 0 || grain == 0 {
            return Err(Error::Invalid("an allocation or a grain of 0 bytes".into()));
        }
        let consistency = consistency_for(driver, Policy::new())?;
        let (address, _) = self.block(driver, bytes, grain, consistency)?;
        driver.races().note_allocation(address, bytes);
        Ok(address)
    }

    fn block(
        &self,
        driver: &Driver,
        bytes: usize,
        grain: usize,
        consistency: Consistency,
    ) -> Result<(usize, bool), Error> {
        let grain = bounded(grain, consistency);
        let pages = u32::try_from(grain.min(bytes).div_ceil(PAGE_BYTES))
            .map_err(|_| Error::Limit(format!("a minipage of {grain} bytes is too large")))?;
        let items = Items { bytes: bytes as u64, count: 1, chunk: 1, array: false };
        self.own_area(driver, Shape::Pages { pages }, bytes as u64, items, consistency)
    }

    /// `count` elements of `bytes` as a policy wants them; [`Heap::element`] knows where they
    /// lie.
    ///
    /// # Errors
    /// Zero count, bytes or grain, or no room.
    pub(crate) fn malloc_array(
        &self,
        driver: &Driver,
        count: usize,
        bytes: usize,
        policy: Policy,
    ) -> Result<usize, Error> {
        if bytes == 0 || count == 0 {
            return Err(Error::Invalid("an array of 0 elements or of elements of 0 bytes".into()));
        }
        let consistency = consistency_for(driver, policy)?;
        let level = self.chunking.load(Ordering::Relaxed);
        let ArrayCut { shape, items, area_bytes } =
            ArrayCut::new((count, bytes), policy.grain, consistency, level)
                .ok_or_else(|| Error::NoMemory(format!("{count} elements of {bytes} bytes")))?;
        let (address, _) = self.own_area(driver, shape, area_bytes, items, consistency)?;
        driver.races().note_allocation(address, count * bytes);
        Ok(address)
    }

    /// Maps new pages at once; those that are watched for races trap at their first touch.
    fn populate(&self, driver: &Driver, area: AreaId, pages: Range<u32>) -> Result<(), Error> {
        if driver.memory().is_fresh(area) == Some(true) {
            driver.memory().populate(area, pages)?;
        }
        Ok(())
    }

    /// An area for one allocation: one given back before, or a new one.
    fn own_area(
        &self,
        driver: &Driver,
        shape: Shape,
        bytes: u64,
        items: Items,
        consistency: Consistency,
    ) -> Result<(usize, bool), Error> {
        if let Some(address) = self.take_block(driver, (shape, bytes), &items, consistency) {
            return Ok((address, true));
        }
        let mut inventory = self.inventory(driver);
        let kept = inventory.take_area(driver.counters(), shape, bytes, items, consistency);
        drop(inventory);
        if let Some(record) = kept {
            tsan::take(Token::Free);
            return Ok((record.area.base, true));
        }
        let record = self
            .with_room(driver, || directory::new_area(driver, shape, bytes, items, consistency))?;
        if let Shape::Sub { .. } = shape {
            let pages = u32::try_from(record.area.bytes / PAGE_BYTES as u64)
                .map_err(|_| Error::Limit(format!("an array of {bytes} bytes is too large")))?;
            self.populate(driver, record.area.id, 0..pages)?;
        }
        let live = self.inventory(driver).enter_area(driver.counters(), record);
        driver.tables().enter_live(record.area.id, &live);
        Ok((record.area.base, false))
    }

    /// Address of element `index` of an array.
    ///
    /// # Errors
    /// [`Error::NotShared`] if `array` is no array, [`Error::Invalid`] if it has no such element.
    pub(crate) fn element(
        &self,
        driver: &Driver,
        array: usize,
        index: usize,
    ) -> Result<usize, Error> {
        let is_array = |record: &AreaRecord| record.items.array && record.area.base == array;
        let record = record_at(driver, array).filter(is_array);
        let record = record.ok_or(Error::NotShared(array))?;
        if index as u64 >= record.items.count {
            return Err(Error::Invalid(format!(
                "index {index}, counted from 0, of an array of {} elements",
                record.items.count
            )));
        }
        Ok(record.item_address(index))
    }

    /// Addresses of the first elements of an array, as many as `out` takes.
    ///
    /// # Errors
    /// As [`Heap::element`], for the last one.
    pub(crate) fn elements(
        &self,
        driver: &Driver,
        array: usize,
        out: &mut [usize],
    ) -> Result<(), Error> {
        let Some(last) = out.len().checked_sub(1) else { return Ok(()) };
        self.element(driver, array, last)?;
        let record = record_at(driver, array).ok_or(Error::NotShared(array))?;
        for (index, place) in out.iter_mut().enumerate() {
            *place = record.item_address(index);
        }
        Ok(())
    }

    /// Gives an allocation back; any node may.
    ///
    /// # Errors
    /// [`Error::NotShared`] or [`Error::NotPermitted`] for what is no live allocation.
    pub(crate) fn free(&self, driver: &Driver, address: usize) -> Result<(), Error> {
        let Some(record) = record_at(driver, address) else {
            let retired = driver.memory().is_retired(address);
            return Err(if retired {
                Error::free_twice(address)
            } else {
                Error::NotShared(address)
            });
        };
        if record.is_named() {
            let line = "is that of a named segment: detach from it, and remove it by its name";
            return Err(Error::NotPermitted(format!("the address {address:#x} {line}")));
        }
        if let Some(kept) = self.keep(driver, address, &record) {
            return kept;
        }
        self.free_of(driver, address, &record)
    }

    /// The same of an allocation of that area that nobody keeps.
    fn free_of(&self, driver: &Driver, address: usize, record: &AreaRecord) -> Result<(), Error> {
        tsan::give(Token::Free);
        driver.release()?;
        let freed = driver.request(record.owner, Request::Free, address as u64, 0, &[]);
        let returned = freed.map_err(|(code, _)| match code {
            error_code::NOT_SHARED => not_its_begin(address, record),
            _ => Error::free_twice(address),
        })?;
        if returned > 0 {
            directory::return_area(driver, record.area.id);
        }
        Ok(())
    }

    /// The owner: take the minipages of an allocation back. The answer is 1 if its area has to go back to
    /// the directory.
    pub(crate) fn serve_free(&self, driver: &Driver, asker: Asker, address: u64) {
        let freed = usize::try_from(address)
            .ok()
            .and_then(|address| record_at(driver, address).map(|record| (address, record)))
            .filter(|(_, record)| record.owner == driver.me())
            .ok_or_else(|| gone_or_foreign(driver, address))
            .and_then(|(address, record)| {
                let freed = {
                    // Where it can be allocated again, its next user follows who has freed it.
                    let mut inventory = self.inventory(driver);
                    let freed = inventory.begin_free(driver.counters(), address, &record)?;
                    driver.races().keep(Ordered::Freed(address), asker, Request::Free);
                    freed
                };
                let returned = freed.returned || self.end_if_unused(driver, &record);
                if returned {
                    self.returned.add(record.area.id);
                }
                Ok(Freed { returned, ..freed })
            });
        let (code, returned) = match freed {
            Ok(freed) => {
                reclaim(driver, self, &freed);
                (0, freed.returned)
            }
            Err(error) => (error.code(), false),
        };
        driver.answer(asker, code, returned.into());
    }

    /// Whether an area that this node has made may be taken away: it has given it back.
    pub(crate) fn lets_go(&self, id: AreaId) -> bool {
        self.returned.take(id)
    }

    /// Zeroes memory that this node may have given out before.
    #[expect(unsafe_code, reason = "shared memory is written by pointer")]
    fn zero(&self, address: usize, bytes: usize) {
        let place = core::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the allocation was just made and is known to nobody else; a trap brings it here.
        unsafe { core::ptr::write_bytes(place, 0, bytes) };
    }
}

/// Invalidates all other copies of what was freed. Where nobody will use it again, this only brings
/// states that were used to rest.
fn reclaim(driver: &Driver, heap: &Heap, freed: &Freed) {
    let reclaim = |run| driver.step_run(run, |minipage| Input::Reclaim { minipage });
    let Freed { area, minipages, returned } = freed;
    if *returned {
        runs_of(driver.tables().used(*area, minipages.clone())).for_each(reclaim);
    } else if driver.tables().used(*area, minipages.clone()).next().is_none()
        && driver.tables().is_sequential(*area)
    {
        // No other node has ever asked for any of it.
        let mut inventory = heap.inventory(driver);
        minipages.clone().for_each(|index| inventory.end_free(MinipageId::new(*area, index)));
    } else {
        let minipages = minipages.clone().map(|index| MinipageId::new(*area, index));
        runs_of(minipages).for_each(reclaim);
    }
}

/// Why this node has no allocation at an address that another one took for its own: it may have gone meanwhile.
fn gone_or_foreign(driver: &Driver, address: u64) -> Error {
    match usize::try_from(address) {
        Ok(address) if driver.memory().is_retired(address) => Error::free_twice(address),
        Ok(_) | Err(_) => Error::NotShared(0),
    }
}

/// Why an address in an area is none of an allocation there.
fn not_its_begin(address: usize, record: &AreaRecord) -> Error {
    match record.items.array {
        true => Error::OfOtherKind(address, "lies inside of an array, which is one allocation"),
        false => Error::NotShared(address),
    }
}

/// Why an address lies in no allocation that a call could be for.
pub(crate) fn beside_allocations(driver: &Driver, address: usize) -> Error {
    let Some(minipage) = driver.memory().translate(address) else {
        let freed = driver.memory().is_retired(address);
        let what = "is that of shared memory which was freed";
        return if freed { Error::OfOtherKind(address, what) } else { Error::NotShared(address) };
    };
    let Some(states) = driver.tables().area(minipage.area()) else {
        return Error::NotShared(address);
    };
    let record = &states.record;
    let begin = record.area.address(minipage.index());
    let near = record.item_of(minipage.index(), address.saturating_sub(begin));
    let side = if address < near.base { "before" } else { "behind" };
    Error::BesideAllocations(
        address,
        format!(
            "is shared memory's, but in no allocation: it lies {side} the place of one, {} bytes at {:#x}",
            near.bytes, near.base
        ),
    )
}

/// The record of the area an address lies in.
fn record_at(driver: &Driver, address: usize) -> Option<AreaRecord> {
    let minipage = driver.memory().translate(address)?;
    driver.tables().area(minipage.area()).map(|states| states.record)
}
