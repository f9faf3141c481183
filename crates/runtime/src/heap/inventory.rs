//! The inventory of one node: its slabs, its own areas, and what is being reclaimed.
//!
//! What is freed is used again by this node for the same purpose: items of a slab, and small areas of one
//! allocation. Any other area of which nothing is allocated goes back to the directory, for any node and any use.

use core::ops::Range;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use multigrain_memory::{GROUP_PAGES, Shape};
use multigrain_types::{AreaId, Consistency, MinipageId};

use super::slab::{ItemPlace, Slab, SlabKey};
use crate::area::{AreaRecord, Items};
use crate::error::Error;
use crate::live_items::LiveItems;
use crate::stats::{Count, Counters};

/// Largest area that is kept for its like when nothing of it is allocated, bytes.
pub(super) const LARGEST_KEPT_BYTES: u64 = 1 << 20;
/// Areas of one allocation that are kept like that, bytes over all.
const KEPT_BYTES: u64 = 8 << 20;

/// What this node has allocated.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    slabs: BTreeMap<SlabKey, Slab>,
    /// Live items of slab areas.
    live: BTreeMap<AreaId, (SlabKey, Arc<LiveItems>)>,
    /// Freed items of several minipages, and how many of those are not reclaimed yet.
    returning: BTreeMap<(AreaId, u32), u32>,
    /// Areas of one allocation.
    single: BTreeMap<AreaId, SingleArea>,
    /// Those of them that are free, by what they can be used for again.
    free: BTreeMap<(Consistency, Shape), BTreeSet<AreaId>>,
    /// Bytes of those, and of those that are on their way back.
    kept: u64,
}

/// What a free leaves to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) area: AreaId,
    /// Minipages that are to be reclaimed.
    pub(super) minipages: Range<u32>,
    /// Nothing is left of the area here: it is to go back to the directory.
    pub(super) returned: bool,
}

#[derive(Debug)]
struct SingleArea {
    record: AreaRecord,
    live: Arc<LiveItems>,
    state: AreaState,
}

#[derive(Debug, PartialEq, Eq)]
enum AreaState {
    Live,
    /// So many minipages are not reclaimed yet.
    Reclaiming(u32),
    Free,
}

impl Inventory {
    pub(super) fn slab(&mut self, key: SlabKey) -> &mut Slab {
        self.slabs.entry(key).or_insert_with(|| Slab::new(key))
    }

    /// Enters a taken item in the counters and the inventory; what of its area is allocated.
    pub(super) fn count(
        &mut self,
        counters: &Counters,
        key: SlabKey,
        record: &AreaRecord,
        (index, used): (u32, bool),
    ) -> Arc<LiveItems> {
        let slab = Arc::clone(self.slab(key).counts());
        let none = || LiveItems::new((record.items.count, key.item_bytes()), slab);
        let (_, live) = self.live.entry(record.area.id).or_insert_with(|| (key, Arc::new(none())));
        live.take_out();
        live.allocate(index);
        let live = Arc::clone(live);
        counters.add(Count::SharedBytes, key.item_bytes());
        if !used {
            count_first_use(counters, key, record, index);
        }
        live
    }

    /// Enters an area of one allocation; what of it is allocated.
    pub(super) fn enter_area(&mut self, counters: &Counters, record: AreaRecord) -> Arc<LiveItems> {
        let minipages = u64::from(record.area.minipages())
            .min(record.items.count.div_ceil(record.items.chunk.into()));
        let (minipages, views) = match record.area.shape {
            Shape::Sub { per_page, .. } => {
                // Within a group, views fill one after the other.
                let group = minipages.min(u64::from(per_page) * u64::from(GROUP_PAGES));
                let last = u32::try_from(group.saturating_sub(1)).unwrap_or(u32::MAX);
                (minipages, u64::from(record.area.view(last)) + 1)
            }
            Shape::Pages { .. } => (u64::from(record.area.minipages()), 1),
        };
        counters.add(Count::Minipages, minipages);
        counters.add(Count::SharedBytes, total_bytes(&record.items));
        counters.at_least(Count::Views, views);
        let live = LiveItems::new((1, total_bytes(&record.items)), Arc::default());
        live.allocate(0);
        let live = Arc::new(live);
        let area = SingleArea { record, live: Arc::clone(&live), state: AreaState::Live };
        self.single.insert(record.area.id, area);
        live
    }

