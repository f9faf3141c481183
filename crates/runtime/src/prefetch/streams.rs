//! Read-ahead: a thread that has needed three neighbouring minipages in order gets the next two with the
//! third, and twice as many each time it needs the one behind the last it got. It may go up or down: the C
//! library's memcpy goes down where the two places lie alike in their pages. A *strided* scan has steps of more than
//! one minipage: a column of a matrix, or the rows that are dealt out to a node. Four that it missed in equal steps begin one, for
//! steps of any length are found among those that a thread needs here and there, too.
//!
//! This is the read-ahead of files, for reads and for writes. Each thread follows a few scans at once: a loop over
//! two arrays makes two. A fault elsewhere ends no scan, but if there are too many the one unused for longest is
//! dropped. A wrong guess costs messages, and may take a minipage from a node that writes it. So two hits come
//! before the first guess, and a scan that was left starts from nothing. Under sequential consistency, a
//! prefetched minipage that faults again was taken by another node that uses it: that scan is given up. The
//! thread's guesses need more hits after that (the *miss penalty*), and fewer again with each right one.
//!
//! A long scan that gets as much at once as it may is *read ahead*: what lies behind is asked for with it, and comes while the
//! thread works. When it gets there, it waits for what is on its way, and the next is asked for.
//!
//! A guess grows up to what one request may be about: `MAX_RUN` minipages and `MAX_RUN_BYTES` of `minipage_run.rs`, and
//! what is in use together (`may_go_together` of this folder).

use multigrain_protocol::Kind;
use multigrain_types::MinipageId;

use super::RunBounds;
use crate::minipage_run::Run;

/// Scans that a thread may have under way.
const MOST: usize = 4;
/// Hits before the first guess.
const CONFIRMED: u8 = 2;
/// Minipages that the first guess is about, beside the one that is needed.
const FIRST_WINDOW: u32 = 2;
/// Hits before it is read ahead: of pages it has got 197 then, so what is read ahead in vain at its end is less.
const LONG: u8 = 9;
/// The most that a guess of a strided scan is about: each is asked for by a frame of its own.
const MOST_STRIDED: u32 = 64;
/// Minipages that a thread needed and no scan foresaw, among which equal steps are looked for.
const MISSES: usize = 12;

/// What is read and then written, as far as it was seen, is asked for to write at once; one time in so many it
/// is not, to see whether it still is written.
const RELEARN: u8 = 8;

/// What a thread gets that needs a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prediction {
    /// A run that it is in.
    Run(Run),
    /// It and so many in steps from it on.
    Strided { step: i32, count: u32 },
}

/// One scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    next: MinipageId,
    /// 1 until its first hit, which may be on either side of where it began.
    step: i32,
    kind: Kind,
    hits: u8,
    /// Minipages fetched ahead last.
    window: u32,
    /// Minipages that were asked for behind those, from `next` on.
    ahead: u32,
    /// How often in a row what it needed to read was asked for to write.
    assumed: u8,
    /// The thread reads and then writes what it scans: there is a scan of the other kind at the same place.
    paired: bool,
}

/// What a thread scans.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    /// The last used first.
    scans: [Option<Stream>; MOST],
    /// The last first.
    misses: [Option<(MinipageId, Kind)>; MISSES],
    /// Hits beyond [`CONFIRMED`] before a guess.
    miss_penalty: u8,
}

/// The most of them.
const MAX_MISS_PENALTY: u8 = 60;

impl Streams {
    pub(super) const NONE: Self =
        Self { scans: [None; MOST], misses: [None; MISSES], miss_penalty: 0 };

    /// Whether the thread has got a minipage ahead that it writes now, and those that came with it and lie next to each
    /// other ahead of it.
    pub(super) fn got_ahead(&self, minipage: MinipageId) -> Option<Option<Run>> {
        self.scans.iter().flatten().find_map(|scan| {
            let back = scan.back(minipage, Kind::Write)?;
            let index = minipage.index();
            let first = match scan.step {
                1 => index + 1,
                -1 => index + 1 - back,
                _ => return Some(None),
            };
            Some(Run::new(MinipageId::new(minipage.area(), first), back - 1))
        })
    }

