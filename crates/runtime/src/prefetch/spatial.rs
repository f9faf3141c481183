//! Spatial prefetch: minipages of a page that a thread reads one after the other are fetched together
//! (ADR 12).
//!
//! Fine minipages save bytes where a node wants few of a page, and cost messages where it wants all. Under `auto`
//! consistency with a grain below a page the runtime finds out which. A thread that has to fetch a second minipage of a page to read it
//! *scans* that page: it asks at once for the other minipages of it that are not
//! here. As long as it goes on with the next page, it asks for those of that page and of pages behind it, each
//! time twice as many ([`super::page_scans`]), at most [`MOST`] minipages at a time. The requests to one node are one
//! message, and so are the answers. Each minipage may have a lock of its own in the program: that changes
//! nothing, since with the first lock all earlier holders have published their writes. One that is read again and
//! again, because others write it, begins no scan.
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
                Wanted::Run(Run::one(minipage), minipage, None),
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

    #[test]
    fn a_scan_asks_for_what_lies_ahead_first() {
        let page = Page { number: 1, minipages: 12..18 };
        assert!(page.others(15, 1).eq([16, 17, 12, 13, 14]));
        assert!(page.others(15, 2).eq([16, 17, 18, 19, 20, 21, 22, 23, 12, 13, 14]));
        assert!(page.others(12, 1).eq(13..18) && page.others(17, 1).eq(12..17));
    }
}
