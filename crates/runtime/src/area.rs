//! An area: a range of shared memory of one shape, owner and consistency, as all nodes know it.

use multigrain_memory::{Area, Shape};
use multigrain_protocol::Homes;
use multigrain_types::{AreaId, Compression, Consistency, NodeId, PAGE_BYTES, Placement};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What an area consists of, from the allocator's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Items {
    /// Bytes of one item.
    pub(crate) bytes: u64,
    /// Items in the area.
    pub(crate) count: u64,
    /// Items that share a minipage (chunking level, Millipage 4.4).
    pub(crate) chunk: u32,
    /// Whether they are one array, not allocations of their own.
    pub(crate) array: bool,
}

/// How an area came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An allocator's: its minipages are managed as the job has it.
    Heap,
    /// A named segment.
    Named(NamedSharing),
}

/// How a named segment is shared, beside its consistency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedSharing {
    /// Who manages its minipages.
    pub(crate) placement: Placement,
    /// How their contents are sent.
    pub(crate) compression: Compression,
}

/// An area as all nodes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AreaRecord {
    pub(crate) area: Area,
    /// The allocating node: first holder of every minipage.
    pub(crate) owner: NodeId,
    pub(crate) items: Items,
    /// What all its minipages promise, and so which protocol keeps them.
    pub(crate) consistency: Consistency,
    pub(crate) origin: Origin,
}

/// The item that holds an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) base: usize,
    pub(crate) bytes: usize,
    /// Its number in the array it is part of, and how many there are.
    pub(crate) element: Option<(usize, u64)>,
}

/// A request for an area, and its announcement, on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AreaBody {
    id: u32,
    owner: u16,
    base: u64,
    file_offset: u64,
    bytes: u64,
    slot: u32,
    per_page: u16,
    pages: u32,
    items: Items,
    /// Its place in the list of consistencies, from 0.
    consistency: u8,
    /// 0, or of a named segment the place of its placement in [`PLACEMENTS`], from 1, and for its compression as many
    /// more as there are of them for each place in [`Compression::ALL`].
    origin: u8,
}

/// As their numbers on the wire have them.
const PLACEMENTS: [Placement; 4] =
    [Placement::First, Placement::Spread, Placement::Block, Placement::Allocator];

impl Origin {
    fn number(self) -> u8 {
        match self {
            Self::Heap => 0,
            Self::Named(sharing) => {
                let known = Self::all().zip(1..).find(|(one, _)| *one == sharing);
                known.map_or(0, |(_, number)| number)
            }
        }
    }

    /// None of a number that stands for nothing.
    fn of(number: u8) -> Option<Self> {
        match number.checked_sub(1) {
            None => Some(Self::Heap),
            Some(place) => Self::all().nth(place.into()).map(Self::Named),
        }
    }

    /// What there is for named segments, in the order of its numbers.
    fn all() -> impl Iterator<Item = NamedSharing> {
        Compression::ALL.into_iter().flat_map(|compression| {
            PLACEMENTS.into_iter().map(move |placement| NamedSharing { placement, compression })
        })
    }
}

impl Items {
    /// Minipages an item takes: one, unless it is larger than a minipage of whole pages.
    pub(crate) fn span(&self, shape: Shape) -> u64 {
        match shape {
            Shape::Pages { pages } if self.chunk == 1 => {
                self.bytes.div_ceil(u64::from(pages) * PAGE_BYTES as u64)
            }
            Shape::Pages { .. } | Shape::Sub { .. } => 1,
        }
    }

    /// Whether they fit an area, so that no later arithmetic about them leaves it.
    fn fit(&self, area: &Area) -> bool {
        let Self { bytes, count, chunk, .. } = *self;
        let room = bytes.checked_mul(count).is_some_and(|all| all <= area.bytes);
        let minipages = |chunk: u32| {
            let chunks = count.div_ceil(chunk.into());
            chunks.checked_mul(self.span(area.shape))
        };
        room && bytes > 0
            && chunk > 0
            && minipages(chunk).is_some_and(|all| all <= u64::from(area.minipages()))
    }
}

impl AreaRecord {
    /// Address of item `index`: its first minipage, and its place in the chunk.
    pub(crate) fn item_address(&self, index: usize) -> usize {
        let (chunk_index, in_chunk) = match self.items.chunk as usize {
            1 => (index, 0),
            chunk => (index / chunk, index % chunk),
        };
        let minipage = chunk_index as u64 * self.items.span(self.area.shape);
        let minipage = u32::try_from(minipage).unwrap_or(u32::MAX);
        let within = usize::try_from(self.items.bytes).unwrap_or(0) * in_chunk;
        self.area.address(minipage) + within
    }

