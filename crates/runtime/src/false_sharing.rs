//! False sharing: which minipages are transferred because nodes use different parts of them (`run --summary`).
//!
//! Role: when this node loses a sequentially consistent minipage, its contents are kept; when it traps
//! there again, the cache line of the trap is compared with them. If it is the same, no other node has
//! written it, and the minipage was lost for the sake of another part (ADR 36); if only the place of the trap is, for
//! that of a neighbour. An upgrade right after such a fetch is of the same kind. What cannot be known counts as true
//! sharing.
//!
//! The other way round, it is counted which traps at minipages smaller than a page had not been, were neighbours that
//! fill a page one minipage.

#![expect(unsafe_code, reason = "page bytes are read from the privileged view")]

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;

use multigrain_memory::{SegmentId, Shape};
use multigrain_protocol::Kind;
use multigrain_types::false_sharing::{Allocation, Shared};
use multigrain_types::{Access, AreaId, MinipageId};

use crate::allocation_sites::AllocationSites;
use crate::area::AreaRecord;
use crate::platform::Platform;
use crate::shim::{Mutex, lock};
use crate::write_sharing::{LINE_BYTES, MOST_KEPT_BYTES, WriteSharing};

/// The place of a trap: a number or a pointer.
const WORD_BYTES: usize = 8;
/// Allocations that are reported: finding where the program made one takes a while.
const MOST_REPORTED: usize = 16;

/// What this node knows of its minipages' comings and goings.
#[derive(Debug, Default)]
pub(crate) struct FalseSharing {
    uses: Mutex<Uses>,
    /// Of pages under release consistency.
    relaxed: WriteSharing,
    /// Intervals of this node that have ended: the number of the one at hand.
    intervals: AtomicU64,
}

#[derive(Debug, Default)]
struct Uses {
    by_minipage: BTreeMap<MinipageId, Use>,
    kept_bytes: usize,
    neighbours: BTreeMap<Neighbours, Group>,
}

#[derive(Debug, Default)]
struct Use {
    /// What was here when it was lost, while it is elsewhere.
    kept: Option<Box<[u8]>>,
    /// What the last fetch was for.
    part: Part,
    /// The interval of the last trap, reading and writing.
    intervals: [Option<u64>; 2],
    losses: u64,
    faults: u64,
    apart: u64,
    beside: u64,
    again: u64,
    too_fine: u64,
    writes: bool,
    /// An address where most of `apart` and `beside` trapped, if there is one, and how many more than elsewhere
    /// (the vote of Boyer and Moore).
    majority: (usize, u64),
}

/// Minipages of an area that follow each other and fill a page: the number of that page, were they laid out plainly.
type Neighbours = (AreaId, u32);

/// What is known of neighbours that would be one minipage.
#[derive(Debug, Default)]
struct Group {
    /// How often one of them was lost.
    losses: u64,
    /// What they have trapped for since.
    trapping: Option<Trapping>,
}

/// What they have trapped for in an interval, the last of them first.
#[derive(Clone, Copy, Debug)]
struct Trapping {
    interval: u64,
    last: (MinipageId, Kind),
    /// One of them has trapped to write.
    writes: bool,
}

/// The neighbours of a minipage of an allocation of many.
fn neighbours_of(minipage: MinipageId, platform: &Platform) -> Option<Neighbours> {
    let area = platform.tables().area(minipage.area())?;
    let Shape::Sub { per_page, .. } = area.record.area.shape else { return None };
    let is_one = area.record.items.array || area.record.items.count == 1;
    (is_one && per_page > 1).then(|| (minipage.area(), minipage.index() / u32::from(per_page)))
}

/// What a trap was for: the least that nobody else has written there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// What others write, as far as is known.
    #[default]
    Shared,
    /// A word in a cache line of which others write another part.
    Word,
    Line,
}

/// A place where a thread trapped, and what its cache line held when this node lost the minipage, if it
/// did and that was kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trapped {
    minipage: MinipageId,
    address: usize,
    kind: Kind,
    line: Option<Line>,
    interval: u64,
    /// [`Group::losses`] then.
    losses: u64,
}

/// What of a minipage lies in a cache line, and what of that in the word of a trap; either may begin before the minipage
/// and end behind it.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Where in the minipage it begins.
    start: usize,
    bytes: [u8; LINE_BYTES],
    len: usize,
    /// Where in the line the word begins and ends.
    word: (usize, usize),
}

