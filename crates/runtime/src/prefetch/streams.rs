//! Sequential read-ahead: a thread that has needed three neighbouring minipages in order gets the next two with the
//! third, and twice as many each time it needs the one behind the last it got.
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

/// Scans that a thread may have under way.
const MOST: usize = 4;
/// Hits before the first guess.
const CONFIRMED: u8 = 2;
/// Minipages that the first guess is about, beside the one that is needed.
const FIRST_WINDOW: u32 = 2;

/// What is read and then written, as far as it was seen, is asked for to write at once; one time in so many it
/// is not, to see whether it still is written.
const RELEARN: u8 = 8;

/// One scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    next: MinipageId,
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

    /// This thread needs a minipage: how many it gets, that one included, if up to `most` of them may be had,
    /// and what for. `alone`: only one node may write it at a time, so what is needed again was taken away.
    pub(super) fn need(minipage: MinipageId, kind: Kind, most: u32, alone: bool) -> (u32, Kind) {
        STREAMS.with(|cell| {
            let mut streams = cell.get();
            let needed = streams.needed(minipage, kind, most, alone);
            cell.set(streams);
            needed
        })
    }

    /// What this thread has scanned says nothing about what comes.
    pub(super) fn forget() {
        STREAMS.with(|cell| cell.set(Self { miss_penalty: cell.get().miss_penalty, ..Self::NONE }));
    }

    fn needed(&mut self, minipage: MinipageId, kind: Kind, most: u32, alone: bool) -> (u32, Kind) {
        let scan = self.take(minipage, kind);
        match scan {
            Some(scan) if scan.window > 0 => self.miss_penalty /= 2,
            None if alone && self.give_up(minipage, kind) => {
                self.miss_penalty = (2 * self.miss_penalty + 1).min(MAX_MISS_PENALTY);
            }
            Some(_) | None => {}
        }
        let confirmed = CONFIRMED + if alone { self.miss_penalty } else { 0 };
        let first = Stream { next: minipage, kind, hits: 0, window: 0, assumed: 0 };
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
        let count = (stream.window + 1).min(most.max(1));
        stream.window = count - 1;
        // At the end of an area it wraps to a minipage that nobody needs next.
        stream.next = MinipageId::new(minipage.area(), minipage.index().wrapping_add(count));
        if let Some(writes) = written {
            self.put(Stream { next: stream.next, window: stream.window, ..writes });
        }
        self.put(stream);
        (count, if written.is_some() { Kind::Write } else { kind })
    }

    /// Gives up the scans that got a minipage ahead which is needed again; false if there are none.
    fn give_up(&mut self, minipage: MinipageId, kind: Kind) -> bool {
        let mut given_up = false;
        for place in &mut self.scans {
            let lost = place.is_some_and(|scan| {
                let end = scan.next.index();
                let ahead = end.wrapping_sub(scan.window)..end;
                scan.kind == kind
                    && scan.next.area() == minipage.area()
                    && ahead.contains(&minipage.index())
            });
            if lost {
                *place = None;
                given_up = true;
            }
        }
        given_up
    }

    /// Takes out the scan that needs a minipage next, with one hit more.
    fn take(&mut self, minipage: MinipageId, kind: Kind) -> Option<Stream> {
        let hit = |stream: &Option<Stream>| {
            stream.is_some_and(|stream| (stream.next, stream.kind) == (minipage, kind))
        };
        let place = self.scans.iter().position(hit)?;
        let stream = self.scans[place].take()?;
        self.scans[place..].rotate_left(1);
        Some(Stream { hits: stream.hits.saturating_add(1), ..stream })
    }

    /// Puts a scan in front; the last one goes if there are too many.
    fn put(&mut self, stream: Stream) {
        self.scans.rotate_right(1);
        self.scans[0] = Some(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    fn need(streams: &mut Streams, area: u32, index: u32, kind: Kind) -> u32 {
        streams.needed(MinipageId::new(AreaId(area), index), kind, 64, true).0
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
        assert_eq!(streams.needed(last, Kind::Read, 2, true), (2, Kind::Read));
        let next = MinipageId::new(AreaId(1), 7);
        assert_eq!(streams.needed(next, Kind::Read, 0, true), (1, Kind::Read));
    }

    #[test]
    fn what_is_read_and_then_written_is_asked_for_to_write_but_for_one_time_in_nine() {
        let mut streams = Streams::default();
        let mut next = 0;
        let mut asked = Vec::new();
        for _ in 0..24 {
            let minipage = MinipageId::new(AreaId(1), next);
            let (count, kind) = streams.needed(minipage, Kind::Read, 4, true);
            if kind == Kind::Read {
                // The thread writes what it has read.
                let (writable, _) = streams.needed(minipage, Kind::Write, 4, true);
                assert_eq!(writable, count);
            }
            asked.push(kind);
            next += count;
        }
        let reads: Vec<_> = (0..24).filter(|&time| asked[time] == Kind::Read).collect();
        assert_eq!(reads, [0, 1, 10, 19]);
    }

    #[test]
    fn what_is_written_no_more_is_asked_for_to_read_again() {
        let mut streams = Streams::default();
        let mut next = 0;
        let mut need = |streams: &mut Streams, writes: bool| {
            let minipage = MinipageId::new(AreaId(1), next);
            let (count, kind) = streams.needed(minipage, Kind::Read, 4, true);
            if writes && kind == Kind::Read {
                streams.needed(minipage, Kind::Write, 4, true);
            }
            next += count;
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
