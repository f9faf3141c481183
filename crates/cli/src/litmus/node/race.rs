//! One run: a test's rounds, in batches.
//!
//! A batch has variables for [`BATCH`] rounds. Before it, random nodes zero and read each variable, so that in the
//! rounds accesses fault, or hit and are invalidated in between; some threads read the variables or prefetch a
//! minipage. Every round starts with a meeting and random delays. A node that runs no thread of the test may
//! disturb it by fetching the variables. Some batches are left undisturbed on one node, where the processor
//! itself has to show its reorderings.

use super::super::instruction::Word;
use super::super::job::{Moves, Record};
use super::super::plan::{BATCH, NODES, Run};
use super::super::program::Cell;
use super::Team;
use super::variables::Set;
use core::hint::spin_loop;
use core::sync::atomic::Ordering;
use multigrain_protocol::Kind;
use multigrain_runtime::Stats;
use multigrain_verify::sim::rng::Rng;
use std::collections::BTreeMap;
use std::thread::{available_parallelism, scope};

/// The barrier of the whole job before each batch.
const BATCHES: u32 = 1;
/// The lock of a batch's first round, for memory that needs locks.
const LOCKS: u32 = 100;
/// Loops of the longest delays: about nothing, a cache miss, a message, a fault.
const DELAYS: [usize; 4] = [1, 8, 128, 1024];
/// How many of them are short enough to race within a node.
const SHORT_DELAYS: usize = 2;

/// A run as this node plays it.
pub(super) struct Race<'a> {
    team: &'a Team,
    run: &'a Run,
    seeds: [u64; 2],
    /// The node of each thread.
    hosts: Vec<usize>,
    /// Nodes without one.
    idle: Vec<usize>,
    cores: usize,
}

/// Who zeroes a variable, and whether each node reads it then.
type Before = (usize, [bool; NODES]);

/// Which of a node's threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    First,
    Assistant,
}

/// What is drawn for a batch, the same on all nodes.
struct BatchPlan<'a> {
    sets: &'a [Set],
    /// For every variable that is used.
    before: Vec<(Word, Before)>,
    disturber: Option<usize>,
    /// Everything is on the node of the first thread, and left there.
    local: bool,
}

impl<'a> Race<'a> {
    pub(super) fn new(team: &'a Team, run: &'a Run, seeds: [u64; 2]) -> Self {
        let shift = Rng::of_all(&seeds).index(NODES);
        let hosts: Vec<usize> = run.nodes.iter().map(|node| (node + shift) % NODES).collect();
        let idle = (0..NODES).filter(|node| !hosts.contains(node)).collect();
        let cores = available_parallelism().map_or(1, usize::from);
        Self { team, run, seeds, hosts, idle, cores }
    }

    /// Plays all rounds; node 0's record is the run's.
    pub(super) fn play(&self) -> Record {
        let mut mine = (0..self.hosts.len()).filter(|&thread| self.hosts[thread] == self.team.me);
        let first = mine.next();
        scope(|scope| {
            for thread in mine {
                scope.spawn(move || {
                    (0..self.run.batches).for_each(|number| self.assist(number, thread));
                });
            }
            self.keep(first)
        })
    }

    /// The part of a thread of the test beside this node's first.
    fn assist(&self, number: usize, thread: usize) {
        let batch = self.draw(number);
        self.meet_all(Part::Assistant);
        self.meet_all(Part::Assistant);
        self.race(number, &batch, Some(thread));
        self.meet_all(Part::Assistant);
    }

    /// The part of this node's first thread, which runs a thread of the test if one is here.
    fn keep(&self, thread: Option<usize>) -> Record {
        let (mut states, mut moves) = (BTreeMap::new(), Moves::default());
        for number in 0..self.run.batches {
            let batch = self.draw(number);
            self.team.runtime.barrier(BATCHES, 0).expect("every node comes with one thread");
            self.zero(&batch);
            self.meet_all(Part::First);
            self.copy(&batch);
            let before = self.team.runtime.stats();
            self.meet_all(Part::First);
            if thread.is_some() || batch.disturber == Some(self.team.me) {
                self.race(number, &batch, thread);
            }
            self.meet_all(Part::First);
            moves += difference(&before, &self.team.runtime.stats());
            if self.team.me == 0 {
                self.collect(&batch, &mut states);
            }
        }
        self.sum(moves, states)
    }

