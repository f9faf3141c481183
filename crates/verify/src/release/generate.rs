//! Random programs without data races.
//!
//! A program is a sequence of phases with barriers of all threads in between. In a phase every word belongs to a
//! lock, to a thread, to nobody (all may read it), or to several threads that pass it on in turn, by semaphores
//! or by other means. Words are passed on in an order of threads drawn for the phase, so no wait is circular.
//! Threads touch words only as that allows, hence conflicting accesses are ordered. Some threads may meet at a
//! barrier of their own in the middle of a phase; the phase then goes on with the owners so far, except for words
//! that are passed on. In some programs all these threads are started by one more, which joins them and others that
//! end soon: it counts as none while it waits, and goes on in the middle of what they do.

mod owner;
#[cfg(test)]
mod tests;

use crate::LockWindows;
use multigrain_protocol::Kind;
use multigrain_protocol::sync::IDLE_TOKENS;
use multigrain_types::{Consistency, NodeId};

use self::owner::{Owner, index, owner};
use super::program::{Job, Op, Placed, Thread, Value, WORDS};
use crate::sim::rng::Rng;

/// A word of a minipage.
type Place = (u8, u8);

/// A random job.
#[must_use]
pub fn generate(rng: &mut Rng) -> Job {
    let nodes = u16::try_from(rng.magnitude(2, 16)).unwrap_or(2);
    // Often one minipage for all to contend for.
    let minipages = if rng.once_in(3) { 1 } else { rng.magnitude(1, 6) };
    let fans = [1, 2, 8];
    let mut job = Job::new(nodes)
        .with_fan(fans[usize::from(nodes) % fans.len()])
        .with_notices_in_a_frame(rng.pick(&[usize::MAX, usize::MAX, 1, 3]));
    job.trap_gap = rng.once_in(3);
    job.dynamic_after = rng.pick(&[0, 0, 1, 2]);
    job.tracks = rng.once_in(2);
    job.locks.idle_tokens = if rng.once_in(2) { 0 } else { IDLE_TOKENS };
    job.locks.windows = rng.pick(&LockWindows::ALL);
    // Where 32 bits end, a few counts on.
    job.first_number = rng.pick(&[0, 0, 0, u64::from(u32::MAX) - 1]);
    // One protocol alone, two or three times of four.
    let only = (!rng.once_in(4)).then(|| rng.pick(&Consistency::ALL[1..]));
    for _ in 0..minipages {
        let consistency = only.unwrap_or_else(|| rng.pick(&Consistency::ALL));
        let (manager, owner) = (node(rng, nodes), node(rng, nodes));
        let owner = if rng.once_in(3) { manager } else { owner };
        job.minipages.push(Placed { manager, owner, consistency });
    }
    let idle = rng.once_in(8).then(|| node(rng, nodes));
    let most = 1 + rng.below(if nodes > 4 { 3 } else { 5 });
    for rank in (0..nodes).map(NodeId).filter(|&rank| Some(rank) != idle) {
        for _ in 0..=rng.below(most) {
            job.threads.push(Thread { node: rank, program: Vec::new(), started: false });
        }
    }
    let (busy, prefetches) = (rng.pick(&[2, 6, 6, 12]), rng.pick(&[1, 1, 3]));
    let (starts, threads) = (rng.pick(&[0, 1, 4]), job.threads.len());
    let (unjoined, flags) = (Vec::new(), Vec::new());
    // Most programs have one barrier, to which they come again and again.
    let barriers = rng.pick(&[1, 1, 4]);
    let mut writer = Writer {
        value: 4,
        id: 100,
        busy,
        prefetches,
        starts,
        barriers,
        threads,
        unjoined,
        flags,
        job,
    };
    let phases = 1 + rng.below(4);
    for _ in 0..phases {
        writer.phase(rng);
        for _ in 0..=rng.below(3) / 2 {
            writer.barrier(rng);
        }
    }
    if !writer.unjoined.is_empty() {
        writer.starts = 0;
        writer.phase(rng);
        writer.barrier(rng);
    }
    let last = if rng.once_in(4) { writer.started_by_one(rng) } else { index(rng, threads) };
    writer.look_at_all(last);
    writer.job
}