    /// A free area that fits: the same shape and consistency, and not twice the size.
    pub(super) fn take_area(
        &mut self,
        counters: &Counters,
        shape: Shape,
        bytes: u64,
        items: Items,
        consistency: Consistency,
    ) -> Option<AreaRecord> {
        let free = self.free.get_mut(&(consistency, shape))?;
        let fits = |id: &&AreaId| {
            // What was one allocation is none of many.
            !items.array && self.single[*id].record.holds(bytes)
        };
        let id = *free.iter().find(fits)?;
        free.remove(&id);
        let area = self.single.get_mut(&id)?;
        area.state = AreaState::Live;
        self.kept -= area.record.area.bytes;
        // Perhaps fewer bytes than last time: what is added now is subtracted by the free.
        area.live.set_bytes(total_bytes(&items));
        area.live.allocate(0);
        counters.add(Count::SharedBytes, total_bytes(&items));
        Some(area.record)
    }

    /// Takes an allocation out of the inventory.
    pub(super) fn begin_free(
        &mut self,
        counters: &Counters,
        address: usize,
        record: &AreaRecord,
    ) -> Result<Freed, Error> {
        let id = record.area.id;
        if let Some(area) = self.single.get_mut(&id) {
            if address != record.area.base {
                return Err(Error::NotShared(address));
            }
            if area.state != AreaState::Live || area.live.free(0).is_none() {
                return Err(Error::free_twice(address));
            }
            counters.subtract(Count::SharedBytes, area.live.bytes());
            let (minipages, bytes) = (record.area.minipages(), record.area.bytes);
            // An array is none any more, as all nodes have to know. A segment has a policy of its own.
            let returned = record.items.array
                || record.is_named()
                || bytes > LARGEST_KEPT_BYTES
                || self.kept + bytes > KEPT_BYTES;
            if returned {
                self.single.remove(&id);
            } else {
                self.kept += bytes;
                area.state = AreaState::Reclaiming(minipages);
            }
            return Ok(Freed { area: id, minipages: 0..minipages, returned });
        }
        let (index, minipage) = record.item_at(address).ok_or(Error::NotShared(address))?;
        let chunk = record.items.chunk;
        let span = u32::try_from(record.items.span(record.area.shape)).unwrap_or(u32::MAX);
        let (key, live) = self.live.get(&id).ok_or_else(|| Error::free_twice(address))?;
        live.free(index).ok_or_else(|| Error::free_twice(address))?;
        live.put_back();
        let key = *key;
        counters.subtract(Count::SharedBytes, record.items.bytes);
        let minipages = minipage..minipage + span;
        if self.ends(id, record.area.bytes) {
            return Ok(Freed { area: id, minipages, returned: true });
        }
        if chunk == 1 {
            if span > 1 {
                self.returning.insert((id, index), span);
            }
            return Ok(Freed { area: id, minipages, returned: false });
        }
        // Its neighbours in the minipage are in use: the item alone is free.
        self.slab(key).give(ItemPlace { area: id, index, used: true });
        Ok(Freed { area: id, minipages: 0..0, returned: false })
    }

    /// Whether an area of a slab ends, of which nothing is left: it is the slab's no more then.
    fn ends(&mut self, id: AreaId, bytes: u64) -> bool {
        let Some((key, live)) = self.live.get(&id) else { return false };
        let (key, unused) = (*key, live.is_unused());
        let ends = unused && (bytes > LARGEST_KEPT_BYTES || self.slab(key).areas() > 1);
        if ends {
            self.forget_slab_area(id);
        }
        ends
    }

    /// An area of which threads kept what is free, and keep nothing any more: whether it is to go back to the
    /// directory.
    pub(super) fn end_unused(&mut self, record: &AreaRecord) -> bool {
        let id = record.area.id;
        let single = self.single.contains_key(&id);
        if single { self.drop_block(id) } else { self.ends(id, record.area.bytes) }
    }

    /// An area of one allocation that a thread has kept free is kept for all, unless there are enough: true.
    fn drop_block(&mut self, id: AreaId) -> bool {
        let Some(block) = self.single.get_mut(&id) else { return false };
        if self.kept + block.record.area.bytes > KEPT_BYTES {
            self.single.remove(&id);
            return true;
        }
        self.take_block(id);
        false
    }

    /// A thread keeps an area of one allocation no more, which is free.
    pub(super) fn take_block(&mut self, id: AreaId) {
        let Some(block) = self.single.get_mut(&id) else { return };
        self.kept += block.record.area.bytes;
        block.state = AreaState::Free;
        let use_again = (block.record.consistency, block.record.area.shape);
        self.free.entry(use_again).or_default().insert(id);
    }

