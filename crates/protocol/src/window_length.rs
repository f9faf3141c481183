//! Time windows (MIRAGE+ 2.1): how long a node keeps a minipage that others wait for: about as long as
//! they have theirs.
//!
//! Role: the rule that makes turns of nodes equal, shared by the runtime and the simulator (ADR 17). A *turn* is
//! what a node has of a minipage from a grant until it is taken away, in processor time of its threads, for several
//! threads that have it at once do as much in less time. Without windows turns are as long as their
//! *passage*, while an ack travels and the message that takes the minipage away again: nothing on the manager's own
//! node, elsewhere a round trip, or some of the scheduler's slices; or as long as it takes until each of a node's threads has had a processor. An
//! ack says how long the turns of its node are, and a grant the longest of the turns that its node has waited for: the
//! node gets most of that itself. That is MIRAGE+'s time window (section 2.1), with a measured length. The clocks and
//! the timer are in `runtime/src/time_windows.rs`.
//!
//! Invariants: no clock and no allocation; times are nanoseconds of the node's processor time, or of any clock that
//! does not go back.

use multigrain_types::MinipageId;

use crate::message::Turns;

/// Of others' turns. Less than one, or turns would grow without end.
const SHARE: (u64, u64) = (8, 10);

/// A turn is longer than the average if it is by one part in so many.
const LONGER: u64 = 4;

/// A node whose threads run less than one part in so many of the time, all together, has a shorter turn.
const SLOWEST: u64 = 2;

/// Less is not worth a timer.
const LEAST_NS: u64 = 5_000;

/// The longest window: waits stay bounded.
const MOST_NS: u64 = 100_000_000;

/// Minipages whose turns are being measured.
const MEASURED: usize = 32;

/// A window ends after so much time, or when its node's turn has taken so much processor time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say it all")]
pub struct Window {
    pub time_ns: u64,
    pub processor_ns: u64,
}

/// The window of a node that has waited for `waited_ns`, for these turns of others; none if it needs none. Where they
/// are alike, it is most of their average. Where one is longer, in the processor time that it takes (eight threads
/// that have the minipage at once do as much in less time), it is most of that; but what others had before anybody
/// waited was no turn at anybody's cost. Its last part is its passage. No node runs more than `at_once` threads at a time.
#[must_use]
pub fn window(turns: Turns, (waited_ns, passage_ns): (u64, u64), at_once: u64) -> Option<Window> {
    let average_ns = waited_ns.checked_div(turns.count.into())?;
    let longest_ns = (u64::from(turns.longest_us) * 1_000).min(waited_ns.saturating_mul(at_once));
    let time_ns = if longest_ns > average_ns.saturating_add(average_ns / LONGER) {
        longest_ns.saturating_mul(SLOWEST)
    } else {
        average_ns
    };
    let fair = |turn_ns: u64| {
        let turn_ns = (turn_ns / SHARE.1).saturating_mul(SHARE.0);
        turn_ns.saturating_sub(passage_ns).min(MOST_NS)
    };
    let processor_ns = fair(longest_ns.max(average_ns));
    let window = Window { time_ns: fair(time_ns), processor_ns };
    (window.time_ns.min(window.processor_ns) >= LEAST_NS).then_some(window)
}

/// This node's turns of one minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Measured {
    minipage: MinipageId,
    /// How long they are, a moving average; 0 before the first one is over.
    turn_ns: u64,
    /// When the one that is under way began.
    began_ns: Option<u64>,
    /// When its manager, another node, was told that those who wait may have it: its passage has begun.
    released_ns: Option<u64>,
}

/// What a node has measured of its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Estimator {
    /// How long a minipage stays that was let go, a moving average of time.
    passage_ns: u64,
    measured: [Option<Measured>; MEASURED],
    /// The place in `measured` that is used next.
    next: usize,
}

impl Estimator {
    fn of(&mut self, minipage: MinipageId) -> Option<&mut Measured> {
        self.measured.iter_mut().flatten().find(|turns| turns.minipage == minipage)
    }

    /// A thread is granted a minipage that others want: when its node's turn began, which may be a while ago.
    pub fn granted(&mut self, minipage: MinipageId, now_ns: u64) -> u64 {
        if let Some(turns) = self.of(minipage) {
            return *turns.began_ns.get_or_insert(now_ns);
        }
        let new = Measured { minipage, turn_ns: 0, began_ns: Some(now_ns), released_ns: None };
        self.measured[self.next] = Some(new);
        self.next = (self.next + 1) % MEASURED;
        now_ns
    }

    /// How long this node's turns of a minipage are, in microseconds; 0 if that is not known.
    #[must_use]
    pub fn turn_us(&mut self, minipage: MinipageId, now_ns: u64) -> u32 {
        let Some(turns) = self.of(minipage) else { return 0 };
        let turn_ns = match (turns.turn_ns, turns.began_ns) {
            (0, Some(began_ns)) => now_ns.saturating_sub(began_ns),
            (turn_ns, _) => turn_ns,
        };
        u32::try_from(turn_ns / 1_000).unwrap_or(u32::MAX)
    }

