//! Sequential read-ahead: a thread that has needed three neighbouring minipages in order gets the next two with the
//! third, and twice as many each time it needs the one behind the last it got. It may go up or down: the C
//! library's memcpy goes down where the two places lie alike in their pages.
//!
//! This is the read-ahead of files, for reads and for writes. Each thread follows a few scans at once: a loop over
//! two arrays makes two. A fault elsewhere ends no scan, but if there are too many the one unused for longest is
//! dropped. A wrong guess costs messages, and may take a minipage from a node that writes it. So two hits come
//! before the first guess, and a scan that was left starts from nothing. Under sequential consistency, a
//! prefetched minipage that faults again was taken by another node that uses it: that scan is given up. The
//! thread's guesses need more hits after that (the *miss penalty*), and fewer again with each right one.
//!
//! A guess grows up to what one request may be about: `MAX_RUN` minipages and `MAX_RUN_BYTES` of `minipage_run.rs`, and
//! what is in use together (`may_go_together` of this folder).

use core::cell::Cell;

use multigrain_protocol::Kind;
use multigrain_types::MinipageId;

use super::Reach;
use crate::minipage_run::Run;

/// Scans that a thread may have under way.
const MOST: usize = 4;
/// Hits before the first guess.
const CONFIRMED: u8 = 2;
/// Minipages that the first guess is about, beside the one that is needed.
const FIRST_WINDOW: u32 = 2;

/// What is read and then written, as far as it was seen, is asked for to write at once; one time in so many it
/// is not, to see whether it still is written.
const RELEARN: u8 = 8;

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// One scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    next: MinipageId,
    /// Up until its first hit, which may be on either side of where it began.
    direction: Direction,
    kind: Kind,
    hits: u8,
    /// Minipages fetched ahead last.
    window: u32,
    /// How often in a row what it needed to read was asked for to write.
    assumed: u8,
}

/// What a thread scans.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    /// The last used first.
    scans: [Option<Stream>; MOST],
    /// Hits beyond [`CONFIRMED`] before a guess.
    miss_penalty: u8,
}

/// The most of them.
const MAX_MISS_PENALTY: u8 = 60;

thread_local! {
    /// Constant and without destructor: usable in a trap.
    static STREAMS: Cell<Streams> = const { Cell::new(Streams::NONE) };
}

impl Streams {
    const NONE: Self = Self { scans: [None; MOST], miss_penalty: 0 };

    /// This thread needs a minipage: what it gets, that one included, if up to `most` may be had, and what
    /// for. `alone`: only one node may write it at a time, so what is needed again was taken away.
    pub(super) fn need(minipage: MinipageId, kind: Kind, most: Reach, alone: bool) -> (Run, Kind) {
        STREAMS.with(|cell| {
            let mut streams = cell.get();
            let needed = streams.needed(minipage, kind, most, alone);
            cell.set(streams);
            needed
        })
    }

    /// Whether this thread has got a minipage ahead that it writes now, and those that came with it and lie ahead of it.
    pub(super) fn got_ahead(minipage: MinipageId) -> Option<Option<Run>> {
        STREAMS.with(|cell| cell.get().ahead_of(minipage))
    }

    fn ahead_of(&self, minipage: MinipageId) -> Option<Option<Run>> {
        self.scans.iter().flatten().find_map(|scan| {
            let back = scan.back(minipage, Kind::Write)?;
            let index = minipage.index();
            let first = match scan.direction {
                Direction::Up => index + 1,
                Direction::Down => index + 1 - back,
            };
            Some(Run::new(MinipageId::new(minipage.area(), first), back - 1))
        })
    }

    /// What this thread has scanned says nothing about what comes.
    pub(super) fn forget() {
        STREAMS.with(|cell| cell.set(Self { miss_penalty: cell.get().miss_penalty, ..Self::NONE }));
    }

    fn needed(
        &mut self,
        minipage: MinipageId,
        kind: Kind,
        most: Reach,
        alone: bool,
    ) -> (Run, Kind) {
        let scan = self.take(minipage, kind);
        match scan {
            Some(scan) if scan.window > 0 => self.miss_penalty /= 2,
            None if alone && self.give_up(minipage, kind) => {
                self.miss_penalty = (2 * self.miss_penalty + 1).min(MAX_MISS_PENALTY);
            }
            Some(_) | None => {}
        }
        let confirmed = CONFIRMED + if alone { self.miss_penalty } else { 0 };
        let direction = Direction::Up;
        let first = Stream { next: minipage, direction, kind, hits: 0, window: 0, assumed: 0 };
        let mut stream = scan.unwrap_or(first);
        // A scan that writes, at the same place: this thread has written all that it has read.
        let written = (kind == Kind::Read && stream.hits >= confirmed && stream.assumed < RELEARN)
            .then(|| self.take(minipage, Kind::Write))
            .flatten();
        stream.assumed = written.map_or(0, |_| stream.assumed + 1);
        stream.window = match stream.hits >= confirmed {
            true => (stream.window * 2).max(FIRST_WINDOW),
            false => 0,
        };
        let most = match stream.direction {
            Direction::Up => most.from,
            Direction::Down => most.up_to,
        };
        let count = (stream.window + 1).min(most.max(1));
        stream.window = count - 1;
        // At either end of an area it wraps to a minipage that nobody needs next.
        let (first, next) = match stream.direction {
            Direction::Up => (minipage.index(), minipage.index().wrapping_add(count)),
            Direction::Down => (
                minipage.index().saturating_sub(stream.window),
                minipage.index().wrapping_sub(count),
            ),
        };
        stream.next = MinipageId::new(minipage.area(), next);
        if let Some(writes) = written {
            let Stream { next, direction, window, .. } = stream;
            self.put(Stream { next, direction, window, ..writes });
        }
        self.put(stream);
        let run = Run::new(MinipageId::new(minipage.area(), first), count);
        let kind = if written.is_some() { Kind::Write } else { kind };
        (run.unwrap_or(Run::one(minipage)), kind)
    }