    /// Takes out up to so many areas of which nothing is allocated.
    pub(super) fn take_spare(&mut self, most: usize) -> Vec<AreaId> {
        let blocks = self.free.values().flatten().copied();
        let unused = self.live.iter().filter(|(_, (_, live))| live.is_unused()).map(|(&id, _)| id);
        let spare: Vec<_> = blocks.chain(unused).take(most).collect();
        for &id in &spare {
            match self.single.remove(&id) {
                Some(block) => self.kept -= block.record.area.bytes,
                None => self.forget_slab_area(id),
            }
        }
        self.free.values_mut().for_each(|free| free.retain(|id| self.single.contains_key(id)));
        spare
    }

    fn forget_slab_area(&mut self, id: AreaId) {
        if let Some((key, _)) = self.live.remove(&id) {
            self.slab(key).remove(id);
            self.returning.retain(|(area, _), _| *area != id);
        }
    }

    /// Lends a thread items of a slab that were used before, up to so many.
    pub(super) fn lend(&mut self, key: SlabKey, most: usize, to: &mut Vec<ItemPlace>) {
        let Some(slab) = self.slabs.get_mut(&key) else { return };
        for item in slab.take_several(most) {
            if let Some((_, live)) = self.live.get(&item.area) {
                live.take_out();
                to.push(item);
            }
        }
    }

    /// A thread gives items back that it was lent or has freed.
    pub(super) fn take_back(&mut self, key: SlabKey, items: impl IntoIterator<Item = ItemPlace>) {
        for item in items {
            if let Some((_, live)) = self.live.get(&item.area) {
                live.put_back();
                self.slab(key).give(item);
            }
        }
    }

    /// A minipage of a freed allocation is reclaimed.
    pub(super) fn end_free(&mut self, minipage: MinipageId) {
        if let Some(area) = self.single.get_mut(&minipage.area()) {
            match &mut area.state {
                AreaState::Reclaiming(left) if *left > 1 => *left -= 1,
                AreaState::Reclaiming(_) => {
                    area.state = AreaState::Free;
                    let use_again = (area.record.consistency, area.record.area.shape);
                    self.free.entry(use_again).or_default().insert(minipage.area());
                }
                AreaState::Free | AreaState::Live => {}
            }
            return;
        }
        if let Some(&(key, _)) = self.live.get(&minipage.area()) {
            let (area, index) = (minipage.area(), minipage.index() / key.span());
            if let Entry::Occupied(mut left) = self.returning.entry((area, index)) {
                *left.get_mut() -= 1;
                if *left.get() > 0 {
                    return;
                }
                left.remove();
            }
            self.slab(key).give(ItemPlace { area, index, used: true });
        }
    }
}

/// An item is given to the program that never was before.
pub(super) fn count_first_use(counters: &Counters, key: SlabKey, record: &AreaRecord, index: u32) {
    if index.is_multiple_of(key.chunk()) {
        counters.add(Count::Minipages, key.span().into());
        let view = record.area.view(index / key.chunk());
        counters.at_least(Count::Views, u64::from(view) + 1);
    }
}

