//! Node 0's registry of addresses: which addresses of the views and which shared bytes belong to which area, until it is given
//! back.

use std::collections::BTreeMap;

use multigrain_memory::{Area, MAX_AREAS, VIEW_ALIGN, VIEWS_BASE, VIEWS_END};
use multigrain_protocol::NodeSet;
use multigrain_types::AreaId;

use super::free_ranges::Ranges;
use crate::error::Error;
use crate::frames::Asker;

/// Node 0's registry of addresses.
#[derive(Debug)]
pub(crate) struct Places {
    next_id: u32,
    /// What no area has: of the views' addresses and of the shared bytes.
    addresses: Ranges,
    bytes: Ranges,
    pub(super) announced: BTreeMap<u32, Announced>,
}

/// An area that not all nodes have mapped yet, or retired.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) asker: Asker,
    pub(super) missing: NodeSet,
    pub(super) code: i32,
    pub(super) stage: Stage,
}

/// What the nodes that are missing are to do with an area.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Map it; these have.
    Map(Area, NodeSet),
    /// Take it away, though it is new: another node could not map it. Who asked for it gets this code.
    TakeBack(Area, i32),
    /// Who has made it takes it away: that knows whether it may. Then the others.
    RetireAtOwner(Area),
    Retire(Area),
}

/// Why the directory has no place for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The shared size or the address space is used up.
    Bytes,
    /// There have been as many areas as there can be.
    Areas,
}

impl NoPlace {
    /// The code the asker gets.
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Bytes => Error::NoMemory(String::new()).code(),
            Self::Areas => Error::Limit(String::new()).code(),
        }
    }

    /// What node 0's stderr says; of bytes the asker itself knows how many there can be.
    pub(super) const fn line(self) -> Option<&'static str> {
        match self {
            Self::Bytes => None,
            Self::Areas => Some(
                "the job has made 16,777,216 areas, the limit: make fewer and larger allocations",
            ),
        }
    }
}

impl Default for Places {
    fn default() -> Self {
        let addresses = Ranges::of(VIEWS_BASE as u64..VIEWS_END as u64);
        Self { next_id: 0, addresses, bytes: Ranges::of(0..u64::MAX), announced: BTreeMap::new() }
    }
}

/// Addresses of an area's views, up to where the next one may begin.
fn span(bytes: u64, views: u64) -> Option<u64> {
    bytes.checked_mul(views)?.checked_next_multiple_of(VIEW_ALIGN as u64)
}

impl Places {
    /// Places an area of `bytes` and `views`, as low as it fits; the shared size, the address space and
    /// the number of areas are limits.
    pub(super) fn place(
        &mut self,
        bytes: u64,
        views: u64,
        shared_bytes: u64,
    ) -> Result<(AreaId, usize, u64), NoPlace> {
        if self.next_id as usize >= MAX_AREAS {
            return Err(NoPlace::Areas);
        }
        let span = span(bytes, views).ok_or(NoPlace::Bytes)?;
        let offset = self.bytes.take(bytes, shared_bytes).ok_or(NoPlace::Bytes)?;
        let base = self.addresses.take(span, u64::MAX);
        let Some(base) = base.and_then(|base| usize::try_from(base).ok()) else {
            self.bytes.give(offset..offset + bytes);
            return Err(NoPlace::Bytes);
        };
        let id = AreaId(self.next_id);
        self.next_id += 1;
        Ok((id, base, offset))
    }

    /// The place of an area is free for others.
    pub(super) fn give(&mut self, area: &Area) {
        let base = area.base as u64;
        if let Some(span) = span(area.bytes, area.shape.views().into()) {
            self.addresses.give(base..base + span);
            self.bytes.give(area.file_offset..area.file_offset + area.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_memory::Shape;

    #[test]
    fn the_directory_refuses_what_exceeds_the_shared_size_and_goes_on() {
        let mut places = Places::default();
        let (first, base, offset) = places.place(4096, 64, 1 << 20).unwrap();
        assert_eq!((first, base, offset), (AreaId(0), VIEWS_BASE, 0));
        assert_eq!(places.place(1 << 20, 1, 1 << 20), Err(NoPlace::Bytes));
        let (second, base, offset) = places.place(8192, 1, 1 << 20).unwrap();
        assert_eq!((second, base, offset), (AreaId(1), VIEWS_BASE + VIEW_ALIGN, 4096));
    }

    #[test]
    fn what_is_given_back_is_placed_again_whatever_its_shape() {
        let mut places = Places::default();
        let area = |bytes, per_page, (id, base, file_offset)| {
            let shape = Shape::Sub { slot: 4096 / u32::from(per_page), per_page };
            Area { id, base, file_offset, bytes, shape }
        };
        let first = area(4096, 64, places.place(4096, 64, 1 << 20).unwrap());
        let second = area(1 << 19, 8, places.place(1 << 19, 8, 1 << 20).unwrap());
        places.place(4096, 1, 1 << 20).unwrap();
        assert_eq!(places.place(1 << 19, 1, 1 << 20), Err(NoPlace::Bytes));
        places.give(&first);
        places.give(&second);
        let (id, base, offset) = places.place((1 << 19) + 4096, 1, 1 << 20).unwrap();
        assert_eq!((id, base, offset), (AreaId(3), VIEWS_BASE, 0), "as one");
    }

    #[test]
    fn the_directory_places_as_many_areas_as_nodes_can_map_and_names_that_limit() {
        let mut places = Places { next_id: (1 << 24) - 1000, ..Places::default() };
        for index in (1_u32 << 24) - 1000..1 << 24 {
            let (id, base, file_offset) = places.place(4096, 1, 1 << 40).unwrap();
            assert_eq!(id, AreaId(index));
            let shape = Shape::Pages { pages: 1 };
            places.give(&Area { id, base, file_offset, bytes: 4096, shape });
        }
        assert_eq!(places.place(4096, 1, 1 << 40), Err(NoPlace::Areas));
        assert_eq!(NoPlace::Areas.code(), -7);
        let line = NoPlace::Areas.line().unwrap();
        assert!(line.contains("16,777,216 areas") && MAX_AREAS == 16_777_216, "{line}");
    }
}