    /// Gives up the scans that got a minipage ahead which is needed again; false if there are none.
    fn give_up(&mut self, minipage: MinipageId, kind: Kind) -> bool {
        let mut given_up = false;
        for place in &mut self.scans {
            if place.is_some_and(|scan| scan.back(minipage, kind).is_some()) {
                *place = None;
                given_up = true;
            }
        }
        given_up
    }

    /// Takes out the scan that needs a minipage next, with one hit more.
    fn take(&mut self, minipage: MinipageId, kind: Kind) -> Option<Stream> {
        let hit = |stream: &Option<Stream>| stream.and_then(|stream| stream.hit(minipage, kind));
        let place = self.scans.iter().position(|stream| hit(stream).is_some())?;
        let stream = hit(&self.scans[place].take());
        self.scans[place..].rotate_left(1);
        stream
    }

    /// Puts a scan in front; the last one goes if there are too many.
    fn put(&mut self, stream: Stream) {
        self.scans.rotate_right(1);
        self.scans[0] = Some(stream);
    }
}

impl Stream {
    /// How far the scan is beyond a minipage, if it has got that ahead.
    fn back(self, minipage: MinipageId, kind: Kind) -> Option<u32> {
        let (next, index) = (self.next.index(), minipage.index());
        let back = match self.direction {
            Direction::Up => next.wrapping_sub(index),
            Direction::Down => index.wrapping_sub(next),
        };
        let same = self.kind == kind && self.next.area() == minipage.area();
        (same && (1..=self.window).contains(&back)).then_some(back)
    }