fn total_bytes(items: &Items) -> u64 {
    items.bytes.saturating_mul(items.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::Origin;
    use crate::heap::slab::Taken;
    use multigrain_memory::{Area, VIEWS_BASE};
    use multigrain_types::NodeId;

    #[test]
    fn an_address_before_the_minipage_of_its_vpage_is_no_allocation() {
        let shape = Shape::Sub { slot: 1024, per_page: 4 };
        let area = Area { id: AreaId(0), base: VIEWS_BASE, file_offset: 0, bytes: 1 << 16, shape };
        let items = Items { bytes: 1024, count: 64, chunk: 1, array: false };
        let consistency = Consistency::Sequential;
        let record =
            AreaRecord { area, owner: NodeId(0), items, consistency, origin: Origin::Heap };
        // The second view's vpage begins with the first view's minipage.
        let vpage = area.address(16) - 1024;
        assert_eq!(area.locate(vpage), Some(16));
        let freed = Inventory::default().begin_free(&Counters::default(), vpage, &record);
        assert!(matches!(freed, Err(Error::NotShared(address)) if address == vpage));
    }
    #[test]
    fn an_item_of_several_minipages_is_free_when_all_are_reclaimed() {
        let (mut heap, counters) = (Inventory::default(), Counters::default());
        let key = SlabKey::paged((9000, 1), Consistency::LazyRelease);
        let (id, bytes) = (AreaId(4), 6 * 4096);
        let area =
            Area { id, base: VIEWS_BASE, file_offset: 0, bytes, shape: Shape::Pages { pages: 1 } };
        let consistency = key.consistency();
        let record = AreaRecord {
            area,
            owner: NodeId(0),
            items: key.items(bytes),
            consistency,
            origin: Origin::Heap,
        };
        heap.slab(key).add(record);
        for index in 0..2 {
            assert!(matches!(heap.slab(key).take(), Taken::Item { .. }));
            heap.count(&counters, key, &record, (index, false));
        }
        assert_eq!(counters.read(Count::Minipages), 6);
        let second = area.base + 3 * 4096;
        let freed = heap.begin_free(&counters, second, &record).unwrap();
        assert_eq!(freed, Freed { area: id, minipages: 3..6, returned: false });
        assert!(matches!(heap.begin_free(&counters, second, &record), Err(Error::NotPermitted(_))));
        assert!(matches!(
            heap.begin_free(&counters, area.base + 4096, &record),
            Err(Error::NotShared(_))
        ));
        for index in freed.minipages {
            assert!(matches!(heap.slab(key).take(), Taken::Full { .. }));
            heap.end_free(MinipageId::new(id, index));
        }
        let again = heap.slab(key).take();
        assert!(matches!(again, Taken::Item { area, index: 1, used: true, .. } if area == id));
    }

    #[test]
    fn an_allocation_looks_for_room_among_free_areas_alone() {
        let (mut inventory, counters) = (Inventory::default(), Counters::default());
        let (shape, consistency) = (Shape::Pages { pages: 1 }, Consistency::Sequential);
        let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
        let record = |id: usize| {
            let base = VIEWS_BASE + id * 4096;
            let area = Area {
                id: AreaId(u32::try_from(id).unwrap()),
                base,
                file_offset: 0,
                bytes: 4096,
                shape,
            };
            AreaRecord { area, owner: NodeId(0), items, consistency, origin: Origin::Heap }
        };
        let free =
            |inventory: &Inventory| inventory.free.values().flatten().copied().collect::<Vec<_>>();
        (0..3).for_each(|id| drop(inventory.enter_area(&counters, record(id))));
        assert!(free(&inventory).is_empty());
        for id in [2, 1] {
            let record = record(id);
            let freed = inventory.begin_free(&counters, record.area.base, &record).unwrap();
            assert!(!free(&inventory).contains(&record.area.id), "it is not reclaimed yet");
            let minipages = freed.minipages.map(|index| MinipageId::new(freed.area, index));
            minipages.for_each(|minipage| inventory.end_free(minipage));
        }
        assert_eq!(free(&inventory), [AreaId(1), AreaId(2)]);
        let mut take = |shape| inventory.take_area(&counters, shape, 4096, items, consistency);
        assert_eq!(take(Shape::Pages { pages: 2 }), None);
        assert_eq!(take(shape).map(|record| record.area.id), Some(AreaId(1)));
        assert_eq!(take(shape).map(|record| record.area.id), Some(AreaId(2)));
        assert_eq!(take(shape), None);
    }

    #[test]
    fn a_slab_gives_back_an_area_of_which_nothing_is_allocated_unless_it_is_its_only_one() {
        let (mut heap, counters) = (Inventory::default(), Counters::default());
        let key = SlabKey::new((2048, 1), 1, Consistency::Sequential);
        let record = |id: u32| {
            let (bytes, shape) = (2 * 4096, key.shape());
            let base = VIEWS_BASE + id as usize * multigrain_memory::VIEW_ALIGN;
            let area = Area { id: AreaId(id), base, file_offset: 0, bytes, shape };
            let (items, consistency) = (key.items(bytes), key.consistency());
            AreaRecord { area, owner: NodeId(0), items, consistency, origin: Origin::Heap }
        };
        let take = |heap: &mut Inventory| {
            let Taken::Item { area, index, used, .. } = heap.slab(key).take() else { return None };
            heap.count(&counters, key, &record(area.0), (index, used));
            Some((area, record(area.0).item_address(index as usize)))
        };
        for id in 0..2 {
            heap.slab(key).add(record(id));
        }
        let all: Vec<_> = core::iter::from_fn(|| take(&mut heap)).collect();
        assert_eq!(all.len(), 8);
        for (nth, (area, address)) in all.into_iter().enumerate() {
            let freed = heap.begin_free(&counters, address, &record(area.0)).unwrap();
            assert_eq!((freed.area, freed.returned), (area, nth == 3), "{nth}");
            // What is reclaimed late is nobody's.
            freed.minipages.for_each(|index| heap.end_free(MinipageId::new(area, index)));
        }
        assert_eq!(core::iter::from_fn(|| take(&mut heap)).count(), 4);
        assert_eq!(counters.read(Count::SharedBytes), 4 * 2048);
    }
}
