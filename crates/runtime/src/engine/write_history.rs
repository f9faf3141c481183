//! Which lazily consistent minipages this node is likely to write, because it wrote them before (ADR 46).
//!
//! The first write of an interval to one minipage traps; the rest of its block that the node wrote in its last
//! intervals is opened for writes with it. When a minipage is closed again, comparison with its twin tells
//! whether that was right. One that was opened in vain twice in a row is not opened ahead again until it traps. A
//! critical section opens what was written when its block was last, where that is right often enough.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

use multigrain_types::{AreaId, MinipageId};

use crate::minipage_run::Run;
use crate::shim::{Mutex, lock};

/// Minipages of a block.
const BLOCK: u32 = u64::BITS;

/// Traps of a block in an interval from which on what is guessed is fetched. A scan in order has been seen by then
/// (`prefetch/streams.rs`), and fetches more at a time.
const FETCHED_FROM: u32 = 4;

/// What else of a block is likely to be written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) runs: Vec<Run>,
    /// Whether it is to be fetched where it is not here.
    pub(crate) fetched: bool,
}

/// What a block gains with a minipage that is written in a critical section and was when the block was written last, or was
/// opened ahead and is written. It loses with one that was not, or was opened in vain: a third of them right is worth it.
const RIGHT: i8 = 2;
const WRONG: i8 = -1;
/// The most that a block has gained or lost.
const MOST_CREDIT: i8 = 64;

/// What is known of a block: a bit for each minipage.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// They were written when last seen.
    likely: u64,
    /// They were opened in vain the last time.
    doubted: u64,
    /// They were opened in vain: twice in a row if they had been written before, else once.
    unlikely: u64,
    /// They have trapped in this interval.
    trapped: u64,
    /// They have trapped or were opened ahead in this interval.
    tried: u64,
    /// They were written in this interval, and in the last one in which any of the block was.
    written: u64,
    previous: u64,
    /// Which one that is.
    interval: u64,
    /// Only above 0 is anything opened in critical sections: a program may write a few of many there, others each time.
    credit: i8,
}

impl Block {
    fn earn(&mut self, credit: i8) {
        self.credit = (self.credit + credit).clamp(-MOST_CREDIT, MOST_CREDIT);
    }

    fn begin(&mut self, interval: u64) {
        if self.interval != interval {
            self.previous = core::mem::take(&mut self.written);
            (self.trapped, self.tried, self.interval) = (0, 0, interval);
        }
    }

    fn wrote(&mut self, bit: u64) {
        self.likely |= bit;
        self.written |= bit;
        self.doubted &= !bit;
        self.unlikely &= !bit;
    }

    /// What to open with a minipage that traps now, if of the block these may be guessed; whether that is sure enough to
    /// be fetched.
    fn trapped(&mut self, bit: u64, interval: u64, guessed: u64, is_critical: bool) -> (u64, bool) {
        self.begin(interval);
        let follows = (bit >> 1) & self.tried != 0;
        // One that was tried and traps was not here then, or has been closed since, as the others
        // perhaps: they are tried again.
        if self.tried & bit != 0 {
            self.tried = 0;
        }
        let again = self.trapped & bit != 0;
        self.wrote(bit);
        self.trapped |= bit;
        if is_critical {
            if !again {
                self.earn(if self.previous & bit != 0 { RIGHT } else { WRONG });
            }
            let ahead = if self.credit > 0 { self.previous & !self.tried & !bit } else { 0 };
            self.tried |= ahead | bit;
            return (ahead, ahead != 0);
        }
        let guess = if follows { self.behind(bit) & guessed & !self.unlikely } else { 0 };
        let ahead = (self.likely | guess) & !self.tried & !bit;
        self.tried |= ahead | bit;
        (ahead, ahead & self.likely != 0 || self.trapped.count_ones() >= FETCHED_FROM)
    }