    fn draw(&self, number: usize) -> BatchPlan<'a> {
        let mut random = Rng::of_all(&[self.seeds[0], self.seeds[1], number as u64]);
        let sets = self.team.variables.of(self.run.layout, random.index(NODES));
        let local = random.once_in(3);
        let mut before = || {
            if local {
                return (self.hosts[0], [false; NODES]);
            }
            (random.index(NODES), [(); NODES].map(|()| random.once_in(4)))
        };
        let words = sets.iter().flat_map(|set| self.used(set));
        let before = words.map(|&word| (word, before())).collect();
        let disturbs = !local && !self.idle.is_empty() && random.once_in(2);
        let disturber = disturbs.then(|| self.idle[random.index(self.idle.len())]);
        BatchPlan { sets, before, disturber, local }
    }

    fn zero(&self, batch: &BatchPlan<'_>) {
        let me = self.team.me;
        self.visit(batch, Kind::Write, |&(writer, _)| writer == me, |word| word.store(0));
    }

    fn copy(&self, batch: &BatchPlan<'_>) {
        let me = self.team.me;
        let read = |word: Word| {
            word.load();
        };
        self.visit(batch, Kind::Read, |(_, readers)| readers[me], read);
    }

    /// Accesses the variables that are `chosen`; asks for all of them first, which is faster.
    fn visit(
        &self,
        batch: &BatchPlan<'_>,
        kind: Kind,
        chosen: impl Fn(&Before) -> bool,
        access: impl Fn(Word),
    ) {
        let chosen = batch.before.iter().filter(|(_, before)| chosen(before));
        let words: Vec<Word> = chosen.map(|&(word, _)| word).collect();
        words.iter().for_each(|&word| self.ask(word, kind));
        words.into_iter().for_each(access);
    }

    /// All rounds of a batch, as a thread of the test or as the disturber.
    fn race(&self, number: usize, batch: &BatchPlan<'_>, thread: Option<usize>) {
        let member = thread.map_or(u64::MAX, |thread| thread as u64);
        let mut random = Rng::of_all(&[self.seeds[0], self.seeds[1], number as u64, member]);
        let racers = self.hosts.len() + usize::from(batch.disturber.is_some());
        for (round, set) in batch.sets.iter().enumerate() {
            self.prepare(set, &mut random);
            self.team.board.racers.wait(racers, self.cores);
            let delays = if batch.local { SHORT_DELAYS } else { DELAYS.len() };
            let longest = DELAYS[random.index(delays)];
            (0..random.index(longest)).for_each(|_| spin_loop());
            let Some(thread) = thread else {
                self.disturb(set, &mut random);
                continue;
            };
            let mut cell = Cell::new(*set, thread);
            if self.run.locked {
                self.run_locked(&mut cell, round);
            } else {
                (self.run.test.threads[thread].run)(&mut cell);
            }
            let places = &self.team.board.registers[round][thread];
            for (place, value) in places.iter().zip(cell.registers) {
                place.store(value, Ordering::Relaxed);
            }
        }
    }

    /// The thread's instructions, each in a critical section of the round's lock.
    fn run_locked(&self, cell: &mut Cell, round: usize) {
        let lock = LOCKS + u32::try_from(round).unwrap_or(0);
        for &op in self.run.test.threads[cell.thread].ops {
            self.team.runtime.lock(lock).expect("no thread holds it twice");
            cell.execute(op);
            self.team.runtime.unlock(lock).expect("this thread holds it");
        }
    }

    /// Copies in this processor's cache, or on their way to this node, or neither.
    fn prepare(&self, set: &Set, random: &mut Rng) {
        if random.once_in(2) {
            self.used(set).iter().for_each(|word| {
                word.load();
            });
        } else if random.once_in(2) {
            let (word, kind) = self.any_of(set, random);
            self.ask(word, kind);
        }
    }

    /// Takes a variable's minipage away, or a copy of it, and changes nothing.
    fn disturb(&self, set: &Set, random: &mut Rng) {
        let (word, kind) = self.any_of(set, random);
        let taken = self.team.runtime.touch(word.address(), size_of::<u64>(), kind);
        taken.expect("variables are shared memory");
    }

    fn any_of(&self, set: &Set, random: &mut Rng) -> (Word, Kind) {
        let used = self.used(set);
        let word = used[random.index(used.len())];
        (word, if random.once_in(2) { Kind::Read } else { Kind::Write })
    }

    fn used<'s>(&self, set: &'s Set) -> &'s [Word] {
        &set[..self.run.test.variables()]
    }

    fn ask(&self, word: Word, kind: Kind) {
        let asked = self.team.runtime.prefetch(word.address(), size_of::<u64>(), kind);
        asked.expect("variables are shared memory");
    }

    /// Counts the outcomes of a batch.
    fn collect(&self, batch: &BatchPlan<'_>, states: &mut BTreeMap<Vec<u64>, u64>) {
        let test = self.run.test;
        let finals =
            |set: &Set| test.finals.iter().map(|&var| set[var as usize]).collect::<Vec<_>>();
        let words = batch.sets.iter().flat_map(finals);
        words.for_each(|word| self.ask(word, Kind::Read));
        for (set, registers) in batch.sets.iter().zip(&self.team.board.registers) {
            let of_threads = registers.iter().zip(test.threads);
            let read = of_threads.flat_map(|(places, thread)| &places[..thread.registers.len()]);
            let read = read.map(|place| place.load(Ordering::Relaxed));
            let left = finals(set).into_iter().map(Word::load);
            *states.entry(read.chain(left).collect()).or_default() += 1;
        }
    }

    /// The record, with what all nodes counted.
    fn sum(&self, own: Moves, states: BTreeMap<Vec<u64>, u64>) -> Record {
        let all = &self.team.board.moves;
        all[self.team.me][0].store(own.faults, Ordering::Relaxed);
        all[self.team.me][1].store(own.invalidations, Ordering::Relaxed);
        self.team.runtime.barrier(BATCHES, 0).expect("every node comes with one thread");
        let mut moves = Moves::default();
        for [faults, invalidations] in all {
            moves += Moves {
                faults: faults.load(Ordering::Relaxed),
                invalidations: invalidations.load(Ordering::Relaxed),
            };
        }
        let rounds = (self.run.batches * BATCH) as u64;
        Record { rounds, states: states.into_iter().collect(), moves }
    }

    /// Every thread of the run, and a node without one comes itself. Release consistent memory does
    /// not know of the board, so there the nodes pass a barrier as well.
    fn meet_all(&self, part: Part) {
        let wait = || self.team.board.all.wait(self.hosts.len() + self.idle.len(), self.cores);
        wait();
        if self.run.locked {
            if part == Part::First {
                self.team.runtime.barrier(BATCHES, 0).expect("every node comes with one thread");
            }
            wait();
        }
    }
}

fn difference(before: &Stats, after: &Stats) -> Moves {
    let faults = |stats: &Stats| stats.read_faults + stats.write_faults;
    Moves {
        faults: faults(after) - faults(before),
        invalidations: after.invalidations - before.invalidations,
    }
}