fn node(rng: &mut Rng, nodes: u16) -> NodeId {
    NodeId(u16::try_from(rng.below(nodes.into())).unwrap_or(0))
}

struct Writer {
    /// The next value to write: all differ, but for a few.
    value: Value,
    /// The next synchronization id.
    id: u32,
    /// Things a thread does in a phase, at most.
    busy: u64,
    /// How many of eight are prefetches.
    prefetches: u64,
    /// In how many of eight cases a word is handed on to a thread that is started for it.
    starts: u64,
    /// Barriers of all threads.
    barriers: u32,
    /// Words of this phase that tell of what was handed on, not used yet.
    flags: Vec<Place>,
    /// Threads that run from the start on; they come first.
    threads: usize,
    /// Threads that run on when a phase ends, each with a word of its own, and the thread that joins it then.
    unjoined: Vec<(Place, u8, usize)>,
    job: Job,
}

/// Most threads of a job, so that programs can name them.
const MOST_THREADS: usize = 200;

impl Writer {
    fn phase(&mut self, rng: &mut Rng) {
        let threads = self.threads;
        let mut order: Vec<usize> = (0..threads).collect();
        (0..threads).for_each(|place| order.swap(place, index(rng, threads)));
        let locks = 1 + rng.below32(3);
        let mut words = Vec::new();
        let unjoined = core::mem::take(&mut self.unjoined);
        let taken = |place: &Place| unjoined.iter().any(|(other, ..)| other == place);
        for minipage in 0..u8::try_from(self.job.minipages.len()).unwrap_or(0) {
            for word in (0u8..).take(WORDS).filter(|&word| !taken(&(minipage, word))) {
                words.push(((minipage, word), owner(rng, locks, &order)));
            }
        }
        let freed = self.minipage_to_free(rng, &mut words);
        let flag = |(place, owner): &(Place, Owner)| matches!(owner, Owner::Flag).then_some(*place);
        self.flags = words.iter().filter_map(flag).collect();
        let mut items: Vec<Vec<Vec<Op>>> = vec![Vec::new(); threads];
        if let Some((minipage, thread)) = freed {
            let mut item = vec![Op::Reclaim(minipage)];
            item.extend((0u8..).take(WORDS).map(|word| Op::Write(minipage, word, self.value)));
            items[thread].push(item);
        }
        for (place, thread, joiner) in unjoined {
            let mut item = vec![Op::Join(thread)];
            item.extend(self.accesses(rng, &[place], 2));
            items[joiner].push(item);
        }
        for (place, owner) in &words {
            if let Owner::Transferred(turn) = owner {
                self.hand_on(rng, *place, turn, &mut items);
            }
        }
        self.fill(rng, locks, &words, items);
        if rng.once_in(3) {
            self.some_meet(rng);
            self.fill(rng, locks, &words, vec![Vec::new(); threads]);
        }
    }

    /// A minipage that a thread of its owner frees and uses again in this phase, and has for itself.
    fn minipage_to_free(&self, rng: &mut Rng, words: &mut [(Place, Owner)]) -> Option<(u8, usize)> {
        if !rng.once_in(4) {
            return None;
        }
        let minipage = u8::try_from(index(rng, self.job.minipages.len())).ok()?;
        let owner = self.job.minipages[usize::from(minipage)].owner;
        let here = |thread: &usize| self.job.threads[*thread].node == owner;
        let here: Vec<usize> = (0..self.threads).filter(here).collect();
        let of_it = |(place, _): &&mut (Place, Owner)| place.0 == minipage;
        let whole = words.iter().filter(|(place, _)| place.0 == minipage).count() == WORDS;
        if here.is_empty() || !whole {
            return None;
        }
        let thread = rng.pick(&here);
        words.iter_mut().filter(of_it).for_each(|(_, owner)| *owner = Owner::Thread(thread));
        Some((minipage, thread))
    }