    /// The item that a byte of a minipage belongs to.
    pub(crate) fn item_of(&self, minipage: u32, offset: usize) -> Item {
        let items = &self.items;
        let bytes = usize::try_from(items.bytes).unwrap_or(usize::MAX);
        let chunk = items.chunk as usize;
        let span = usize::try_from(items.span(self.area.shape)).unwrap_or(usize::MAX).max(1);
        let first = minipage as usize / span * chunk;
        let within = if chunk > 1 { (offset / bytes).min(chunk - 1) } else { 0 };
        let index = first + within;
        let element = items.array.then_some((index, items.count));
        Item { base: self.item_address(index), bytes, element }
    }

    /// The item that begins at an address of the area, and its first minipage; None if none does.
    pub(crate) fn item_at(&self, address: usize) -> Option<(u32, u32)> {
        let (minipage, offset) = self.area.locate_byte(address)?;
        let Items { bytes, chunk, .. } = self.items;
        if chunk == 1 {
            let span = u32::try_from(self.items.span(self.area.shape)).unwrap_or(u32::MAX);
            let begins = offset == 0 && minipage.is_multiple_of(span);
            return begins.then_some((minipage / span, minipage));
        }
        let (in_chunk, rest) = (offset as u64 / bytes, offset as u64 % bytes);
        let in_chunk = u32::try_from(in_chunk).ok().filter(|&nth| nth < chunk && rest == 0)?;
        Some((minipage.saturating_mul(chunk).saturating_add(in_chunk), minipage))
    }

    /// Whether as an area of one allocation it has room for `bytes`, and is not twice the size.
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        let own = self.area.bytes;
        own >= bytes && own / 2 < bytes.next_multiple_of(PAGE_BYTES as u64)
    }

    /// Bytes that the allocation that begins at an address may use; None if none does, or if it is an
    /// array, whose elements lie apart.
    pub(crate) fn usable_bytes(&self, address: usize) -> Option<usize> {
        self.item_at(address).filter(|_| !self.items.array)?;
        // An area of one allocation may have been used again by a larger one.
        let bytes = if self.items.count == 1 { self.area.bytes } else { self.items.bytes };
        usize::try_from(bytes).ok()
    }

    /// Bytes from an address to the end of the allocation it lies in, as far as they lie in one view: of
    /// an array of minipages that share pages, to the end of the element's minipage. None between
    /// allocations.
    pub(crate) fn bytes_from(&self, address: usize) -> Option<usize> {
        let minipage = self.area.locate(address)?;
        let one_view = matches!(self.area.shape, Shape::Pages { .. });
        let end = if one_view && (self.items.array || self.items.count == 1) {
            self.area.base + self.area.view_bytes()
        } else if self.items.array {
            self.area.address(minipage) + self.area.minipage_bytes(minipage)
        } else {
            let bytes = usize::try_from(self.items.bytes).ok()?;
            let chunk = self.items.chunk as usize;
            let first_minipage = u64::from(minipage) / self.items.span(self.area.shape);
            let first = usize::try_from(first_minipage).ok()? * chunk;
            // The vpage begins before its minipage does.
            let within = address.checked_sub(self.item_address(first))? / bytes;
            (within < chunk).then(|| self.item_address(first + within) + bytes)?
        };
        end.checked_sub(address).filter(|&left| left > 0)
    }

    /// As it goes over the wire.
    ///
    /// # Errors
    /// None that is known: what a serializer may say.
    pub(crate) fn to_bytes(self) -> Result<Vec<u8>, Error> {
        postcard::to_allocvec(&AreaBody::from_record(&self))
            .map_err(|error| Error::System(error.to_string()))
    }

    /// From the wire; none if a number stands for nothing.
    pub(crate) fn from_bytes(body: &[u8]) -> Option<Self> {
        postcard::from_bytes::<AreaBody>(body).ok().and_then(AreaBody::to_record)
    }

    /// Whether an area that came over the wire makes sense here.
    pub(crate) fn is_sound(&self, nodes: u16) -> bool {
        self.area.validate().is_ok() && self.owner.0 < nodes && self.items.fit(&self.area)
    }

    /// Whether it is what was asked for, in some place.
    pub(crate) fn is_wish(&self, wish: &Self) -> bool {
        let Area { bytes, shape, .. } = wish.area;
        let area = Area { bytes, shape, ..self.area };
        *self == Self { area, ..*wish }
    }

    /// How its contents are sent.
    pub(crate) fn compression(&self) -> Compression {
        match self.origin {
            Origin::Heap => Compression::None,
            Origin::Named(sharing) => sharing.compression,
        }
    }

    /// Whether it is a named segment.
    pub(crate) fn is_named(&self) -> bool {
        self.origin != Origin::Heap
    }

    /// Whether the kernel may be left to find what homes write: their minipages are whole pages, homes
    /// migrate at barriers only, and no thread is ever detached from them.
    pub(crate) fn is_trackable(&self) -> bool {
        matches!(self.area.shape, Shape::Pages { .. })
            && !self.is_named()
            && Homes::of(self.consistency) == Homes::Migratory
    }
}

