//! What a program may ask of an allocation, and how an array is cut into minipages accordingly.

use multigrain_memory::Shape;
use multigrain_types::{Consistency, PAGE_BYTES};

use crate::area::Items;

/// What an allocation shall be like: its consistency, and its grain, the bytes of a minipage.
/// Allocations of unlike consistency never share a page.
///
/// Without a grain it is the natural one of the consistency:
/// - Sequential: fine, for a writer takes the whole minipage away from everybody else. An
///   allocation of up to a page is one minipage (or so many share one as the chunking level says),
///   a larger one is cut into pages. An element of an array is one minipage, however large.
/// - Eager release, lazy release and auto: pages, for many nodes may write one at a time, and what
///   a release costs grows with the minipages written. Allocations of up to half a page share a
///   minipage of one page with others of their size class; larger ones begin a page, and each page
///   is a minipage. Elements of an array up to a page fill a minipage of one page, as many as fit;
///   larger ones begin a page, and each page is a minipage. The chunking level is not heeded.
///
/// With a grain, whatever the consistency:
/// - An allocation of no more than the grain is a minipage of its own. A larger one is cut into
///   minipages of the grain, rounded up to whole pages.
/// - As many neighbouring elements of an array share a minipage as fit into the grain, at least
///   one. Elements above half a page that are larger than the grain are cut into minipages of it,
///   rounded up to whole pages. The chunking level is not heeded.
/// - Of release consistent memory a minipage is at most 512 KiB, whatever the grain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Policy {
    /// What the program relies on; `None`: as the job has it (`multigrain run --consistency`).
    pub consistency: Option<Consistency>,
    /// Bytes of a minipage, not 0; `None`: the natural grain.
    pub grain: Option<usize>,
}

impl Policy {
    /// The job's consistency at its natural grain: what allocations get that ask for nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { consistency: None, grain: None }
    }

    /// The same with this consistency.
    #[must_use]
    pub const fn consistency(self, consistency: Consistency) -> Self {
        Self { consistency: Some(consistency), ..self }
    }

    /// The same with minipages of so many bytes.
    #[must_use]
    pub const fn grain(self, bytes: usize) -> Self {
        Self { grain: Some(bytes), ..self }
    }
}

/// Largest minipage of release consistent memory, bytes: a diff of all of it is one frame, which its
/// receiver keeps in memory until it is merged.
const LARGEST_RELAXED_BYTES: usize = 512 << 10;

/// The grain that an asked one stands for.
pub(super) fn bounded(grain: usize, consistency: Consistency) -> usize {
    if consistency.is_sequential() { grain } else { grain.min(LARGEST_RELAXED_BYTES) }
}

/// Whether the natural minipage of an allocation of `bytes` is a page.
pub(super) const fn is_paged(consistency: Consistency, bytes: usize) -> bool {
    !consistency.is_sequential() || bytes > PAGE_BYTES
}

/// An array cut into minipages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrayCut {
    pub(super) shape: Shape,
    pub(super) items: Items,
    /// Bytes of the area, whole pages.
    pub(super) area_bytes: u64,
}

impl ArrayCut {
    /// `count` elements of `bytes` (neither is 0) of a consistency, with a grain or at a chunking
    /// level; None beyond all numbers.
    pub(super) fn new(
        (count, bytes): (usize, usize),
        grain: Option<usize>,
        consistency: Consistency,
        level: u32,
    ) -> Option<Self> {
        let paged = grain.is_none() && !consistency.is_sequential();
        let grain = grain.map(|bytes| bounded(bytes, consistency));
        let grain = if paged { Some(PAGE_BYTES) } else { grain };
        let together = grain.map_or(level as usize, |grain| grain / bytes);
        let chunk = u32::try_from(together.clamp(1, count)).unwrap_or(u32::MAX);
        let minipage = bytes.checked_mul(chunk as usize)?;
        let shape = match Shape::sub_for(minipage, natural_alignment(bytes)) {
            Some(shape) if !paged => shape,
            Some(_) | None => {
                let longest = minipage.min(grain.unwrap_or(usize::MAX));
                Shape::Pages { pages: u32::try_from(longest.div_ceil(PAGE_BYTES)).ok()? }
            }
        };
        let items = Items { bytes: bytes as u64, count: count as u64, chunk, array: true };
        let chunks = items.count.div_ceil(chunk.into());
        let minipages = chunks.checked_mul(items.span(shape))?;
        let pages = match shape {
            Shape::Sub { per_page, .. } => minipages.div_ceil(per_page.into()),
            Shape::Pages { pages } => minipages.checked_mul(pages.into())?,
        };
        Some(Self { shape, items, area_bytes: pages.checked_mul(PAGE_BYTES as u64)? })
    }
}

