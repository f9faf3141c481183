//! The areas mapped on this node: from an address to its minipage.
//!
//! Role: an index over the areas of all segments, with look-ups in O(1) that take no lock and
//! allocate nothing, for signal context. An id is claimed, then mapped, then perhaps retired for good; the
//! other fields of a mapped or retired entry do not change any more, but for what its node may have of it (segments).
#![expect(unsafe_code, reason = "promises that a record of atomics is valid when zeroed")]

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use multigrain_types::{Access, AreaId, MinipageId};

use crate::atomic_table::{ZeroTable, ZeroValid};
use crate::error::MemoryError;
use crate::layout::{Area, MAX_AREAS, Shape, VIEW_ALIGN, VIEWS_BASE, VIEWS_END, index};
use crate::segment_id::SegmentId;

const CHUNKS: usize = (VIEWS_END - VIEWS_BASE) / VIEW_ALIGN;

/// An area of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) area: Area,
    /// Whether it started here as the initial holder.
    pub(crate) fresh: bool,
    pub(crate) segment: SegmentId,
    /// Where its first byte lies in the privileged view of its segment; an exposed address.
    pub(crate) privileged: usize,
}

/// States of a record.
const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const MAPPED: u32 = 2;
const RETIRED: u32 = 3;

#[derive(Debug)]
#[repr(C, align(64))]
struct AreaEntry {
    state: AtomicU32,
    /// Bit 8: fresh; below: the segment.
    origin: AtomicU32,
    base: AtomicUsize,
    file_offset: AtomicU64,
    bytes: AtomicU64,
    shape: AtomicU64,
    privileged: AtomicUsize,
    /// What threads may have of it at most: [`Access`] as a number.
    limit: AtomicU32,
}

// SAFETY: atomics only, all valid when zero (free), no drop, 64-aligned.
unsafe impl ZeroValid for AreaEntry {}

#[derive(Debug)]
pub(crate) struct Areas {
    records: ZeroTable<AreaEntry>,
    /// Area id + 1 for every chunk of the views' addresses; 0 = nothing there.
    chunks: ZeroTable<AtomicU32>,
    count: AtomicU32,
}

