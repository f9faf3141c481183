//! How the threads of a node share a named segment with other nodes: the time windows that the program asked for
//! (Delta, MIRAGE+ 2.1), and how long threads waited (fairness).
//!
//! Invariant: of two settings the one with the higher stamp counts, in whatever order a node learns of them.

use core::ops::Range;
use core::sync::atomic::Ordering;

use multigrain_protocol::Kind;
use rangemap::RangeMap;

use crate::shim::{AtomicU64, Mutex, lock};

/// Of one segment on one node.
#[derive(Debug, Default)]
pub(crate) struct SegmentUse {
    deltas: Mutex<Deltas>,
    read_faults: AtomicU64,
    write_faults: AtomicU64,
    wait_ns: AtomicU64,
    longest_wait_ns: AtomicU64,
    windows: AtomicU64,
    retries: AtomicU64,
}

/// A window, and which setting it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Delta {
    ns: u64,
    stamp: u64,
}

#[derive(Debug, Default)]
struct Deltas {
    whole: Delta,
    /// Of minipages that have one of their own.
    pages: RangeMap<u32, Delta>,
}

/// What threads of this node have had of a segment since the node joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Shares {
    /// Traps that asked for a read copy.
    pub read_faults: u64,
    /// Traps that asked for a writable copy.
    pub write_faults: u64,
    /// Nanoseconds that threads waited for them.
    pub wait_ns: u64,
    /// The longest of these waits, in nanoseconds.
    pub longest_wait_ns: u64,
    /// Grants that a time window kept.
    pub windows: u64,
    /// Traps of instructions that had lost what they were granted before: each then holds its grant until it is
    /// through.
    pub retries: u64,
}

impl SegmentUse {
    /// How long a grant of a minipage is kept, in nanoseconds; 0 for as long as it takes.
    pub(crate) fn delta_ns(&self, index: u32) -> u64 {
        let deltas = lock(&self.deltas);
        deltas.pages.get(&index).map_or(deltas.whole.ns, |delta| delta.ns)
    }

    /// The window of all minipages for which no other was set.
    pub(crate) fn whole_ns(&self) -> u64 {
        lock(&self.deltas).whole.ns
    }

    /// Sets the window of some minipages, or of all.
    pub(crate) fn set_delta(&self, minipages: Option<Range<u32>>, ns: u64, stamp: u64) {
        let mut deltas = lock(&self.deltas);
        let delta = Delta { ns, stamp };
        let Some(minipages) = minipages else {
            if deltas.whole.stamp < stamp {
                deltas.whole = delta;
            }
            let newer = deltas.pages.iter().filter(|(_, page)| page.stamp > stamp);
            deltas.pages = newer.map(|(range, page)| (range.clone(), *page)).collect();
            return;
        };
        if deltas.whole.stamp > stamp || minipages.is_empty() {
            return;
        }
        let newer = deltas.pages.overlapping(&minipages).filter(|(_, page)| page.stamp > stamp);
        let newer: Vec<_> = newer.map(|(range, page)| (range.clone(), *page)).collect();
        deltas.pages.insert(minipages, delta);
        deltas.pages.extend(newer);
    }

    /// A thread has trapped, and has what it wanted after so long.
    pub(crate) fn count(&self, kind: Kind, retries: bool, waited_ns: u64) {
        let faults = match kind {
            Kind::Read => &self.read_faults,
            Kind::Write => &self.write_faults,
        };
        faults.fetch_add(1, Ordering::Relaxed);
        self.retries.fetch_add(retries.into(), Ordering::Relaxed);
        self.wait_ns.fetch_add(waited_ns, Ordering::Relaxed);
        self.longest_wait_ns.fetch_max(waited_ns, Ordering::Relaxed);
    }

    /// A window keeps a grant.
    pub(crate) fn count_window(&self) {
        self.windows.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn shares(&self) -> Shares {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Shares {
            read_faults: read(&self.read_faults),
            write_faults: read(&self.write_faults),
            wait_ns: read(&self.wait_ns),
            longest_wait_ns: read(&self.longest_wait_ns),
            windows: read(&self.windows),
            retries: read(&self.retries),
        }
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    #[test]
    fn the_latest_setting_counts_in_whatever_order_it_is_heard() {
        let settings = [(None, 5, 1), (Some(2..4), 7, 2), (None, 9, 3), (Some(3..4), 0, 4)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
            let sharing = SegmentUse::default();
            for (minipages, ns, stamp) in order.map(|index: usize| settings[index].clone()) {
                sharing.set_delta(minipages, ns, stamp);
            }
            let windows = [0, 2, 3].map(|index| sharing.delta_ns(index));
            assert_eq!((windows, sharing.whole_ns()), ([9, 9, 0], 9), "{order:?}");
        }
    }

    #[test]
    fn many_minipages_with_one_window_take_the_room_of_one() {
        let sharing = SegmentUse::default();
        sharing.set_delta(Some(5..6), 7, 2);
        sharing.set_delta(Some(0..u32::MAX), 9, 1);
        sharing.set_delta(Some(8..8), 3, 3);
        let windows = [0, 5, 8, u32::MAX - 1, u32::MAX].map(|index| sharing.delta_ns(index));
        assert_eq!(windows, [9, 7, 9, 9, 0]);
        assert_eq!(lock(&sharing.deltas).pages.iter().count(), 3);
    }
}
