//! Refetch history: what a barrier takes from a node again and again, and the node fetches again each time (ADR 60).
//!
//! Where several nodes write their own parts of a page under lazy release consistency, each barrier takes it from all but its
//! home, and each of them needs it at once: a fault, a request and an answer for every page. Nodes that leave the barrier ask
//! for all these pages together instead. Other than [`super::history`] this is known of each minipage by itself: which pages
//! were written differs from interval to interval.
//!
//! A minipage that was taken and came back before the next barrier, so often in a row, is fetched as soon as it is taken. Whether
//! it still is needed shows only when it is not: that is tried after so many times, and twice as many each time it was.

use std::collections::BTreeMap;

use multigrain_types::MinipageId;

/// So often in a row it came back because a thread needed it.
const SURE: u8 = 4;
/// Fetched ahead so often before it is left to the threads once; then twice as often, up to [`MOST_PATIENT`].
const FIRST_PATIENCE: u8 = SURE;
const MOST_PATIENT: u8 = 64;
/// Minipages fetched at one barrier.
const MOST: usize = 2048;

/// Minipages that something is known of; with more, all is forgotten.
const MOST_KNOWN: usize = 1 << 17;

/// What is known of a minipage.
#[derive(Clone, Copy, Debug, Default)]
struct Refetches {
    /// How often in a row it was needed.
    needed: u8,
    /// It was fetched ahead so often since.
    ahead: u8,
    patience: u8,
}

impl Refetches {
    /// It was taken: whether to fetch it at once.
    fn taken(&mut self) -> bool {
        let fetches = self.needed >= SURE && self.ahead < self.patience;
        self.ahead = if fetches { self.ahead + 1 } else { 0 };
        fetches
    }

    /// A thread has needed it.
    fn was_needed(&mut self) {
        self.patience = match self.needed {
            SURE.. => self.patience.saturating_mul(2).min(MOST_PATIENT),
            _ => FIRST_PATIENCE,
        };
        self.needed = (self.needed + 1).min(SURE);
    }
}

/// That of a node.
#[derive(Debug, Default)]
pub(super) struct RefetchHistory {
    of: BTreeMap<MinipageId, Refetches>,
    /// What the last barrier took and nobody asked for then, in order.
    left: Vec<MinipageId>,
}

impl RefetchHistory {
    /// A barrier has taken `lost`, in order; `here`: what this node has. What it will need again.
    pub(super) fn end_interval(
        &mut self,
        lost: Vec<MinipageId>,
        here: impl Fn(MinipageId) -> bool,
    ) -> Vec<MinipageId> {
        for minipage in core::mem::take(&mut self.left) {
            if lost.binary_search(&minipage).is_ok() || here(minipage) {
                self.of.entry(minipage).or_default().was_needed();
            } else {
                self.of.remove(&minipage);
            }
        }
        if self.of.len() > MOST_KNOWN {
            self.of.clear();
        }
        let mut ahead = Vec::new();
        for minipage in lost {
            let known = self.of.get_mut(&minipage).filter(|_| ahead.len() < MOST);
            if known.is_some_and(Refetches::taken) {
                ahead.push(minipage);
            } else {
                self.left.push(minipage);
            }
        }
        ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many intervals in which a minipage is taken, and fetched if it is needed: how often it was ahead.
    fn intervals(history: &mut RefetchHistory, count: usize, needed: bool) -> Vec<bool> {
        let minipage = MinipageId(7);
        let mut ahead = Vec::new();
        for _ in 0..count {
            let again = history.end_interval(vec![minipage], |_| false);
            ahead.push(again == [minipage]);
            if again.is_empty() && !needed {
                // It is not here, so the next barrier cannot take it.
                assert!(history.end_interval(Vec::new(), |_| false).is_empty());
            }
        }
        ahead
    }

    #[test]
    fn what_was_needed_four_times_in_a_row_is_fetched_at_once_and_left_out_ever_less_often() {
        let mut history = RefetchHistory::default();
        assert_eq!(intervals(&mut history, 5, true), [false, false, false, false, true]);
        let ahead = intervals(&mut history, 200, true);
        let gaps: Vec<_> = (0..200).filter(|&at| !ahead[at]).collect();
        assert_eq!(gaps, [3, 12, 29, 62, 127, 192]);
    }

    #[test]
    fn what_is_needed_no_more_is_forgotten_when_it_is_left_out() {
        let mut history = RefetchHistory::default();
        intervals(&mut history, 4, true);
        let ahead = intervals(&mut history, 40, false);
        assert_eq!(ahead[..5], [true, true, true, true, false]);
        assert!(!ahead[5..].contains(&true));
    }

    #[test]
    fn what_is_not_taken_stays_known() {
        let mut history = RefetchHistory::default();
        intervals(&mut history, 4, true);
        assert!(history.end_interval(Vec::new(), |_| true).is_empty());
        assert_eq!(intervals(&mut history, 1, true), [true]);
    }
}