    /// What the thread has scanned says nothing about what comes.
    pub(super) fn forget(&mut self) {
        *self = Self { miss_penalty: self.miss_penalty, ..Self::NONE };
    }

    /// The thread needs a minipage: what it gets, that one included, of those within its bounds, and what
    /// for. `alone`: only one node may write it at a time, so what is needed again was taken away.
    pub(super) fn need(
        &mut self,
        minipage: MinipageId,
        kind: Kind,
        bounds: RunBounds,
        alone: bool,
    ) -> (Prediction, Kind) {
        if !alone {
            self.lose_ahead(minipage, kind);
        }
        let scan = self.take(minipage, kind);
        match scan {
            Some(scan) if scan.window > 0 => self.miss_penalty /= 2,
            None if alone && self.give_up(minipage, kind) => {
                self.miss_penalty = (2 * self.miss_penalty + 1).min(MAX_MISS_PENALTY);
            }
            Some(_) | None => {}
        }
        let confirmed = CONFIRMED + if alone { self.miss_penalty } else { 0 };
        let first = Stream::new(minipage, (1, 0), kind);
        let mut stream = scan.or_else(|| self.strided(minipage, kind)).unwrap_or(first);
        // A scan that writes, at the same place: this thread has written all that it has read.
        let written = (kind == Kind::Read && stream.hits >= confirmed && stream.assumed < RELEARN)
            .then(|| self.take(minipage, Kind::Write))
            .flatten();
        stream.assumed = written.map_or(0, |_| stream.assumed + 1);
        stream.window = match stream.hits >= confirmed {
            true => (stream.window * 2).max(FIRST_WINDOW),
            false => 0,
        };
        let most = if stream.step.unsigned_abs() > 1 { MOST_STRIDED + 1 } else { u32::MAX };
        let count = (stream.window + 1).min(bounds.steps(minipage.index(), stream.step)).min(most);
        stream.window = count - 1;
        // At either end of an area it wraps to a minipage that nobody needs next.
        stream.next = beyond(minipage, stream.step, count);
        stream.paired = written.is_some() || self.is_paired(kind, [minipage, stream.next]);
        if let Some(writes) = written {
            let Stream { next, step, window, .. } = stream;
            self.put(Stream { next, step, window, ..writes });
        }
        self.put(stream);
        let first = match stream.step {
            -1 => beyond(minipage, -1, stream.window),
            _ => minipage,
        };
        let ahead = match (stream.step, count) {
            (1 | -1, _) | (_, 1) => {
                Prediction::Run(Run::new(first, count).unwrap_or(Run::one(minipage)))
            }
            (step, _) => Prediction::Strided { step, count: stream.window },
        };
        (ahead, if written.is_some() { Kind::Write } else { kind })
    }

    /// What is to be asked for with what [`Streams::need`] has said, for it is needed next: only of a long scan, which gets as
    /// much at once as it may, and whose minipages are not read and then written: those are asked for to write, as far as was seen.
    pub(super) fn read_ahead(&mut self, bounds: &RunBounds) -> Option<Run> {
        let scan = self.scans[0].as_mut()?;
        let is_long = scan.hits >= LONG && scan.window + 1 >= bounds.most;
        let may = is_long && scan.step.abs() == 1 && !scan.paired;
        if may { scan.ask_ahead(bounds) } else { None }
    }

    /// The thread needs a minipage that is on its way, or has come just now. If it is the first of those that were read
    /// ahead: what is to be asked for behind them.
    pub(super) fn follow(
        &mut self,
        minipage: MinipageId,
        kind: Kind,
        bounds: &RunBounds,
    ) -> Option<Run> {
        let is = |scan: &Stream| scan.ahead > 0 && (scan.next, scan.kind) == (minipage, kind);
        let place = self.scans.iter().position(|scan| scan.as_ref().is_some_and(is))?;
        self.scans[..=place].rotate_right(1);
        let scan = self.scans[0].as_mut()?;
        scan.next = beyond(minipage, scan.step, scan.ahead);
        scan.window = scan.ahead - 1;
        scan.hits = scan.hits.saturating_add(1);
        scan.ahead = 0;
        let next = scan.next;
        if self.is_paired(kind, [minipage, next]) {
            return None;
        }
        self.scans[0].as_mut()?.ask_ahead(bounds)
    }