impl Line {
    /// The line of a trap at an address, of a minipage with these contents that lies at `base`.
    fn of(address: usize, base: usize, contents: &[u8]) -> Option<Self> {
        let part = |size: usize| {
            let start = address / size * size;
            let end = (start + size).min(base + contents.len());
            start.max(base) - base..end.saturating_sub(base)
        };
        let (line, word) = (part(LINE_BYTES), part(WORD_BYTES));
        let found = contents.get(line.clone()).filter(|found| !found.is_empty())?;
        let mut bytes = [0; LINE_BYTES];
        bytes[..found.len()].copy_from_slice(found);
        let word = (word.start - line.start, word.end - line.start);
        Some(Self { start: line.start, bytes, len: found.len(), word })
    }

    /// What nobody else has written since, as `now` says of each byte of the minipage.
    fn part(&self, now: impl Fn(usize) -> u8) -> Part {
        let is_same =
            |mut range: Range<usize>| range.all(|at| now(self.start + at) == self.bytes[at]);
        match () {
            () if is_same(0..self.len) => Part::Line,
            () if is_same(self.word.0..self.word.1) => Part::Word,
            () => Part::Shared,
        }
    }
}

impl FalseSharing {
    /// A thread of this node releases or acquires: under lazy release minipages are closed then.
    pub(crate) fn end_interval(&self) {
        self.intervals.fetch_add(1, Ordering::Relaxed);
    }

    /// Of pages under release consistency.
    pub(crate) fn relaxed(&self) -> &WriteSharing {
        &self.relaxed
    }

    /// A minipage has just been opened, or closed for this node; its lock is held.
    pub(crate) fn on_change(&self, minipage: MinipageId, to: Access, platform: &Platform) {
        let mut uses = lock(&self.uses);
        let Uses { by_minipage, kept_bytes, neighbours } = &mut *uses;
        let entry = by_minipage.entry(minipage).or_default();
        *kept_bytes -= entry.kept.take().map_or(0, |kept| kept.len());
        if to != Access::NoAccess {
            return;
        }
        entry.losses += 1;
        if let Some(group) = neighbours_of(minipage, platform) {
            let group = neighbours.entry(group).or_default();
            group.losses += 1;
            group.trapping = None;
        }
        let (page, len) = platform.memory().privileged(minipage);
        if *kept_bytes + len > MOST_KEPT_BYTES {
            return;
        }
        *kept_bytes += len;
        let mut kept = vec![0; len].into_boxed_slice();
        // SAFETY: the privileged view is readable for the length of the minipage, in which no thread of this node
        // writes any more: what differed from what comes back would count as another node's write.
        unsafe { core::ptr::copy_nonoverlapping(page, kept.as_mut_ptr(), len) };
        entry.kept = Some(kept);
    }

    /// A thread has trapped at an address.
    pub(crate) fn trapped(
        &self,
        (minipage, address): (MinipageId, usize),
        kind: Kind,
        platform: &Platform,
    ) -> Trapped {
        let line_of = |kept: &[u8]| {
            let area = platform.tables().area(minipage.area())?;
            Line::of(address, area.record.area.address(minipage.index()), kept)
        };
        let uses = lock(&self.uses);
        let kept = uses.by_minipage.get(&minipage).and_then(|entry| entry.kept.as_deref());
        let interval = self.intervals.load(Ordering::Relaxed);
        let group = neighbours_of(minipage, platform);
        let losses =
            group.and_then(|group| uses.neighbours.get(&group)).map_or(0, |group| group.losses);
        Trapped { minipage, address, kind, line: kept.and_then(line_of), interval, losses }
    }

    /// It has what it trapped for.
    pub(crate) fn served(&self, trapped: Trapped, platform: &Platform) {
        let Trapped { minipage, address, kind, line, interval, losses } = trapped;
        let part = line.map(|line| {
            let (page, _) = platform.memory().privileged(minipage);
            line.part(|at| {
                let byte = page.wrapping_add(at);
                // SAFETY: a byte of the minipage, and the privileged view is readable there.
                unsafe { byte.read_volatile() }
            })
        });
        let mut uses = lock(&self.uses);
        let Uses { by_minipage, neighbours, .. } = &mut *uses;
        let entry = by_minipage.entry(minipage).or_default();
        entry.count(part, (address, kind), interval);
        if let Some(group) = neighbours_of(minipage, platform) {
            let group = neighbours.entry(group).or_default();
            // What was lost before this thread went on is not here.
            if group.losses == losses {
                let spared = Trapping::add(&mut group.trapping, (minipage, kind), interval);
                entry.too_fine += u64::from(spared);
            }
        }
    }

