//! Write-write false sharing under release consistency: which pages are fetched again because other nodes wrote them, though
//! they wrote other parts than this node does (`run --summary`).
//!
//! Role: a copy is kept of each page that this node loses, as it is then and as it is when it comes again. What differs between a loss and the
//! next fetch, others have written; what differs between a fetch and the next loss, this node has (ADR 36). A home of
//! lazy release loses nothing, and counts nothing.

#![expect(unsafe_code, reason = "page bytes are read from the privileged view")]

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::false_sharing::Refetches;
use multigrain_types::{AreaId, MinipageId};

use crate::platform::Platform;
use crate::shim::{Mutex, lock};

/// Contents that are kept; of the pages that a node loses beyond it, those lost first for the first time are forgotten.
pub(crate) const MOST_KEPT_BYTES: usize = 64 << 20;
/// What processors share by: what is written of a line counts as all of it.
pub(crate) const LINE_BYTES: usize = 64;
/// Parts of a page that are told apart, at most: in a larger one they are larger than a line.
const PARTS: usize = 64;

/// The pages that this node lost or got.
#[derive(Debug, Default)]
pub(crate) struct WriteSharing {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    by_minipage: BTreeMap<MinipageId, Page>,
    /// The same in the order in which they were kept.
    kept: VecDeque<MinipageId>,
    kept_bytes: usize,
    /// What was counted of pages that are not kept any more, of each allocation, with one of them.
    forgotten: BTreeMap<usize, (MinipageId, Refetches)>,
}

/// A page that this node has lost.
#[derive(Debug)]
struct Page {
    /// As it was when it came or went last.
    kept: Box<[u8]>,
    /// Parts that others wrote before it came, while it is here.
    others: u64,
    counts: Refetches,
}

/// The parts in which two contents of a page differ, a bit each.
fn differing(before: &[u8], now: &[u8]) -> u64 {
    let part = LINE_BYTES.max(before.len().div_ceil(PARTS));
    let parts = before.chunks(part).zip(now.chunks(part));
    parts.enumerate().fold(0, |bits, (at, (before, now))| bits | u64::from(before != now) << at)
}

/// The contents of a page that no thread of this node writes: it is closed, or not open yet, and contents that come for it are
/// in place before the step that opens it, which is the caller.
fn contents(minipage: MinipageId, platform: &Platform) -> &[u8] {
    let (page, len) = platform.memory().privileged(minipage);
    // SAFETY: the privileged view is readable for the length of the minipage.
    unsafe { core::slice::from_raw_parts(page.cast_const(), len) }
}

impl Page {
    /// One that this node loses for the first time.
    fn that_goes(now: &[u8]) -> Self {
        Self { kept: now.into(), others: 0, counts: Refetches::default() }
    }

    fn keep(&mut self, now: &[u8]) {
        if self.kept.len() == now.len() {
            self.kept.copy_from_slice(now);
        } else {
            self.kept = now.into();
        }
    }

    fn comes(&mut self, now: &[u8]) {
        self.others = differing(&self.kept, now);
        self.counts.all += u64::from(self.others != 0);
        self.keep(now);
    }

    fn goes(&mut self, now: &[u8]) {
        let others = core::mem::take(&mut self.others);
        let own = differing(&self.kept, now);
        self.counts.apart += u64::from(others != 0 && own != 0 && others & own == 0);
        self.keep(now);
    }
}

impl Pages {
    /// Keeps a page that goes for the first time.
    fn keep(
        &mut self,
        minipage: MinipageId,
        now: &[u8],
        most_bytes: usize,
        allocation_of: impl Fn(MinipageId) -> usize,
    ) {
        while self.kept_bytes + now.len() > most_bytes {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.forget(oldest, &allocation_of);
        }
        self.kept_bytes += now.len();
        self.kept.push_back(minipage);
        self.by_minipage.insert(minipage, Page::that_goes(now));
    }

    /// Keeps the counts of a page alone.
    fn forget(&mut self, minipage: MinipageId, allocation_of: impl Fn(MinipageId) -> usize) {
        let Some(page) = self.by_minipage.remove(&minipage) else { return };
        self.kept_bytes -= page.kept.len();
        if page.counts != Refetches::default() {
            let of = self.forgotten.entry(allocation_of(minipage));
            let (_, counts) = of.or_insert((minipage, Refetches::default()));
            counts.all += page.counts.all;
            counts.apart += page.counts.apart;
        }
    }

    /// The same of all pages of an area.
    fn forget_area(&mut self, id: AreaId, allocation_of: impl Fn(MinipageId) -> usize) {
        let all = core::mem::take(&mut self.kept);
        let (gone, kept): (VecDeque<_>, _) = all.into_iter().partition(|of| of.area() == id);
        self.kept = kept;
        gone.into_iter().for_each(|minipage| self.forget(minipage, &allocation_of));
    }
}

/// Where the allocation begins that a page is of; 0 if it is none any more.
fn allocation_of(minipage: MinipageId, platform: &Platform) -> usize {
    let area = platform.tables().area(minipage.area());
    area.map_or(0, |area| area.record.item_of(minipage.index(), 0).base)
}

