//! Items of one size, from areas of growing size.

use core::ops::Range;

use multigrain_memory::{GROUP_PAGES, Shape};
use multigrain_types::{AreaId, Consistency, PAGE_BYTES};

use super::SMALL_ALIGN;
use crate::area::{AreaRecord, Items};

/// Pages of a slab's first area; later ones double.
const FIRST_PAGES: u64 = 16;
/// Bytes of a slab's largest area.
const LAST_BYTES: u64 = 64 << 20;

/// Which slab serves an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlabKey {
    /// Bytes of an item.
    item: u32,
    /// Items a minipage.
    chunk: u32,
    /// Bytes of a minipage; fewer than those of an item if that has several minipages.
    minipage: usize,
    /// Of all its areas.
    consistency: Consistency,
}

impl SlabKey {
    /// The slab for allocations of `bytes` at a chunking level; at 1 each is a minipage of its own.
    pub(crate) fn new(bytes: usize, chunk: u32, consistency: Consistency) -> Self {
        let chunk = chunk.max(1);
        let item = if chunk == 1 { class_of(bytes).0 } else { rounded(bytes) };
        let minipage = item as usize * chunk as usize;
        Self { item, chunk, minipage, consistency }
    }

    /// The slab for allocations of `bytes` in minipages of one page: as many as fit share one, and
    /// one of several pages has as many minipages.
    pub(crate) fn paged(bytes: usize, consistency: Consistency) -> Self {
        let (item, chunk) = class_of(bytes);
        Self { item, chunk, minipage: PAGE_BYTES, consistency }
    }

    /// The shape of the slab's minipages.
    pub(crate) fn shape(self) -> Shape {
        Shape::sub_for(self.minipage, SMALL_ALIGN).unwrap_or_else(|| Shape::Pages {
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

    fn area_bytes(self, areas: usize) -> u64 {
        let page = PAGE_BYTES as u64;
        let unit = match self.shape() {
            Shape::Sub { .. } => page,
            Shape::Pages { pages } => page * u64::from(pages) * u64::from(self.span()),
        };
        let doubled = FIRST_PAGES << areas.min(16);
        (unit * doubled).min(LAST_BYTES.max(unit))
    }
}

/// Bytes of items of the class of `bytes`, one for all sizes of which equally many fit a page, and
/// how many do.
fn class_of(bytes: usize) -> (u32, u32) {
    match Shape::sub_for(bytes, SMALL_ALIGN) {
        Some(Shape::Sub { slot, per_page }) => (slot, per_page.into()),
        Some(Shape::Pages { .. }) | None => (rounded(bytes.next_multiple_of(PAGE_BYTES)), 1),
    }
}

fn rounded(bytes: usize) -> u32 {
    u32::try_from(bytes.next_multiple_of(SMALL_ALIGN)).unwrap_or(u32::MAX)
}

/// The items of one key on this node.
#[derive(Debug)]
pub(crate) struct Slab {
    key: SlabKey,
    areas: Vec<AreaId>,
    /// The area items are cut from, and how far.
    fresh: Option<Fresh>,
    free: Vec<(AreaId, u32)>,
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
        Self { key, areas: Vec::new(), fresh: None, free: Vec::new() }
    }

    /// An item of the slab.
    pub(crate) fn take(&mut self) -> Taken {
        if let Some((area, index)) = self.free.pop() {
            return Taken::Item { area, index, used: true, populate: None };
        }
        let shape = self.key.shape();
        let chunk = self.key.chunk;
        match &mut self.fresh {
            Some(fresh) if fresh.next < fresh.items => {
                let index = fresh.next;
                fresh.next += 1;
                let populate = match shape {
                    Shape::Sub { per_page, .. } => {
                        fresh.populate(index / chunk / (u32::from(per_page) * GROUP_PAGES))
                    }
                    // Fresh whole pages need nothing: the kernel maps them at the first touch.
                    Shape::Pages { .. } => None,
                };
                Taken::Item { area: fresh.area, index, used: false, populate }
            }
            Some(_) | None => Taken::Full { next_bytes: self.key.area_bytes(self.areas.len()) },
        }
    }

    /// A new area of this slab.
    pub(crate) fn add(&mut self, record: AreaRecord) {
        // Another thread may have added one meanwhile: what is left of it is kept.
        if let Some(fresh) = self.fresh.take() {
            let rest = (fresh.next..fresh.items).map(|index| (fresh.area, index));
            self.free.extend(rest);
        }
        let area = record.area.id;
        self.areas.push(area);
        self.fresh = Some(Fresh {
            area,
            items: u32::try_from(record.items.count).unwrap_or(u32::MAX),
            next: 0,
            pages: u32::try_from(record.area.bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX),
            populated: 0,
        });
    }

    /// An item is free again.
    pub(super) fn give(&mut self, area: AreaId, index: u32) {
        self.free.push((area, index));
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

    const SEQUENTIAL: Consistency = Consistency::Sequential;

    fn single(bytes: usize) -> SlabKey {
        SlabKey::new(bytes, 1, SEQUENTIAL)
    }

    #[test]
    fn sizes_of_which_equally_many_fit_a_page_share_a_slab() {
        assert_eq!(single(672), single(680));
        assert_eq!(single(672).shape().views(), 6);
        assert_eq!(single(1), single(8));
        assert_eq!(single(4097).shape(), Shape::Pages { pages: 2 });
    }

    #[test]
    fn a_chunk_is_one_minipage() {
        assert_eq!(SlabKey::new(672, 4, SEQUENTIAL).shape().views(), 1);
        assert_eq!(SlabKey::new(64, 4, SEQUENTIAL).shape().views(), 16);
    }

    #[test]
    fn unlike_consistencies_have_slabs_of_their_own() {
        let keys = Consistency::ALL.map(|each| SlabKey::new(64, 1, each));
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
            (148, 152, 26),
            (2048, 2048, 2),
            (2049, 4096, 1),
            (4096, 4096, 1),
        ] {
            let key = SlabKey::paged(bytes, Consistency::LazyRelease);
            assert_eq!((key.shape(), key.span()), (page, 1), "{bytes}");
            let items = Items { bytes: item, count: 16 * u64::from(chunk), chunk, array: false };
            assert_eq!(key.items(key.area_bytes(0)), items, "{bytes}");
            assert_eq!(items.span(page), 1, "{bytes}");
        }
    }

    #[test]
    fn large_items_of_a_paged_slab_have_several_minipages() {
        let key = SlabKey::paged(9000, Consistency::EagerRelease);
        assert_eq!((key.shape(), key.span()), (Shape::Pages { pages: 1 }, 3));
        let items = key.items(key.area_bytes(0));
        assert_eq!((items.bytes, items.count, items.chunk), (3 * 4096, 16, 1));
        assert_eq!(items.span(key.shape()), 3);
        assert_ne!(key, SlabKey::new(9000, 1, Consistency::EagerRelease));
    }

    #[test]
    fn any_chunking_level_has_a_shape() {
        let largest = SlabKey::new(64 << 10, u32::MAX, SEQUENTIAL);
        assert_eq!(largest.span(), 1);
        assert_eq!(largest.shape(), Shape::Pages { pages: u32::MAX });
    }
}