    /// What is known of each allocation, those that went to and fro most often first. Small allocations
    /// of release consistency that share pages count as one.
    pub(crate) fn report(
        &self,
        sites: Option<&AllocationSites>,
        platform: &Platform,
    ) -> Vec<Shared> {
        let mut all: BTreeMap<u64, (u64, Shared)> = BTreeMap::new();
        // Of pages of small allocations, one on the page with most of what is counted.
        let mut examples: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for (&minipage, entry) in &lock(&self.uses).by_minipage {
            let Some(area) = platform.tables().area(minipage.area()) else { continue };
            let item = area.record.item_of(minipage.index(), 0);
            let (base, bytes) = match item.element {
                Some((_, count)) => (area.record.area.base as u64, item.bytes as u64 * count),
                None => (item.base as u64, item.bytes as u64),
            };
            let (moves, shared) = all.entry(base).or_default();
            *moves += entry.losses + entry.faults;
            (shared.allocation.base, shared.allocation.bytes) = (base, bytes);
            entry.add_to(shared);
        }
        for (minipage, refetches) in self.relaxed.counts() {
            let Some(area) = platform.tables().area(minipage.area()) else { continue };
            let item = area.record.item_of(minipage.index(), 0);
            let AreaRecord { area, items, .. } = area.record;
            let small = items.chunk > 1 && !items.array;
            let (base, bytes) = match item.element {
                _ if small => (area.base, items.bytes),
                Some((_, count)) => (area.base, items.bytes * count),
                None => (item.base, items.bytes),
            };
            let (moves, shared) = all.entry(base as u64).or_default();
            *moves += refetches.all;
            let (base, made) = (base as u64, None);
            shared.allocation = Allocation { base, bytes, made, small };
            shared.refetches.all += refetches.all;
            shared.refetches.apart += refetches.apart;
            let (most, example) = examples.entry(base).or_default();
            if small && refetches.apart >= *most {
                (*most, *example) = (refetches.apart, item.base);
            }
        }
        let mut all: Vec<(u64, Shared)> = all.into_values().collect();
        all.sort_by_key(|(moves, _)| core::cmp::Reverse(*moves));
        all.truncate(MOST_REPORTED);
        let by_default = platform.memory().policy(SegmentId::FIRST).consistency.is_sequential();
        let named = |(_, mut shared): (u64, Shared)| {
            let of = &mut shared.allocation;
            let example = examples.get(&of.base).filter(|_| of.small).map(|(_, place)| *place);
            let place = example.or_else(|| usize::try_from(of.base).ok());
            let found = place.and_then(|place| sites?.find(place));
            let (bytes, made) = found.unwrap_or((0, None));
            (of.bytes, of.made) = (of.bytes.max(bytes as u64), made);
            // Sequential memory of another job was asked for: what another consistency would spare is not to be had.
            shared.again = if by_default { shared.again } else { 0 };
            shared
        };
        all.into_iter().map(named).collect()
    }
}

impl Trapping {
    /// One more trap; whether it had not been, were the neighbours one minipage: then there is one for all of them, and
    /// one more to write what was read. In an interval no other node may have written in between what it was for: the
    /// program is free of races.
    fn add(before: &mut Option<Self>, trap: (MinipageId, Kind), interval: u64) -> bool {
        let (_, kind) = trap;
        if before.is_some_and(|before| before.interval > interval) {
            // Its thread was slow.
            return false;
        }
        let same = before.filter(|before| before.interval == interval);
        let writes = same.is_some_and(|same| same.writes);
        *before = Some(Self { interval, last: trap, writes: writes || kind == Kind::Write });
        // A second thread that trapped at the same time is no reason for another grain.
        same.is_some_and(|same| same.last != trap && (writes || kind == Kind::Read))
    }
}

impl Use {
    /// One trap. `part`: what is there as before, if the minipage had been lost and was kept. If not, a write inherits
    /// the classification of the read fetch before it.
    fn count(&mut self, part: Option<Part>, (address, kind): (usize, Kind), interval: u64) {
        let inherited = if kind == Kind::Write { self.part } else { Part::Shared };
        self.part = part.unwrap_or(inherited);
        let last = &mut self.intervals[usize::from(kind == Kind::Write)];
        self.again += u64::from(*last == Some(interval));
        *last = Some(interval);
        self.faults += 1;
        match self.part {
            Part::Shared => return,
            Part::Word => self.beside += 1,
            Part::Line => self.apart += 1,
        }
        self.writes |= kind == Kind::Write;
        let (place, votes) = &mut self.majority;
        match () {
            () if *votes == 0 => (*place, *votes) = (address, 1),
            () if *place == address => *votes += 1,
            () => *votes -= 1,
        }
    }