    /// Those behind one that a scan of writes is likely to reach: twice as many with each trap.
    fn behind(&self, bit: u64) -> u64 {
        let count = BLOCK.min(1 << self.trapped.count_ones().min(6));
        let next = bit.trailing_zeros() + 1;
        (u64::MAX >> (BLOCK - count)).checked_shl(next).unwrap_or(0)
    }

    fn opened_in_vain(&mut self, bit: u64) {
        self.unlikely |= bit & (!self.likely | self.doubted);
        self.likely &= !(self.doubted & bit);
        self.doubted = (self.doubted ^ bit) & self.likely;
    }
}

/// What this node wrote in its last intervals.
#[derive(Debug, Default)]
pub(crate) struct WriteHistory {
    blocks: Mutex<BTreeMap<MinipageId, Block>>,
    interval: AtomicU64,
}

impl WriteHistory {
    /// What was open is about to be closed.
    pub(super) fn end_interval(&self) {
        self.interval.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread writes a minipage that was closed: what is likely to be written next to it, in runs. Minipages behind
    /// it are guessed, of those at `guessed` (indices in its area), if the minipage before it trapped or was to be opened in this
    /// interval; but no minipage that was opened in vain.
    pub(crate) fn trapped(&self, minipage: MinipageId, guessed: Range<u32>) -> Expected {
        self.expect(minipage, guessed, false)
    }

    /// The same for one that does so in a critical section, where nothing is guessed.
    pub(crate) fn trapped_in_section(&self, minipage: MinipageId) -> Expected {
        self.expect(minipage, 0..0, true)
    }

    fn expect(&self, minipage: MinipageId, guessed: Range<u32>, is_critical: bool) -> Expected {
        let (first, bit) = block_of(minipage);
        let interval = self.interval.load(Ordering::Relaxed);
        let below = |index: u32| match index.saturating_sub(first.index()) {
            places @ 0..BLOCK => (1u64 << places) - 1,
            BLOCK.. => u64::MAX,
        };
        let guessed = below(guessed.end) & !below(guessed.start);
        let (mut ahead, fetched) = lock(&self.blocks).entry(first).or_default().trapped(
            bit,
            interval,
            guessed,
            is_critical,
        );
        let mut runs = Vec::new();
        while ahead != 0 {
            let start = ahead.trailing_zeros();
            let count = (ahead >> start).trailing_ones();
            runs.extend(Run::new(MinipageId(first.0 + u64::from(start)), count));
            ahead &= u64::MAX.checked_shl(start + count).unwrap_or(0);
        }
        Expected { runs, fetched }
    }

    /// A scan has fetched these ahead, and they are opened.
    pub(crate) fn opened(&self, run: Run) {
        let interval = self.interval.load(Ordering::Relaxed);
        let mut blocks = lock(&self.blocks);
        for minipage in run.minipages() {
            let (first, bit) = block_of(minipage);
            let block = blocks.entry(first).or_default();
            block.begin(interval);
            block.tried |= bit;
        }
    }

    /// A minipage that was opened ahead is closed: whether it was written. One that another node needs is closed before
    /// its interval ends, and says nothing if it was not.
    pub(super) fn closed(&self, minipage: MinipageId, written: bool) {
        let (first, bit) = block_of(minipage);
        let interval = self.interval.load(Ordering::Relaxed);
        let mut blocks = lock(&self.blocks);
        let block = blocks.entry(first).or_default();
        if written {
            block.wrote(bit);
            block.earn(RIGHT);
        } else {
            // Another node needed it: under another lock, perhaps.
            block.earn(WRONG);
            if block.interval != interval {
                block.opened_in_vain(bit);
            }
        }
    }

    /// An area is taken away.
    pub(crate) fn forget(&self, area: AreaId) {
        lock(&self.blocks).retain(|first, _| first.area() != area);
    }
}

/// The first minipage of the block that a minipage lies in, and its bit there.
fn block_of(minipage: MinipageId) -> (MinipageId, u64) {
    let place = minipage.index() % BLOCK;
    (MinipageId::new(minipage.area(), minipage.index() - place), 1 << place)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const AREA: AreaId = AreaId(3);

    fn minipage(index: u32) -> MinipageId {
        MinipageId::new(AREA, index)
    }

    /// One interval in which these are written: how many traps that takes.
    fn interval(history: &WriteHistory, written: &[u32]) -> usize {
        history.end_interval();
        let (mut open, mut ahead) = (Vec::new(), Vec::new());
        let mut traps = 0;
        for &index in written {
            if open.contains(&index) {
                continue;
            }
            traps += 1;
            open.push(index);
            let runs = history.trapped(minipage(index), 0..0).runs;
            ahead.extend(runs.iter().flat_map(|run| run.minipages()).map(MinipageId::index));
            open.extend(&ahead);
        }
        history.end_interval();
        ahead.iter().for_each(|&index| {
            history.closed(minipage(index), written.contains(&index));
        });
        traps
    }

    #[test]
    fn what_was_written_in_the_last_interval_is_opened_with_the_first_of_its_block() {
        let history = WriteHistory::default();
        let written: Vec<u32> = (60..132).collect();
        assert_eq!(interval(&history, &written), 72);
        assert_eq!(interval(&history, &written), 3, "blocks of 64");
        assert_eq!(interval(&history, &written), 3);
    }

    #[test]
    fn neighbours_are_opened_in_runs_and_what_was_never_written_is_not() {
        let history = WriteHistory::default();
        interval(&history, &[64, 65, 66, 70, 127]);
        history.end_interval();
        let runs = history.trapped(minipage(65), 0..0).runs;
        let expected = [(64, 1), (66, 1), (70, 1), (127, 1)];
        assert!(runs.iter().map(|run| (run.first().index(), run.count())).eq(expected));
        interval(&history, &[0, 1, 2, 3]);
        history.end_interval();
        assert_eq!(history.trapped(minipage(0), 0..0).runs, [Run::new(minipage(1), 3).unwrap()]);
    }

    #[test]
    fn what_was_opened_in_vain_twice_in_a_row_is_opened_no_more_until_it_traps() {
        let history = WriteHistory::default();
        let ahead = || {
            history.end_interval();
            let runs = history.trapped(minipage(0), 0..0).runs;
            history.end_interval();
            runs.iter().map(|run| run.count()).sum::<u32>()
        };
        interval(&history, &[0, 1]);
        assert_eq!(ahead(), 1);
        history.closed(minipage(1), false);
        assert_eq!(ahead(), 1);
        history.closed(minipage(1), true);
        assert_eq!(ahead(), 1, "in between it was right");
        history.closed(minipage(1), false);
        assert_eq!(ahead(), 1);
        history.closed(minipage(1), false);
        assert_eq!(ahead(), 0);
        interval(&history, &[1]);
        assert_eq!(ahead(), 1);
    }

    #[test]
    fn what_was_not_here_to_be_opened_is_tried_again_when_one_of_it_traps() {
        let history = WriteHistory::default();
        interval(&history, &[0, 1, 2, 3]);
        history.end_interval();
        assert_eq!(history.trapped(minipage(0), 0..0).runs, [Run::new(minipage(1), 3).unwrap()]);
        assert_eq!(history.trapped(minipage(9), 0..0).runs, [], "all have been tried");
        let rest = [Run::one(minipage(0)), Run::new(minipage(2), 2).unwrap()];
        assert_eq!(history.trapped(minipage(1), 0..0).runs[..2], rest);
    }

    #[test]
    fn what_lies_behind_two_neighbours_is_guessed_twice_as_far_each_time_and_in_vain_once() {
        let history = WriteHistory::default();
        let ahead = |index, guessed| {
            let runs = history.trapped(minipage(index), guessed).runs;
            runs.iter().flat_map(|run| run.minipages()).map(MinipageId::index).collect::<Vec<_>>()
        };
        history.end_interval();
        assert!(ahead(64, 64..90).is_empty());
        assert!(ahead(70, 64..90).is_empty(), "no neighbour");
        let behind: Vec<_> = (66..=73).filter(|&it| it != 70).collect();
        assert_eq!(ahead(65, 64..90), behind);
        let behind: Vec<_> = (75..90).collect();
        assert_eq!(ahead(74, 64..90), behind, "no further than may be guessed");
        history.end_interval();
        (66..90).for_each(|index| history.closed(minipage(index), index < 80));
        let likely: Vec<_> = (64..80).filter(|&it| it != 65).collect();
        assert_eq!(ahead(65, 64..128), likely);
        assert!(ahead(80, 64..128).is_empty(), "what was in vain is not guessed again");
    }

    /// An interval with a critical section that writes these: how many are opened ahead.
    fn section(history: &WriteHistory, written: &[u32]) -> usize {
        history.end_interval();
        let mut opened = Vec::new();
        for &index in written {
            if !opened.contains(&minipage(index)) {
                let runs = history.trapped_in_section(minipage(index)).runs;
                opened.extend(runs.iter().flat_map(|run| run.minipages()));
            }
        }
        history.end_interval();
        for &opened in &opened {
            history.closed(opened, written.iter().any(|&index| minipage(index) == opened));
        }
        opened.len()
    }

    #[test]
    fn critical_sections_open_what_they_write_again_and_again() {
        let history = WriteHistory::default();
        let all: Vec<u32> = (0..64).collect();
        assert_eq!(section(&history, &all), 0, "nothing is known");
        assert!(section(&history, &all) > 20);
        assert_eq!(section(&history, &all), 63);
        // Then others, and few of them.
        let few = |round: u32| -> Vec<u32> { (0..8).map(|at| (at * 8 + round * 5) % 64).collect() };
        let opened: Vec<usize> = (0..40).map(|round| section(&history, &few(round))).collect();
        assert!(opened[0] > 50 && opened[20..].iter().all(|&count| count == 0), "{opened:?}");
    }

    #[test]
    fn critical_sections_open_nothing_where_they_write_others_each_time() {
        let history = WriteHistory::default();
        for round in 0..40 {
            let few: Vec<u32> = (0..12).map(|at| (at * 5 + round * 7) % 64).collect();
            assert_eq!(section(&history, &few), 0, "round {round}");
        }
    }

    #[test]
    fn what_is_closed_before_its_interval_ends_was_not_opened_in_vain() {
        let history = WriteHistory::default();
        interval(&history, &[0, 1]);
        for _ in 0..3 {
            history.end_interval();
            assert_eq!(history.trapped(minipage(0), 0..0).runs, [Run::one(minipage(1))]);
            history.closed(minipage(1), false);
        }
    }

    #[test]
    fn what_a_scan_opened_in_a_block_without_traps_is_known() {
        let history = WriteHistory::default();
        history.end_interval();
        (64..68).for_each(|index| history.closed(minipage(index), true));
        assert_eq!(history.trapped(minipage(64), 0..0).runs, [Run::new(minipage(65), 3).unwrap()]);
    }

    #[test]
    fn what_a_scan_opened_is_closed_in_vain_at_the_end_of_its_interval_alone() {
        let history = WriteHistory::default();
        let guessed = |history: &WriteHistory| {
            history.end_interval();
            history.trapped(minipage(64), 64..68);
            let runs = history.trapped(minipage(65), 64..68).runs;
            runs.iter().map(|run| run.count()).sum::<u32>()
        };
        for (early, expected) in [(true, 2), (false, 0)] {
            let history = WriteHistory::default();
            history.end_interval();
            history.opened(Run::new(minipage(66), 2).unwrap());
            if !early {
                history.end_interval();
            }
            [66, 67].into_iter().for_each(|index| history.closed(minipage(index), false));
            assert_eq!(guessed(&history), expected, "{early}");
        }
        assert_eq!(guessed(&history), 2, "of what nothing is known");
    }

    #[test]
    fn an_area_that_is_taken_away_is_forgotten() {
        let history = WriteHistory::default();
        interval(&history, &[0, 1]);
        history.forget(AREA);
        history.end_interval();
        assert_eq!(history.trapped(minipage(0), 0..0).runs, []);
    }
}
