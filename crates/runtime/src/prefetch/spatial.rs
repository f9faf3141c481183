//! Spatial prefetch: minipages of a page that a thread reads one after the other are fetched together
//! (ADR 12).
//!
//! Fine minipages save bytes where a node wants few of a page, and cost messages where it wants all. Under `auto`
//! consistency the runtime finds out which. A thread that has to fetch a second minipage of a page to read it
//! *scans* that page: it asks at once for the other minipages of it that are not
//! here. As long as it goes on with the next page, it asks for those of that page and of pages behind it, each
//! time twice as many, at most [`MOST_PAGES`] and [`MOST`] minipages at a time. The requests to one node are one
//! message, and so are the answers. Each minipage may have a lock of its own in the program: that changes
//! nothing, since with the first lock all earlier holders have published their writes. One that is read again and
//! again, because others write it, begins no scan. A thread follows [`MOST_SCANS`] scans at once.
//!
//! The protocol is the same: a wrong guess costs bytes, and may move a home (ADR 11).

use core::ops::Range;

use multigrain_memory::Shape;
use multigrain_protocol::{Cell as _, Homes, Input, Kind};
use multigrain_types::{Access, MinipageId, ThreadId};

use super::{in_use_together, scans_of_threads};
use crate::driver::Driver;
use crate::driver::fetch::{For, Wanted};
use crate::driver::steps::Batch;
use crate::minipage_run::Run;
use crate::receiver::slots::Slot;
use crate::state_tables::SharedTables;

/// Asked for at once, at most; a longer page is asked for in parts. A request and an answer each cost more
/// than the smallest minipages hold.
const MOST: usize = 64;

/// Pages that are asked for together, at most.
const MOST_PAGES: u64 = 4;

/// Scans that a thread may have under way: blocks of mixed sizes lie in as many pages as they have sizes.
const MOST_SCANS: usize = 16;

/// What a thread reads one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scan {
    /// The page it is expected at next.
    next: u64,
    /// How many pages before that one were asked for together; 0 if a single minipage of it was read.
    pages: u64,
    /// What it read last.
    last: MinipageId,
}

impl Scan {
    /// Whether a page is one of those asked for last, or the next.
    fn has(&self, page: u64) -> bool {
        (self.next - self.pages..=self.next).contains(&page)
    }
}

/// The scans of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scans([Option<Scan>; MOST_SCANS]);

impl Scans {
    pub(super) const NONE: Self = Self([None; MOST_SCANS]);

    /// The thread fetches a minipage of this page to read it: how many pages from this one on it is likely to
    /// read; 0 if it does not scan.
    pub(super) fn reads(&mut self, page: u64, minipage: MinipageId) -> u64 {
        let scan = self.take(page);
        let (next, pages, asked) = match scan {
            // The first of the page, or the same again: a lock was taken in between, and another node has written it.
            None => (page, 0, 0),
            Some(Scan { pages: 0, last, .. }) if minipage == last => (page, 0, 0),
            // The second minipage of the page.
            Some(Scan { pages: 0, .. }) => (page + 1, 1, 1),
            Some(Scan { next, pages, .. }) if page == next => {
                let asked = (2 * pages).min(MOST_PAGES);
                (page + asked, asked, asked)
            }
            // One that was left out.
            Some(Scan { next, pages, last }) if minipage > last => (next, pages, 1),
            // One that was read before: the scan, if it is one, begins again.
            Some(_) => (page, 0, 0),
        };
        self.0.rotate_right(1);
        self.0[0] = Some(Scan { next, pages, last: minipage });
        asked
    }

    /// Ends the scan that a page belongs to, if there is one.
    fn end(&mut self, page: u64) {
        if self.0.iter().flatten().any(|scan| scan.has(page)) {
            self.take(page);
        }
    }

    /// Takes the scan out that a page belongs to, or an unused one, or the one not used for longest.
    fn take(&mut self, page: u64) -> Option<Scan> {
        let found = self.0.iter().position(|scan| scan.is_some_and(|scan| scan.has(page)));
        let scan = found.and_then(|at| self.0[at].take());
        let free = self.0.iter().position(Option::is_none).unwrap_or(MOST_SCANS - 1);
        self.0[free..].rotate_left(1);
        self.0[MOST_SCANS - 1] = None;
        scan
    }
}

/// The page of an area that a minipage lies in, and all minipages of it.
pub(super) struct Page {
    /// Above 0, and neighbours have neighbouring numbers.
    number: u64,
    minipages: Range<u32>,
}

impl Page {
    /// The other minipages of this page and of the next `pages` - 1, those behind `index` first: a scan goes
    /// forwards.
    fn others(&self, index: u32, pages: u64) -> impl Iterator<Item = u32> {
        let Range { start, end } = self.minipages;
        let more = u32::try_from(pages.saturating_sub(1)).unwrap_or(0);
        let end = end.saturating_add(more.saturating_mul(end - start));
        (index + 1..end).chain(start..index)
    }
}

/// The page of a minipage that may have neighbours: it adapts, and pages of it hold several.
pub(super) fn page_of(tables: &SharedTables, minipage: MinipageId) -> Option<Page> {
    let record = tables.area(minipage.area())?.record;
    let Shape::Sub { per_page, .. } = record.area.shape else { return None };
    if Homes::of(record.consistency) != Homes::Dynamic {
        return None;
    }
    let per_page = u32::from(per_page);
    let page = minipage.index() / per_page;
    let first = page * per_page;
    let number = (u64::from(minipage.area().0) << 31 | u64::from(page)) + 1;
    Some(Page { number, minipages: first..first.saturating_add(per_page) })
}

