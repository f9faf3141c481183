//! Slabs: items of one size, in areas of growing size.

use core::ops::Range;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use multigrain_memory::{GROUP_PAGES, Shape};
use multigrain_types::{AreaId, Consistency, PAGE_BYTES};

use crate::area::{AreaRecord, Items};
use crate::live_items::SlabCounts;

/// Pages of a slab's first area; later ones double.
const FIRST_PAGES: u64 = 16;
/// Bytes of a slab's largest area.
const LAST_BYTES: u64 = 64 << 20;
/// Alignment of allocations that can hold a type of that alignment, as malloc's.
const MALLOC_ALIGN: usize = 16;

/// Which slab serves an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlabKey {
    /// Bytes of an item.
    item: u32,
    /// Items a minipage.
    chunk: u32,
    /// Bytes of a minipage; fewer than those of an item if that has several minipages.
    minipage: usize,
    /// What addresses of items are multiples of: a power of two, at most a page.
    align: usize,
    /// Of all its areas.
    consistency: Consistency,
}

impl SlabKey {
    /// The slab for allocations of `bytes` at a chunking level; at 1 each is a minipage of its own.
    pub(crate) fn new(
        (bytes, align): (usize, usize),
        chunk: u32,
        consistency: Consistency,
    ) -> Self {
        let (chunk, align) = (chunk.max(1), align_of(bytes, align));
        let item = if chunk == 1 { class_of(bytes, align).0 } else { rounded(bytes, align) };
        let minipage = item as usize * chunk as usize;
        Self { item, chunk, minipage, align, consistency }
    }

    /// The slab for allocations of `bytes` in minipages of one page: as many as fit share one, and
    /// one of several pages has as many minipages.
    pub(crate) fn paged((bytes, align): (usize, usize), consistency: Consistency) -> Self {
        let align = align_of(bytes, align);
        let (item, chunk) = class_of(bytes, align);
        Self { item, chunk, minipage: PAGE_BYTES, align, consistency }
    }

    /// The shape of the slab's minipages.
    pub(crate) fn shape(self) -> Shape {
        Shape::sub_for(self.minipage, self.align).unwrap_or_else(|| Shape::Pages {
            pages: u32::try_from(self.minipage.div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX),
        })
    }

    /// What an area of `bytes` holds.
    pub(crate) fn items(self, bytes: u64) -> Items {
        let pages = bytes / PAGE_BYTES as u64;
        let minipages = match self.shape() {
            Shape::Sub { per_page, .. } => pages * u64::from(per_page),
            Shape::Pages { pages: each } => pages / u64::from(each),
        };
        Items {
            bytes: self.item.into(),
            count: minipages / u64::from(self.span()) * u64::from(self.chunk),
            chunk: self.chunk,
            array: false,
        }
    }

    pub(super) fn consistency(self) -> Consistency {
        self.consistency
    }

    /// Minipages of one item.
    pub(super) fn span(self) -> u32 {
        u32::try_from((self.item as usize).div_ceil(self.minipage)).unwrap_or(u32::MAX)
    }

    /// Bytes of one item.
    pub(super) fn item_bytes(self) -> u64 {
        self.item.into()
    }

    pub(super) fn chunk(self) -> u32 {
        self.chunk
    }

    /// Bytes of the smallest area.
    fn unit(self) -> u64 {
        match self.shape() {
            Shape::Sub { .. } => PAGE_BYTES as u64,
            Shape::Pages { pages } => PAGE_BYTES as u64 * u64::from(pages) * u64::from(self.span()),
        }
    }

    /// Bytes of a slab's next area.
    fn area_bytes(self, areas: usize) -> u64 {
        let doubled = FIRST_PAGES << areas.min(16);
        (self.unit() * doubled).min(LAST_BYTES.max(self.unit()))
    }

    /// An area for which there may be room where there is none for one of `bytes`.
    pub(super) fn smaller(self, bytes: u64) -> Option<u64> {
        let half = bytes / 2 / self.unit() * self.unit();
        (half > 0).then_some(half)
    }
}

/// What an allocation of `bytes` is aligned to: as asked for, or to 16 bytes, as malloc does it, unless
/// it is too small for a type that needs that. Beyond half a page it begins a page anyway.
fn align_of(bytes: usize, align: usize) -> usize {
    let natural = if bytes < MALLOC_ALIGN { MALLOC_ALIGN / 2 } else { MALLOC_ALIGN };
    align.clamp(natural, PAGE_BYTES)
}

