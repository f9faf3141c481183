//! The areas mapped on this node, and the way from an address to its minipage.
//!
//! Role: look-ups in O(1) that take no lock and allocate nothing, for signal context; writers are
//! serialized by `Memory`. A record is guarded by its version (a sequence lock): odd while the
//! area is mapped, even before and after, so that ids may be used again.
#![expect(unsafe_code, reason = "promises that a record of atomics is valid when zeroed")]

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use multigrain_types::{AreaId, MinipageId};

use crate::error::MemoryError;
use crate::layout::{Area, Shape, VIEW_ALIGN, VIEWS_BASE, VIEWS_END};
use crate::table::{ZeroTable, ZeroValid};

/// Area ids are below this number.
pub const MAX_AREAS: usize = 1 << 20;

const CHUNKS: usize = (VIEWS_END - VIEWS_BASE) / VIEW_ALIGN;

/// An area of this node and whether it started here as the initial holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) area: Area,
    pub(crate) fresh: bool,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Record {
    version: AtomicU32,
    fresh: AtomicU32,
    base: AtomicUsize,
    file_offset: AtomicU64,
    bytes: AtomicU64,
    shape: AtomicU64,
}

// SAFETY: atomics only, all valid when zero (an even version: not mapped), no drop, 64-aligned.
unsafe impl ZeroValid for Record {}

#[derive(Debug)]
pub(crate) struct Areas {
    records: ZeroTable<Record>,
    /// Area id + 1 for every chunk of the views' addresses; 0 = nothing there.
    chunks: ZeroTable<AtomicU32>,
    count: AtomicU32,
    /// One more than the largest id ever mapped.
    ids_end: AtomicU32,
}