    /// A thread that is started on some node and accesses this word; `None` if there are many.
    fn started(&mut self, rng: &mut Rng, place: Place) -> Option<u8> {
        if rng.below(8) >= self.starts || self.job.threads.len() >= MOST_THREADS {
            return None;
        }
        let number = u8::try_from(self.job.threads.len()).ok()?;
        let program = self.accesses(rng, &[place], 3);
        let node = node(rng, self.job.nodes);
        self.job.threads.push(Thread { node, program, started: true });
        Some(number)
    }

    /// Adds to what every thread does, and lets it do it.
    fn fill(
        &mut self,
        rng: &mut Rng,
        locks: u32,
        words: &[(Place, Owner)],
        mut items: Vec<Vec<Vec<Op>>>,
    ) {
        for (thread, items) in items.iter_mut().enumerate() {
            for _ in 0..rng.below(self.busy) {
                let item = self.item(rng, thread, locks, words);
                let at = index(rng, items.len() + 1);
                items.insert(at, item);
            }
        }
        for (thread, items) in self.job.threads.iter_mut().zip(items) {
            thread.program.extend(items.into_iter().flatten());
        }
    }

    /// Something a thread may do in this phase.
    fn item(
        &mut self,
        rng: &mut Rng,
        thread: usize,
        locks: u32,
        words: &[(Place, Owner)],
    ) -> Vec<Op> {
        if rng.below(8) < self.prefetches && !words.is_empty() {
            let (minipage, _) = words[index(rng, words.len())].0;
            if self.job.minipages[usize::from(minipage)].consistency.is_lazy() && rng.once_in(3) {
                return vec![Op::OpenAhead(minipage)];
            }
            if rng.once_in(4) {
                return vec![Op::Push(minipage)];
            }
            return vec![Op::Prefetch(minipage, rng.pick(&[Kind::Read, Kind::Write]))];
        }
        match rng.below(8) {
            0 | 1 => {
                let own = places_of(
                    words,
                    &|owner| matches!(owner, Owner::Thread(other) if *other == thread),
                );
                self.accesses(rng, &own, 3)
            }
            2 => self.reads_of_constants(rng, words),
            3 => self.nested_locks(rng, locks, words),
            4 => self.around_a_section(rng, thread, locks, words),
            _ => {
                let lock = rng.below32(locks);
                let under =
                    places_of(words, &|owner| matches!(owner, Owner::Lock(id) if *id == lock));
                let mut ops = vec![Op::Lock(lock)];
                ops.extend(self.accesses(rng, &under, 3));
                ops.push(Op::Unlock(lock));
                ops
            }
        }
    }

    /// Reads of what nobody writes, perhaps fetched ahead.
    fn reads_of_constants(&mut self, rng: &mut Rng, words: &[(Place, Owner)]) -> Vec<Op> {
        let free = places_of(words, &|owner| matches!(owner, Owner::Nobody));
        if free.is_empty() {
            return Vec::new();
        }
        let many = 1 + rng.below(3);
        let places: Vec<Place> = (0..many).map(|_| rng.pick(&free)).collect();
        let asks = if rng.once_in(2) { &places[..] } else { &[] };
        let asks = asks.iter().map(|&(minipage, _)| Op::AwaitedPrefetch(minipage));
        asks.chain(places.iter().map(|&(m, w)| Op::Read(m, w))).collect()
    }

    /// Two locks at once, always in the same order.
    fn nested_locks(&mut self, rng: &mut Rng, locks: u32, words: &[(Place, Owner)]) -> Vec<Op> {
        let (outer, inner) = (rng.below32(locks), locks + rng.below32(2));
        let under = places_of(words, &|owner| matches!(owner, Owner::Lock(id) if *id == outer));
        let mut ops = vec![Op::Lock(outer), Op::Lock(inner)];
        ops.extend(self.accesses(rng, &under, 2));
        ops.extend([Op::Unlock(inner), Op::Unlock(outer)]);
        ops
    }