impl AreaBody {
    fn from_record(record: &AreaRecord) -> Self {
        let Area { id, base, file_offset, bytes, shape } = record.area;
        let (slot, per_page, pages) = match shape {
            Shape::Sub { slot, per_page } => (slot, per_page, 0),
            Shape::Pages { pages } => (0, 0, pages),
        };
        Self {
            id: id.0,
            owner: record.owner.0,
            base: base as u64,
            file_offset,
            bytes,
            slot,
            per_page,
            pages,
            items: record.items,
            consistency: record.consistency as u8,
            origin: record.origin.number(),
        }
    }

    /// None if a number stands for nothing.
    fn to_record(self) -> Option<AreaRecord> {
        let shape = if self.pages == 0 {
            Shape::Sub { slot: self.slot, per_page: self.per_page }
        } else {
            Shape::Pages { pages: self.pages }
        };
        let area = Area {
            id: AreaId(self.id),
            base: usize::try_from(self.base).ok()?,
            file_offset: self.file_offset,
            bytes: self.bytes,
            shape,
        };
        let known = |&consistency: &Consistency| consistency as u8 == self.consistency;
        let consistency = Consistency::ALL.into_iter().find(known)?;
        let origin = Origin::of(self.origin)?;
        Some(AreaRecord { area, owner: NodeId(self.owner), items: self.items, consistency, origin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_memory::VIEWS_BASE;

    #[test]
    fn an_area_whose_items_or_owner_or_place_make_no_sense_is_not_sound() {
        let shape = Shape::Sub { slot: 1024, per_page: 4 };
        let area = Area { id: AreaId(3), base: VIEWS_BASE, file_offset: 4096, bytes: 8192, shape };
        let items = Items { bytes: 1024, count: 8, chunk: 1, array: true };
        let consistency = Consistency::Sequential;
        let good = AreaRecord { area, owner: NodeId(1), items, consistency, origin: Origin::Heap };
        assert!(good.is_sound(2));
        let with_items = |items| AreaRecord { items, ..good };
        for wrong in [
            with_items(Items { chunk: 0, ..items }),
            with_items(Items { bytes: 0, ..items }),
            with_items(Items { count: 9, ..items }),
            with_items(Items { bytes: u64::MAX, count: 2, ..items }),
            AreaRecord { owner: NodeId(2), ..good },
            AreaRecord { area: Area { bytes: 8000, ..area }, ..good },
            AreaRecord { area: Area { base: 4096, ..area }, ..good },
            AreaRecord { area: Area { shape: Shape::Pages { pages: 0 }, ..area }, ..good },
            AreaRecord {
                area: Area { shape: Shape::Sub { slot: 0, per_page: 0 }, ..area },
                ..good
            },
        ] {
            assert!(!wrong.is_sound(2), "{wrong:?}");
        }
    }

    #[test]
    fn items_of_several_minipages_have_to_fit_with_all_of_them() {
        let shape = Shape::Pages { pages: 1 };
        let area = Area { id: AreaId(3), base: VIEWS_BASE, file_offset: 0, bytes: 6 * 4096, shape };
        let items = Items { bytes: 5000, count: 3, chunk: 1, array: true };
        assert_eq!(items.span(shape), 2);
        assert_eq!(items.span(Shape::Pages { pages: 2 }), 1);
        assert!(items.fit(&area));
        // Four would fit by their bytes, but not in eight minipages.
        assert!(!Items { count: 4, ..items }.fit(&area));
        assert!(
            !Items { bytes: 4 * 4096 + 1, count: 1, ..items }
                .fit(&Area { bytes: 4 * 4096, ..area })
        );
    }

    #[test]
    fn the_consistency_of_an_area_crosses_the_wire_and_an_unknown_one_is_refused() {
        let shape = Shape::Pages { pages: 1 };
        let area = Area { id: AreaId(3), base: VIEWS_BASE, file_offset: 0, bytes: 8192, shape };
        let items = Items { bytes: 64, count: 128, chunk: 64, array: false };
        for consistency in Consistency::ALL {
            let record =
                AreaRecord { area, owner: NodeId(1), items, consistency, origin: Origin::Heap };
            let body = postcard::to_allocvec(&AreaBody::from_record(&record)).unwrap();
            let received: AreaBody = postcard::from_bytes(&body).unwrap();
            assert_eq!(received.to_record(), Some(record));
            let unknown = AreaBody { consistency: received.consistency + 4, ..received };
            assert_eq!(unknown.to_record(), None);
        }
    }

    #[test]
    fn a_named_segment_crosses_the_wire_with_its_placement_and_compression() {
        let named = Origin::all().map(Origin::Named);
        for (number, origin) in (0..).zip([Origin::Heap].into_iter().chain(named)) {
            assert_eq!((origin.number(), Origin::of(number)), (number, Some(origin)));
        }
        assert_eq!(
            Origin::of(16),
            Some(Origin::Named(NamedSharing {
                placement: Placement::Allocator,
                compression: Compression::Zstd,
            }))
        );
        assert_eq!(Origin::of(17), None);
    }
}
