//! Allocation: objects of all shapes and sizes, and reuse of freed memory.

use super::super::program::{Object, ObjectId, Op, Pattern, Shape, ThreadId};
use super::{Cell, Draft, Fate, Mode, Owner};
use multigrain_types::{Consistency, PAGE_BYTES};

/// Most objects that live at a time.
const OBJECTS: usize = 12;
/// Most bytes that live at a time.
const BYTES: usize = 384 << 10;

impl Draft {
    /// What is there when the first phase begins.
    pub(super) fn allocate_first(&mut self) {
        for _ in 0..=self.rng.below(6) {
            let initial_threads = self.job.initial_threads;
            let thread = ThreadId(self.below(initial_threads));
            let object = self.object();
            self.allocate(thread, object);
        }
    }

    pub(super) fn allocate_more(&mut self, thread: ThreadId) {
        let object = self.object();
        if self.has_room(object.bytes) {
            self.allocate(thread, object);
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        let live = self.fates.iter().zip(&self.program.objects);
        let live = live.filter(|(fate, _)| **fate != Fate::Freed).map(|(_, object)| object.bytes);
        live.clone().count() < OBJECTS && live.sum::<usize>() + bytes <= BYTES
    }

    pub(super) fn object(&mut self) -> Object {
        let own = match self.job.mode {
            Mode::Mixed => self.rng.pick(&[
                None,
                Some(Consistency::Sequential),
                Some(Consistency::EagerRelease),
                Some(Consistency::LazyRelease),
                Some(Consistency::Auto),
            ]),
            Mode::Sequential | Mode::EagerRelease | Mode::LazyRelease | Mode::Auto => None,
        };
        let grain = self.rng.once_in(3).then(|| self.size(8, 5 * PAGE_BYTES));
        let bytes = match self.rng.below(8) {
            0..3 => self.size(1, PAGE_BYTES / 2),
            3..7 => self.size(PAGE_BYTES / 4, 5 * PAGE_BYTES),
            _ => self.size(PAGE_BYTES, 30 * PAGE_BYTES),
        };
        match self.rng.below(6) {
            0 => Object { bytes, shape: Shape::Zeroed, consistency: None },
            1 => {
                let grain = self.size(8, 4 * PAGE_BYTES);
                Object { bytes, shape: Shape::Grain(grain), consistency: None }
            }
            2 => {
                let element = self.size(2, 2 * PAGE_BYTES);
                let bytes = element * self.size(1, 24);
                Object { bytes, shape: Shape::Array { element, grain }, consistency: own }
            }
            _ => Object { bytes, shape: Shape::Block { grain }, consistency: own },
        }
    }

    /// A thread allocates an object, and has all its cells.
    fn allocate(&mut self, thread: ThreadId, object: Object) {
        let id = ObjectId(self.program.objects.len());
        self.program.objects.push(object);
        self.fates.push(Fate::Lives);
        self.allocators.push(thread);
        let pattern = match object.shape {
            Shape::Zeroed => Pattern::Fill(0),
            Shape::Block { .. } | Shape::Grain(_) | Shape::Array { .. } => self.pattern(),
        };
        self.emit(thread, Op::Alloc(id, pattern));
        let stride = object.stride();
        for start in (0..object.bytes).step_by(stride) {
            let mut cuts = vec![0, stride];
            let many = if stride == object.bytes { 7 } else { 1 };
            for _ in 0..self.below(many + 1) {
                cuts.push(self.cut(stride));
            }
            cuts.sort_unstable();
            cuts.dedup();
            let owner = Owner::Threads(vec![thread]);
            self.cells.extend(cuts.windows(2).map(|ends| {
                let (from, to) = (start + ends[0], start + ends[1]);
                Cell { object: id, from, to, owner: owner.clone() }
            }));
        }
    }

    /// A place between two cells: often near the end of a page, or near another cut.
    fn cut(&mut self, stride: usize) -> usize {
        let place = self.below(stride);
        if self.rng.once_in(3) {
            let page = place / PAGE_BYTES * PAGE_BYTES;
            return (page + self.below(16)).saturating_sub(8).min(stride - 1);
        }
        place
    }

    /// Frees an object whose cells one thread has; then its memory may be used again.
    pub(super) fn free_one(&mut self) {
        let doomed = (0..self.fates.len()).map(ObjectId);
        let doomed: Vec<_> = doomed.filter(|object| self.fates[object.0] == Fate::Doomed).collect();
        if doomed.is_empty() {
            return;
        }
        let object = self.rng.pick(&doomed);
        let mut cells = self.cells.iter().filter(|cell| cell.object == object);
        let Some(Owner::Threads(holders)) = cells.next().map(|cell| cell.owner.clone()) else {
            return;
        };
        let &[holder] = &holders[..] else { return };
        if cells.any(|cell| cell.owner != Owner::Threads(vec![holder])) {
            return;
        }
        self.emit(holder, Op::Free(object));
        self.fates[object.0] = Fate::Freed;
        self.cells.retain(|cell| cell.object != object);
        self.use_again(holder, object);
    }

    /// Memory of that shape is asked for by the thread that freed it, or where it was allocated.
    fn use_again(&mut self, holder: ThreadId, freed: ObjectId) {
        let object = self.program.objects[freed.0];
        let node = self.program.threads[self.allocators[freed.0].0].node;
        let there = self.alive().into_iter();
        let there: Vec<_> =
            there.filter(|thread| self.program.threads[thread.0].node == node).collect();
        let next = self.rng.pick(&there);
        match self.rng.below(4) {
            0 => self.allocate(holder, object),
            1 => {}
            _ if next == holder => self.allocate(holder, object),
            _ => {
                let id = self.fresh_id();
                self.emit(holder, Op::Post { id, units: 1 });
                self.emit(next, Op::Down(id));
                self.learn(next, holder);
                self.allocate(next, object);
            }
        }
    }
}
