//! Threads that threads start and join.

use super::super::program::{Op, Thread, ThreadId};
use super::{Draft, Life, Owner, State};
use multigrain_protocol::Kind;
use multigrain_types::PAGE_BYTES;

/// Most started threads that run at a time.
const STARTED: usize = 6;

impl Draft {
    /// A thread starts one on any node, and gives it some of its cells.
    pub(super) fn start(&mut self, thread: ThreadId) {
        if self.alive().len() >= self.job.initial_threads + STARTED {
            return;
        }
        let cells = self.choose_to_hand_on(thread);
        let nodes = self.job.nodes;
        let node = self.below(nodes);
        let started = self.begin(thread, node, &cells);
        self.touch_one(started, Kind::Write, &cells);
    }

    /// Starts a thread that gets these cells, and reads what its starter may only read.
    fn begin(&mut self, by: ThreadId, node: usize, cells: &[usize]) -> ThreadId {
        let started = ThreadId(self.states.len());
        self.program.threads.push(Thread { node, ops: Vec::new() });
        let (phase, born) = (self.states[by.0].phase, self.at.phase);
        self.states.push(State { phase, life: Life::Started { by, born } });
        self.emit(by, Op::Start(started));
        self.give(cells, &[started]);
        if self.rng.once_in(2) {
            for cell in &mut self.cells {
                if let Owner::Threads(threads) = &mut cell.owner
                    && threads.len() > 1
                    && threads.contains(&by)
                {
                    threads.push(started);
                }
            }
        }
        started
    }

    /// Late in a phase a thread writes a page, starts another on a node whose threads may all wait
    /// at the barrier by now, gives it a part of that page, perhaps waits for it to write there, and
    /// goes to the barrier itself. The started thread may live on.
    pub(super) fn start_late(&mut self) {
        let initial_threads = self.job.initial_threads;
        let by = ThreadId(self.below(initial_threads));
        let here = self.program.threads[by.0].node;
        let elsewhere = 1 + self.below(self.job.nodes - 1);
        let node = (here + elsewhere) % self.job.nodes;
        let cells = self.cells_of(by, Kind::Write);
        let pairs: Vec<_> = cells
            .windows(2)
            .filter(|pair| {
                let (one, other) = (&self.cells[pair[0]], &self.cells[pair[1]]);
                one.object == other.object && other.from - one.from < PAGE_BYTES
            })
            .map(|pair| (pair[0], pair[1]))
            .collect();
        if pairs.is_empty() {
            return;
        }
        let (one, other) = self.rng.pick(&pairs);
        let (mine, theirs) = if self.rng.once_in(2) { (one, other) } else { (other, one) };
        self.write(by, mine);
        let started = self.begin(by, node, &[theirs]);
        self.write(started, theirs);
        match self.rng.below(3) {
            0 => self.join(started, by),
            1 => {
                let id = self.fresh_id();
                self.emit(started, Op::Post { id, units: 1 });
                self.emit(by, Op::Down(id));
            }
            _ => {}
        }
    }

    fn write(&mut self, thread: ThreadId, cell: usize) {
        let super::Cell { object, from, to, .. } = self.cells[cell];
        let pattern = self.pattern();
        let bytes = (to - from).min(PAGE_BYTES / 8);
        let span = super::super::program::Span { object, from, bytes };
        self.emit(thread, Op::Write(span, pattern));
    }

    /// A started thread ends; its starter joins it, or a later thread of that node.
    pub(super) fn join_one(&mut self) {
        let started: Vec<_> = (self.job.initial_threads..self.states.len())
            .map(ThreadId)
            .filter(|&thread| self.can_end(thread))
            .collect();
        if started.is_empty() {
            return;
        }
        let ended = self.rng.pick(&started);
        let Life::Started { by, born } = self.states[ended.0].life else { return };
        let node = self.program.threads[by.0].node;
        let mut joiners = vec![by];
        if self.is_initial(by) {
            let initial_threads = (0..self.job.initial_threads).map(ThreadId);
            joiners.extend(initial_threads.filter(|other| {
                let there = self.program.threads[other.0].node == node;
                there && self.states[other.0].phase > born
            }));
        }
        let joiner = self.rng.pick(&joiners);
        self.join(ended, joiner);
    }

    /// Whether a thread runs, and all it has started have been joined.
    fn can_end(&self, thread: ThreadId) -> bool {
        let started = |life| matches!(life, Life::Started { .. });
        let child = |state: &State| matches!(state.life, Life::Started { by, .. } if by == thread);
        started(self.states[thread.0].life) && !self.states.iter().any(child)
    }

    fn join(&mut self, ended: ThreadId, joiner: ThreadId) {
        self.emit(joiner, Op::Join(ended));
        self.states[ended.0].life = Life::Ended;
        self.learn(joiner, ended);
        for cell in &mut self.cells {
            if let Owner::Threads(threads) = &mut cell.owner {
                let had = threads.contains(&ended);
                threads.retain(|&thread| thread != ended);
                if had && !threads.contains(&joiner) {
                    threads.push(joiner);
                }
            }
        }
        for group in &mut self.uses {
            if group.users.contains(&ended) {
                group.users.retain(|&thread| thread != ended);
                group.users.push(joiner);
            }
        }
    }

    /// All started threads end, the last one first.
    pub(super) fn join_all(&mut self) {
        for thread in (self.job.initial_threads..self.states.len()).rev().map(ThreadId) {
            if let Life::Started { by, .. } = self.states[thread.0].life {
                self.join(thread, by);
            }
        }
    }
}
