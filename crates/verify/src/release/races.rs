//! Whether a program is free of data races: the promise that all checked programs make.
//!
//! The program runs on one memory, in a random order, with a vector clock a thread: two accesses to
//! a word, one of them a write, must be ordered by the synchronization between them.

use std::collections::{BTreeMap, VecDeque};

use super::program::{Job, Op, Value, WORDS};
use crate::sim::rng::Rng;

/// Of every thread, how far somebody knows it has come.
type Clock = Vec<u32>;

/// One run of a program.
///
/// # Errors
/// The first two accesses found that nothing orders; or that the threads wait for ever.
pub fn run_without_race(job: &Job, seed: u64) -> Result<(), String> {
    let mut rng = Rng::of(seed, 3);
    let mut run = Run::new(job);
    loop {
        let able: Vec<usize> = (0..job.threads.len()).filter(|&it| run.is_able(it)).collect();
        if able.is_empty() {
            let mut done = run.done.iter().zip(&job.threads);
            let all = done.all(|(&done, thread)| done == thread.program.len());
            return if all { Ok(()) } else { Err(format!("all wait after {:?} steps", run.done)) };
        }
        run.step(rng.pick(&able))?;
    }
}

/// The last accesses to a word, by thread: when the thread did it.
#[derive(Default)]
struct Word {
    writes: BTreeMap<usize, u32>,
    reads: BTreeMap<usize, u32>,
}

