//! Node 0's books: which part of the views' addresses and of the shared bytes an area gets.

use std::collections::BTreeMap;

use multigrain_memory::{MAX_AREAS, VIEW_ALIGN, VIEWS_BASE, VIEWS_END};
use multigrain_protocol::NodeSet;
use multigrain_types::AreaId;

use crate::error::Error;
use crate::frames::Asker;

/// Node 0's books.
#[derive(Debug)]
pub(crate) struct Places {
    next_id: u32,
    next_base: usize,
    next_offset: u64,
    pub(super) announced: BTreeMap<u32, Announced>,
}

/// An area that not all nodes have mapped yet.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) asker: Asker,
    pub(super) missing: NodeSet,
    pub(super) code: i32,
}

/// Why the directory has no place for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The shared size or the address space is used up.
    Bytes,
    /// There are as many areas as there can be.
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
            Self::Areas => {
                Some("the job has 1,048,576 areas, the limit: make fewer and larger allocations")
            }
        }
    }
}

impl Default for Places {
    fn default() -> Self {
        Self { next_id: 0, next_base: VIEWS_BASE, next_offset: 0, announced: BTreeMap::new() }
    }
}

impl Places {
    /// Places an area of `bytes` and `views`; the shared size, the address space and the number of
    /// areas are limits.
    pub(super) fn place(
        &mut self,
        bytes: u64,
        views: u64,
        shared_bytes: u64,
    ) -> Result<(AreaId, usize, u64), NoPlace> {
        if self.next_id as usize >= MAX_AREAS {
            return Err(NoPlace::Areas);
        }
        let (base, file_offset) = (self.next_base, self.next_offset);
        let end = file_offset.checked_add(bytes).filter(|&end| end <= shared_bytes);
        let next = (|| {
            let span = usize::try_from(bytes.checked_mul(views)?).ok()?;
            base.checked_add(span)?.checked_next_multiple_of(VIEW_ALIGN)
        })();
        let (Some(end), Some(next)) = (end, next.filter(|&next| next <= VIEWS_END)) else {
            return Err(NoPlace::Bytes);
        };
        let id = AreaId(self.next_id);
        (self.next_id, self.next_base, self.next_offset) = (self.next_id + 1, next, end);
        Ok((id, base, file_offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    #[cfg_attr(miri, ignore = "a million areas")]
    fn the_directory_places_as_many_areas_as_nodes_can_map_and_names_that_limit() {
        let mut places = Places::default();
        for index in 0..1_u32 << 20 {
            let (id, ..) = places.place(4096, 1, 1 << 40).unwrap();
            assert_eq!(id, AreaId(index));
        }
        assert_eq!(places.place(4096, 1, 1 << 40), Err(NoPlace::Areas));
        assert_eq!(NoPlace::Areas.code(), -7);
        let line = NoPlace::Areas.line().unwrap();
        assert!(line.contains("1,048,576 areas") && MAX_AREAS == 1_048_576, "{line}");
    }
}