/// Fetches a minipage of the page to read it, and what else of it is not here if the thread
/// scans; true if no message was needed.
pub(super) fn fetch(
    driver: &Driver,
    (thread, slot): (ThreadId, &Slot),
    minipage: MinipageId,
    page: &Page,
    for_: For,
) -> bool {
    let others = || {
        let pages =
            scans_of_threads::with((thread, slot), |of| of.scans.reads(page.number, minipage));
        let end = if pages == 0 { 0 } else { in_use_together(driver, minipage).end };
        let others = page.others(minipage.index(), pages).filter(move |&other| other < end);
        others.map(move |index| MinipageId::new(minipage.area(), index))
    };
    let at_once = fetch_together(driver, (thread, slot), (minipage, Kind::Read), others, for_);
    if driver.tables().lock(minipage).copy().is_exclusive() {
        // It was zero: nobody's data, and no reason to ask for more of it.
        scans_of_threads::with((thread, slot), |of| of.scans.end(page.number));
    }
    at_once
}

/// Fetches a minipage to write it, and what else is likely to be written and is not here, which is opened ahead; true
/// if no message was needed.
pub(super) fn fetch_to_write(
    driver: &Driver,
    (thread, slot): (ThreadId, &Slot),
    minipage: MinipageId,
    expected: &[Run],
    for_: For,
) -> bool {
    let others = || expected.iter().flat_map(|run| run.minipages());
    let at_once = fetch_together(driver, (thread, slot), (minipage, Kind::Write), others, for_);
    driver.open_ahead(expected);
    at_once
}

/// Fetches a minipage, and if a message is needed those of the others to be read that are not here.
fn fetch_together<Others: Iterator<Item = MinipageId>>(
    driver: &Driver,
    (thread, slot): (ThreadId, &Slot),
    (minipage, kind): (MinipageId, Kind),
    others: impl FnOnce() -> Others,
    for_: For,
) -> bool {
    let mut asked = Vec::new();
    let mut others = Some(others);
    let mut ask_for_others = |batch: Batch<'_>| {
        let missing = others.take().into_iter().flat_map(|others| others()).filter(|&other| {
            driver.tables().knows(other) && driver.tables().lock(other).access() == Access::NoAccess
        });
        asked.extend(missing.take(MOST));
        asked.iter().for_each(|&minipage| batch.step(Input::AwaitedPrefetch { minipage }));
    };
    let wanted = Wanted::With(minipage, &mut ask_for_others);
    let at_once = driver.fetch((thread, slot), wanted, kind, for_);
    // The thread that asks waits: a home may be on its way here.
    for minipage in asked {
        if !driver.tables().lock(minipage).copy().is_idle() {
            driver.fetch(
                (thread, slot),
                Wanted::Run(Run::one(minipage), minipage),
                Kind::Read,
                For::Later,
            );
        }
    }
    at_once
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// A minipage of a page of this number; pages of the tests have 100 each.
    fn minipage(page: u64, place: u64) -> MinipageId {
        MinipageId(page * 100 + place)
    }

    fn reads<const N: usize>(scans: &mut Scans, order: [(u64, u64); N]) -> [u64; N] {
        order.map(|(page, place)| scans.reads(page, minipage(page, place)))
    }

    #[test]
    fn a_thread_scans_from_the_second_minipage_of_a_page_on() {
        let scans = &mut { Scans::NONE };
        assert_eq!(reads(scans, [(7, 0), (7, 1)]), [0, 1], "the second");
        assert_eq!(reads(scans, [(8, 0), (10, 0), (14, 0), (18, 0)]), [2, 4, 4, 4]);
        assert_eq!(reads(scans, [(21, 3)]), [1], "one that was left out");
        assert_eq!(reads(scans, [(22, 0)]), [4], "which ends nothing");
        assert_eq!(reads(scans, [(90, 0)]), [0], "not of a page farther on");
        assert_eq!(reads(scans, [(90, 1), (89, 0)]), [1, 0], "and not backwards");
    }

    #[test]
    fn what_is_read_again_and_again_is_no_scan() {
        let scans = &mut { Scans::NONE };
        assert_eq!(reads(scans, [(7, 3), (7, 3), (7, 3)]), [0, 0, 0]);
        assert_eq!(reads(scans, [(7, 4)]), [1]);
        assert_eq!(reads(scans, [(7, 3), (7, 3), (7, 4)]), [0, 0, 1], "a scan begins again");
    }

    #[test]
    fn scans_of_many_pages_go_on_side_by_side_and_the_one_unused_for_longest_ends() {
        let scans = &mut { Scans::NONE };
        let many = MOST_SCANS as u64;
        for page in 1..=many {
            assert_eq!(reads(scans, [(page * 10, 0)]), [0]);
        }
        for page in 1..=many {
            assert_eq!(reads(scans, [(page * 10, 1), (page * 10 + 1, 0)]), [1, 2]);
        }
        assert_eq!(reads(scans, [(1000, 0), (13, 0)]), [0, 0], "the first one had to go");
        assert_eq!(reads(scans, [(33, 0), (1000, 1)]), [4, 1], "the third one did not");
        scans.end(5000);
        assert_eq!(reads(scans, [(43, 0)]), [4], "and the end of none ends none");
    }

    #[test]
    fn a_scan_asks_for_what_lies_ahead_first() {
        let page = Page { number: 1, minipages: 12..18 };
        assert!(page.others(15, 1).eq([16, 17, 12, 13, 14]));
        assert!(page.others(15, 2).eq([16, 17, 18, 19, 20, 21, 22, 23, 12, 13, 14]));
        assert!(page.others(12, 1).eq(13..18) && page.others(17, 1).eq(12..17));
    }
}
