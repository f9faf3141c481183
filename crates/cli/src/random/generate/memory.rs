//! Accesses to cells that a thread owns, and hints about any cell.

use super::super::program::{Object, Op, Pattern, Span, ThreadId};
use super::{Cell, Draft, Fate, Owner};
use multigrain_protocol::Kind;

/// Most bytes of an access.
const LONGEST: usize = 40 << 10;

impl Cell {
    fn lets(&self, thread: ThreadId, kind: Kind) -> bool {
        match (&self.owner, kind) {
            (Owner::Threads(threads), Kind::Read) => threads.contains(&thread),
            (Owner::Threads(threads), Kind::Write) => threads[..] == [thread],
            (Owner::Group(_), _) => false,
        }
    }
}

impl Draft {
    pub(super) fn pattern(&mut self) -> Pattern {
        if self.rng.once_in(4) {
            return Pattern::Fill(self.rng.pick(&[0, 1, 255]));
        }
        self.at.stamp += 1;
        Pattern::Stamp(self.at.stamp)
    }

    /// Cells, by number, that a thread may touch in that way.
    pub(super) fn cells_of(&self, thread: ThreadId, kind: Kind) -> Vec<usize> {
        (0..self.cells.len()).filter(|&cell| self.cells[cell].lets(thread, kind)).collect()
    }

    /// All bytes around a cell that a thread may touch in one access.
    fn region(&self, thread: ThreadId, kind: Kind, cell: usize) -> Span {
        let (mut first, mut last) = (cell, cell);
        let stride = self.object_of(cell).stride();
        let joins = |one: usize, next: usize| {
            let (one, next) = (&self.cells[one], &self.cells[next]);
            let side_by_side = one.object == next.object && one.to == next.from;
            side_by_side && !next.from.is_multiple_of(stride)
        };
        while first > 0 && self.cells[first - 1].lets(thread, kind) && joins(first - 1, first) {
            first -= 1;
        }
        while last + 1 < self.cells.len()
            && self.cells[last + 1].lets(thread, kind)
            && joins(last, last + 1)
        {
            last += 1;
        }
        let (object, from) = (self.cells[first].object, self.cells[first].from);
        Span { object, from, bytes: self.cells[last].to - from }
    }

    fn object_of(&self, cell: usize) -> &Object {
        &self.program.objects[self.cells[cell].object.0]
    }

    /// Bytes for one access, in or around a cell.
    fn span(&mut self, thread: ThreadId, kind: Kind, cell: usize) -> Span {
        let whole = if self.rng.once_in(3) {
            self.region(thread, kind, cell)
        } else {
            let Cell { object, from, to, .. } = self.cells[cell];
            Span { object, from, bytes: to - from }
        };
        let bytes = match self.rng.below(3) {
            0 => whole.bytes,
            1 => self.size(1, whole.bytes),
            _ => self.size(1, 16),
        };
        let bytes = bytes.clamp(1, whole.bytes.min(LONGEST));
        let from = whole.from + self.below(whole.bytes - bytes + 1);
        Span { from, bytes, ..whole }
    }

    /// A thread touches some of what it may.
    pub(super) fn access_some(&mut self, thread: ThreadId, most: u64) {
        for _ in 0..=self.rng.below(most) {
            let kind = self.rng.pick(&[Kind::Read, Kind::Write, Kind::Write]);
            let cells = self.cells_of(thread, kind);
            if !cells.is_empty() {
                let cell = self.rng.pick(&cells);
                self.access(thread, kind, cell);
            }
        }
    }

    /// One access in or around a cell.
    pub(super) fn access(&mut self, thread: ThreadId, kind: Kind, cell: usize) {
        let span = self.span(thread, kind, cell);
        if kind == Kind::Read {
            return self.emit(thread, Op::Read(span));
        }
        let op = match self.rng.below(8) {
            0 => Op::Read(span),
            1 => Op::Rewrite(span),
            2 | 3 => {
                let widths: Vec<usize> =
                    [1, 2, 4, 8].into_iter().filter(|&width| width <= span.bytes).collect();
                Op::Add(Span { bytes: self.rng.pick(&widths), ..span }, 1 + self.rng.below(300))
            }
            4 => {
                let from = self.cells_of(thread, Kind::Read);
                let from = self.rng.pick(&from);
                let from = self.span(thread, Kind::Read, from);
                let bytes = from.bytes.min(span.bytes);
                Op::Copy { from: Span { bytes, ..from }, to: Span { bytes, ..span } }
            }
            _ => Op::Write(span, self.pattern()),
        };
        self.emit(thread, op);
    }

    /// A thread asks for copies, or hands them out, whoever has the cells now.
    pub(super) fn hint(&mut self, thread: ThreadId) {
        let initial = self.is_initial(thread);
        let named = |cell: &Cell| initial && self.fates[cell.object.0] == Fate::Lives;
        let cells: Vec<usize> = (0..self.cells.len())
            .filter(|&cell| named(&self.cells[cell]) || self.cells[cell].lets(thread, Kind::Write))
            .collect();
        if cells.is_empty() {
            return;
        }
        let number = self.rng.pick(&cells);
        let Cell { object, from, to, .. } = self.cells[number];
        let span = Span { object, from, bytes: to - from };
        let kind = self.rng.pick(&[Kind::Read, Kind::Write]);
        let op = match self.rng.below(5) {
            0 | 1 => Op::Prefetch(span, kind),
            2 => Op::Push(span),
            _ => Op::Touch(span, kind),
        };
        self.emit(thread, op);
        let kind = if self.rng.once_in(2) { Kind::Write } else { Kind::Read };
        if self.cells[number].lets(thread, kind) {
            self.access(thread, kind, number);
        }
    }
}
