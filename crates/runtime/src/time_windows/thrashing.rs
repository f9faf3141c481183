//! Turns of nodes that thrash: while they write all over the same minipages, one at a time keeps what it is granted.
//!
//! Nodes that scatter writes over the same pages, as the permutation of a radix sort does, take them from each other as fast
//! as faults go. With each fault a node gets one page and loses another, and does between two faults what it can do until it comes to a
//! page that it has not. A longer window for each page (ADR 17) would stop all: each node waits for what another one keeps. So
//! slices of time go round the nodes by the clocks of their hosts, and in a slice of its own a node that thrashes keeps what
//! its write faults are granted to the end of the slice, or until its thread calls the library. It soon has all that it needs,
//! and runs on without a fault.
//!
//! Of its faults those count that write a minipage of which it has no copy any more, though it was granted it to write since a thread
//! of it last called the library ([`Thrashing::granted`]). It thrashes if the last [`FAULTS`] of these were for some [`DISTINCT`] different
//! minipages, and took, waits of all threads in sum, half of the time since the first of them ([`Thrashing::fault`]). A copy that is left says that others have
//! read the minipage and not written it: they may wait for what is written there. So what a node reads before it writes has no
//! turns, for then a copy is here: it may be a flag that it polls.
//!
//! Where clocks disagree two nodes may keep minipages at once, and wait for each other until a slice ends: at worst half of the time, and
//! all keep nothing in the other half.

use multigrain_types::{Access, MinipageId};

/// How long a node's turn is: time to fetch some hundred minipages, and what others wait at most for each node.
const SLICE_NS: u64 = 10_000_000;

/// Faults that are looked at.
const FAULTS: usize = 32;

/// So many different minipages are a working set, and not one that nodes contend for.
const DISTINCT: u32 = 12;

/// Minipages that are remembered, by their hash.
const KNOWN: u16 = 1024;

/// A fault, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Fault {
    began_ns: u64,
    waited_ns: u64,
    /// A bit of its minipage.
    bit: u64,
}

/// A minipage that was granted, and in which stretch of the program.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    minipage: u64,
    stretch: u64,
}

/// What a node knows of its write faults.
#[derive(Debug)]
pub(super) struct Thrashing {
    /// Empty before the first fault.
    known: Vec<Known>,
    /// What its threads do between two calls of the library; from 1.
    stretch: u64,
    faults: [Fault; FAULTS],
    /// How many there were in this stretch.
    count: usize,
}

impl Default for Thrashing {
    fn default() -> Self {
        Self { known: Vec::new(), stretch: 1, faults: [Fault::default(); FAULTS], count: 0 }
    }
}

/// Where a node is in the turns of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The node, and of how many.
    pub(crate) node: u64,
    pub(crate) nodes: u64,
    /// The clock that all hosts have, in nanoseconds.
    pub(crate) clock_ns: u64,
}

impl Turn {
    /// How long this node's own slice lasts on; none if it is another's turn.
    fn left_ns(self) -> Option<u64> {
        let own = self.clock_ns / SLICE_NS % self.nodes == self.node;
        own.then(|| SLICE_NS - self.clock_ns % SLICE_NS)
    }
}

impl Thrashing {
    /// A thread has called the library.
    pub(super) fn called(&mut self) {
        self.stretch += 1;
        self.count = 0;
    }

    /// A minipage was granted to write, with this access before: whether that counts.
    pub(super) fn granted(&mut self, minipage: MinipageId, before: Access) -> bool {
        self.known.resize(KNOWN.into(), Known::default());
        let place = usize::try_from(hash(minipage) % u64::from(KNOWN)).unwrap_or_default();
        let known = &mut self.known[place];
        let new = Known { minipage: minipage.0, stretch: self.stretch };
        let last = core::mem::replace(known, new);
        before == Access::NoAccess && (last.minipage, last.stretch) == (new.minipage, new.stretch)
    }