struct Run<'a> {
    job: &'a Job,
    done: Vec<usize>,
    /// At a barrier.
    waiting: Vec<bool>,
    /// Started, if another thread has to.
    runs: Vec<bool>,
    clocks: Vec<Clock>,
    words: BTreeMap<(u8, u8), Word>,
    /// Whether it is held, and the clock that its next holder joins.
    locks: BTreeMap<u32, (bool, Clock)>,
    units: BTreeMap<u32, VecDeque<Clock>>,
    notified: BTreeMap<u32, VecDeque<Clock>>,
    arrived: BTreeMap<u32, Vec<usize>>,
    /// What was last stored, as far as somebody awaits it.
    stored: BTreeMap<(u8, u8), Value>,
    /// Has given up its lock and waits for a condition.
    awaiting: Vec<bool>,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job) -> Self {
        let threads = job.threads.len();
        let clock = |thread| (0..threads).map(|other| u32::from(other == thread)).collect();
        Self {
            job,
            done: vec![0; threads],
            waiting: vec![false; threads],
            runs: job.threads.iter().map(|thread| !thread.started).collect(),
            clocks: (0..threads).map(clock).collect(),
            words: BTreeMap::new(),
            locks: BTreeMap::new(),
            units: BTreeMap::new(),
            notified: BTreeMap::new(),
            arrived: BTreeMap::new(),
            stored: BTreeMap::new(),
            awaiting: vec![false; threads],
        }
    }

    fn op(&self, thread: usize) -> Option<Op> {
        self.job.threads[thread].program.get(self.done[thread]).copied()
    }

    fn is_able(&self, thread: usize) -> bool {
        let some = |queues: &BTreeMap<u32, VecDeque<Clock>>, id| {
            queues.get(&id).is_some_and(|queue| !queue.is_empty())
        };
        match self.op(thread) {
            None => false,
            Some(_) if !self.runs[thread] => false,
            Some(Op::Await { place, value, lock, .. }) if self.awaiting[thread] => {
                let free = !self.locks.get(&lock).is_some_and(|(held, _)| *held);
                free && self.stored.get(&place) == Some(&value)
            }
            Some(Op::Lock(id)) => !self.locks.get(&id).is_some_and(|(held, _)| *held),
            Some(Op::Down(id)) => some(&self.units, id),
            Some(Op::Receive(id)) => some(&self.notified, id),
            Some(Op::Barrier { .. }) => !self.waiting[thread],
            Some(Op::Join(ended)) => {
                let ended = usize::from(ended);
                self.runs[ended] && self.op(ended).is_none()
            }
            Some(
                Op::Read(..)
                | Op::Write(..)
                | Op::Add(..)
                | Op::Prefetch(..)
                | Op::AwaitedPrefetch(_)
                | Op::OpenAhead(_)
                | Op::Unlock(_)
                | Op::Up(..)
                | Op::Release
                | Op::Notify(..)
                | Op::Await { .. }
                | Op::Signal(..)
                | Op::Push(_)
                | Op::Reclaim(_)
                | Op::Start(_),
            ) => true,
        }
    }

    fn step(&mut self, thread: usize) -> Result<(), String> {
        let Some(op) = self.op(thread) else { return Ok(()) };
        self.done[thread] += 1;
        match op {
            Op::Read(minipage, word) => self.access(thread, (minipage, word), false)?,
            Op::Await { place, value, lock, .. } => self.wait(thread, place, value, lock)?,
            Op::Reclaim(minipage) => {
                // All its accesses must be ordered before its free.
                for word in (0u8..).take(WORDS) {
                    self.access(thread, (minipage, word), true)?;
                }
            }
            Op::Write(minipage, word, value) => {
                self.stored.insert((minipage, word), value);
                self.access(thread, (minipage, word), true)?;
            }
            Op::Add(minipage, word) => {
                self.access(thread, (minipage, word), true)?;
            }
            Op::Prefetch(..)
            | Op::AwaitedPrefetch(_)
            | Op::OpenAhead(_)
            | Op::Release
            | Op::Signal(..)
            | Op::Push(_) => {}
            Op::Lock(id) => {
                let (held, known) = self.locks.entry(id).or_default();
                *held = true;
                learn(&mut self.clocks[thread], known);
            }
            Op::Unlock(id) => {
                let known = self.publish(thread);
                self.locks.insert(id, (false, known));
            }
            Op::Up(id, count) => {
                let known = self.publish(thread);
                let units = self.units.entry(id).or_default();
                (0..count).for_each(|_| units.push_back(known.clone()));
            }
            Op::Notify(_, id) => {
                let known = self.publish(thread);
                self.notified.entry(id).or_default().push_back(known);
            }
            Op::Down(id) => take(&mut self.units, id, &mut self.clocks[thread]),
            Op::Receive(id) => take(&mut self.notified, id, &mut self.clocks[thread]),
            Op::Start(started) => {
                let (known, started) = (self.publish(thread), usize::from(started));
                self.runs[started] = true;
                learn(&mut self.clocks[started], &known);
            }
            Op::Join(ended) => {
                let known = self.publish(usize::from(ended));
                learn(&mut self.clocks[thread], &known);
            }
            Op::Barrier { id, total, .. } => {
                self.done[thread] -= 1;
                self.arrive(thread, id, total);
            }
        }
        Ok(())
    }

    /// Under its lock: a look at the word, and if it is not there yet the lock is given up.
    fn wait(
        &mut self,
        thread: usize,
        place: (u8, u8),
        value: Value,
        lock: u32,
    ) -> Result<(), String> {
        if core::mem::take(&mut self.awaiting[thread]) {
            let (held, known) = self.locks.entry(lock).or_default();
            *held = true;
            learn(&mut self.clocks[thread], known);
        }
        self.access(thread, place, false)?;
        if self.stored.get(&place) != Some(&value) {
            self.done[thread] -= 1;
            self.awaiting[thread] = true;
            let known = self.publish(thread);
            self.locks.insert(lock, (false, known));
        }
        Ok(())
    }

    fn arrive(&mut self, thread: usize, id: u32, total: u32) {
        self.waiting[thread] = true;
        let arrived = self.arrived.entry(id).or_default();
        arrived.push(thread);
        if arrived.len() < total as usize {
            return;
        }
        let all = core::mem::take(arrived);
        let mut known = Clock::new();
        for &thread in &all {
            learn(&mut known, &self.publish(thread));
        }
        for thread in all {
            learn(&mut self.clocks[thread], &known);
            self.waiting[thread] = false;
            self.done[thread] += 1;
        }
    }

    /// What a thread knows when it lets others know; what it does next is later.
    fn publish(&mut self, thread: usize) -> Clock {
        let known = self.clocks[thread].clone();
        self.clocks[thread][thread] += 1;
        known
    }

    fn access(&mut self, thread: usize, place: (u8, u8), write: bool) -> Result<(), String> {
        let (clock, word) = (&self.clocks[thread], self.words.entry(place).or_default());
        let unknown = |(&other, &when): (&usize, &u32)| {
            (other != thread && clock[other] < when).then_some(other)
        };
        let mut others = word.writes.iter().chain(word.reads.iter().filter(|_| write));
        if let Some(other) = others.find_map(unknown) {
            let (minipage, word) = place;
            return Err(format!("threads {other} and {thread} race for m{minipage}[{word}]"));
        }
        let done = if write { &mut word.writes } else { &mut word.reads };
        done.insert(thread, clock[thread]);
        Ok(())
    }
}

fn learn(clock: &mut Clock, other: &[u32]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    clock.iter_mut().zip(other).for_each(|(own, &other)| *own = other.max(*own));
}

fn take(queues: &mut BTreeMap<u32, VecDeque<Clock>>, id: u32, clock: &mut Clock) {
    if let Some(known) = queues.entry(id).or_default().pop_front() {
        learn(clock, &known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::configurations;
    use crate::release::generate::generate;

    #[test]
    fn the_configurations_have_no_data_races() {
        for row in configurations() {
            for seed in 0..50 {
                assert_eq!(run_without_race(&row.job, seed), Ok(()), "{}, {seed}", row.name);
            }
        }
    }

    #[test]
    fn random_programs_have_no_data_races() {
        for seed in 0..500 {
            let job = generate(&mut Rng::of(seed, 1));
            assert_eq!(run_without_race(&job, seed), Ok(()), "{seed}");
        }
    }

    #[test]
    fn a_race_is_found() {
        let job = Job::new(2).eager(0, 0).thread(0, &[Op::Read(0, 1)]);
        let racy = job.clone().thread(1, &[Op::Write(0, 1, 1)]);
        assert!(run_without_race(&racy, 0).is_err());
        assert_eq!(run_without_race(&job.thread(1, &[Op::Write(0, 0, 1)]), 0), Ok(()));
    }
}