    /// A scan with longer steps that this minipage, which no scan foresaw, is the fourth of: the last three of its area and
    /// kind lie behind it in equal steps.
    fn strided(&mut self, minipage: MinipageId, kind: Kind) -> Option<Stream> {
        let alike =
            |&&(before, of): &&(MinipageId, Kind)| before.area() == minipage.area() && of == kind;
        let mut before = self.misses.iter().flatten().filter(alike);
        let mut back = || before.next().map(|(before, _)| i64::from(before.index()));
        let here = i64::from(minipage.index());
        let last = [back(), back(), back()];
        let step = last[0].and_then(|last| i32::try_from(here - last).ok()).unwrap_or_default();
        let are_equal =
            (1..).zip(last).all(|(steps, at)| at == Some(here - steps * i64::from(step)));
        let found = (are_equal && step.unsigned_abs() > 1).then_some(step);
        self.misses.rotate_right(1);
        self.misses[0] = Some((minipage, kind));
        found.map(|step| Stream::new(minipage, (step, 3), kind))
    }

    /// Whether a scan of the other kind is at one of these places.
    fn is_paired(&self, kind: Kind, places: [MinipageId; 2]) -> bool {
        let is = |other: &Stream| other.kind != kind && places.contains(&other.next);
        self.scans.iter().flatten().any(is)
    }

    /// What was read ahead from a minipage on has been taken by an acquire: its scan goes on as if it had not been.
    fn lose_ahead(&mut self, minipage: MinipageId, kind: Kind) {
        for scan in self.scans.iter_mut().flatten() {
            if (scan.next, scan.kind) == (minipage, kind) {
                scan.ahead = 0;
            }
        }
    }

