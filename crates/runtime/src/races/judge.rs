//! The judge of a minipage: the last writer of each byte, and whether the next write is ordered after it.

use core::ops::Range;
use std::collections::BTreeMap;

use multigrain_types::{MinipageId, NodeId};

use super::clock::Clock;
use super::written_bytes::WrittenBytes;

/// Lines of one judge; a racy loop would fill the terminal.
pub(super) const MOST_RACES: usize = 50;

/// What one node wrote to one minipage within one of its epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Writes {
    pub(super) writer: NodeId,
    /// The writer's epoch when it ended.
    pub(super) epoch: u64,
    /// The writer's clock when it began.
    pub(super) since: Clock,
    pub(super) bytes: WrittenBytes,
}

/// Bytes that two nodes wrote, neither after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Race {
    pub(super) minipage: MinipageId,
    /// Within the minipage.
    pub(super) bytes: Range<usize>,
    /// The lower rank first.
    pub(super) nodes: (NodeId, NodeId),
    /// No further race will be told of.
    pub(super) last: bool,
}

/// The judge of the minipages that this node allocated.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The last writes of each byte; no byte is in two.
    histories: BTreeMap<MinipageId, Vec<Writes>>,
    told: BTreeMap<(MinipageId, NodeId, NodeId), Vec<Range<usize>>>,
    races: usize,
}

impl Writes {
    /// Whether all of these were made after the others, and in knowledge of them.
    fn follow(&self, others: &Self) -> bool {
        self.writer == others.writer || self.since.of(others.writer) >= others.epoch
    }
}

impl Judge {
    /// Takes writes, in whatever order they come; the races they are part of that were not told of.
    pub(super) fn receive(&mut self, minipage: MinipageId, mut writes: Writes) -> Vec<Race> {
        let history = self.histories.entry(minipage).or_default();
        let mut met = Vec::new();
        for old in history.iter_mut() {
            let both = old.bytes.both(&writes.bytes);
            if both.is_empty() {
                continue;
            }
            if !writes.follow(old) && old.follow(&writes) {
                // They came late: of a node of several threads, one of which has released meanwhile.
                writes.bytes.remove(&both);
                continue;
            }
            if !writes.follow(old) {
                met.push((old.writer, both.clone()));
            }
            old.bytes.remove(&both);
        }
        history.retain(|old| !old.bytes.is_empty());
        let writer = writes.writer;
        if !writes.bytes.is_empty() {
            history.push(writes);
        }
        let ranges = |(other, both): (NodeId, WrittenBytes)| {
            let nodes = (writer.min(other), writer.max(other));
            both.ranges().into_iter().map(move |bytes| (bytes, nodes))
        };
        let found: Vec<_> = met.into_iter().flat_map(ranges).collect();
        found.into_iter().filter_map(|(bytes, nodes)| self.report(minipage, bytes, nodes)).collect()
    }

    /// A race, unless it is known or there are enough.
    fn report(
        &mut self,
        minipage: MinipageId,
        bytes: Range<usize>,
        nodes: (NodeId, NodeId),
    ) -> Option<Race> {
        let told = self.told.entry((minipage, nodes.0, nodes.1)).or_default();
        let known = told.iter().any(|known| known.start <= bytes.start && bytes.end <= known.end);
        if known || self.races == MOST_RACES {
            return None;
        }
        told.push(bytes.clone());
        self.races += 1;
        Some(Race { minipage, bytes, nodes, last: self.races == MOST_RACES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: MinipageId = MinipageId(7);

    fn writes<const N: usize>(
        writer: u16,
        epoch: u64,
        since: [u64; N],
        bytes: Range<usize>,
    ) -> Writes {
        let bytes = [bytes].into_iter().collect();
        Writes { writer: NodeId(writer), epoch, since: since.into(), bytes }
    }

    fn race(bytes: Range<usize>, one: u16, other: u16) -> Race {
        Race { minipage: PAGE, bytes, nodes: (NodeId(one), NodeId(other)), last: false }
    }

    #[test]
    fn two_nodes_that_know_nothing_of_each_other_race_on_the_bytes_both_wrote() {
        let mut judge = Judge::default();
        assert_eq!(judge.receive(PAGE, writes(2, 1, [], 0..20)), []);
        assert_eq!(judge.receive(PAGE, writes(1, 1, [], 16..32)), [race(16..20, 1, 2)]);
    }

    #[test]
    fn who_knows_of_a_release_may_write_the_same_bytes() {
        let mut judge = Judge::default();
        assert_eq!(judge.receive(PAGE, writes(1, 4, [], 0..8)), []);
        assert_eq!(judge.receive(PAGE, writes(2, 1, [0, 4], 0..8)), []);
        assert_eq!(judge.receive(PAGE, writes(3, 1, [0, 4], 0..8)), [race(0..8, 2, 3)]);
    }

    #[test]
    fn epochs_past_32_bits_are_in_order() {
        const LAST: u64 = u32::MAX as u64;
        let mut judge = Judge::default();
        for epoch in LAST - 2..LAST + 3 {
            assert_eq!(judge.receive(PAGE, writes(1, epoch, [0, 0, epoch - 1], 0..8)), []);
            assert_eq!(judge.receive(PAGE, writes(2, epoch, [0, epoch], 0..8)), []);
        }
        // Whoever knows of the last epoch but one only, however large its number.
        let late = writes(3, 1, [0, LAST + 2, LAST + 1], 0..8);
        assert_eq!(judge.receive(PAGE, late), [race(0..8, 2, 3)]);
    }

    #[test]
    fn writes_that_come_late_are_judged_by_when_they_were_made() {
        let mut judge = Judge::default();
        assert_eq!(judge.receive(PAGE, writes(2, 1, [0, 4], 0..8)), []);
        assert_eq!(judge.receive(PAGE, writes(1, 4, [], 0..8)), []);
        // The later ones are the last still.
        assert_eq!(judge.receive(PAGE, writes(3, 1, [0, 4], 0..4)), [race(0..4, 2, 3)]);
    }

    #[test]
    fn a_node_does_not_race_with_itself_nor_with_its_neighbours_bytes() {
        let mut judge = Judge::default();
        for epoch in 1..4 {
            assert_eq!(judge.receive(PAGE, writes(1, epoch, [], 0..4)), []);
            assert_eq!(judge.receive(PAGE, writes(2, epoch, [], 4..8)), []);
        }
        assert_eq!(judge.histories[&PAGE].len(), 2, "the last writes are kept, no others");
    }

    #[test]
    fn a_race_is_told_of_once_and_many_races_not_at_all() {
        let mut judge = Judge::default();
        let mut told = 0;
        for epoch in 1..200 {
            let at = usize::try_from(epoch).expect("it is small") % 100 * 16;
            told += judge.receive(PAGE, writes(1, epoch, [], at..at + 4)).len();
            let second = judge.receive(PAGE, writes(2, epoch, [], at..at + 4));
            told += second.len();
            assert_eq!(
                second.iter().any(|race| race.last),
                told == MOST_RACES && !second.is_empty()
            );
        }
        assert_eq!(told, MOST_RACES);
    }
}