    fn add_to(&self, shared: &mut Shared) {
        shared.faults += self.faults;
        shared.apart += self.apart;
        shared.beside += self.beside;
        shared.again += self.again;
        shared.too_fine += self.too_fine;
        shared.writes |= self.writes;
        let (place, votes) = self.majority;
        if votes > shared.place.map_or(0, |(_, votes)| votes) {
            shared.place = Some(((place as u64).saturating_sub(shared.allocation.base), votes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_after_a_fetch_for_a_part_of_one_s_own_is_of_the_same_kind() {
        let mut entry = Use::default();
        entry.count(None, (0, Kind::Write), 1);
        assert_eq!(entry.apart, 0);
        entry.count(Some(Part::Line), (0, Kind::Read), 1);
        entry.count(None, (0, Kind::Write), 1);
        assert_eq!((entry.faults, entry.apart, entry.writes), (3, 2, true));
        entry.count(Some(Part::Shared), (0, Kind::Read), 1);
        entry.count(None, (0, Kind::Write), 1);
        assert_eq!((entry.faults, entry.apart, entry.beside), (5, 2, 0));
        entry.count(Some(Part::Word), (0, Kind::Read), 1);
        entry.count(None, (0, Kind::Write), 1);
        assert_eq!((entry.faults, entry.apart, entry.beside), (7, 2, 2));
    }

    #[test]
    fn the_word_of_a_trap_is_compared_wherever_its_minipage_begins() {
        let contents: Vec<u8> = (0..148).collect();
        for base in [0, 4, 148, 296, 4092] {
            for at in 0..contents.len() {
                let line = Line::of(base + at, base, &contents).unwrap();
                let written =
                    |wrote: usize| line.part(|byte| contents[byte] ^ u8::from(byte == wrote));
                assert_eq!(written(at), Part::Shared, "{base} {at}");
                for other in 0..contents.len() {
                    let same = |size: usize| (base + at) / size == (base + other) / size;
                    let expected = match (same(WORD_BYTES), same(LINE_BYTES)) {
                        (true, _) => Part::Shared,
                        (false, true) => Part::Word,
                        (false, false) => Part::Line,
                    };
                    assert_eq!(written(other), expected, "{base} {at} {other}");
                }
            }
        }
        assert!(Line::of(500, 100, &contents).is_none(), "beyond it");
    }

    #[test]
    fn a_trap_of_the_same_kind_in_the_same_interval_is_one_again() {
        let mut entry = Use::default();
        for (kind, interval) in
            [(Kind::Read, 1), (Kind::Write, 1), (Kind::Read, 1), (Kind::Write, 2), (Kind::Write, 2)]
        {
            entry.count(Some(Part::Line), (0, kind), interval);
        }
        assert_eq!((entry.faults, entry.apart, entry.again), (5, 5, 2));
    }

    #[test]
    fn neighbours_that_are_one_minipage_trap_once_an_interval_and_once_more_to_write() {
        let mut before = None;
        let (read, write) = (Kind::Read, Kind::Write);
        let traps = [
            (1, read, 4, false),
            (2, read, 4, true),
            // A second thread.
            (2, read, 4, false),
            (1, write, 4, false),
            (3, write, 4, true),
            (4, read, 4, true),
            (5, write, 4, true),
            (5, read, 5, false),
            (6, write, 5, false),
            // Each is read and then written, as by an addition.
            (7, read, 6, false),
            (7, write, 6, false),
            (8, read, 6, true),
            (8, write, 6, true),
            // Its thread has trapped long ago.
            (9, write, 5, false),
            (9, read, 6, true),
        ];
        for (index, kind, interval, spared) in traps {
            let trap = (MinipageId::new(AreaId(3), index), kind);
            let found = Trapping::add(&mut before, trap, interval);
            assert_eq!(found, spared, "{index} {kind:?} {interval}");
        }
    }

    #[test]
    fn the_place_of_most_traps_is_known_where_there_is_one() {
        let mut entry = Use::default();
        let mut shared = Shared {
            allocation: Allocation { base: 4096, ..Allocation::default() },
            ..Shared::default()
        };
        for address in [4100, 5000, 5000, 4200, 5000, 5000] {
            entry.count(Some(Part::Word), (address, Kind::Read), 1);
        }
        entry.count(Some(Part::Shared), (4100, Kind::Read), 1);
        entry.add_to(&mut shared);
        assert_eq!(shared.place, Some((904, 2)));
        Use::default().add_to(&mut shared);
        assert_eq!(shared.place, Some((904, 2)));
    }
}
