//! What the threads do: random sequences, drawn when a thread gets to them.
//!
//! Minipages have roles, so that there is something to check at the end: registers hold numbers no
//! two stores share, counters are only added to, guarded ones are read and then written under a
//! lock of their own, boxes are counted under a lock with a condition, objects are allocated and
//! freed. Threads meet at a barrier after a number of sequences. Between two barriers some threads
//! give something to their neighbours, through a semaphore or a box. No sequence can wait for ever:
//! locks nest upwards only, and a thread that waits for a neighbour holds nothing.

use core::ops::Range;

use multigrain_protocol::Kind;
use multigrain_types::NodeId;

use super::heap::Heap;
use super::operation::{Op, Sequence};
use super::plan::Plan;
use super::rng::Rng;

/// Semaphores of a job.
pub(super) const SEMAPHORES: u32 = 4;

/// Threads that give to each other.
const GROUP: u32 = 4;

/// Which minipages have which role.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) registers: Range<u32>,
    pub(super) counters: Range<u32>,
    pub(super) guarded: Range<u32>,
    pub(super) boxes: Range<u32>,
    pub(super) objects: Range<u32>,
}

impl Layout {
    pub(super) fn of(minipages: u32) -> Self {
        let [a, b, c, d] = [3, 4, 5, 6].map(|eighths| minipages * eighths / 8);
        Self { registers: 0..a, counters: a..b, guarded: b..c, boxes: c..d, objects: d..minipages }
    }
}

/// Writes sequences. How often which kind comes is drawn from the seed.
#[derive(Debug)]
pub(super) struct Generator {
    rng: Rng,
    seed: u64,
    layout: Layout,
    minipages: u32,
    /// Kinds of sequences, each as often as it is likely.
    kinds: Vec<Kinds>,
    /// A sequence of a push is written once in so many: each makes a copy for every node.
    push_every: u64,
    /// Whether few minipages of each role are used much more than the others.
    uneven: bool,
    /// Sequences of a thread between two barriers.
    pub(super) sequences: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kinds {
    Read,
    Write,
    Add,
    Guarded,
    Nested,
    Object,
    Prefetch,
    Push,
}

impl Generator {
    pub(super) fn new(plan: &Plan, layout: Layout) -> Self {
        use Kinds as K;
        let mut rng = Rng::of(plan.seed, 2);
        let all =
            [K::Read, K::Write, K::Add, K::Guarded, K::Nested, K::Object, K::Prefetch, K::Push];
        let mut kinds = vec![K::Read, K::Write];
        for kind in all {
            kinds.extend((0..rng.pick(&[0, 1, 2, 8])).map(|_| kind));
        }
        Self {
            kinds,
            seed: plan.seed,
            layout,
            minipages: plan.minipages,
            push_every: u64::from(plan.nodes) / 8 + 1,
            uneven: rng.once_in(2),
            sequences: u32::try_from(rng.magnitude(4, 64)).unwrap_or(4),
            rng,
        }
    }

    /// What a thread of a node does next.
    pub(super) fn sequence(&mut self, node: NodeId, heap: &mut Heap) -> Sequence {
        let registers = self.layout.registers.clone();
        match self.rng.pick(&self.kinds) {
            Kinds::Read => Sequence::of(&[Op::Read(self.one_of(registers))]),
            Kinds::Write => Sequence::of(&[Op::Write(self.one_of(registers))]),
            Kinds::Add => {
                let counter = self.one_of(self.layout.counters.clone());
                let op = if self.rng.once_in(4) { Op::Read(counter) } else { Op::Add(counter) };
                Sequence::of(&[op])
            }
            Kinds::Guarded => {
                let page = self.one_of(self.layout.guarded.clone());
                Sequence::of(&[
                    Op::Lock(page),
                    Op::Read(page),
                    Op::Change(page, 1),
                    Op::Unlock(page),
                ])
            }
            Kinds::Nested => {
                let Range { start, end } = self.layout.guarded;
                let first = self.one_of(start..end);
                if first + 1 == end {
                    return Sequence::of(&[Op::Lock(first), Op::Unlock(first)]);
                }
                let second = self.one_of(first + 1..end);
                let (lock, unlock) = (Op::Lock(second), Op::Unlock(second));
                let (read, change) = (Op::Read(second), Op::Change(second, 1));
                Sequence::of(&[Op::Lock(first), lock, read, change, Op::Unlock(first), unlock])
            }
            Kinds::Object => {
                let object = self.one_of(self.layout.objects.clone());
                heap.sequence(object, node, &mut self.rng)
            }
            // Hints may name anything, freed objects too: the runtime's access history do.
            Kinds::Prefetch => {
                let kind = self.rng.pick(&[Kind::Read, Kind::Write]);
                Sequence::of(&[Op::Prefetch(self.one_of(0..self.minipages), kind)])
            }
            Kinds::Push if self.rng.once_in(self.push_every) => {
                Sequence::of(&[Op::Push(self.one_of(0..self.minipages))])
            }
            Kinds::Push => Sequence::of(&[Op::Read(self.one_of(registers))]),
        }
    }

    /// What a thread gives to its neighbours between two barriers, or gets from one.
    pub(super) fn duty(&self, thread: u32, all: u32, episode: u32) -> Sequence {
        let (group, place) = (thread / GROUP, thread % GROUP);
        if (group + 1) * GROUP > all {
            return Sequence::of(&[]);
        }
        // All of a group draw the same.
        let mut rng = Rng::of(self.seed ^ 0xd0, u64::from(episode) << 32 | u64::from(group));
        let Range { start, end } = self.layout.boxes;
        let (goods, semaphore) = (start + rng.below32(end - start), rng.below32(SEMAPHORES));
        let (share, giver) = (rng.below(3), rng.below32(GROUP));
        let fill = |count, all| {
            let (read, change) = (Op::Read(goods), Op::Change(goods, count));
            let (lock, unlock) = (Op::Lock(goods), Op::Unlock(goods));
            Sequence::of(&[lock, read, change, Op::Signal(goods, all), unlock])
        };
        let fetch = || {
            let (lock, unlock) = (Op::Lock(goods), Op::Unlock(goods));
            Sequence::of(&[lock, Op::Await(goods), Op::Change(goods, -1), unlock])
        };
        match (share, place == giver, place % 2 == giver % 2) {
            // One fills the box for the others, and wakes them all.
            (0, true, _) => fill(3, true),
            (0, false, _) => fetch(),
            // Pairs.
            (1, _, true) => fill(1, rng.once_in(4)),
            (1, _, false) => fetch(),
            (_, _, true) => Sequence::of(&[Op::Up(semaphore)]),
            (_, _, false) => Sequence::of(&[Op::Down(semaphore)]),
        }
    }

    /// After which sequence a thread does its duty.
    pub(super) fn duty_after(&mut self) -> u32 {
        self.rng.below32(self.sequences + 1)
    }

    fn one_of(&mut self, range: Range<u32>) -> u32 {
        let all = range.end - range.start;
        let first = self.rng.below32(all);
        let index = if self.uneven { first.min(self.rng.below32(all)) } else { first };
        range.start + index
    }
}