/// The largest power of two that divides a size, at least 4 and at most a cache line: elements of a
/// C array are aligned no better.
fn natural_alignment(bytes: usize) -> usize {
    (1 << bytes.trailing_zeros()).clamp(4, 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Shape = Shape::Pages { pages: 1 };

    fn cut(elements: (usize, usize), policy: Policy, level: u32) -> ArrayCut {
        let consistency = policy.consistency.unwrap_or_default();
        ArrayCut::new(elements, policy.grain, consistency, level).unwrap()
    }

    #[test]
    fn a_sequential_array_has_a_minipage_for_each_element_or_chunk() {
        let fine = cut((100, 148), Policy::new(), 1);
        assert_eq!((fine.shape.views(), fine.items.chunk, fine.area_bytes), (27, 1, 4 * 4096));
        let chunked = cut((100, 64), Policy::new(), 4);
        assert_eq!((chunked.shape.views(), chunked.items.chunk), (16, 4));
        let large = cut((3, 6000), Policy::new(), 1);
        assert_eq!((large.shape, large.area_bytes), (Shape::Pages { pages: 2 }, 6 * 4096));
    }

    #[test]
    fn a_release_consistent_minipage_fits_a_frame() {
        let policy = Policy::new().grain(usize::MAX);
        let whole = cut((1, 3 << 20), policy, 1);
        assert_eq!(whole.shape, Shape::Pages { pages: 768 });
        let parts = cut((1, 3 << 20), policy.consistency(Consistency::LazyRelease), 1);
        assert_eq!(parts.shape, Shape::Pages { pages: 128 });
        assert_eq!(bounded(4096, Consistency::EagerRelease), 4096);
    }

    #[test]
    fn elements_of_a_release_consistent_array_fill_pages() {
        for consistency in [Consistency::EagerRelease, Consistency::LazyRelease, Consistency::Auto]
        {
            let policy = Policy::new().consistency(consistency);
            let small = cut((100, 72), policy, 3);
            assert_eq!((small.shape, small.items.chunk, small.area_bytes), (PAGE, 56, 2 * 4096));
            let few = cut((4, 64), policy, 1);
            assert_eq!((few.shape, few.items.chunk, few.area_bytes), (PAGE, 4, 4096));
            let large = cut((3, 6000), policy, 1);
            assert_eq!((large.shape, large.items.chunk, large.area_bytes), (PAGE, 1, 6 * 4096));
            assert_eq!(large.items.span(large.shape), 2);
        }
    }

    #[test]
    fn a_grain_says_how_many_elements_share_a_minipage() {
        let lazy = Policy::new().consistency(Consistency::LazyRelease);
        for policy in [Policy::new(), lazy] {
            let own = cut((100, 64), policy.grain(64), 9);
            assert_eq!((own.shape.views(), own.items.chunk), (64, 1));
            let pairs = cut((100, 64), policy.grain(191), 9);
            assert_eq!((pairs.shape.views(), pairs.items.chunk), (32, 2));
            let many = cut((1000, 64), policy.grain(8192), 9);
            assert_eq!((many.shape, many.items.chunk), (Shape::Pages { pages: 2 }, 128));
            let whole = cut((1000, 64), policy.grain(usize::MAX), 9);
            assert_eq!((whole.shape, whole.items.chunk), (Shape::Pages { pages: 16 }, 1000));
        }
    }

    #[test]
    fn elements_beyond_the_grain_are_cut_unless_they_are_small() {
        let small = cut((100, 64), Policy::new().grain(1), 1);
        assert_eq!((small.shape.views(), small.items.chunk), (64, 1));
        let large = cut((3, 20_000), Policy::new().grain(5000), 1);
        assert_eq!((large.shape, large.items.chunk), (Shape::Pages { pages: 2 }, 1));
        assert_eq!((large.items.span(large.shape), large.area_bytes), (3, 18 * 4096));
    }

    #[test]
    fn an_array_beyond_all_numbers_is_none() {
        let most = usize::MAX;
        for (count, bytes) in [(most, most), (most, 4096), (1, most), (2, most / 2 + 1)] {
            for consistency in Consistency::ALL {
                for grain in [None, Some(1), Some(most)] {
                    let cut = ArrayCut::new((count, bytes), grain, consistency, 1);
                    let bytes = cut.map_or(0, |cut| cut.area_bytes);
                    assert!(bytes == 0 || bytes > 1 << 50, "{count} of {bytes}: {cut:?}");
                }
            }
        }
    }
}
