//! Which contents are worth an attempt: of pages that did not compress, fewer and fewer, until one does.
//!
//! A page whose last attempt worked is tried each time. One whose attempts failed is sent as it is 1, 2, 4 .. 64 times
//! between them. One that was not tried yet is tried as often as its neighbours that were not either: so much of a
//! stream of random pages is never tried. Threads may lose each other's counts, which changes nothing but how
//! many attempts there are.

#![expect(unsafe_code, reason = "cells that nobody has used are not even written")]

use core::ops::Range;
use core::sync::atomic::{AtomicU16, Ordering};

/// Neighbours whose first attempts have a state in common.
const GROUP: usize = 256;
/// Pages that have a state of their own; what is so far apart shares one, for what is known of a segment stays when it
/// is gone.
const MOST_PAGES: u32 = 1 << 16;
/// Attempts in a row that failed, as far as they count: then 64 times are left out.
const MOST_FAILED: u16 = 7;

/// What is known of pages of a segment, all nodes they go to.
#[derive(Debug)]
pub(super) struct Attempts {
    pages: Box<[AtomicU16]>,
    groups: Box<[AtomicU16]>,
}

/// How attempts went, in a number that is 0 at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Untried,
    /// The last one worked.
    Works,
    /// So many in a row did not; so many times more, the next is left out.
    Fails {
        failed: u16,
        left_out: u16,
    },
}

const FAILED: u16 = 1 << 8;
const WORKS: u16 = u16::MAX;

impl State {
    fn of(cell: &AtomicU16) -> Self {
        match cell.load(Ordering::Relaxed) {
            0 => Self::Untried,
            WORKS => Self::Works,
            number => Self::Fails { failed: number / FAILED, left_out: number % FAILED },
        }
    }

    fn keep(self, cell: &AtomicU16) {
        let number = match self {
            Self::Untried => 0,
            Self::Works => WORKS,
            Self::Fails { failed, left_out } => failed * FAILED + left_out,
        };
        cell.store(number, Ordering::Relaxed);
    }

    /// After one more that failed.
    fn failed(self) -> Self {
        let failed = match self {
            Self::Untried | Self::Works => 1,
            Self::Fails { failed, .. } => (failed + 1).min(MOST_FAILED),
        };
        Self::Fails { failed, left_out: 1 << (failed - 1) }
    }
}

/// Whether to try now.
fn is_due(cell: &AtomicU16) -> bool {
    match State::of(cell) {
        State::Untried | State::Works | State::Fails { left_out: 0, .. } => true,
        State::Fails { failed, left_out } => {
            State::Fails { failed, left_out: left_out - 1 }.keep(cell);
            false
        }
    }
}

impl Attempts {
    /// Of so many pages.
    pub(super) fn new(pages: u32) -> Self {
        let pages = pages.min(MOST_PAGES) as usize;
        let cells = |count: usize| {
            let cells = Box::<[AtomicU16]>::new_zeroed_slice(count);
            // SAFETY: an atomic number of zero bytes is 0.
            unsafe { cells.assume_init() }
        };
        Self { pages: cells(pages), groups: cells(pages.div_ceil(GROUP)) }
    }

    fn page(&self, index: u32) -> Option<(&AtomicU16, &AtomicU16)> {
        let index = (index % MOST_PAGES) as usize;
        self.pages.get(index).zip(self.groups.get(index / GROUP))
    }

    /// Whether to try what begins with this page, which is about to be sent.
    pub(super) fn are_due(&self, first: u32) -> bool {
        self.page(first).is_some_and(|(page, group)| match State::of(page) {
            State::Untried => is_due(group),
            State::Works | State::Fails { .. } => is_due(page),
        })
    }

    /// These were tried together, and it worked or not.
    pub(super) fn note(&self, pages: Range<u32>, worked: bool) {
        let mut is_first = true;
        for (page, group) in pages.filter_map(|index| self.page(index)) {
            let state = State::of(page);
            if worked {
                State::Works.keep(page);
                State::Untried.keep(group);
            } else {
                state.failed().keep(page);
                if state == State::Untried && is_first {
                    State::of(group).failed().keep(group);
                }
            }
            is_first = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a page that compresses or not: whether it was tried.
    fn send(attempts: &Attempts, page: u32, works: bool) -> bool {
        let tried = attempts.are_due(page);
        if tried {
            attempts.note(page..page + 1, works);
        }
        tried
    }

    #[test]
    fn a_page_that_never_compresses_is_tried_9_of_200_times() {
        let attempts = Attempts::new(1);
        let tried: Vec<_> = (1..=200).filter(|_| send(&attempts, 0, false)).collect();
        assert_eq!(tried, [1, 3, 6, 11, 20, 37, 70, 135, 200]);
    }

    #[test]
    fn a_page_that_compresses_is_tried_each_time_whatever_its_neighbours_are() {
        let attempts = Attempts::new(2);
        assert!(send(&attempts, 0, true));
        for _ in 0..100 {
            send(&attempts, 1, false);
            assert!(send(&attempts, 0, true));
        }
    }

    #[test]
    fn a_page_that_comes_to_compress_is_tried_again_and_then_each_time() {
        let attempts = Attempts::new(1);
        for _ in 0..1000 {
            send(&attempts, 0, false);
        }
        let sent = (1..).find(|_| send(&attempts, 0, true)).unwrap();
        assert!(sent <= 65, "after {sent} times");
        assert!((0..100).all(|_| send(&attempts, 0, true)));
        // One that does not any more is left out once, and not 64 times.
        assert!(send(&attempts, 0, false) && !send(&attempts, 0, true));
        assert!(send(&attempts, 0, true));
    }

    #[test]
    fn of_pages_that_never_compress_and_are_sent_once_few_are_tried() {
        let attempts = Attempts::new(128);
        let tried = (0..128).filter(|&page| send(&attempts, page, false)).count();
        assert_eq!(tried, 7);
        // Those that were not tried before are, one at a time.
        assert_eq!((129..).find(|_| send(&attempts, 1, true)), Some(135));
        assert!(send(&attempts, 3, true), "its neighbour did");
    }

    #[test]
    fn there_is_nothing_to_try_beyond_the_last_page() {
        assert!(!Attempts::new(3).are_due(3));
        Attempts::new(0).note(0..1, true);
    }

    #[test]
    fn pages_of_a_large_segment_share_what_is_known_of_them() {
        let attempts = Attempts::new(u32::MAX);
        assert!(send(&attempts, 7, true) && send(&attempts, 8, false));
        assert!(attempts.are_due(MOST_PAGES + 7) && !attempts.are_due(MOST_PAGES + 8));
    }
}
