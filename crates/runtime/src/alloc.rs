//! Allocation: minipages for variables (Millipage 2.3, dynamic layout).
//!
//! - Up to half a page: minipages of one size class share pages, each in a view of its own. The
//!   class is the number of minipages that fit a page, so 148 bytes make 27 views and 672 make 6,
//!   as in Table 2.
//! - Up to [`LARGEST_SINGLE_BYTES`]: one minipage of whole pages.
//! - Beyond: an area of its own, divided into minipages of the grain asked for, a page by default.
//!
//! A node allocates from areas it owns, without a message, and is the first holder of what it
//! allocates. A freed minipage is reclaimed (all other copies are invalidated) before it is used
//! again; it goes back to the node that allocated it.

mod heap;
mod slab;

use core::sync::atomic::{AtomicU32, Ordering};

pub(crate) use heap::Heap;
use multigrain_memory::Shape;
use multigrain_protocol::Input;
use multigrain_types::{MinipageId, PAGE_BYTES};
pub(crate) use slab::SlabKey;

use crate::areas::{AreaRecord, Items};
use crate::boot::Runtime;
use crate::control::{Asker, kind};
use crate::error::Error;
use crate::tables::lock;
use crate::tsan::{self, Token};

/// Largest allocation that is one minipage unless a grain is given.
pub const LARGEST_SINGLE_BYTES: usize = 64 << 10;

/// Alignment of small allocations, as malloc's callers expect for ordinary types.
const SMALL_ALIGN: usize = 8;

/// The chunking level of this node's later allocations (Millipage 4.4).
#[derive(Debug)]
pub(crate) struct Chunking(pub(crate) AtomicU32);

impl Runtime {
    /// `bytes` of shared memory, fresh or used before.
    ///
    /// # Errors
    /// Zero bytes, or no room.
    pub fn malloc(&self, bytes: usize) -> Result<usize, Error> {
        self.allocate(bytes).map(|(address, _)| address)
    }

    /// `bytes` of zeroed shared memory.
    ///
    /// # Errors
    /// Zero bytes, or no room.
    pub fn calloc(&self, bytes: usize) -> Result<usize, Error> {
        let (address, used) = self.allocate(bytes)?;
        if used {
            self.zero(address, bytes);
        }
        Ok(address)
    }

    fn allocate(&self, bytes: usize) -> Result<(usize, bool), Error> {
        let key = match bytes {
            0 => return Err(Error::Invalid("an allocation of 0 bytes".into())),
            1..=LARGEST_SINGLE_BYTES => {
                SlabKey::new(bytes, self.chunking.0.load(Ordering::Relaxed))
            }
            _ => return self.block(bytes, PAGE_BYTES),
        };
        loop {
            let grow = {
                let mut heap = lock(&self.heap);
                match heap.slab(key).take() {
                    slab::Taken::Item { area, index, used, populate } => {
                        // Under the lock: populating opens every minipage of these pages, which
                        // must not happen once one of them has been handed out.
                        if let Some(pages) = populate {
                            self.memory.populate(area, pages)?;
                        }
                        let states = self.tables.area(area).expect("slabs hold own areas");
                        heap.count(&self.counters, key, &states.record, (index, used));
                        tsan::take(Token::Free);
                        return Ok((element_address(&states.record, index as usize), used));
                    }
                    slab::Taken::Full { next_bytes } => next_bytes,
                }
            };
            let record = self.new_area(key.shape(), grow, key.items(grow), self.consistency)?;
            lock(&self.heap).slab(key).add(record);
        }
    }

    /// `bytes` in one block of minipages of `grain` bytes, rounded up to pages.
    ///
    /// # Errors
    /// Zero bytes or grain, or no room.
    pub fn malloc_grain(&self, bytes: usize, grain: usize) -> Result<usize, Error> {
        if bytes == 0 || grain == 0 {
            return Err(Error::Invalid("an allocation or a grain of 0 bytes".into()));
        }
        self.block(bytes, grain.min(bytes)).map(|(address, _)| address)
    }

    fn block(&self, bytes: usize, grain: usize) -> Result<(usize, bool), Error> {
        let pages = u32::try_from(grain.div_ceil(PAGE_BYTES))
            .map_err(|_| Error::Limit(format!("a minipage of {grain} bytes is too large")))?;
        let items = Items { bytes: bytes as u64, count: 1, chunk: 1, array: false };
        self.own_area(Shape::Pages { pages }, bytes as u64, items)
    }

    /// `count` elements of `bytes`, each a minipage of its own (or each chunk of them).
    ///
    /// # Errors
    /// Zero count or bytes, or no room.
    pub fn malloc_array(&self, count: usize, bytes: usize) -> Result<usize, Error> {
        if bytes == 0 || count == 0 {
            return Err(Error::Invalid("an array of 0 elements or of elements of 0 bytes".into()));
        }
        let room = || Error::NoMemory(format!("{count} elements of {bytes} bytes"));
        let chunk = self.chunking.0.load(Ordering::Relaxed).max(1);
        let chunk = u32::try_from(count).map_or(chunk, |count| chunk.min(count));
        let minipage = bytes.checked_mul(chunk as usize).ok_or_else(room)?;
        let minipages = count.div_ceil(chunk as usize) as u64;
        let shape = match Shape::sub_for(minipage, natural_alignment(bytes)) {
            Some(shape) => shape,
            None => Shape::Pages {
                pages: u32::try_from(minipage.div_ceil(PAGE_BYTES)).map_err(|_| room())?,
            },
        };
        let area_bytes = match shape {
            Shape::Sub { per_page, .. } => {
                minipages.div_ceil(per_page.into()).checked_mul(PAGE_BYTES as u64)
            }
            Shape::Pages { pages } => minipages.checked_mul(u64::from(pages) * PAGE_BYTES as u64),
        };
        let items = Items { bytes: bytes as u64, count: count as u64, chunk, array: true };
        self.own_area(shape, area_bytes.ok_or_else(room)?, items).map(|(address, _)| address)
    }