/// Bytes of items of the class of `bytes`, one for all sizes of which equally many fit a page, and
/// how many do.
fn class_of(bytes: usize, align: usize) -> (u32, u32) {
    match Shape::sub_for(bytes, align) {
        Some(Shape::Sub { slot, per_page }) => (slot, per_page.into()),
        Some(Shape::Pages { .. }) | None => (rounded(bytes, PAGE_BYTES), 1),
    }
}

fn rounded(bytes: usize, align: usize) -> u32 {
    u32::try_from(bytes.next_multiple_of(align)).unwrap_or(u32::MAX)
}

/// Where an item of a slab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemPlace {
    pub(super) area: AreaId,
    pub(super) index: u32,
    /// Whether it was ever given to the program.
    pub(super) used: bool,
}

/// The items of one key on this node.
#[derive(Debug)]
pub(crate) struct Slab {
    key: SlabKey,
    counts: Arc<SlabCounts>,
    /// The areas items are cut from, and how far; several if threads found it full at the same time.
    fresh: Vec<Fresh>,
    /// Items that were taken before.
    free: Vec<ItemPlace>,
}

#[derive(Debug)]
struct Fresh {
    area: AreaId,
    items: u32,
    next: u32,
    pages: u32,
    populated: u32,
}

/// What [`Slab::take`] found.
pub(crate) enum Taken {
    /// An item; pages to populate before it is used; whether it was used before.
    Item { area: AreaId, index: u32, used: bool, populate: Option<Range<u32>> },
    /// A new area of so many bytes is needed.
    Full { next_bytes: u64 },
}

impl Slab {
    pub(super) fn new(key: SlabKey) -> Self {
        Self { key, counts: Arc::default(), fresh: Vec::new(), free: Vec::new() }
    }

    /// An item of the slab.
    pub(crate) fn take(&mut self) -> Taken {
        let taken = self.take_one();
        self.count_free();
        taken
    }

    fn take_one(&mut self) -> Taken {
        if let Some(ItemPlace { area, index, used }) = self.free.pop() {
            return Taken::Item { area, index, used, populate: None };
        }
        self.fresh.retain(|fresh| fresh.next < fresh.items);
        let Some(fresh) = self.fresh.first_mut() else {
            return Taken::Full { next_bytes: self.key.area_bytes(self.areas()) };
        };
        let index = fresh.next;
        fresh.next += 1;
        let populate = match self.key.shape() {
            Shape::Sub { per_page, .. } => {
                fresh.populate(index / self.key.chunk / (u32::from(per_page) * GROUP_PAGES))
            }
            // Fresh whole pages need nothing: the kernel maps them at the first touch.
            Shape::Pages { .. } => None,
        };
        Taken::Item { area: fresh.area, index, used: false, populate }
    }

    /// A new area of this slab.
    pub(crate) fn add(&mut self, record: AreaRecord) {
        self.counts.areas.fetch_add(1, Ordering::Relaxed);
        self.fresh.push(Fresh {
            area: record.area.id,
            items: u32::try_from(record.items.count).unwrap_or(u32::MAX),
            next: 0,
            pages: u32::try_from(record.area.bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX),
            populated: 0,
        });
        self.count_free();
    }

    /// What is free here has changed.
    fn count_free(&self) {
        let fresh = self.fresh.iter().map(|fresh| (fresh.items - fresh.next) as usize);
        self.counts.free.store(self.free.len() + fresh.sum::<usize>(), Ordering::Relaxed);
    }

    /// How many areas it has.
    pub(super) fn areas(&self) -> usize {
        self.counts.areas.load(Ordering::Relaxed)
    }

    /// For callers that do not have the slab.
    pub(super) fn counts(&self) -> &Arc<SlabCounts> {
        &self.counts
    }

    /// Up to so many items for a thread to keep, the last one first: such as were taken before, or else fresh
    /// ones of one minipage, of pages that need not be populated first.
    pub(super) fn take_several(&mut self, most: usize) -> Vec<ItemPlace> {
        let taken = self.take_neighbours(most);
        self.count_free();
        taken
    }