impl WriteSharing {
    /// A page is about to be opened for this node; its lock is held.
    pub(crate) fn comes(&self, minipage: MinipageId, platform: &Platform) {
        let mut pages = lock(&self.pages);
        if let Some(page) = pages.by_minipage.get_mut(&minipage) {
            page.comes(contents(minipage, platform));
        }
    }

    /// A page has just been closed for this node; its lock is held. One that nobody has written goes to who touches it first.
    pub(crate) fn goes(&self, minipage: MinipageId, platform: &Platform) {
        let now = contents(minipage, platform);
        let mut pages = lock(&self.pages);
        if let Some(page) = pages.by_minipage.get_mut(&minipage) {
            page.goes(now);
        } else if now.iter().any(|&byte| byte != 0) {
            pages.keep(minipage, now, MOST_KEPT_BYTES, |of| allocation_of(of, platform));
        }
    }

    /// An area has nothing allocated any more, and its id is used by no other.
    pub(crate) fn forget_area(&self, id: AreaId, platform: &Platform) {
        lock(&self.pages).forget_area(id, |of| allocation_of(of, platform));
    }

    /// What is known of each page.
    pub(crate) fn counts(&self) -> Vec<(MinipageId, Refetches)> {
        let pages = lock(&self.pages);
        let kept = pages.by_minipage.iter().map(|(&minipage, page)| (minipage, page.counts));
        kept.chain(pages.forgotten.values().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 4096;

    /// Intervals in which others write these bytes of a page while it is away, and this node those after it has come.
    fn intervals(written: &[(&[usize], &[usize])]) -> Refetches {
        let mut now = vec![0u8; LEN];
        let mut page = Page::that_goes(&now);
        for &(others, own) in written {
            others.iter().for_each(|&at| now[at] += 1);
            page.comes(&now);
            own.iter().for_each(|&at| now[at] += 1);
            page.goes(&now);
        }
        page.counts
    }

    #[test]
    fn writes_of_parts_that_no_other_node_wrote_are_false_sharing() {
        let apart = (&[0, 2047][..], &[2048, 4095][..]);
        assert_eq!(intervals(&[apart; 3]), Refetches { all: 3, apart: 3 });
        let in_one_line = (&[0][..], &[63][..]);
        assert_eq!(intervals(&[in_one_line, apart]), Refetches { all: 2, apart: 1 });
    }

    #[test]
    fn what_is_read_or_was_not_written_by_others_is_none() {
        assert_eq!(intervals(&[(&[7], &[]), (&[7], &[])]), Refetches { all: 2, apart: 0 });
        assert_eq!(intervals(&[(&[], &[7]), (&[], &[7])]), Refetches::default());
        assert_eq!(intervals(&[]), Refetches::default());
    }

    #[test]
    fn beyond_the_bound_the_first_are_forgotten_and_their_counts_are_not() {
        let mut pages = Pages::default();
        let (now, one) = ([7; LEN], Refetches { all: 1, apart: 1 });
        for index in 0..10 {
            pages.keep(MinipageId(index), &now, 4 * LEN, |of| usize::from(of.0 >= 5));
            pages.by_minipage.get_mut(&MinipageId(index)).unwrap().counts = one;
        }
        assert_eq!(pages.by_minipage.keys().map(|page| page.0).collect::<Vec<_>>(), [6, 7, 8, 9]);
        assert_eq!(pages.kept_bytes, 4 * LEN);
        let forgotten: Vec<_> = pages.forgotten.values().copied().collect();
        let five = Refetches { all: 5, apart: 5 };
        assert_eq!(forgotten, [(MinipageId(0), five), (MinipageId(5), one)]);
    }

    #[test]
    fn of_an_area_that_has_gone_the_counts_are_kept_alone() {
        let mut pages = Pages::default();
        let at = |area, index| MinipageId::new(AreaId(area), index);
        for minipage in [at(1, 0), at(2, 0), at(1, 1)] {
            pages.keep(minipage, &[7; LEN], 4 * LEN, |_| 0);
            pages.by_minipage.get_mut(&minipage).unwrap().counts = Refetches { all: 2, apart: 1 };
        }
        pages.forget_area(AreaId(1), |_| 5);
        assert_eq!((pages.kept_bytes, &*pages.kept.make_contiguous()), (LEN, &[at(2, 0)][..]));
        let both = Refetches { all: 4, apart: 2 };
        assert_eq!(pages.forgotten.into_iter().collect::<Vec<_>>(), [(5, (at(1, 0), both))]);
    }

    #[test]
    fn parts_of_large_pages_are_larger_and_the_last_may_be_short() {
        let (before, mut now) = (vec![0; 512 << 10], vec![0; 512 << 10]);
        now[(512 << 10) - 1] = 1;
        assert_eq!(differing(&before, &now), 1 << 63);
        assert_eq!(differing(&[0; 100], &[1; 100]), 3);
    }
}