    /// The scan with one hit more, if it needs this minipage next.
    fn hit(self, minipage: MinipageId, kind: Kind) -> Option<Self> {
        // It began at the one before `next`.
        let before = self.next.index().checked_sub(2) == Some(minipage.index());
        let direction = if self.next == minipage {
            self.direction
        } else if self.hits == 0 && before && self.next.area() == minipage.area() {
            Direction::Down
        } else {
            return None;
        };
        let hits = self.hits.saturating_add(1);
        (self.kind == kind).then_some(Self { hits, direction, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    /// So many of them from it on, and as many up to it.
    fn most(count: u32) -> Reach {
        Reach { from: count, up_to: count }
    }

    fn need(streams: &mut Streams, area: u32, index: u32, kind: Kind) -> u32 {
        streams.needed(MinipageId::new(AreaId(area), index), kind, most(64), true).0.count()
    }

    /// Needs whatever it has not got from `first` on: how many it got each time.
    fn scan(streams: &mut Streams, first: u32, times: usize) -> Vec<u32> {
        let mut next = first;
        let mut counts = Vec::new();
        for _ in 0..times {
            let count = need(streams, 1, next, Kind::Read);
            counts.push(count);
            next += count;
        }
        counts
    }

    #[test]
    fn a_scan_gets_twice_as_many_each_time_from_its_third_on() {
        let mut streams = Streams::default();
        assert_eq!(scan(&mut streams, 10, 8), [1, 1, 3, 5, 9, 17, 33, 64]);
    }

    #[test]
    fn a_thread_that_needs_minipages_here_and_there_gets_no_more() {
        let mut streams = Streams::default();
        for index in [5, 9, 6, 2, 13, 40, 41, 77] {
            assert_eq!(need(&mut streams, 1, index, Kind::Read), 1, "{index}");
        }
    }

    #[test]
    fn scans_of_several_arrays_to_read_and_to_write_are_told_apart() {
        let mut streams = Streams::default();
        let mut next = [0; 3];
        for expected in [1, 1, 3, 5, 9] {
            for (place, kind) in [Kind::Read, Kind::Write, Kind::Read].into_iter().enumerate() {
                let area = u32::try_from(place).unwrap();
                let count = need(&mut streams, area, next[place], kind);
                assert_eq!(count, expected);
                next[place] += count;
            }
        }
    }

    #[test]
    fn the_scan_that_was_not_used_longest_is_given_up() {
        let mut streams = Streams::default();
        scan(&mut streams, 0, 3);
        for area in 2..=5 {
            need(&mut streams, area, 0, Kind::Read);
        }
        assert_eq!(need(&mut streams, 1, 5, Kind::Read), 1, "begins again");
    }

    #[test]
    fn a_scan_ends_where_no_more_may_be_had() {
        let mut streams = Streams::default();
        scan(&mut streams, 0, 3);
        let last = MinipageId::new(AreaId(1), 5);
        assert_eq!(streams.needed(last, Kind::Read, most(2), true).0, Run::new(last, 2).unwrap());
        let next = MinipageId::new(AreaId(1), 7);
        assert_eq!(streams.needed(next, Kind::Read, Reach::ALONE, true).0, Run::one(next));
    }

    #[test]
    fn a_scan_may_go_down_from_the_last_minipage_of_an_area_to_its_first() {
        let minipage = |index| MinipageId::new(AreaId(1), index);
        let mut streams = Streams::default();
        // The C library looks at the other end first.
        need(&mut streams, 1, 0, Kind::Read);
        let (mut next, mut runs) = (99, Vec::new());
        loop {
            let most = Reach { from: 100 - next, up_to: (next + 1).min(32) };
            let (run, _) = streams.needed(minipage(next), Kind::Read, most, true);
            assert_eq!(run.end(), next + 1);
            runs.push(run.count());
            match run.first().index().checked_sub(1) {
                Some(index) => next = index,
                None => break,
            }
        }
        assert_eq!(runs, [1, 1, 3, 5, 9, 17, 32, 32]);
    }

    #[test]
    fn what_is_read_and_then_written_is_asked_for_to_write_but_for_one_time_in_nine() {
        let mut streams = Streams::default();
        let mut next = 0;
        let mut asked = Vec::new();
        for _ in 0..24 {
            let minipage = MinipageId::new(AreaId(1), next);
            let (run, kind) = streams.needed(minipage, Kind::Read, most(4), true);
            if kind == Kind::Read {
                // The thread writes what it has read.
                let (writable, _) = streams.needed(minipage, Kind::Write, most(4), true);
                assert_eq!(writable, run);
            }
            asked.push(kind);
            next += run.count();
        }
        let reads: Vec<_> = (0..24).filter(|&time| asked[time] == Kind::Read).collect();
        assert_eq!(reads, [0, 1, 10, 19]);
    }

    #[test]
    fn what_came_ahead_lies_between_what_is_written_and_the_next_that_is_needed() {
        let minipage = |index| MinipageId::new(AreaId(1), index);
        let mut streams = Streams::default();
        for index in [10, 11, 12] {
            need(&mut streams, 1, index, Kind::Write);
        }
        // 13 and 14 came with 12.
        assert_eq!(streams.ahead_of(minipage(13)), Some(Run::new(minipage(14), 1)));
        assert_eq!(
            streams.ahead_of(minipage(14)),
            Some(None),
            "nothing behind, and no scan of its own"
        );
        for index in [15, 12, 11] {
            assert_eq!(streams.ahead_of(minipage(index)), None, "{index}");
        }
        let mut down = Streams::default();
        for index in [90, 89, 88] {
            down.needed(minipage(index), Kind::Write, most(64), false);
        }
        assert_eq!(down.ahead_of(minipage(87)), Some(Run::new(minipage(86), 1)));
        assert_eq!(down.ahead_of(minipage(86)), Some(None));
    }

    #[test]
    fn what_is_written_no_more_is_asked_for_to_read_again() {
        let mut streams = Streams::default();
        let mut next = 0;
        let mut need = |streams: &mut Streams, writes: bool| {
            let minipage = MinipageId::new(AreaId(1), next);
            let (run, kind) = streams.needed(minipage, Kind::Read, most(4), true);
            if writes && kind == Kind::Read {
                streams.needed(minipage, Kind::Write, most(4), true);
            }
            next += run.count();
            kind
        };
        (0..4).for_each(|_| {
            need(&mut streams, true);
        });
        let asked: Vec<_> = (0..30).map(|_| need(&mut streams, false)).collect();
        let writes = asked.iter().filter(|&&kind| kind == Kind::Write).count();
        assert!(writes <= usize::from(RELEARN), "{asked:?}");
        assert_eq!(asked[29], Kind::Read);
    }

    #[test]
    fn a_thread_whose_guesses_are_taken_away_guesses_less_often() {
        let mut streams = Streams::default();
        let mut ahead = Vec::new();
        for round in 0..6 {
            // Twenty in a row, whatever came with others: somebody has taken it.
            let first = round * 100;
            let counts = (0..20).map(|index| need(&mut streams, 1, first + index, Kind::Write));
            ahead.push(counts.map(|count| count - 1).sum::<u32>());
        }
        assert!(ahead[0] > 4, "{ahead:?}");
        assert!(ahead[5] <= 2, "{ahead:?}");
        // A long scan shows that guesses are right again.
        let mut next = 10_000;
        let mut counts = Vec::new();
        for _ in 0..100 {
            let count = need(&mut streams, 1, next, Kind::Write);
            counts.push(count);
            next += count;
        }
        assert_eq!(counts.last(), Some(&64), "{counts:?}");
    }
}
