//! Programs executed in random orders, for the tests of the generator.
//!
//! Threads take turns at random and wait as the interface specifies. Vector clocks tell
//! whether of two accesses to a byte, one a write, none happens before the other; a memory of
//! its own tells whether reads find what the reference says.

use super::program::{GroupId, Op, Program, Span, ThreadId};
use super::reference::{self, Expected, number};
use multigrain_protocol::Kind;
use multigrain_verify::sim::rng::Rng;
use std::collections::HashMap;

/// How far into each thread something has come.
type Clock = Vec<u32>;

/// The accesses to a byte that later ones have to follow.
#[derive(Debug, Clone, Default)]
struct Byte {
    value: u8,
    written: Option<(usize, u32)>,
    read: Vec<(usize, u32)>,
}

/// What threads wait for each other by.
#[derive(Debug, Default)]
struct Sync {
    locks: HashMap<u32, (Option<ThreadId>, Clock)>,
    semaphores: HashMap<u32, (u32, Clock)>,
    /// By id: which threads have come, and what they all know; by thread, what it leaves with.
    barriers: HashMap<u32, (Vec<ThreadId>, Clock)>,
    released: Vec<Option<Clock>>,
    /// By condition: threads that wait without a signal.
    waiting: HashMap<u32, Vec<ThreadId>>,
}

/// A program on its way.
struct Run<'a> {
    program: &'a Program,
    expected: Expected,
    rng: Rng,
    next: Vec<usize>,
    started: Vec<bool>,
    clocks: Vec<Clock>,
    objects: Vec<Option<Vec<Byte>>>,
    /// By object: allocated at some time, so that its name is known.
    named: Vec<bool>,
    sync: Sync,
    initial_threads: usize,
}

/// What a thread did.
#[derive(PartialEq)]
enum Turn {
    Done,
    /// Not to its end, but others may go on now.
    Went,
    Waits,
}

/// Executes a program in an order drawn from a seed; a line for what is wrong with it.
pub(super) fn execute(program: &Program, initial_threads: usize, seed: u64) -> Result<(), String> {
    let threads = program.threads.len();
    let mut clocks = vec![vec![0; threads]; threads];
    (0..threads).for_each(|thread| clocks[thread][thread] = 1);
    let mut run = Run {
        program,
        expected: reference::execute(program),
        rng: Rng::new(seed),
        next: vec![0; threads],
        started: (0..threads).map(|thread| thread < initial_threads).collect(),
        clocks,
        objects: vec![None; program.objects.len()],
        named: vec![false; program.objects.len()],
        sync: Sync { released: vec![None; threads], ..Sync::default() },
        initial_threads,
    };
    run.all()
}

