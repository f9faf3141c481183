//! Sweeps: pairs of threads that go over many pages, all pairs at once.
//!
//! Each pair has a place in every page. One of the two writes its places in some pages; meanwhile the other reads those of the
//! pages that are not written, and then, when it has waited for the first, all. So the threads of a node fault on pages, flush
//! them and lose them at one time, each by whole runs of them. They come last, and from a list of numbers of their own: what a
//! seed draws before is what it was.

use super::super::program::{Group, GroupId, ObjectId, Op, Pattern, Shape, Span, ThreadId};
use super::{Access, Draft, Fate, Use};
use multigrain_types::PAGE_BYTES;
use multigrain_verify::sim::rng::Rng;

/// Most pages.
const PAGES: usize = 512;
/// Most writes of a sweep behind other phrases, and of one that is all of a program, about.
pub(super) const FEW: usize = 16 << 10;
pub(super) const MANY: usize = 256 << 10;
/// Bytes of a page that a pair has: those it sweeps, and in the first page the number that it waits for.
const PLACE: usize = 48;
const NUMBER: usize = 4;

/// Two threads.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// Who writes in even rounds, and who in odd ones.
    threads: [ThreadId; 2],
    /// How they wait for each other where that is a condition.
    group: GroupId,
    place: usize,
}

impl Draft {
    /// One of them; a round of a pair is a phrase.
    pub(super) fn sweep(&mut self, seed: u64, most_writes: usize) {
        self.rng = Rng::of(seed, 3);
        let most_pairs = (self.job.initial_threads / 2).min(PAGE_BYTES / PLACE);
        let rounds = self.size(8, 64);
        let pages = self.size(64, PAGES).min(most_writes / (rounds * most_pairs));
        let object = self.swept(pages);
        let mut threads: Vec<_> = (0..self.job.initial_threads).map(ThreadId).collect();
        self.shuffle(&mut threads);
        let pairs: Vec<_> = threads
            .chunks_exact(2)
            .take(most_pairs)
            .enumerate()
            .map(|(number, pair)| self.pair(object, [pair[0], pair[1]], number * PLACE))
            .collect();
        self.meet();
        for round in 0..rounds {
            for pair in &pairs {
                if self.at.left > 0 {
                    self.at.left -= 1;
                    self.round(object, pages, *pair, round);
                }
            }
        }
        self.meet();
    }

    /// What they sweep, which nobody else names.
    fn swept(&mut self, pages: usize) -> ObjectId {
        let id = ObjectId(self.program.objects.len());
        let thread = self.initial_thread();
        let mut object = self.object();
        object.bytes = pages * PAGE_BYTES;
        if matches!(object.shape, Shape::Array { .. }) || self.rng.once_in(2) {
            object.shape = Shape::Block { grain: None };
        }
        self.program.objects.push(object);
        self.fates.push(Fate::Lives);
        self.allocators.push(thread);
        let pattern = if object.shape == Shape::Zeroed { Pattern::Fill(0) } else { self.pattern() };
        self.emit(thread, Op::Alloc(id, pattern));
        id
    }

    fn pair(&mut self, object: ObjectId, threads: [ThreadId; 2], place: usize) -> Pair {
        let group = GroupId(self.program.groups.len());
        let (lock, condition) = (self.fresh_id(), self.fresh_id());
        let places = vec![Span { object, from: place + PLACE - NUMBER, bytes: NUMBER }];
        self.program.groups.push(Group { lock, condition, places, total: 0 });
        let (opened, state) = (self.at.phase, Access::Closed);
        self.uses.push(Use { opened, state, awaited: true, users: threads.to_vec() });
        Pair { threads, group, place }
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            let other = self.below(last + 1);
            all.swap(last, other);
        }
    }

    fn round(&mut self, object: ObjectId, pages: usize, pair: Pair, round: usize) {
        let (writer, reader) = (pair.threads[round % 2], pair.threads[(round + 1) % 2]);
        let eighths = 1 + self.rng.below(8);
        let mut written: Vec<_> =
            (0..pages).map(|page| (page, self.rng.below(8) < eighths)).collect();
        let bytes = self.size(1, PLACE - NUMBER);
        let span = |page| Span { object, from: page * PAGE_BYTES + pair.place, bytes };
        self.order(&mut written);
        for &(page, _) in written.iter().filter(|(_, is_written)| *is_written) {
            let pattern = self.pattern();
            self.emit(writer, Op::Write(span(page), pattern));
        }
        self.order(&mut written);
        for &(page, _) in written.iter().filter(|(_, is_written)| !is_written) {
            self.emit(reader, Op::Read(span(page)));
        }
        self.tell(pair.group, writer, reader);
        self.order(&mut written);
        for (page, _) in written {
            self.emit(reader, Op::Read(span(page)));
        }
    }

    /// As they lie, or in no order.
    fn order(&mut self, pages: &mut [(usize, bool)]) {
        if self.rng.once_in(3) {
            pages.sort_unstable();
        } else {
            self.shuffle(pages);
        }
    }

    /// The reader waits for the writer, one way or another.
    fn tell(&mut self, group: GroupId, writer: ThreadId, reader: ThreadId) {
        let id = self.fresh_id();
        match self.rng.below(3) {
            0 => {
                self.emit(writer, Op::Post { id, units: 1 });
                self.emit(reader, Op::Down(id));
            }
            1 => {
                for thread in [writer, reader] {
                    self.emit(thread, Op::Barrier { id, total: 2 });
                }
            }
            _ => {
                self.enter(writer, group);
                self.bump(writer, group);
                self.leave(writer, group);
                self.await_all(reader, group);
            }
        }
    }
}