    /// An area for one allocation: one given back before, or a new one.
    fn own_area(&self, shape: Shape, bytes: u64, items: Items) -> Result<(usize, bool), Error> {
        if let Some(record) = lock(&self.heap).take_area(&self.counters, shape, bytes, items) {
            tsan::take(Token::Free);
            return Ok((record.area.base, true));
        }
        let record = self.new_area(shape, bytes, items, self.consistency)?;
        if let Shape::Sub { .. } = shape {
            let pages = u32::try_from(record.area.bytes / PAGE_BYTES as u64)
                .map_err(|_| Error::Limit(format!("an array of {bytes} bytes is too large")))?;
            self.memory.populate(record.area.id, 0..pages)?;
        }
        lock(&self.heap).enter_area(&self.counters, record);
        Ok((record.area.base, false))
    }

    /// Address of element `index` of an array.
    ///
    /// # Errors
    /// [`Error::NotShared`] if `array` is no array, [`Error::Invalid`] if it has no such element.
    pub fn element(&self, array: usize, index: usize) -> Result<usize, Error> {
        let is_array = |record: &AreaRecord| record.items.array && record.area.base == array;
        let record = self.record_at(array).filter(is_array);
        let record = record.ok_or(Error::NotShared(array))?;
        if index as u64 >= record.items.count {
            return Err(Error::Invalid(format!(
                "element {index} of an array of {}",
                record.items.count
            )));
        }
        Ok(element_address(&record, index))
    }

    /// Addresses of the first elements of an array, as many as `out` takes.
    ///
    /// # Errors
    /// As [`Runtime::element`], for the last one.
    pub fn elements(&self, array: usize, out: &mut [usize]) -> Result<(), Error> {
        let Some(last) = out.len().checked_sub(1) else { return Ok(()) };
        self.element(array, last)?;
        let record = self.record_at(array).ok_or(Error::NotShared(array))?;
        for (index, place) in out.iter_mut().enumerate() {
            *place = element_address(&record, index);
        }
        Ok(())
    }

    /// The record of the area an address lies in.
    pub(crate) fn record_at(&self, address: usize) -> Option<AreaRecord> {
        let minipage = self.memory.translate(address)?;
        self.tables.area(minipage.area()).map(|states| states.record)
    }

    /// Gives an allocation back; any node may.
    ///
    /// # Errors
    /// [`Error::NotShared`] or [`Error::NotPermitted`] for what is no live allocation.
    pub fn free(&self, address: usize) -> Result<(), Error> {
        let record = self.record_at(address).ok_or(Error::NotShared(address))?;
        tsan::give(Token::Free);
        self.ask(record.owner, kind::FREE, address as u64, 0, &[]).map(drop).map_err(|(code, _)| {
            match code {
                -6 => Error::NotShared(address),
                _ => Error::NotPermitted(format!("free of {address:#x}, which is free already")),
            }
        })
    }

    /// The owner: take the minipages of an allocation back.
    pub(crate) fn serve_free(&self, asker: Asker, address: u64) {
        let freed = usize::try_from(address)
            .ok()
            .and_then(|address| self.record_at(address).map(|record| (address, record)))
            .filter(|(_, record)| record.owner == self.me)
            .ok_or(Error::NotShared(0))
            .and_then(|(address, record)| {
                lock(&self.heap).begin_free(&self.counters, address, &record)
            });
        let code = match freed {
            Ok(minipages) => {
                for minipage in minipages {
                    self.step_sure(Input::Reclaim { minipage });
                }
                0
            }
            Err(error) => error.code(),
        };
        self.answer(asker, code, 0);
    }

    /// A freed minipage is back: nobody else has a copy.
    pub(crate) fn reclaimed(&self, minipage: MinipageId) {
        lock(&self.heap).end_free(minipage);
    }

    /// Zeroes memory that this node may have given out before.
    #[expect(unsafe_code, reason = "shared memory is written by pointer")]
    fn zero(&self, address: usize, bytes: usize) {
        let place = core::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the allocation was just made and is known to nobody else; a trap brings it here.
        unsafe { core::ptr::write_bytes(place, 0, bytes) };
    }
}

/// Address of item `index`: its minipage, and its place in the chunk.
fn element_address(record: &AreaRecord, index: usize) -> usize {
    let chunk = record.items.chunk as usize;
    let minipage = u32::try_from(index / chunk).unwrap_or(u32::MAX);
    let within = usize::try_from(record.items.bytes).unwrap_or(0) * (index % chunk);
    record.area.address(minipage) + within
}

/// The largest power of two that divides a size, at least 4 and at most a cache line: elements of a
/// C array are aligned no better.
fn natural_alignment(bytes: usize) -> usize {
    (1 << bytes.trailing_zeros()).clamp(4, 64)
}