    fn take_neighbours(&mut self, most: usize) -> Vec<ItemPlace> {
        if !self.free.is_empty() {
            return self.free.split_off(self.free.len().saturating_sub(most));
        }
        let one_minipage = self.key.span() == 1;
        let mut fresh = self.fresh.iter_mut().filter(|fresh| fresh.next < fresh.items);
        let Some(fresh) = fresh.next().filter(|_| one_minipage) else { return Vec::new() };
        let ready = match self.key.shape() {
            Shape::Sub { per_page, .. } => {
                let items = u64::from(fresh.populated) * u64::from(per_page);
                u32::try_from(items * u64::from(self.key.chunk)).unwrap_or(u32::MAX)
            }
            Shape::Pages { .. } => u32::MAX,
        };
        // Threads meet in no word of bits (`live_items`), if they can have whole ones.
        let most = (fresh.next / 64 * 64 + 64 - fresh.next)
            .min(u32::try_from(2 * most).unwrap_or(u32::MAX));
        let end = fresh.items.min(ready).min(fresh.next.saturating_add(most));
        let run = fresh.next..end.max(fresh.next);
        fresh.next = run.end;
        let area = fresh.area;
        run.rev().map(|index| ItemPlace { area, index, used: false }).collect()
    }

    /// An area of which no item is in use is the slab's no more.
    pub(super) fn remove(&mut self, area: AreaId) {
        self.counts.areas.fetch_sub(1, Ordering::Relaxed);
        self.fresh.retain(|fresh| fresh.area != area);
        self.free.retain(|free| free.area != area);
        self.count_free();
    }

    /// An item is free again.
    pub(super) fn give(&mut self, place: ItemPlace) {
        self.free.push(place);
        self.count_free();
    }
}