    /// Before and after a critical section: what the thread wrote itself, or nobody writes.
    fn around_a_section(
        &mut self,
        rng: &mut Rng,
        thread: usize,
        locks: u32,
        words: &[(Place, Owner)],
    ) -> Vec<Op> {
        let lock = rng.below32(locks);
        let near = places_of(words, &|owner| match owner {
            Owner::Thread(other) => *other == thread,
            Owner::Nobody => true,
            Owner::Lock(_) | Owner::Transferred(_) | Owner::Flag => false,
        });
        let own =
            places_of(words, &|owner| matches!(owner, Owner::Thread(other) if *other == thread));
        let under = places_of(words, &|owner| matches!(owner, Owner::Lock(id) if *id == lock));
        let mut ops = self.accesses(rng, &own, 1);
        ops.push(Op::Lock(lock));
        if rng.once_in(2) {
            ops.extend(self.accesses(rng, &under, 1));
        }
        ops.push(Op::Unlock(lock));
        ops.extend(near.iter().map(|&(minipage, word)| Op::Read(minipage, word)).take(4));
        ops
    }

    /// Some accesses to words that the thread may read and write now.
    fn accesses(&mut self, rng: &mut Rng, words: &[Place], most: u64) -> Vec<Op> {
        if words.is_empty() {
            return Vec::new();
        }
        let many = 1 + rng.below(most);
        (0..many)
            .map(|_| {
                let place = rng.pick(words);
                self.access(rng, place)
            })
            .collect()
    }

    fn access(&mut self, rng: &mut Rng, (minipage, word): Place) -> Op {
        match rng.below(8) {
            0..3 => Op::Read(minipage, word),
            3..5 => Op::Add(minipage, word),
            // What was there before, perhaps: a twin must not mistake it for nothing.
            5 => Op::Write(minipage, word, rng.below32(3)),
            _ => {
                self.value += 1000;
                Op::Write(minipage, word, self.value)
            }
        }
    }

    fn hand_on(&mut self, rng: &mut Rng, place: Place, turn: &[usize], items: &mut [Vec<Vec<Op>>]) {
        let mut received: Vec<Op> = Vec::new();
        for (step, &thread) in turn.iter().enumerate() {
            let mut item = core::mem::take(&mut received);
            item.extend(self.accesses(rng, &[place], 2));
            if let Some(&next) = turn.get(step + 1) {
                let (id, to) = (self.id, self.job.threads[next].node);
                self.id += 1;
                if let Some(started) = self.started(rng, place) {
                    item.push(Op::Start(started));
                    received = vec![Op::Join(started)];
                } else if rng.once_in(3) && to != self.job.threads[thread].node {
                    item.extend([Op::Release, Op::Notify(to.0, id)]);
                    received = vec![Op::Receive(id)];
                } else if let Some(flag) = self.flags.pop() {
                    self.value += 1000;
                    let (condition, lock, value) = (id, id, self.value);
                    let (lock_it, unlock) = (Op::Lock(lock), Op::Unlock(lock));
                    let signal = Op::Signal(condition, rng.once_in(2));
                    item.extend([lock_it, Op::Write(flag.0, flag.1, value), signal, unlock]);
                    let wait = Op::Await { place: flag, value, condition, lock };
                    received = vec![lock_it, wait, unlock];
                } else {
                    item.push(Op::Up(id, 1));
                    received = vec![Op::Down(id)];
                }
            } else if let Some(started) = self.started(rng, place) {
                // It may run on when all others are at the barrier.
                item.push(Op::Start(started));
                self.unjoined.push((place, started, index(rng, self.threads)));
            }
            let at = index(rng, items[thread].len() + 1);
            items[thread].insert(at, item);
        }
    }

