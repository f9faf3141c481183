//! Which lazily consistent minipages this node is likely to write, because it wrote them before (ADR 46).
//!
//! The first write of an interval to one minipage traps; the rest of its block that the node wrote in its last
//! intervals is opened for writes with it. When a minipage is closed again, comparison with its twin tells
//! whether that was right. One that was opened in vain twice in a row is not opened ahead again until it traps.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

use multigrain_types::{AreaId, MinipageId};

use crate::minipage_run::Run;
use crate::shim::{Mutex, lock};

/// Minipages of a block.
const BLOCK: u32 = u64::BITS;

/// What is known of a block: a bit for each minipage.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// They were written when last seen.
    likely: u64,
    /// They were opened in vain the last time.
    doubted: u64,
    /// They have trapped or were opened ahead in this interval.
    tried: u64,
    /// Which one that is.
    interval: u64,
}

impl Block {
    fn wrote(&mut self, bit: u64) {
        self.likely |= bit;
        self.doubted &= !bit;
    }

    /// What to open with a minipage that traps now.
    fn trapped(&mut self, bit: u64, interval: u64) -> u64 {
        // One that was tried and traps was not here then, as the others perhaps: they may be now.
        if self.interval != interval || self.tried & bit != 0 {
            self.tried = 0;
            self.interval = interval;
        }
        self.wrote(bit);
        let ahead = self.likely & !self.tried & !bit;
        self.tried |= ahead | bit;
        ahead
    }

    fn opened_in_vain(&mut self, bit: u64) {
        self.likely &= !(self.doubted & bit);
        self.doubted ^= bit;
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

    /// A thread writes a minipage that was closed: what is likely to be written next to it, in runs.
    pub(crate) fn trapped(&self, minipage: MinipageId) -> Vec<Run> {
        let (first, bit) = place_of(minipage);
        let interval = self.interval.load(Ordering::Relaxed);
        let mut ahead = lock(&self.blocks).entry(first).or_default().trapped(bit, interval);
        let mut runs = Vec::new();
        while ahead != 0 {
            let start = ahead.trailing_zeros();
            let count = (ahead >> start).trailing_ones();
            runs.extend(Run::new(MinipageId(first.0 + u64::from(start)), count));
            ahead &= u64::MAX.checked_shl(start + count).unwrap_or(0);
        }
        runs
    }

    /// A minipage that was opened ahead is closed: whether it was written.
    pub(super) fn closed(&self, minipage: MinipageId, written: bool) {
        let (first, bit) = place_of(minipage);
        if let Some(block) = lock(&self.blocks).get_mut(&first) {
            if written { block.wrote(bit) } else { block.opened_in_vain(bit) }
        }
    }

    /// An area is taken away.
    pub(crate) fn forget(&self, area: AreaId) {
        lock(&self.blocks).retain(|first, _| first.area() != area);
    }
}

/// The first minipage of the block that a minipage lies in, and its bit there.
fn place_of(minipage: MinipageId) -> (MinipageId, u64) {
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
            let runs = history.trapped(minipage(index));
            ahead.extend(runs.iter().flat_map(|run| run.minipages()).map(MinipageId::index));
            open.extend(&ahead);
        }
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
        let runs = history.trapped(minipage(65));
        let expected = [(64, 1), (66, 1), (70, 1), (127, 1)];
        assert!(runs.iter().map(|run| (run.first().index(), run.count())).eq(expected));
        interval(&history, &[0, 1, 2, 3]);
        history.end_interval();
        assert_eq!(history.trapped(minipage(0)), [Run::new(minipage(1), 3).unwrap()]);
    }

    #[test]
    fn what_was_opened_in_vain_twice_in_a_row_is_opened_no_more_until_it_traps() {
        let history = WriteHistory::default();
        let ahead = || {
            history.end_interval();
            let runs = history.trapped(minipage(0));
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
        assert_eq!(history.trapped(minipage(0)), [Run::new(minipage(1), 3).unwrap()]);
        assert_eq!(history.trapped(minipage(9)), [], "all have been tried");
        let rest = [Run::one(minipage(0)), Run::new(minipage(2), 2).unwrap()];
        assert_eq!(history.trapped(minipage(1))[..2], rest);
    }

    #[test]
    fn an_area_that_is_taken_away_is_forgotten() {
        let history = WriteHistory::default();
        interval(&history, &[0, 1]);
        history.forget(AREA);
        history.end_interval();
        assert_eq!(history.trapped(minipage(0)), []);
    }
}