impl Fresh {
    /// The pages to populate before an item of `group` is used: none, or groups ahead, twice as many
    /// each time.
    fn populate(&mut self, group: u32) -> Option<Range<u32>> {
        if group * GROUP_PAGES < self.populated {
            return None;
        }
        let batch = self.populated.max(GROUP_PAGES);
        let pages = self.populated..(self.populated + batch).min(self.pages);
        self.populated = pages.end;
        Some(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::Origin;

    const SEQUENTIAL: Consistency = Consistency::Sequential;
    const LARGEST: usize = 5000;

    fn new(bytes: usize, chunk: u32, consistency: Consistency) -> SlabKey {
        SlabKey::new((bytes, 1), chunk, consistency)
    }

    fn single(bytes: usize) -> SlabKey {
        new(bytes, 1, SEQUENTIAL)
    }

    #[test]
    fn sizes_of_which_equally_many_fit_a_page_share_a_slab() {
        assert_eq!(single(657), single(672));
        assert_eq!(single(672).shape().views(), 6);
        assert_eq!(single(1), single(8));
        assert_eq!(single(4097).shape(), Shape::Pages { pages: 2 });
    }

    #[test]
    fn a_chunk_is_one_minipage() {
        assert_eq!(new(672, 4, SEQUENTIAL).shape().views(), 1);
        assert_eq!(new(64, 4, SEQUENTIAL).shape().views(), 16);
    }

    #[test]
    fn items_are_aligned_as_malloc_does_it_or_as_asked_for() {
        for bytes in 1..=LARGEST {
            for align in [1, 16, 64, 256, 4096] {
                let key = SlabKey::new((bytes, align), 1, SEQUENTIAL);
                let item = key.item as usize;
                let natural = if bytes < 16 { 8 } else { 16 };
                assert!(
                    item >= bytes && item.is_multiple_of(align.max(natural)),
                    "{bytes} {align}"
                );
                let paged = SlabKey::paged((bytes, align), Consistency::LazyRelease);
                assert!((paged.item as usize).is_multiple_of(align.max(natural)));
            }
            // It costs no view: rounded up to 8 bytes, as many or more fit a page.
            let views = single(bytes).shape().views();
            let fewest = Shape::sub_for(bytes, 8).map_or(1, Shape::views);
            assert!(views <= fewest, "{bytes}");
            if bytes.is_multiple_of(16) {
                assert_eq!(views, fewest, "{bytes}: the same density");
            }
        }
    }

    #[test]
    fn what_two_threads_have_made_at_the_same_time_is_all_fresh() {
        let key = single(64);
        let mut slab = Slab::new(key);
        for id in 0..2 {
            let shape = key.shape();
            let bytes = key.area_bytes(0);
            let base = multigrain_memory::VIEWS_BASE;
            let area =
                multigrain_memory::Area { id: AreaId(id), base, file_offset: 0, bytes, shape };
            let (items, consistency) = (key.items(bytes), key.consistency());
            slab.add(AreaRecord {
                area,
                owner: multigrain_types::NodeId(0),
                items,
                consistency,
                origin: Origin::Heap,
            });
        }
        let each = u32::try_from(key.items(key.area_bytes(0)).count).unwrap();
        let mut populated = 0;
        for _ in 0..2 * each {
            let Taken::Item { used, populate, .. } = slab.take() else { panic!("full") };
            assert!(!used, "it was never given out");
            populated += populate.map_or(0, |pages| pages.len());
        }
        assert_eq!(populated as u64, 2 * FIRST_PAGES);
        assert!(matches!(slab.take(), Taken::Full { .. }));
    }

    #[test]
    fn a_thread_gets_neighbours_in_order_and_of_populated_pages_alone() {
        let key = single(1024);
        let mut slab = Slab::new(key);
        let bytes = key.area_bytes(1);
        let area = multigrain_memory::Area {
            id: AreaId(0),
            base: multigrain_memory::VIEWS_BASE,
            file_offset: 0,
            bytes,
            shape: key.shape(),
        };
        slab.add(AreaRecord {
            area,
            owner: multigrain_types::NodeId(0),
            items: key.items(bytes),
            consistency: SEQUENTIAL,
            origin: Origin::Heap,
        });
        assert_eq!(slab.take_several(8), [], "nothing is populated");
        let Taken::Item { index: 0, populate: Some(pages), .. } = slab.take() else { panic!() };
        let ready = pages.end * 4;
        let mut next = 1;
        while next < ready {
            let mut some: Vec<u32> = slab.take_several(24).iter().map(|item| item.index).collect();
            some.reverse();
            let end = (next + 48).min(ready).min(next / 64 * 64 + 64);
            assert_eq!(some, (next..end).collect::<Vec<_>>());
            next += u32::try_from(some.len()).unwrap();
        }
        assert_eq!(slab.take_several(8), [], "the next ones are not populated");
        slab.give(ItemPlace { area: AreaId(0), index: 5, used: true });
        slab.give(ItemPlace { area: AreaId(0), index: 7, used: false });
        assert_eq!(slab.take_several(1), [ItemPlace { area: AreaId(0), index: 7, used: false }]);
        assert!(matches!(slab.take(), Taken::Item { index: 5, used: true, populate: None, .. }));
    }

    #[test]
    fn unlike_consistencies_have_slabs_of_their_own() {
        let keys = Consistency::ALL.map(|each| new(64, 1, each));
        let mut unlike = keys.to_vec();
        unlike.dedup();
        assert_eq!(unlike, keys);
    }

    #[test]
    fn small_items_of_a_paged_slab_fill_the_page_they_share() {
        let page = Shape::Pages { pages: 1 };
        for (bytes, item, chunk) in [
            (1, 8, 512),
            (64, 64, 64),
            (148, 160, 25),
            (2048, 2048, 2),
            (2049, 4096, 1),
            (4096, 4096, 1),
        ] {
            let key = SlabKey::paged((bytes, 1), Consistency::LazyRelease);
            assert_eq!((key.shape(), key.span()), (page, 1), "{bytes}");
            let items = Items { bytes: item, count: 16 * u64::from(chunk), chunk, array: false };
            assert_eq!(key.items(key.area_bytes(0)), items, "{bytes}");
            assert_eq!(items.span(page), 1, "{bytes}");
        }
    }

    #[test]
    fn large_items_of_a_paged_slab_have_several_minipages() {
        let key = SlabKey::paged((9000, 1), Consistency::EagerRelease);
        assert_eq!((key.shape(), key.span()), (Shape::Pages { pages: 1 }, 3));
        let items = key.items(key.area_bytes(0));
        assert_eq!((items.bytes, items.count, items.chunk), (3 * 4096, 16, 1));
        assert_eq!(items.span(key.shape()), 3);
        assert_ne!(key, new(9000, 1, Consistency::EagerRelease));
    }
}
