//! Access history: what a node fetches between two barriers it often fetches again two barriers later
//! (ADR 6).
//!
//! An iterative program touches the same boundary minipages in every interval between barriers, or
//! in every second one when it swaps two arrays. Behind a barrier all nodes that met there are inside the runtime
//! and answer at once; a fault later has to interrupt a node that computes. So a node that has seen
//! its intervals repeat fetches the next interval's minipages together as it leaves the barrier.
//!
//! The protocol is the same: a wrong guess costs messages, and may take a minipage from a node that still
//! writes it. Every [`RELEARN`]th interval nothing is fetched ahead, so that a pattern the
//! program no longer follows is forgotten. Intervals without fetches say little: what is between two of them is foreseen
//! when it has come a second time.

use multigrain_protocol::Kind;
use multigrain_types::MinipageId;

/// Most minipages of an interval that are worth remembering: more, and prediction would be a scan.
const MOST: usize = 32;
/// One interval in so many goes without fetching ahead; an odd number, or one of two that alternate never would.
const RELEARN: u32 = 17;

pub(super) type Candidate = (MinipageId, Kind);

/// What this node fetched in the last intervals.
#[derive(Debug, Default)]
pub(super) struct AccessHistory {
    /// Faults of the present interval, in order.
    present: Vec<Candidate>,
    /// Too many to remember.
    overflow: bool,
    /// Fetched ahead at the start of the present interval.
    ahead: Vec<Candidate>,
    /// The last intervals' sets, sorted, the last one first.
    last: [Vec<Candidate>; 3],
    interval: u32,
}

impl AccessHistory {
    /// A thread of this node had to fetch.
    pub(super) fn note(&mut self, minipage: MinipageId, kind: Kind) {
        if self.present.len() < MOST {
            self.present.push((minipage, kind));
        } else {
            self.overflow = true;
        }
    }

    /// An interval ends: what the next one will probably fetch.
    pub(super) fn end_interval(&mut self) -> Vec<Candidate> {
        let mut set = core::mem::take(&mut self.present);
        set.append(&mut self.ahead);
        if core::mem::take(&mut self.overflow) || set.len() > MOST {
            set.clear();
        }
        set.sort_unstable();
        set.dedup();
        let [last, before, third] = &self.last;
        let next = if set.is_empty() && last.is_empty() {
            Vec::new()
        } else if set == *before && (!set.is_empty() || last == third) {
            last.clone()
        } else if set == *last {
            set.clone()
        } else {
            Vec::new()
        };
        self.last.rotate_right(1);
        self.last[0] = set;
        self.interval = self.interval.wrapping_add(1);
        if self.interval.is_multiple_of(RELEARN) {
            return Vec::new();
        }
        self.ahead.clone_from(&next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    fn interval(history: &mut AccessHistory, pages: &[u64]) -> Vec<u64> {
        for &page in pages {
            if !history.ahead.contains(&(MinipageId(page), Kind::Read)) {
                history.note(MinipageId(page), Kind::Read);
            }
        }
        history.end_interval().iter().map(|candidate| candidate.0.0).collect()
    }

    #[test]
    fn intervals_that_alternate_are_foreseen_from_the_third_on() {
        let mut history = AccessHistory::default();
        assert_eq!(interval(&mut history, &[1, 2]), NONE);
        assert_eq!(interval(&mut history, &[3]), NONE);
        assert_eq!(interval(&mut history, &[1, 2]), [3]);
        assert_eq!(interval(&mut history, &[3]), [1, 2]);
    }

    #[test]
    fn a_pattern_that_is_given_up_is_forgotten() {
        let mut history = AccessHistory::default();
        for _ in 0..4 {
            interval(&mut history, &[7]);
        }
        assert_eq!(interval(&mut history, &[7]), [7]);
        let ahead = (0..2 * RELEARN).map(|_| interval(&mut history, &[]).len()).sum::<usize>();
        assert!(ahead < RELEARN as usize, "fetched ahead {ahead} times for nothing");
        assert_eq!(interval(&mut history, &[]), NONE);
    }

    #[test]
    fn what_was_fetched_once_between_intervals_without_fetches_is_not_foreseen() {
        let mut history = AccessHistory::default();
        assert_eq!(interval(&mut history, &[]), NONE);
        for page in 1..40 {
            assert_eq!(interval(&mut history, &[page]), NONE);
            assert_eq!(interval(&mut history, &[]), NONE, "{page} has come once");
        }
        interval(&mut history, &[39]);
        assert_eq!(interval(&mut history, &[]), [39]);
    }

    #[test]
    fn an_alternation_that_is_given_up_is_forgotten_whenever_it_began() {
        for begins in 0..2 {
            let mut history = AccessHistory::default();
            for _ in 0..begins {
                interval(&mut history, &[]);
            }
            for _ in 0..3 {
                interval(&mut history, &[7]);
                interval(&mut history, &[]);
            }
            let ahead = (0..4 * RELEARN).map(|_| interval(&mut history, &[]).len()).sum::<usize>();
            assert!(ahead <= RELEARN as usize, "fetched ahead {ahead} times for nothing");
        }
    }

    #[test]
    fn an_interval_of_many_fetches_foresees_nothing() {
        let mut history = AccessHistory::default();
        let many: Vec<u64> = (0..MOST as u64 + 1).collect();
        for _ in 0..5 {
            assert_eq!(interval(&mut history, &many), NONE);
        }
    }
}
