//! Time windows (MIRAGE+ 2.1): how long a node keeps a minipage that others wait for: about as long as
//! they have theirs.
//!
//! Role: the rule that makes turns of nodes equally long, shared by the runtime and the simulator (ADR 17). A
//! node that has let a minipage go still has it while its ack, and the message that takes it away again, travel: its
//! *passage*. On the manager's own node that is nothing, elsewhere the length of a round
//! trip, or of the scheduler's slices. So a node that has waited for others' turns, and knows for how
//! many, gets a turn of most of their length itself, its passage included: MIRAGE+'s time window
//! (section 2.1), with a measured length. The clock and the timer are `runtime/src/time_windows.rs`.
//!
//! Invariants: no clock and no allocation; times are nanoseconds of any clock that does not go back.

use multigrain_types::MinipageId;

/// Of others' turns. Less than one, or turns would grow without end.
const SHARE: (u64, u64) = (8, 10);

/// What is left of a turn is not worth a timer below that.
const LEAST_NS: u64 = 20_000;

/// The longest window: waits stay bounded.
const MOST_NS: u64 = 100_000_000;

/// Minipages whose passage is being measured.
const MEASURED: usize = 8;

/// What a node has measured of its turns, for its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Estimator {
    /// Its passage, a moving average.
    passage_ns: u64,
    /// Minipages let go and not yet taken, and when.
    released: [Option<(MinipageId, u64)>; MEASURED],
    /// The place in `released` that is used next.
    next: usize,
}

impl Estimator {
    /// For how long a thread keeps a minipage that it has waited `waited_ns` for, while others had so
    /// many turns; 0 if it needs no window. `managed_here`: its manager is this node.
    #[must_use]
    pub fn window_ns(&self, waited_ns: u64, turns: u16, managed_here: bool) -> u64 {
        let Some(turn_ns) = waited_ns.checked_div(turns.into()) else { return 0 };
        let passage_ns = if managed_here { 0 } else { self.passage_ns };
        let fair_ns = turn_ns.saturating_mul(SHARE.0) / SHARE.1;
        match fair_ns.saturating_sub(passage_ns) {
            0..LEAST_NS => 0,
            window_ns => window_ns.min(MOST_NS),
        }
    }

    /// A minipage that another node manages is let go: its ack leaves.
    pub fn released(&mut self, minipage: MinipageId, now_ns: u64) {
        let same = |place: &Option<(MinipageId, u64)>| place.is_some_and(|(of, _)| of == minipage);
        let place = self.released.iter().position(same).unwrap_or(self.next);
        self.released[place] = Some((minipage, now_ns));
        self.next = (place + 1) % MEASURED;
    }

    /// Threads of this node lose access to a minipage.
    pub fn revoked(&mut self, minipage: MinipageId, now_ns: u64) {
        for place in &mut self.released {
            if let Some((_, since_ns)) = place.take_if(|(of, _)| *of == minipage) {
                let passage_ns = now_ns.saturating_sub(since_ns).min(MOST_NS);
                self.passage_ns = (7 * self.passage_ns + passage_ns) / 8;
            }
        }
    }

    /// Whether [`Estimator::revoked`] has anything to measure.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.released.iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: MinipageId = MinipageId(3);

    #[test]
    fn a_window_is_most_of_an_average_turn_of_the_others() {
        let estimator = Estimator::default();
        assert_eq!(estimator.window_ns(700_000, 7, true), 80_000);
        assert_eq!(estimator.window_ns(700_000, 0, true), 0, "it has waited for nobody");
        assert_eq!(estimator.window_ns(140_000, 7, true), 0, "not worth a timer");
        assert_eq!(estimator.window_ns(u64::MAX, 1, true), MOST_NS);
    }

    #[test]
    fn the_passage_is_a_part_of_the_turn_where_there_is_one() {
        let mut estimator = Estimator::default();
        for round in 0..100 {
            estimator.released(PAGE, round * 1_000_000);
            assert!(estimator.measures());
            estimator.revoked(PAGE, round * 1_000_000 + 40_000);
            estimator.revoked(PAGE, round * 1_000_000 + 90_000);
            assert!(!estimator.measures());
        }
        assert!((39_900..=40_000).contains(&estimator.passage_ns), "{estimator:?}");
        let window_ns = estimator.window_ns(100_000, 1, false);
        assert!((40_000..=40_100).contains(&window_ns), "{window_ns}");
        assert_eq!(estimator.window_ns(100_000, 1, true), 80_000);
    }

    #[test]
    fn minipages_that_are_never_taken_are_forgotten() {
        let mut estimator = Estimator::default();
        for minipage in 0..100 {
            estimator.released(MinipageId(minipage), 0);
        }
        estimator.revoked(MinipageId(0), 1_000_000);
        assert_eq!(estimator.passage_ns, 0);
        estimator.revoked(MinipageId(99), 800_000);
        assert_eq!(estimator.passage_ns, 100_000);
    }
}