    /// A fault for such a minipage, which began then and is over now: for how long it is kept, if it is.
    pub(super) fn fault(
        &mut self,
        minipage: MinipageId,
        (began_ns, now_ns): (u64, u64),
        turn: Turn,
    ) -> Option<u64> {
        let waited_ns = now_ns.saturating_sub(began_ns);
        let bit = 1 << (hash(minipage) / u64::from(KNOWN) % 64);
        self.faults[self.count % FAULTS] = Fault { began_ns, waited_ns, bit };
        self.count += 1;
        if self.count < FAULTS {
            return None;
        }
        let left_ns = turn.left_ns()?;
        let first_ns = self.faults[self.count % FAULTS].began_ns;
        let waited_ns: u64 = self.faults.iter().map(|fault| fault.waited_ns).sum();
        let bits = self.faults.iter().fold(0u64, |bits, fault| bits | fault.bit);
        let thrashes =
            waited_ns >= now_ns.saturating_sub(first_ns) / 2 && bits.count_ones() >= DISTINCT;
        thrashes.then_some(left_ns)
    }
}

/// Of neighbours different ones.
fn hash(minipage: MinipageId) -> u64 {
    minipage.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    /// Node 1 of two, at the beginning of its slice.
    const OWN: Turn = Turn { node: 1, nodes: 2, clock_ns: 7 * SLICE_NS };

    /// So many faults for these minipages in turn, each after a pause and so long: how many were kept.
    fn kept(thrashing: &mut Thrashing, minipages: u64, pause_ns: u64, wait_ns: u64) -> usize {
        let faults = (0..10 * FAULTS as u64).filter(|fault| {
            let minipage = MinipageId(fault % minipages);
            let began_ns = fault * (pause_ns + wait_ns);
            let times = (began_ns, began_ns + wait_ns);
            thrashing.granted(minipage, Access::NoAccess)
                && thrashing.fault(minipage, times, OWN) == Some(SLICE_NS)
        });
        faults.count()
    }

    #[test]
    fn a_node_thrashes_that_faults_again_on_many_minipages_most_of_the_time() {
        let all = 10 * FAULTS;
        for (minipages, pause_ns, expected) in [
            (64, 10_000, all - 64 - (FAULTS - 1)),
            (64, 9_000, all - 64 - (FAULTS - 1)),
            // It does something else for most of the time.
            (64, 12_000, 0),
            // Contended minipages, which have windows of their own.
            (u64::from(DISTINCT) - 1, 1_000, 0),
            // It never comes back.
            (all as u64, 0, 0),
        ] {
            let kept = kept(&mut Thrashing::default(), minipages, pause_ns, 10_000);
            assert_eq!(kept, expected, "{minipages} {pause_ns}");
        }
    }

    #[test]
    fn what_was_granted_before_a_call_of_the_library_is_new_again() {
        let mut thrashing = Thrashing::default();
        let first = kept(&mut thrashing, 64, 0, 10_000);
        thrashing.called();
        let second = kept(&mut thrashing, 64, 0, 10_000);
        assert!(first > 0 && second == first, "faults before the call do not count: {second}");
        thrashing.called();
        let mut again = || thrashing.granted(MinipageId(5), Access::NoAccess);
        assert!(!again() && again());
    }

    #[test]
    fn what_others_have_only_read_does_not_count() {
        let mut thrashing = Thrashing::default();
        let mut granted = |before| thrashing.granted(MinipageId(5), before);
        assert!(!granted(Access::NoAccess) && !granted(Access::ReadOnly));
        assert!(granted(Access::NoAccess), "now one has written it");
    }

    #[test]
    fn slices_go_round_the_nodes() {
        let mut thrashing = Thrashing::default();
        assert!(kept(&mut thrashing, 64, 0, 10_000) > 0);
        let mut at = |clock_ns| {
            let times = (3_200_000, 3_210_000);
            thrashing.fault(MinipageId(1), times, Turn { clock_ns, ..OWN })
        };
        assert_eq!(at(7 * SLICE_NS + 1), Some(SLICE_NS - 1));
        assert_eq!(at(8 * SLICE_NS - 1), Some(1));
        assert_eq!(at(8 * SLICE_NS), None);
        assert_eq!(at(9 * SLICE_NS), Some(SLICE_NS));
    }
}
