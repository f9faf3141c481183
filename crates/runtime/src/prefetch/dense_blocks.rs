//! Dense blocks: pages of an array that a thread faults on in no order are fetched together as soon as single faults have
//! cost what all that is missing would have (ADR 67).
//!
//! Scattered writes and reads through an index are no scans ([`super::streams`]). Whether a thread goes on to need the rest of
//! a block is not known; but fetched whole then, the block has cost at most twice what it costs who knows (the argument of
//! renting skis). So faults are counted for each block since the thread passed a barrier or acquired anything else: what an
//! acquire takes says nothing about how dense accesses are. Only under lazy release: under sequential and eager release
//! consistency a copy takes rights from a node that writes.

use core::ops::Range;

use multigrain_protocol::{Cell as _, Kind};
use multigrain_types::{MinipageId, PAGE_BYTES, ThreadId};

use super::block_faults::FEWEST;
use super::scans_of_threads::{self, ThreadScans};
use super::{RunBounds, is_coming, is_here, may_go_together};
use crate::driver::Driver;
use crate::minipage_run::{Run, runs_of};
use crate::receiver::critical_section;
use crate::receiver::slots::Slot;

/// Pages of a block, at most.
const PAGES: u32 = 256;

/// The pages around one that are counted together.
fn block_of(page: MinipageId, bounds: &RunBounds) -> Range<u32> {
    let start = page.index() / PAGES * PAGES;
    start.max(bounds.together.start)..start.saturating_add(PAGES).min(bounds.together.end)
}

/// The first page of the block.
fn first_of(page: MinipageId, block: &Range<u32>) -> MinipageId {
    MinipageId::new(page.area(), block.start)
}

/// A thread has to fetch a page that no scan foresaw: the rest of its block, if it is time to fetch that.
pub(super) fn missing(driver: &Driver, of_thread: (ThreadId, &Slot), page: MinipageId) -> Vec<Run> {
    if !is_counted(driver, page) || is_here(driver, (page, Kind::Read)) || is_coming(driver, page) {
        return Vec::new();
    }
    let bounds = may_go_together(driver, page);
    let block = block_of(page, &bounds);
    if block.len() <= FEWEST as usize {
        return Vec::new();
    }
    let first = first_of(page, &block);
    let acquisitions = critical_section::acquisitions();
    let fault = |of: &mut ThreadScans| of.block_faults.fault(first, acquisitions);
    if !scans_of_threads::with(of_thread, fault) {
        return Vec::new();
    }
    let missing: Vec<_> = block
        .map(|index| MinipageId::new(page.area(), index))
        .filter(|&other| other != page && driver.tables().knows(other))
        .filter(|&other| !is_here(driver, (other, Kind::Read)) && !is_coming(driver, other))
        .collect();
    if !scans_of_threads::with(of_thread, |of| of.block_faults.are_paid(missing.len())) {
        return Vec::new();
    }
    runs_of(missing).flat_map(|run| run.parts(bounds.most)).collect()
}

/// A thread has fetched a page whose block is counted. If nobody had touched it, this node is its home now (first touch), and
/// the others of its block are left to those who need them.
pub(super) fn has_come(driver: &Driver, of_thread: (ThreadId, &Slot), page: MinipageId) {
    if is_counted(driver, page) && driver.tables().lock(page).copy().is_exclusive() {
        let first = first_of(page, &block_of(page, &may_go_together(driver, page)));
        scans_of_threads::with(of_thread, |of| of.block_faults.forget(first));
    }
}

/// Whether faults on a page count: those on larger minipages cost more than its rule knows.
fn is_counted(driver: &Driver, page: MinipageId) -> bool {
    let area = driver.memory().area(page.area());
    driver.tables().consistency_of(page).is_lazy()
        && !driver.races().are_checked()
        && !critical_section::is_critical()
        && area.is_some_and(|area| area.minipage_bytes(page.index()) <= PAGE_BYTES)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    #[test]
    fn a_block_ends_with_what_may_go_together() {
        let bounds = RunBounds { together: 300..700, most: 64 };
        let page = |index| MinipageId::new(AreaId(1), index);
        assert_eq!(block_of(page(310), &bounds), 300..512);
        assert_eq!(block_of(page(512), &bounds), 512..700);
    }
}
