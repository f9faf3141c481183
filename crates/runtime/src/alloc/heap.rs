//! The books of one node: its slabs, its own areas, and what is on its way back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_memory::{GROUP_PAGES, Shape};
use multigrain_types::{AreaId, Consistency, MinipageId};

use super::element_address;
use super::slab::{Slab, SlabKey};
use crate::areas::{AreaRecord, Items};
use crate::error::Error;
use crate::stats::Counters;

/// What this node has allocated.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    slabs: BTreeMap<SlabKey, Slab>,
    /// Live items of slab areas, as bitmaps.
    live: BTreeMap<AreaId, (SlabKey, Vec<u64>)>,
    /// Freed items of several minipages, and how many of those are not reclaimed yet.
    returning: BTreeMap<(AreaId, u32), u32>,
    /// Areas of one allocation.
    own: BTreeMap<AreaId, Own>,
}

#[derive(Debug)]
struct Own {
    record: AreaRecord,
    state: OwnState,
}

#[derive(Debug, PartialEq, Eq)]
enum OwnState {
    Live,
    /// So many minipages are not reclaimed yet.
    Reclaiming(u32),
    Free,
}

impl Heap {
    pub(crate) fn slab(&mut self, key: SlabKey) -> &mut Slab {
        self.slabs.entry(key).or_insert_with(|| Slab::new(key))
    }

    /// Enters a taken item in the counters and the books.
    pub(crate) fn count(
        &mut self,
        counters: &Counters,
        key: SlabKey,
        record: &AreaRecord,
        (index, used): (u32, bool),
    ) {
        let (_, bits) = self.live.entry(record.area.id).or_insert_with(|| (key, Vec::new()));
        let word = index as usize / 64;
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] |= 1 << (index % 64);
        counters.shared_bytes.fetch_add(key.item_bytes(), Ordering::Relaxed);
        if !used && index % key.chunk() == 0 {
            counters.minipages.fetch_add(key.span().into(), Ordering::Relaxed);
            let view = record.area.view(index / key.chunk());
            counters.views.fetch_max(u64::from(view) + 1, Ordering::Relaxed);
        }
    }

    /// Enters an area of one allocation.
    pub(crate) fn enter_area(&mut self, counters: &Counters, record: AreaRecord) {
        let minipages = u64::from(record.area.minipages())
            .min(record.items.count.div_ceil(record.items.chunk.into()));
        let (minipages, views) = match record.area.shape {
            Shape::Sub { per_page, .. } => {
                // Within a band, views fill one after the other.
                let band = minipages.min(u64::from(per_page) * u64::from(GROUP_PAGES));
                let last = u32::try_from(band.saturating_sub(1)).unwrap_or(u32::MAX);
                (minipages, u64::from(record.area.view(last)) + 1)
            }
            Shape::Pages { .. } => (u64::from(record.area.minipages()), 1),
        };
        counters.minipages.fetch_add(minipages, Ordering::Relaxed);
        counters.shared_bytes.fetch_add(total_bytes(&record.items), Ordering::Relaxed);
        counters.views.fetch_max(views, Ordering::Relaxed);
        self.own.insert(record.area.id, Own { record, state: OwnState::Live });
    }

    /// A free area that fits: the same shape and consistency, and not twice the size.
    pub(crate) fn take_area(
        &mut self,
        counters: &Counters,
        shape: Shape,
        bytes: u64,
        items: Items,
        consistency: Consistency,
    ) -> Option<AreaRecord> {
        let fits = |own: &&mut Own| {
            let area = &own.record.area;
            let alike = area.shape == shape && own.record.consistency == consistency;
            let same = if items.count == 1 && own.record.items.count == 1 {
                area.bytes >= bytes && area.bytes / 2 < bytes.next_multiple_of(4096)
            } else {
                own.record.items == items
            };
            own.state == OwnState::Free && alike && same
        };
        let own = self.own.values_mut().find(fits)?;
        own.state = OwnState::Live;
        // Perhaps fewer bytes than last time: what is added now is subtracted by the free.
        own.record.items = items;
        counters.shared_bytes.fetch_add(total_bytes(&items), Ordering::Relaxed);
        Some(own.record)
    }

    /// Takes an allocation out of the books; its minipages are to be reclaimed.
    pub(crate) fn begin_free(
        &mut self,
        counters: &Counters,
        address: usize,
        record: &AreaRecord,
    ) -> Result<Vec<MinipageId>, Error> {
        let id = record.area.id;
        let twice = || Error::NotPermitted(format!("free of {address:#x}, which is free already"));
        if let Some(own) = self.own.get_mut(&id) {
            if address != record.area.base {
                return Err(Error::NotShared(address));
            }
            if own.state != OwnState::Live {
                return Err(twice());
            }
            let minipages = record.area.minipages();
            own.state = OwnState::Reclaiming(minipages);
            subtract(&counters.shared_bytes, total_bytes(&own.record.items));
            return Ok((0..minipages).map(|index| MinipageId::new(id, index)).collect());
        }
        let minipage = record.area.locate(address).ok_or(Error::NotShared(address))?;
        let chunk = record.items.chunk;
        // The vpage begins before its minipage does.
        let within = address.checked_sub(record.area.address(minipage));
        let within = within.ok_or(Error::NotShared(address))? as u64;
        let span = u32::try_from(record.items.span(record.area.shape)).unwrap_or(u32::MAX);
        let index = (minipage / span)
            .saturating_mul(chunk)
            .saturating_add(u32::try_from(within / record.items.bytes).unwrap_or(u32::MAX));
        if element_address(record, index as usize) != address {
            return Err(Error::NotShared(address));
        }
        let (key, bits) = self.live.get_mut(&id).ok_or(Error::NotShared(address))?;
        let bit = 1u64 << (index % 64);
        match bits.get_mut(index as usize / 64) {
            Some(word) if *word & bit != 0 => *word &= !bit,
            Some(_) | None => return Err(twice()),
        }
        subtract(&counters.shared_bytes, record.items.bytes);
        if chunk == 1 {
            if span > 1 {
                self.returning.insert((id, index), span);
            }
            return Ok((0..span).map(|nth| MinipageId::new(id, minipage + nth)).collect());
        }
        // Its neighbours in the minipage are in use: the item alone is free.
        let key = *key;
        self.slab(key).give(id, index);
        Ok(Vec::new())
    }

    /// A minipage of a freed allocation is reclaimed.
    pub(crate) fn end_free(&mut self, minipage: MinipageId) {
        if let Some(own) = self.own.get_mut(&minipage.area()) {
            own.state = match own.state {
                OwnState::Reclaiming(left) if left > 1 => OwnState::Reclaiming(left - 1),
                OwnState::Reclaiming(_) | OwnState::Free => OwnState::Free,
                OwnState::Live => OwnState::Live,
            };
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
            self.slab(key).give(area, index);
        }
    }
}

