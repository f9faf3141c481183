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
    pub(super) fn read_ahead(&mut self, minipage: MinipageId, bounds: &RunBounds) -> Option<Run> {
        let scan = self.scans[0].filter(|scan| scan.step.abs() == 1)?;
        let is_long = scan.hits >= LONG && scan.window + 1 >= bounds.most;
        if is_long { self.ask_ahead(minipage, bounds) } else { None }
    }

    /// Whether this is the first minipage of a run that was read ahead.
    pub(super) fn is_ahead(&self, minipage: MinipageId, kind: Kind) -> bool {
        self.scans.iter().flatten().any(|scan| scan.begins_ahead(minipage, kind))
    }

    /// The thread needs a minipage that is on its way, or has come just now. If it is the first of those that were read
    /// ahead: what is to be asked for behind them.
    pub(super) fn follow(
        &mut self,
        minipage: MinipageId,
        kind: Kind,
        bounds: &RunBounds,
    ) -> Option<Run> {
        let is = |scan: &Option<Stream>| scan.is_some_and(|scan| scan.begins_ahead(minipage, kind));
        let place = self.scans.iter().position(is)?;
        self.scans[..=place].rotate_right(1);
        let scan = self.scans[0].as_mut()?;
        scan.next = beyond(minipage, scan.step, scan.ahead);
        scan.window = scan.ahead - 1;
        scan.hits = scan.hits.saturating_add(1);
        scan.ahead = 0;
        self.ask_ahead(minipage, bounds)
    }

    /// The scan in front, which needs this minipage now, reads ahead, unless one of the other kind is at the same place: then
    /// the thread writes what it reads.
    fn ask_ahead(&mut self, minipage: MinipageId, bounds: &RunBounds) -> Option<Run> {
        let scan = self.scans[0]?;
        let pairs =
            |other: &Stream| other.kind != scan.kind && [minipage, scan.next].contains(&other.next);
        if self.scans.iter().flatten().any(pairs) {
            return None;
        }
        self.scans[0].as_mut()?.ask_for_next(bounds)
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

    /// What was read ahead from a minipage on has been taken by an acquire: its scan goes on as if it had not been.
    fn lose_ahead(&mut self, minipage: MinipageId, kind: Kind) {
        for scan in self.scans.iter_mut().flatten() {
            if scan.begins_ahead(minipage, kind) {
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
        Self { next, step, kind, hits, window: 0, ahead: 0, assumed: 0 }
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

    /// Whether what was read ahead begins with this minipage.
    fn begins_ahead(self, minipage: MinipageId, kind: Kind) -> bool {
        self.ahead > 0 && (self.next, self.kind) == (minipage, kind)
    }

    /// The minipage behind all that it has asked for.
    fn behind(self) -> MinipageId {
        beyond(self.next, self.step, self.ahead)
    }

    /// Reads ahead: as many as one request may be about.
    fn ask_for_next(&mut self, bounds: &RunBounds) -> Option<Run> {
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
mod tests;