fn join(clock: &mut Clock, other: &Clock) {
    clock.resize(clock.len().max(other.len()), 0);
    clock.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), String> {
        loop {
            let mut ready: Vec<ThreadId> = (0..self.next.len())
                .filter(|&thread| self.started[thread])
                .filter(|&thread| self.next[thread] < self.program.threads[thread].ops.len())
                .map(ThreadId)
                .collect();
            if ready.is_empty() {
                return self.compare_last();
            }
            // A thread that cannot go on is not tried again until another has.
            while !ready.is_empty() {
                let place = usize::try_from(self.rng.below(ready.len() as u64)).unwrap_or(0);
                if self.turn(ready[place])? != Turn::Waits {
                    break;
                }
                ready.swap_remove(place);
                if ready.is_empty() {
                    return Err(format!("deadlock at {:?}", self.next));
                }
            }
        }
    }

    fn compare_last(&self) -> Result<(), String> {
        for (object, last) in self.objects.iter().zip(&self.expected.last) {
            let values = object.as_ref().map(|bytes| bytes.iter().map(|byte| byte.value).collect());
            if values != *last {
                return Err("other contents in the end".into());
            }
        }
        Ok(())
    }

    /// One operation of a thread, if it can be done now.
    fn turn(&mut self, thread: ThreadId) -> Result<Turn, String> {
        let op = self.program.threads[thread.0].ops[self.next[thread.0]];
        let turn = self.act(thread, op).map_err(|why| {
            format!("thread {} op {} ({op}): {why}", thread.0, self.next[thread.0])
        })?;
        if turn == Turn::Done {
            self.next[thread.0] += 1;
            self.clocks[thread.0][thread.0] += 1;
        }
        Ok(turn)
    }

    fn act(&mut self, thread: ThreadId, op: Op) -> Result<Turn, String> {
        match op {
            Op::Alloc(..) | Op::Free(_) => self.allocate(thread, op)?,
            Op::Read(span) => drop(self.read(thread, span)?),
            Op::Write(span, pattern) => {
                let bytes: Vec<u8> = (0..span.bytes).map(|place| pattern.byte(place)).collect();
                self.write(thread, span, &bytes)?;
            }
            Op::Rewrite(span) => {
                let bytes = self.read(thread, span)?;
                self.write(thread, span, &bytes)?;
            }
            Op::Copy { from, to } => {
                let bytes = self.read(thread, from)?;
                self.write(thread, to, &bytes)?;
            }
            Op::Add(span, amount) => {
                self.read(thread, span)?;
                self.add(thread, span, amount)?;
            }
            Op::Bump(group, amount) => {
                self.growth(thread, group)?;
                for &place in &self.program.groups[group.0].places {
                    self.add(thread, place, amount)?;
                }
            }
            Op::Inspect(group) => drop(self.growth(thread, group)?),
            Op::Await(group, value) => return self.wait_for(thread, group, value),
            Op::Prefetch(span, _) | Op::Push(span) | Op::Touch(span, _) => {
                if !self.named[span.object.0] {
                    return Ok(Turn::Waits);
                }
                self.objects[span.object.0].as_ref().ok_or("a hint about freed memory")?;
            }
            Op::Start(started) => {
                let clock = self.clocks[thread.0].clone();
                join(&mut self.clocks[started.0], &clock);
                self.started[started.0] = true;
            }
            Op::Join(ended) => {
                if self.next[ended.0] < self.program.threads[ended.0].ops.len() {
                    return Ok(Turn::Waits);
                }
                let clock = self.clocks[ended.0].clone();
                join(&mut self.clocks[thread.0], &clock);
            }
            Op::Lock(_)
            | Op::Unlock(_)
            | Op::Signal { .. }
            | Op::Barrier { .. }
            | Op::Post { .. }
            | Op::Down(_) => return self.synchronize(thread, op),
        }
        Ok(Turn::Done)
    }

    fn allocate(&mut self, thread: ThreadId, op: Op) -> Result<(), String> {
        if let Op::Alloc(object, pattern) = op {
            let bytes = self.program.objects[object.0].bytes;
            self.objects[object.0] = Some(vec![Byte::default(); bytes]);
            self.named[object.0] = true;
            let bytes: Vec<u8> = (0..bytes).map(|place| pattern.byte(place)).collect();
            return self.write(thread, Span { object, from: 0, bytes: bytes.len() }, &bytes);
        }
        if let Op::Free(object) = op {
            let bytes = self.program.objects[object.0].bytes;
            self.access(thread, Span { object, from: 0, bytes }, Kind::Write)?;
            self.objects[object.0] = None;
        }
        Ok(())
    }

    fn synchronize(&mut self, thread: ThreadId, op: Op) -> Result<Turn, String> {
        let Self { sync, clocks, .. } = self;
        let clock = &mut clocks[thread.0];
        match op {
            Op::Lock(id) => {
                let (holder, known) = sync.locks.entry(id).or_default();
                if holder.is_some() {
                    return if *holder == Some(thread) {
                        Err("its own lock".into())
                    } else {
                        Ok(Turn::Waits)
                    };
                }
                *holder = Some(thread);
                join(clock, known);
            }
            Op::Unlock(id) => {
                let (holder, known) = sync.locks.entry(id).or_default();
                if holder.take() != Some(thread) {
                    return Err("not its lock".into());
                }
                join(known, clock);
            }
            Op::Signal { condition, all } => {
                let waiting = sync.waiting.entry(condition).or_default();
                let woken = if all { waiting.len() } else { waiting.len().min(1) };
                waiting.drain(..woken);
            }
            Op::Post { id, units } => {
                let (value, known) = sync.semaphores.entry(id).or_default();
                *value += units;
                join(known, clock);
            }
            Op::Down(id) => {
                let (value, known) = sync.semaphores.entry(id).or_default();
                if *value == 0 {
                    return Ok(Turn::Waits);
                }
                *value -= 1;
                join(clock, known);
            }
            Op::Barrier { id, total } => return Ok(self.meet(thread, id, total)),
            Op::Alloc(..)
            | Op::Free(_)
            | Op::Read(_)
            | Op::Write(..)
            | Op::Rewrite(_)
            | Op::Copy { .. }
            | Op::Add(..)
            | Op::Bump(..)
            | Op::Inspect(_)
            | Op::Await(..)
            | Op::Start(_)
            | Op::Join(_)
            | Op::Prefetch(..)
            | Op::Push(_)
            | Op::Touch(..) => return Err(format!("{op} is none of these")),
        }
        Ok(Turn::Done)
    }

    fn meet(&mut self, thread: ThreadId, id: u32, total: u32) -> Turn {
        let clock = self.clocks[thread.0].clone();
        if let Some(known) = self.sync.released[thread.0].take() {
            join(&mut self.clocks[thread.0], &known);
            return Turn::Done;
        }
        let total = if total == 0 { self.initial_threads } else { total as usize };
        let (come, known) = self.sync.barriers.entry(id).or_default();
        if come.contains(&thread) {
            return Turn::Waits;
        }
        come.push(thread);
        join(known, &clock);
        if come.len() < total {
            return Turn::Waits;
        }
        let (come, known) = self.sync.barriers.remove(&id).unwrap_or_default();
        for other in come.into_iter().filter(|&other| other != thread) {
            self.sync.released[other.0] = Some(known.clone());
        }
        join(&mut self.clocks[thread.0], &known);
        Turn::Done
    }

    /// Under the lock, which is given back while the thread waits for a signal.
    fn wait_for(&mut self, thread: ThreadId, id: GroupId, value: u64) -> Result<Turn, String> {
        let group = &self.program.groups[id.0];
        let (lock, condition) = (group.lock, group.condition);
        if self.sync.waiting.entry(condition).or_default().contains(&thread) {
            return Ok(Turn::Waits);
        }
        let holder = self.sync.locks.entry(lock).or_default().0;
        if holder != Some(thread) && self.synchronize(thread, Op::Lock(lock))? == Turn::Waits {
            return Ok(Turn::Waits);
        }
        if self.growth(thread, id)? >= value {
            return Ok(Turn::Done);
        }
        self.synchronize(thread, Op::Unlock(lock))?;
        self.clocks[thread.0][thread.0] += 1;
        self.sync.waiting.entry(condition).or_default().push(thread);
        Ok(Turn::Went)
    }

    fn growth(&mut self, thread: ThreadId, id: GroupId) -> Result<u64, String> {
        let group = &self.program.groups[id.0];
        let mut all = Vec::new();
        for (place, &span) in group.places.iter().enumerate() {
            let bytes = self.access(thread, span, Kind::Read)?;
            let start = self.expected.starts[id.0][place];
            all.push(number(&bytes).wrapping_sub(start) & group.mask());
        }
        let same = all.iter().all(|growth| *growth == all[0]) && all[0] <= group.total;
        if same { Ok(all[0]) } else { Err(format!("places have grown by {all:?}")) }
    }

    /// Reads what the reference has read.
    fn read(&mut self, thread: ThreadId, span: Span) -> Result<Vec<u8>, String> {
        let bytes = self.access(thread, span, Kind::Read)?;
        let expected = &self.expected.found[thread.0][self.next[thread.0]];
        if **expected == *bytes { Ok(bytes) } else { Err("other bytes".into()) }
    }

    fn add(&mut self, thread: ThreadId, span: Span, amount: u64) -> Result<(), String> {
        let sum = number(&self.access(thread, span, Kind::Read)?).wrapping_add(amount);
        self.write(thread, span, &sum.to_le_bytes()[..span.bytes])
    }

    fn write(&mut self, thread: ThreadId, span: Span, values: &[u8]) -> Result<(), String> {
        self.access(thread, span, Kind::Write)?;
        let bytes = self.objects[span.object.0].as_mut().ok_or("memory that is not there")?;
        let bytes = bytes[span.from..].iter_mut();
        bytes.zip(values).for_each(|(byte, value)| byte.value = *value);
        Ok(())
    }

    /// An access that must follow all it conflicts with.
    fn access(&mut self, thread: ThreadId, span: Span, kind: Kind) -> Result<Vec<u8>, String> {
        let bytes = self.objects[span.object.0].as_mut().ok_or("memory that is not there")?;
        let clock = &self.clocks[thread.0];
        let follows = |&(other, time): &(usize, u32)| clock[other] >= time;
        let now = (thread.0, clock[thread.0]);
        let mut values = Vec::new();
        for byte in &mut bytes[span.from..span.from + span.bytes] {
            if !byte.written.iter().all(follows) {
                return Err(format!("a race with a write of thread {:?}", byte.written));
            }
            if kind == Kind::Write {
                if !byte.read.iter().all(follows) {
                    return Err(format!("a race with reads of threads {:?}", byte.read));
                }
                byte.written = Some(now);
                byte.read.clear();
            } else {
                byte.read.retain(|&(other, _)| other != thread.0);
                byte.read.push(now);
            }
            values.push(byte.value);
        }
        Ok(values)
    }
}