fn total_bytes(items: &Items) -> u64 {
    items.bytes.saturating_mul(items.count)
}

fn subtract(counter: &AtomicU64, bytes: u64) {
    counter.fetch_sub(bytes, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::slab::Taken;
    use multigrain_memory::{Area, VIEWS_BASE};
    use multigrain_types::NodeId;

    #[test]
    fn an_address_before_the_minipage_of_its_vpage_is_no_allocation() {
        let shape = Shape::Sub { slot: 1024, per_page: 4 };
        let area = Area { id: AreaId(0), base: VIEWS_BASE, file_offset: 0, bytes: 1 << 16, shape };
        let items = Items { bytes: 1024, count: 64, chunk: 1, array: false };
        let consistency = Consistency::Sequential;
        let record = AreaRecord { area, owner: NodeId(0), items, consistency };
        // The second view's vpage begins with the first view's minipage.
        let vpage = area.address(16) - 1024;
        assert_eq!(area.locate(vpage), Some(16));
        let freed = Heap::default().begin_free(&Counters::default(), vpage, &record);
        assert!(matches!(freed, Err(Error::NotShared(address)) if address == vpage));
    }
    #[test]
    fn an_item_of_several_minipages_is_free_when_all_are_reclaimed() {
        let (mut heap, counters) = (Heap::default(), Counters::default());
        let key = SlabKey::paged(9000, Consistency::LazyRelease);
        let (id, bytes) = (AreaId(4), 6 * 4096);
        let area =
            Area { id, base: VIEWS_BASE, file_offset: 0, bytes, shape: Shape::Pages { pages: 1 } };
        let consistency = key.consistency();
        let record = AreaRecord { area, owner: NodeId(0), items: key.items(bytes), consistency };
        heap.slab(key).add(record);
        for index in 0..2 {
            assert!(matches!(heap.slab(key).take(), Taken::Item { .. }));
            heap.count(&counters, key, &record, (index, false));
        }
        assert_eq!(counters.minipages.load(Ordering::Relaxed), 6);
        let second = area.base + 3 * 4096;
        let freed = heap.begin_free(&counters, second, &record).unwrap();
        assert!(freed.iter().copied().eq((3..6).map(|index| MinipageId::new(id, index))));
        assert!(matches!(heap.begin_free(&counters, second, &record), Err(Error::NotPermitted(_))));
        assert!(matches!(
            heap.begin_free(&counters, area.base + 4096, &record),
            Err(Error::NotShared(_))
        ));
        for minipage in freed {
            assert!(matches!(heap.slab(key).take(), Taken::Full { .. }));
            heap.end_free(minipage);
        }
        let again = heap.slab(key).take();
        assert!(matches!(again, Taken::Item { area, index: 1, used: true, .. } if area == id));
    }
}