impl Areas {
    pub(crate) fn new() -> Result<Self, MemoryError> {
        Ok(Self {
            records: ZeroTable::new(MAX_AREAS)?,
            chunks: ZeroTable::new(CHUNKS)?,
            count: AtomicU32::new(0),
            ids_end: AtomicU32::new(0),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn ids_end(&self) -> u32 {
        self.ids_end.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn get(&self, id: AreaId) -> Option<Mapped> {
        let record = self.records.get(id.0 as usize)?;
        let version = record.version.load(Ordering::Acquire);
        if version.is_multiple_of(2) {
            return None;
        }
        let mapped = Mapped {
            area: Area {
                id,
                base: record.base.load(Ordering::Relaxed),
                file_offset: record.file_offset.load(Ordering::Relaxed),
                bytes: record.bytes.load(Ordering::Relaxed),
                shape: unpack(record.shape.load(Ordering::Relaxed)),
            },
            fresh: record.fresh.load(Ordering::Relaxed) != 0,
        };
        fence(Ordering::Acquire);
        // A change in between means that the area was unmapped: so it is gone.
        (record.version.load(Ordering::Relaxed) == version).then_some(mapped)
    }

    #[inline]
    pub(crate) fn translate(&self, address: usize) -> Option<MinipageId> {
        let (area, index) = self.find(address)?;
        Some(MinipageId::new(area.id, index))
    }

    #[inline]
    pub(crate) fn find(&self, address: usize) -> Option<(Area, u32)> {
        let chunk = address.checked_sub(VIEWS_BASE)? / VIEW_ALIGN;
        let id = self.chunks.get(chunk)?.load(Ordering::Acquire).checked_sub(1)?;
        let area = self.get(AreaId(id))?.area;
        Some((area, area.locate(address)?))
    }

    /// Makes a mapped area known; the caller holds the writers' lock and has validated it.
    pub(crate) fn publish(&self, mapped: Mapped) {
        let Mapped { area, fresh } = mapped;
        let Some(record) = self.records.get(area.id.0 as usize) else { return };
        let version = record.version.load(Ordering::Relaxed);
        assert!(version.is_multiple_of(2), "area {} is published twice", area.id.0);
        record.base.store(area.base, Ordering::Relaxed);
        record.file_offset.store(area.file_offset, Ordering::Relaxed);
        record.bytes.store(area.bytes, Ordering::Relaxed);
        record.shape.store(pack(area.shape), Ordering::Relaxed);
        record.fresh.store(u32::from(fresh), Ordering::Relaxed);
        record.version.store(version.wrapping_add(1), Ordering::Release);
        self.mark_chunks(&area, area.id.0 + 1);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ids_end.fetch_max(area.id.0 + 1, Ordering::Relaxed);
    }

    /// Forgets a published area; the caller holds the writers' lock.
    pub(crate) fn retire(&self, area: &Area) {
        let Some(record) = self.records.get(area.id.0 as usize) else { return };
        self.mark_chunks(area, 0);
        let version = record.version.load(Ordering::Relaxed);
        assert!(!version.is_multiple_of(2), "area {} is retired twice", area.id.0);
        record.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // No later store to the record may be seen before the even version.
        fence(Ordering::Release);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    fn mark_chunks(&self, area: &Area, entry: u32) {
        let first = (area.base - VIEWS_BASE) / VIEW_ALIGN;
        let chunks = area.span_bytes().div_ceil(VIEW_ALIGN);
        for place in (first..first + chunks).filter_map(|chunk| self.chunks.get(chunk)) {
            place.store(entry, Ordering::Release);
        }
    }
}

const SUB: u64 = 1 << 63;

fn pack(shape: Shape) -> u64 {
    match shape {
        Shape::Sub { slot, per_page } => SUB | u64::from(per_page) << 32 | u64::from(slot),
        Shape::Pages { pages } => u64::from(pages),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "takes out what pack() put in")]
fn unpack(packed: u64) -> Shape {
    if packed & SUB == 0 {
        Shape::Pages { pages: packed as u32 }
    } else {
        Shape::Sub { slot: packed as u32, per_page: (packed >> 32) as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(id: u32, chunk: usize) -> Area {
        Area {
            id: AreaId(id),
            base: VIEWS_BASE + chunk * VIEW_ALIGN,
            file_offset: 0,
            bytes: 1 << 20,
            shape: Shape::Sub { slot: 512, per_page: 8 },
        }
    }

    #[test]
    fn a_published_area_translates_until_it_is_retired() {
        let areas = Areas::new().unwrap();
        let mapped = Mapped { area: area(9, 3), fresh: true };
        areas.publish(mapped);
        assert_eq!((areas.get(AreaId(9)), areas.count()), (Some(mapped), 1));
        let index = mapped.area.minipages() - 1;
        let found = areas.translate(mapped.area.address(index));
        assert_eq!(found, Some(MinipageId::new(AreaId(9), index)));
        areas.retire(&mapped.area);
        assert_eq!((areas.get(AreaId(9)), areas.count()), (None, 0));
        assert_eq!(areas.translate(mapped.area.address(index)), None);
    }

    #[test]
    fn an_id_may_be_used_again() {
        let areas = Areas::new().unwrap();
        areas.publish(Mapped { area: area(1, 0), fresh: false });
        areas.retire(&area(1, 0));
        areas.publish(Mapped { area: area(1, 7), fresh: true });
        assert_eq!(areas.get(AreaId(1)), Some(Mapped { area: area(1, 7), fresh: true }));
        assert_eq!(areas.translate(VIEWS_BASE), None);
    }

    #[test]
    fn a_reader_sees_a_whole_area_or_none_while_its_id_is_used_again() {
        let areas = Areas::new().unwrap();
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let uses = [
            Mapped { area: area(1, 0), fresh: false },
            Mapped { area: Area { file_offset: 4096, ..area(1, 7) }, fresh: true },
        ];
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                for _ in 0..rounds {
                    let seen = areas.get(AreaId(1));
                    assert!(seen.is_none_or(|seen| uses.contains(&seen)), "{seen:?}");
                }
            });
            while !reader.is_finished() {
                for mapped in uses {
                    areas.publish(mapped);
                    areas.retire(&mapped.area);
                }
            }
        });
    }

    #[test]
    fn addresses_outside_the_views_are_nobodys() {
        let areas = Areas::new().unwrap();
        for address in [0, VIEWS_BASE - 1, VIEWS_BASE, VIEWS_END, usize::MAX] {
            assert_eq!(areas.translate(address), None);
        }
    }

    #[test]
    fn shapes_survive_packing() {
        for shape in [
            Shape::Pages { pages: u32::MAX },
            Shape::Pages { pages: 1 },
            Shape::Sub { slot: 4, per_page: 1024 },
        ] {
            assert_eq!(unpack(pack(shape)), shape);
        }
    }
}
