//! Free ranges of numbers.

use core::ops::Range;
use std::collections::BTreeMap;

/// Free ranges by where they begin; none touches the next.
#[derive(Debug)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// One range.
    pub(super) fn of(range: Range<u64>) -> Self {
        Self(BTreeMap::from([(range.start, range.end)]))
    }

    /// Takes `count` numbers in a row, all below `limit`, the lowest there are; the first of them.
    pub(super) fn take(&mut self, count: u64, limit: u64) -> Option<u64> {
        let fits = |&(start, end): &(u64, u64)| {
            start.checked_add(count).is_some_and(|last| last <= end.min(limit))
        };
        let (start, end) = self.0.iter().map(|(&start, &end)| (start, end)).find(fits)?;
        self.0.remove(&start);
        if start + count < end {
            self.0.insert(start + count, end);
        }
        Some(start)
    }

    /// A range that was taken is free again.
    pub(super) fn give(&mut self, Range { mut start, mut end }: Range<u64>) {
        if let Some((&before, &its_end)) = self.0.range(..start).next_back()
            && its_end == start
        {
            start = before;
        }
        if let Some(after) = self.0.remove(&end) {
            end = after;
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = Ranges::of(10..100);
        assert_eq!((ranges.take(10, 100), ranges.take(20, 100)), (Some(10), Some(20)));
        assert_eq!((ranges.take(60, 99), ranges.take(60, 100)), (None, Some(40)));
        assert_eq!(ranges.take(1, 200), None);
        ranges.give(40..100);
        ranges.give(10..20);
        assert_eq!(ranges.0, BTreeMap::from([(10, 20), (40, 100)]));
        ranges.give(20..40);
        assert_eq!(ranges.0, BTreeMap::from([(10, 100)]));
    }

    #[test]
    fn the_lowest_that_fits_is_taken() {
        let mut ranges = Ranges::of(0..100);
        assert_eq!((ranges.take(5, 100), ranges.take(30, 100)), (Some(0), Some(5)));
        ranges.give(0..5);
        assert_eq!((ranges.take(6, 100), ranges.take(5, 100)), (Some(35), Some(0)));
        assert_eq!(ranges.take(u64::MAX, u64::MAX), None);
    }
}