    /// Some threads meet.
    fn some_meet(&mut self, rng: &mut Rng) {
        let threads = self.job.threads.iter();
        let comes: Vec<bool> = threads.map(|it| !it.started && !rng.once_in(3)).collect();
        let total = comes.iter().filter(|&&comes| comes).count();
        // Not the barriers of all, to which others may come meanwhile.
        let (id, total) = (4 + rng.below32(4), u32::try_from(total).unwrap_or(0));
        let alone = rng.once_in(2);
        for rank in (0..self.job.nodes).map(NodeId) {
            let threads = self.job.threads.iter_mut().zip(&comes);
            let here: Vec<_> =
                threads.filter(|(thread, comes)| thread.node == rank && **comes).collect();
            let local = if alone { 0 } else { u32::try_from(here.len()).unwrap_or(0) };
            let quiescent = !rng.once_in(4);
            for (thread, _) in here {
                thread.program.push(Op::Barrier { id, local, total, quiescent });
            }
        }
    }

    /// All threads meet. The nodes need not agree about whether all is quiescent.
    fn barrier(&mut self, rng: &mut Rng) {
        let id = rng.below32(self.barriers);
        let total = self.job.first_threads();
        let (active, alone) = (rng.once_in(4), rng.once_in(3));
        let minipages = self.job.minipages.len();
        let ahead = rng.once_in(3);
        for rank in (0..self.job.nodes).map(NodeId) {
            let threads = self.job.threads.iter_mut();
            let here = threads.filter(|thread| thread.node == rank && !thread.started);
            let here: Vec<_> = here.collect();
            let count = u32::try_from(here.len()).unwrap_or(0);
            let quiescent = !active || !rng.once_in(2);
            let local = if alone { 0 } else { count };
            for thread in here {
                // What it asked for comes while all wait, and homes move.
                if ahead && rng.once_in(2) {
                    let minipage = u8::try_from(index(rng, minipages)).unwrap_or(0);
                    let kind = rng.pick(&[Kind::Read, Kind::Write]);
                    thread.program.push(Op::Prefetch(minipage, kind));
                    // And what it opened is closed when it arrives.
                    if self.job.minipages[usize::from(minipage)].consistency.is_lazy() {
                        thread.program.push(Op::OpenAhead(minipage));
                    }
                }
                thread.program.push(Op::Barrier { id, local, total, quiescent });
            }
        }
    }

    /// One more thread starts all and joins them, before that some that end in the middle. Its index.
    fn started_by_one(&mut self, rng: &mut Rng) -> usize {
        let first = 0..u8::try_from(self.threads).unwrap_or(0);
        let (mut program, mut joined) = (Vec::new(), Vec::new());
        for thread in first.clone() {
            self.job.threads[usize::from(thread)].started = true;
            program.push(Op::Start(thread));
            if rng.once_in(2)
                && let Ok(short) = u8::try_from(self.job.threads.len())
            {
                // It ends when this one comes to some barrier.
                let ended_by = &mut self.job.threads[usize::from(thread)].program;
                let barriers = (0..ended_by.len()).filter(|&at| is_barrier(ended_by[at]));
                let at = rng.pick(&barriers.collect::<Vec<_>>());
                ended_by.insert(at, Op::Up(self.id, 1));
                let (node, down) = (node(rng, self.job.nodes), vec![Op::Down(self.id)]);
                self.id += 1;
                self.job.threads.push(Thread { node, program: down, started: true });
                program.push(Op::Start(short));
                joined.push(Op::Join(short));
            }
        }
        program.extend(joined.into_iter().chain(first.map(Op::Join)));
        let node = node(rng, self.job.nodes);
        self.job.threads.push(Thread { node, program, started: false });
        self.job.threads.len() - 1
    }

    /// One thread reads all in the end.
    fn look_at_all(&mut self, thread: usize) {
        for minipage in 0..u8::try_from(self.job.minipages.len()).unwrap_or(0) {
            let words = (0u8..).take(WORDS);
            self.job.threads[thread].program.extend(words.map(|word| Op::Read(minipage, word)));
        }
    }
}

fn is_barrier(op: Op) -> bool {
    matches!(op, Op::Barrier { .. })
}

/// The words whose owner is one of these.
fn places_of(words: &[(Place, Owner)], wanted: &dyn Fn(&Owner) -> bool) -> Vec<Place> {
    words.iter().filter(|(_, owner)| wanted(owner)).map(|(place, _)| *place).collect()
}