impl Areas {
    pub(crate) fn new() -> Result<Self, MemoryError> {
        Ok(Self {
            records: ZeroTable::new(MAX_AREAS)?,
            chunks: ZeroTable::new(CHUNKS)?,
            count: AtomicU32::new(0),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// A mapped area.
    #[inline]
    pub(crate) fn get(&self, id: AreaId) -> Option<Mapped> {
        self.in_state(id, MAPPED)
    }

    /// A retired area, as it was mapped.
    #[inline]
    pub(crate) fn retired(&self, id: AreaId) -> Option<Mapped> {
        self.in_state(id, RETIRED)
    }

    #[inline]
    fn in_state(&self, id: AreaId, state: u32) -> Option<Mapped> {
        let record = self.records.get(id.0 as usize)?;
        if record.state.load(Ordering::SeqCst) != state {
            return None;
        }
        let origin = record.origin.load(Ordering::Relaxed);
        Some(Mapped {
            area: Area {
                id,
                base: record.base.load(Ordering::Relaxed),
                file_offset: record.file_offset.load(Ordering::Relaxed),
                bytes: record.bytes.load(Ordering::Relaxed),
                shape: unpack(record.shape.load(Ordering::Relaxed)),
            },
            fresh: origin & FRESH != 0,
            segment: SegmentId(origin.to_le_bytes()[0]),
            privileged: record.privileged.load(Ordering::Relaxed),
        })
    }

    /// What threads may have of an area at most.
    #[inline]
    pub(crate) fn limit(&self, id: AreaId) -> Access {
        let limit =
            self.records.get(id.0 as usize).map(|record| record.limit.load(Ordering::Relaxed));
        let is = |access: &Access| limit == Some(*access as u32);
        [Access::ReadWrite, Access::ReadOnly].into_iter().find(is).unwrap_or_default()
    }

    /// Changes that; the caller holds the locks of all its minipages.
    pub(crate) fn set_limit(&self, id: AreaId, limit: Access) {
        if let Some(record) = self.records.get(id.0 as usize) {
            record.limit.store(limit as u32, Ordering::Relaxed);
        }
    }

    /// A mapped area is retired from now on; its addresses are still its own until another area takes
    /// them.
    pub(crate) fn retire(&self, id: AreaId) {
        if let Some(record) = self.records.get(id.0 as usize) {
            let state = &record.state;
            let was = state.compare_exchange(MAPPED, RETIRED, Ordering::SeqCst, Ordering::Relaxed);
            if was.is_ok() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The area whose views hold an address, or held it last. An adopted address is nobody's here.
    #[inline]
    pub(crate) fn at(&self, address: usize) -> Option<AreaId> {
        let chunk = address.checked_sub(VIEWS_BASE)? / VIEW_ALIGN;
        self.chunks.get(chunk)?.load(Ordering::Acquire).checked_sub(1).map(AreaId)
    }

    /// Claims an id for an area that is about to be mapped; false if it is taken.
    pub(crate) fn claim(&self, id: AreaId) -> bool {
        let claimed = self.records.get(id.0 as usize).map(|record| {
            let state = &record.state;
            state.compare_exchange(FREE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed)
        });
        claimed.is_some_and(|claimed| claimed.is_ok())
    }

    /// Gives a claimed id back.
    pub(crate) fn disclaim(&self, id: AreaId) {
        if let Some(record) = self.records.get(id.0 as usize) {
            record.state.store(FREE, Ordering::Relaxed);
        }
    }

    /// Makes a mapped area known. The caller has claimed its id, and a segment has validated it.
    pub(crate) fn publish(&self, mapped: Mapped) {
        let Mapped { area, fresh, segment, privileged } = mapped;
        let Some(record) = self.records.get(area.id.0 as usize) else { return };
        let state = record.state.load(Ordering::Relaxed);
        assert_eq!(state, CLAIMED, "area {} is published unclaimed", area.id.0);
        record.base.store(area.base, Ordering::Relaxed);
        record.file_offset.store(area.file_offset, Ordering::Relaxed);
        record.bytes.store(area.bytes, Ordering::Relaxed);
        record.shape.store(pack(area.shape), Ordering::Relaxed);
        record.privileged.store(privileged, Ordering::Relaxed);
        record.limit.store(Access::ReadWrite as u32, Ordering::Relaxed);
        let origin = u32::from(segment.0) | if fresh { FRESH } else { 0 };
        record.origin.store(origin, Ordering::Relaxed);
        record.state.store(MAPPED, Ordering::Release);
        if (VIEWS_BASE..VIEWS_END).contains(&area.base) {
            let first = (area.base - VIEWS_BASE) / VIEW_ALIGN;
            let chunks = area.span_bytes().div_ceil(VIEW_ALIGN);
            for place in (first..first + chunks).filter_map(|chunk| self.chunks.get(chunk)) {
                place.store(area.id.0 + 1, Ordering::Release);
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

const FRESH: u32 = 1 << 8;
/// The minipages of an address range, in order; see [`crate::Memory::translate_range`].
#[derive(Clone, Debug)]
pub struct Minipages {
    area: AreaId,
    indices: Range<u64>,
}

impl Minipages {
    pub(crate) fn new(area: AreaId, indices: Range<u64>) -> Self {
        Self { area, indices }
    }
}

impl Iterator for Minipages {
    type Item = MinipageId;

    fn next(&mut self) -> Option<MinipageId> {
        let next = u32::try_from(self.indices.next()?).ok()?;
        Some(MinipageId::new(self.area, next))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = index(self.indices.end - self.indices.start);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Minipages {}

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

    fn mapped(id: u32, chunk: usize, fresh: bool) -> Mapped {
        let area = Area {
            id: AreaId(id),
            base: VIEWS_BASE + chunk * VIEW_ALIGN,
            file_offset: 4096,
            bytes: 1 << 20,
            shape: Shape::Sub { slot: 512, per_page: 8 },
        };
        Mapped { area, fresh, segment: SegmentId(63), privileged: 1 << 46 }
    }

    #[test]
    fn an_area_is_found_by_its_id_and_its_addresses_once_it_is_published() {
        let areas = Areas::new().unwrap();
        for (id, fresh) in [(9, true), (10, false)] {
            let mapped = mapped(id, 3 * id as usize, fresh);
            assert!(areas.claim(AreaId(id)));
            assert_eq!((areas.get(AreaId(id)), areas.at(mapped.area.base)), (None, None));
            areas.publish(mapped);
            assert_eq!(areas.get(AreaId(id)), Some(mapped));
            let last = mapped.area.address(mapped.area.minipages() - 1);
            assert_eq!(areas.at(last), Some(AreaId(id)));
        }
        assert_eq!(areas.count(), 2);
    }

    #[test]
    fn an_id_is_claimed_once_and_free_when_it_was_given_back() {
        let areas = Areas::new().unwrap();
        assert!(areas.claim(AreaId(1)) && !areas.claim(AreaId(1)));
        areas.disclaim(AreaId(1));
        assert!(areas.claim(AreaId(1)));
        areas.publish(mapped(1, 7, true));
        assert!(!areas.claim(AreaId(1)) && !areas.claim(AreaId(1 << 24)));
    }

    #[test]
    fn a_retired_area_is_known_as_such_until_another_has_its_addresses() {
        let areas = Areas::new().unwrap();
        let first = mapped(1, 7, true);
        assert!(areas.claim(AreaId(1)));
        areas.publish(first);
        areas.retire(AreaId(1));
        areas.retire(AreaId(1));
        assert_eq!((areas.get(AreaId(1)), areas.retired(AreaId(1))), (None, Some(first)));
        assert_eq!((areas.at(first.area.base), areas.count()), (Some(AreaId(1)), 0));
        assert!(!areas.claim(AreaId(1)), "an id is used once");
        assert!(areas.claim(AreaId(2)));
        areas.publish(mapped(2, 7, false));
        assert_eq!((areas.at(first.area.base), areas.count()), (Some(AreaId(2)), 1));
    }

    #[test]
    fn a_reader_sees_a_whole_area_or_none() {
        let areas = Areas::new().unwrap();
        let ids = if cfg!(miri) { 8 } else { 20_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for id in 0..ids {
                    assert!(areas.claim(AreaId(id)));
                    areas.publish(mapped(id, 2 * id as usize, id % 2 == 0));
                }
            });
            for id in 0..ids {
                let whole = mapped(id, 2 * id as usize, id % 2 == 0);
                loop {
                    let found = areas.at(whole.area.base);
                    if found.is_some() {
                        assert_eq!(areas.get(AreaId(id)), Some(whole));
                        break;
                    }
                    let seen = areas.get(AreaId(id));
                    assert!(seen.is_none_or(|seen| seen == whole), "{seen:?}");
                    std::thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn addresses_outside_the_views_are_nobodys() {
        let areas = Areas::new().unwrap();
        for address in [0, VIEWS_BASE - 1, VIEWS_BASE, VIEWS_END, usize::MAX] {
            assert_eq!(areas.at(address), None);
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
