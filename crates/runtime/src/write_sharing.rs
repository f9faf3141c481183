//! Write-write false sharing under release consistency: which pages are fetched again because other nodes wrote them, though
//! they wrote other parts than this node does (`run --summary`).
//!
//! Role: a copy is kept of each page as it is when this node gets it and when it loses it. What differs between a loss and the
//! next fetch, others have written; what differs between a fetch and the next loss, this node has (ADR 36). A home loses nothing,
//! and counts nothing.

#![expect(unsafe_code, reason = "page bytes are read from the privileged view")]

use std::collections::BTreeMap;

use multigrain_types::MinipageId;
use multigrain_types::false_sharing::Refetches;

use crate::platform::Platform;
use crate::shim::{Mutex, lock};

/// Contents that are kept; pages beyond it are not counted.
const MOST_KEPT_BYTES: usize = 64 << 20;
/// What processors share by: what is written of a line counts as all of it.
const LINE_BYTES: usize = 64;
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
    kept_bytes: usize,
}

/// A page at this node, since the job began.
#[derive(Debug, Default)]
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

impl Page {
    fn comes(&mut self, now: &[u8]) {
        self.others = if self.kept.is_empty() { 0 } else { differing(&self.kept, now) };
        self.counts.all += u64::from(self.others != 0);
        self.keep(now);
    }

    fn goes(&mut self, now: &[u8]) {
        let others = core::mem::take(&mut self.others);
        let own = if self.kept.is_empty() { 0 } else { differing(&self.kept, now) };
        self.counts.apart += u64::from(others != 0 && own != 0 && others & own == 0);
        self.keep(now);
    }

    fn keep(&mut self, now: &[u8]) {
        if self.kept.len() == now.len() {
            self.kept.copy_from_slice(now);
        } else {
            self.kept = now.into();
        }
    }
}

impl WriteSharing {
    /// A page is about to be opened for this node; its lock is held.
    pub(crate) fn comes(&self, minipage: MinipageId, platform: &Platform) {
        self.change(minipage, platform, Page::comes);
    }

    /// A page has just been closed for this node; its lock is held.
    pub(crate) fn goes(&self, minipage: MinipageId, platform: &Platform) {
        self.change(minipage, platform, Page::goes);
    }

    fn change(&self, minipage: MinipageId, platform: &Platform, act: impl Fn(&mut Page, &[u8])) {
        let mut pages = lock(&self.pages);
        let Pages { by_minipage, kept_bytes } = &mut *pages;
        let (page, len) = platform.memory().privileged(minipage);
        let entry = by_minipage.entry(minipage).or_default();
        if entry.kept.is_empty() {
            if *kept_bytes + len > MOST_KEPT_BYTES {
                return;
            }
            *kept_bytes += len;
        }
        // SAFETY: the privileged view is readable for the length of the minipage, and no thread of this node writes there: it is
        // closed, and what comes for it is received under its lock.
        let now = unsafe { core::slice::from_raw_parts(page.cast_const(), len) };
        act(entry, now);
    }

    /// What is known of each page.
    pub(crate) fn counts(&self) -> Vec<(MinipageId, Refetches)> {
        let pages = lock(&self.pages);
        pages.by_minipage.iter().map(|(&minipage, page)| (minipage, page.counts)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 4096;

    /// Intervals in which others write these bytes of a page while it is away, and this node those after it has come.
    fn intervals(written: &[(&[usize], &[usize])]) -> Refetches {
        let (mut page, mut now) = (Page::default(), vec![0u8; LEN]);
        page.comes(&now);
        for &(others, own) in written {
            page.goes(&now);
            others.iter().for_each(|&at| now[at] += 1);
            page.comes(&now);
            own.iter().for_each(|&at| now[at] += 1);
        }
        page.goes(&now);
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
    fn parts_of_large_pages_are_larger_and_the_last_may_be_short() {
        let (before, mut now) = (vec![0; 512 << 10], vec![0; 512 << 10]);
        now[(512 << 10) - 1] = 1;
        assert_eq!(differing(&before, &now), 1 << 63);
        assert_eq!(differing(&[0; 100], &[1; 100]), 3);
    }
}