    /// A minipage that another node manages is let go, for somebody who waits.
    pub fn released(&mut self, minipage: MinipageId, time_ns: u64) {
        if let Some(turns) = self.of(minipage) {
            turns.released_ns = Some(time_ns);
        }
    }

    /// How long a minipage that another node manages stays when it was let go.
    #[must_use]
    pub fn passage_ns(&self) -> u64 {
        self.passage_ns
    }

    /// The node's own threads want more than they have: their turn does not count.
    pub fn given_up(&mut self, minipage: MinipageId) {
        if let Some(turns) = self.of(minipage) {
            turns.began_ns = None;
        }
    }

    /// Threads of this node lose access to a minipage, at this processor time and this time.
    pub fn revoked(&mut self, minipage: MinipageId, now_ns: u64, time_ns: u64) {
        let Some(turns) = self.of(minipage) else { return };
        if let Some(began_ns) = turns.began_ns.take() {
            turns.turn_ns = average(turns.turn_ns, now_ns.saturating_sub(began_ns));
        }
        if let Some(released_ns) = turns.released_ns.take() {
            self.passage_ns = average(self.passage_ns, time_ns.saturating_sub(released_ns));
        }
    }

    /// Whether this node's turns of a minipage are measured.
    #[must_use]
    pub fn knows(&self, minipage: MinipageId) -> bool {
        self.measured.iter().flatten().any(|turns| turns.minipage == minipage)
    }

    /// Whether a turn is being measured.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.measured.iter().flatten().any(|turns| turns.began_ns.is_some())
    }
}

/// The moving average with one more.
fn average(before_ns: u64, new_ns: u64) -> u64 {
    if before_ns == 0 { new_ns } else { (7 * before_ns + new_ns) / 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: MinipageId = MinipageId(3);

    #[test]
    fn a_window_is_most_of_an_average_turn_of_the_others_or_of_a_longer_one() {
        let after = |count, longest_us| Turns { count, longest_us };
        let of = |time_ns, processor_ns| Some(Window { time_ns, processor_ns });
        assert_eq!(window(after(7, 0), (700_000, 0), 1), of(80_000, 80_000));
        assert_eq!(window(after(7, 125), (700_000, 0), 2), of(80_000, 100_000));
        assert_eq!(window(after(7, 150), (700_000, 0), 2), of(240_000, 120_000));
        assert_eq!(window(after(7, 150), (700_000, 30_000), 2), of(210_000, 90_000));
        assert_eq!(window(after(0, 150), (700_000, 0), 2), None, "it has waited for nobody");
        assert_eq!(window(after(1, 6), (6_000, 0), 1), None, "not worth a timer");
        assert_eq!(window(after(1, u32::MAX), (u64::MAX, 0), 8), of(MOST_NS, MOST_NS));
        let one_waits = |at_once| window(after(1, 100), (20_000, 0), at_once);
        assert_eq!((one_waits(1), one_waits(2)), (of(16_000, 16_000), of(64_000, 32_000)));
    }

    #[test]
    fn a_turn_lasts_from_the_first_grant_of_a_thread_until_all_lose_it() {
        let mut estimator = Estimator::default();
        for round in 0..100 {
            let now_ns = round * 1_000_000;
            assert_eq!(estimator.granted(PAGE, now_ns), now_ns);
            assert_eq!(estimator.turn_us(PAGE, now_ns + 6_000), if round == 0 { 6 } else { 50 });
            assert_eq!(estimator.granted(PAGE, now_ns + 7_000), now_ns, "another thread");
            assert!(estimator.measures());
            estimator.released(PAGE, now_ns + 10_000);
            estimator.revoked(PAGE, now_ns + 50_000, now_ns + 30_000);
            estimator.revoked(PAGE, now_ns + 90_000, now_ns + 90_000);
            assert!(!estimator.measures());
        }
        assert_eq!(estimator.passage_ns(), 20_000);
    }

    #[test]
    fn a_turn_that_ends_in_a_fault_of_its_own_node_does_not_count() {
        let mut estimator = Estimator::default();
        for (ends_ns, turn_us) in [(80_000, 80), (9_000, 80), (160_000, 90)] {
            estimator.granted(PAGE, 0);
            if ends_ns < 10_000 {
                estimator.given_up(PAGE);
            }
            estimator.revoked(PAGE, ends_ns, 0);
            assert_eq!(estimator.turn_us(PAGE, ends_ns), turn_us);
        }
    }

    #[test]
    fn minipages_that_are_never_taken_are_forgotten() {
        let mut estimator = Estimator::default();
        for minipage in 0..100 {
            estimator.granted(MinipageId(minipage), 0);
        }
        estimator.revoked(MinipageId(0), 1_000_000, 0);
        assert_eq!(estimator.turn_us(MinipageId(0), 9), 0);
        estimator.revoked(MinipageId(99), 800_000, 0);
        assert_eq!(estimator.turn_us(MinipageId(99), 9), 800);
    }
}