    /// Gives up the scans that got a minipage ahead which is needed again; false if there are none.
    fn give_up(&mut self, minipage: MinipageId, kind: Kind) -> bool {
        let mut given_up = false;
        for place in &mut self.scans {
            if place.is_some_and(|scan| scan.has_got(minipage, kind)) {
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

/// The minipage so many steps from one on.
pub(super) fn beyond(minipage: MinipageId, step: i32, count: u32) -> MinipageId {
    let distance = step.wrapping_mul(count.cast_signed());
    MinipageId::new(minipage.area(), minipage.index().wrapping_add_signed(distance))
}

impl Stream {
    /// One that needs this minipage next, in steps of so many, with so many hits.
    fn new(next: MinipageId, (step, hits): (i32, u8), kind: Kind) -> Self {
        Self { next, step, kind, hits, window: 0, ahead: 0, assumed: 0, paired: false }
    }

    /// How far the scan is beyond a minipage, if it has got that ahead.
    fn back(self, minipage: MinipageId, kind: Kind) -> Option<u32> {
        let same = self.kind == kind && self.next.area() == minipage.area();
        let is = |back: &u32| beyond(minipage, self.step, *back) == self.next;
        if same { (1..=self.window).find(is) } else { None }
    }

    /// Whether it has got a minipage ahead, or has asked for it.
    fn has_got(self, minipage: MinipageId, kind: Kind) -> bool {
        let behind = Self { next: self.behind(), window: self.window + self.ahead, ..self };
        behind.back(minipage, kind).is_some()
    }

    /// The minipage behind all that it has asked for.
    fn behind(self) -> MinipageId {
        beyond(self.next, self.step, self.ahead)
    }

    /// Reads ahead: as many as one request may be about.
    fn ask_ahead(&mut self, bounds: &RunBounds) -> Option<Run> {
        let index = self.next.index();
        self.ahead = 0;
        if !bounds.together.contains(&index) {
            return None;
        }
        let count = bounds.steps(index, self.step);
        let first = if self.step < 0 { beyond(self.next, -1, count - 1) } else { self.next };
        let run = Run::new(first, count)?;
        self.ahead = count;
        Some(run)
    }

    /// The scan with one hit more, if it needs this minipage next. What was read ahead is not needed: it has come, or
    /// [`Streams::follow`] is asked.
    fn hit(self, minipage: MinipageId, kind: Kind) -> Option<Self> {
        // It began at the one before `next`.
        let before = self.next.index().checked_sub(2) == Some(minipage.index());
        let step = if self.behind() == minipage {
            self.step
        } else if self.hits == 0 && before && self.next.area() == minipage.area() {
            -1
        } else {
            return None;
        };
        let hits = self.hits.saturating_add(1);
        (self.kind == kind).then_some(Self { hits, step, ahead: 0, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    /// So many at once.
    fn most(count: u32) -> RunBounds {
        RunBounds { together: 0..u32::MAX, most: count }
    }

    fn run_of(ahead: Prediction) -> Run {
        let Prediction::Run(run) = ahead else { panic!("{ahead:?}") };
        run
    }

    fn need(streams: &mut Streams, area: u32, index: u32, kind: Kind) -> u32 {
        run_of(streams.need(MinipageId::new(AreaId(area), index), kind, most(64), true).0).count()
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
        let (ahead, _) = streams.need(last, Kind::Read, most(2), true);
        assert_eq!(run_of(ahead), Run::new(last, 2).unwrap());
        let next = MinipageId::new(AreaId(1), 7);
        assert_eq!(run_of(streams.need(next, Kind::Read, most(1), true).0), Run::one(next));
    }

    #[test]
    fn a_scan_may_go_down_from_the_last_minipage_of_an_area_to_its_first() {
        let minipage = |index| MinipageId::new(AreaId(1), index);
        let mut streams = Streams::default();
        // The C library looks at the other end first.
        need(&mut streams, 1, 0, Kind::Read);
        let (mut next, mut runs) = (99, Vec::new());
        loop {
            let bounds = RunBounds { together: 0..100, most: 32 };
            let run = run_of(streams.need(minipage(next), Kind::Read, bounds, true).0);
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
            let (ahead, kind) = streams.need(minipage, Kind::Read, most(4), true);
            if kind == Kind::Read {
                // The thread writes what it has read.
                let (writable, _) = streams.need(minipage, Kind::Write, most(4), true);
                assert_eq!(writable, ahead);
            }
            asked.push(kind);
            next += run_of(ahead).count();
        }
        let reads: Vec<_> = (0..24).filter(|&time| asked[time] == Kind::Read).collect();
        assert_eq!(reads, [0, 1, 10, 19]);
    }

    /// Needs whatever it has not got in steps from `first` on: how many it got each time.
    fn stride(streams: &mut Streams, first: u32, step: i32, times: usize) -> Vec<u32> {
        let mut next = MinipageId::new(AreaId(1), first);
        let mut counts = Vec::new();
        for _ in 0..times {
            let ahead = streams.need(next, Kind::Read, most(1024), true).0;
            let count = match ahead {
                Prediction::Run(run) => run.count(),
                Prediction::Strided { step: learnt, count } => {
                    assert_eq!(learnt, step);
                    count + 1
                }
            };
            counts.push(count);
            next = beyond(next, step, count);
        }
        counts
    }

    /// A scan of 0..1000, down if `step` is -1, until it is read ahead: what it needs next, what it got last, and what was
    /// asked for behind it each time.
    fn long_scan(streams: &mut Streams, step: i32) -> (u32, Run, Vec<Option<Run>>) {
        let bounds = RunBounds { together: 0..1000, most: 64 };
        let mut next = MinipageId::new(AreaId(1), if step < 0 { 999 } else { 0 });
        let mut ahead = Vec::new();
        loop {
            let got = run_of(streams.need(next, Kind::Read, bounds.clone(), true).0);
            ahead.push(streams.read_ahead(&bounds));
            next = beyond(next, step, got.count());
            if ahead.last() != Some(&None) {
                return (next.index(), got, ahead);
            }
        }
    }

    #[test]
    fn a_long_scan_is_read_ahead_and_waits_for_what_is_on_its_way() {
        let minipage = |index| MinipageId::new(AreaId(1), index);
        let run = |first, count| Run::new(minipage(first), count);
        let bounds = RunBounds { together: 0..1000, most: 64 };
        let mut streams = Streams::default();
        let (next, got, ahead) = long_scan(&mut streams, 1);
        assert_eq!((next, Some(got)), (261, run(197, 64)));
        assert_eq!(ahead, [vec![None; 9], vec![run(261, 64)]].concat());
        // That the second of them has not come either is no step.
        assert_eq!(streams.follow(minipage(262), Kind::Read, &bounds), None);
        assert_eq!(streams.follow(minipage(261), Kind::Write, &bounds), None);
        assert_eq!(streams.follow(minipage(261), Kind::Read, &bounds), run(325, 64));
        // All came before they were needed.
        let (got, _) = streams.need(minipage(389), Kind::Read, bounds.clone(), true);
        assert_eq!((Some(run_of(got)), streams.read_ahead(&bounds)), (run(389, 64), run(453, 64)));
        // Up to the end.
        let end = RunBounds { together: 0..530, most: 64 };
        assert_eq!(streams.follow(minipage(453), Kind::Read, &end), run(517, 13));
        assert_eq!(streams.follow(minipage(517), Kind::Read, &end), None);
        let mut down = Streams::default();
        let (next, got, ahead) = long_scan(&mut down, -1);
        assert_eq!((next, Some(got), ahead[9]), (738, run(739, 64), run(675, 64)));
        assert_eq!(down.follow(minipage(738), Kind::Read, &bounds), run(611, 64));
    }

    #[test]
    fn what_is_read_and_then_written_is_not_read_ahead() {
        let bounds = RunBounds { together: 0..10_000, most: 64 };
        let mut streams = Streams::default();
        let mut next = MinipageId::new(AreaId(1), 0);
        let mut reads = Vec::new();
        for time in 0..100 {
            let (got, kind) = streams.need(next, Kind::Read, bounds.clone(), true);
            assert_eq!(streams.read_ahead(&bounds), None);
            if kind == Kind::Read {
                reads.push(time);
                let (again, _) = streams.need(next, Kind::Write, bounds.clone(), true);
                assert_eq!((again, streams.read_ahead(&bounds)), (got, None));
            }
            next = beyond(next, 1, run_of(got).count());
        }
        assert_eq!(reads[..5], [0, 1, 10, 19, 28]);
    }

    #[test]
    fn a_long_scan_whose_read_ahead_was_taken_away_is_given_up() {
        let mut streams = Streams::default();
        let (next, ..) = long_scan(&mut streams, 1);
        assert_eq!(need(&mut streams, 1, next + 3, Kind::Read), 1);
        assert_eq!(need(&mut streams, 1, next + 64, Kind::Read), 1);
    }

    #[test]
    fn a_long_scan_whose_read_ahead_an_acquire_took_goes_on() {
        let bounds = RunBounds { together: 0..1000, most: 64 };
        let mut streams = Streams::default();
        let (next, ..) = long_scan(&mut streams, 1);
        let next = MinipageId::new(AreaId(1), next);
        let (got, _) = streams.need(next, Kind::Read, bounds.clone(), false);
        assert_eq!(run_of(got), Run::new(next, 64).unwrap());
        assert_eq!(streams.read_ahead(&bounds), Run::new(beyond(next, 1, 64), 64));
    }

    #[test]
    fn a_long_scan_that_begins_to_write_is_read_ahead_no_more() {
        let bounds = RunBounds { together: 0..1000, most: 64 };
        let mut streams = Streams::default();
        let (next, got, _) = long_scan(&mut streams, 1);
        let next = MinipageId::new(AreaId(1), next);
        let mut at = got.first();
        while at.index() < next.index() {
            // Not beyond what was read.
            let left = RunBounds { together: 0..next.index(), most: 64 };
            let (got, _) = streams.need(at, Kind::Write, left, true);
            at = beyond(at, 1, run_of(got).count());
        }
        assert!(streams.scans.iter().flatten().any(|scan| scan.ahead > 0), "it is followed");
        assert_eq!(streams.follow(next, Kind::Read, &bounds), None);
    }

    #[test]
    fn equal_steps_are_a_scan_from_the_fourth_on() {
        for step in [2, -2, 5, 100, -63] {
            let mut streams = Streams::default();
            let counts = stride(&mut streams, 100_000, step, 9);
            assert_eq!(counts, [1, 1, 1, 3, 5, 9, 17, 33, 65], "{step}");
        }
        // Beside another one, and what is needed here and there.
        let mut streams = Streams::default();
        for index in 0..4 {
            let strided = |first: u32, step: u32, kind| {
                let minipage = MinipageId::new(AreaId(1), first + step * index);
                (minipage, kind, Prediction::Strided { step: step.cast_signed(), count: 2 })
            };
            for (minipage, kind, ahead) in
                [strided(5000, 7, Kind::Read), strided(80, 3, Kind::Write)]
            {
                let (got, _) = streams.need(minipage, kind, most(1024), true);
                assert_eq!(got == ahead, index == 3, "{minipage:?}");
            }
            need(&mut streams, 2, 99 * index * index, Kind::Read);
        }
    }

    #[test]
    fn a_strided_scan_asks_for_nothing_beyond_what_is_in_use_together() {
        let mut streams = Streams::default();
        for index in [10, 20, 30] {
            need(&mut streams, 1, index, Kind::Read);
        }
        let bounds = |end| RunBounds { together: 5..end, most: 64 };
        let minipage = |index| MinipageId::new(AreaId(1), index);
        let (ahead, _) = streams.need(minipage(40), Kind::Read, bounds(51), true);
        assert_eq!(ahead, Prediction::Strided { step: 10, count: 1 });
        let (ahead, _) = streams.need(minipage(60), Kind::Read, bounds(65), true);
        assert_eq!(ahead, Prediction::Run(Run::one(minipage(60))));
        assert_eq!(bounds(65).steps(60, -10), 6);
        assert_eq!(bounds(65).steps(60, i32::MIN), 1);
    }

    #[test]
    fn what_came_ahead_lies_between_what_is_written_and_the_next_that_is_needed() {
        let minipage = |index| MinipageId::new(AreaId(1), index);
        let mut streams = Streams::default();
        for index in [10, 11, 12] {
            need(&mut streams, 1, index, Kind::Write);
        }
        // 13 and 14 came with 12.
        assert_eq!(streams.got_ahead(minipage(13)), Some(Run::new(minipage(14), 1)));
        assert_eq!(
            streams.got_ahead(minipage(14)),
            Some(None),
            "nothing behind, and no scan of its own"
        );
        for index in [15, 12, 11] {
            assert_eq!(streams.got_ahead(minipage(index)), None, "{index}");
        }
        let mut down = Streams::default();
        for index in [90, 89, 88] {
            down.need(minipage(index), Kind::Write, most(64), false);
        }
        assert_eq!(down.got_ahead(minipage(87)), Some(Run::new(minipage(86), 1)));
        assert_eq!(down.got_ahead(minipage(86)), Some(None));
    }

    #[test]
    fn what_is_written_no_more_is_asked_for_to_read_again() {
        let mut streams = Streams::default();
        let mut next = 0;
        let mut need = |streams: &mut Streams, writes: bool| {
            let minipage = MinipageId::new(AreaId(1), next);
            let (ahead, kind) = streams.need(minipage, Kind::Read, most(4), true);
            if writes && kind == Kind::Read {
                streams.need(minipage, Kind::Write, most(4), true);
            }
            next += run_of(ahead).count();
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
