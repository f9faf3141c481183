//! What a site counts of its processes' faults and of its segments' pages, for the summary.

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use multigrain_memory::{Export, MemoryError};
use multigrain_protocol::Kind;
use multigrain_types::site_usage::{SegmentUsage, SiteUsage};
use multigrain_types::{Access, AreaId, PAGE_BYTES};

use super::authority::Authority;

/// Segments that are counted each by itself: of more nothing is counted.
const MOST: usize = 4096;

/// The counts of this site.
#[derive(Debug, Default)]
pub(super) struct Usage(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Which segment an area is now.
    areas: BTreeMap<AreaId, i32>,
    segments: BTreeMap<i32, SegmentUsage>,
}

impl Usage {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An area is a segment's from now on.
    pub(super) fn begins(&self, area: AreaId, id: i32) {
        self.lock().areas.insert(area, id);
    }

    /// A process has trapped in an area.
    pub(super) fn fault(&self, area: Option<AreaId>, kind: Kind) {
        let mut counts = self.lock();
        if let Some(segment) = area.and_then(|area| counts.of(area)) {
            match kind {
                Kind::Read => segment.read_faults += 1,
                Kind::Write => segment.write_faults += 1,
            }
        }
    }

    fn changed(&self, area: AreaId, pages: u64, [from, to]: [Access; 2]) {
        let had = from != Access::NoAccess;
        let has = to != Access::NoAccess;
        if had == has {
            return;
        }
        if let Some(segment) = self.lock().of(area) {
            let count = if has { &mut segment.pages_fetched } else { &mut segment.pages_taken };
            *count += pages;
        }
    }

    /// What the launcher gets.
    pub(super) fn report(&self, authority: &Authority) -> SiteUsage {
        let sysv_segments = self.lock().segments.values().copied().collect();
        SiteUsage { sysv_segments, sysv_objects: authority.tally() }
    }
}

impl Counts {
    fn of(&mut self, area: AreaId) -> Option<&mut SegmentUsage> {
        let id = *self.areas.get(&area)?;
        if self.segments.len() >= MOST && !self.segments.contains_key(&id) {
            return None;
        }
        Some(self.segments.entry(id).or_insert(SegmentUsage { id, ..SegmentUsage::default() }))
    }
}

/// Exports whose changes are counted.
#[derive(Debug)]
pub(super) struct Counted<E> {
    exports: E,
    usage: Arc<Usage>,
}

impl<E: Export> Counted<E> {
    pub(super) fn new(exports: E, usage: Arc<Usage>) -> Self {
        Self { exports, usage }
    }
}

impl<E: Export> Export for Counted<E> {
    fn change(
        &self,
        area: AreaId,
        bytes: Range<u64>,
        contents: *mut u8,
        from_to: [Access; 2],
    ) -> Result<bool, MemoryError> {
        let pages = bytes.end.saturating_sub(bytes.start).div_ceil(PAGE_BYTES as u64);
        let changed = self.exports.change(area, bytes, contents, from_to)?;
        if changed {
            self.usage.changed(area, pages, from_to);
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_come_and_go_and_faults_are_counted_by_segment() {
        let (usage, area) = (Usage::default(), AreaId(3));
        usage.begins(area, 7);
        usage.fault(Some(area), Kind::Write);
        usage.fault(Some(AreaId(4)), Kind::Read);
        use Access::{NoAccess, ReadOnly, ReadWrite};
        for from_to in [
            [NoAccess, ReadOnly],
            [ReadOnly, ReadWrite],
            [ReadWrite, ReadOnly],
            [ReadOnly, NoAccess],
            [NoAccess, ReadWrite],
        ] {
            usage.changed(area, 2, from_to);
        }
        let counts = usage.lock();
        let expected = SegmentUsage {
            id: 7,
            read_faults: 0,
            write_faults: 1,
            pages_fetched: 4,
            pages_taken: 2,
        };
        assert_eq!(counts.segments.values().collect::<Vec<_>>(), [&expected]);
    }
}
