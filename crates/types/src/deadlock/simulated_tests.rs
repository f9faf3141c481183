//! Random jobs whose threads take locks and read-write locks in any order, over links that take any time: whoever is accused
//! can never go on, and where all messages have come every deadlock is found. Nodes report and answer at any moment in between.

use std::collections::{BTreeMap, VecDeque};

use super::proof::accused;
use super::{BlockingCall, Report, Thread, Waiter, deadlock, may_be_deadlock};

const NODES: usize = 3;
const THREADS: u32 = 2;
/// Of each kind; one is managed by the node of its number.
const LOCKS: u64 = 3;

struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// How a thread holds or wants a lock: a mutex is always written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Request(Thread, BlockingCall, Kind),
    Grant(Thread),
    Release(BlockingCall, Kind),
}

/// A lock as its manager knows it.
#[derive(Clone, Debug, Default)]
struct Managed {
    readers: u32,
    writer: bool,
    queue: VecDeque<(Thread, Kind)>,
}

#[derive(Clone, Debug, Default)]
struct Program {
    wait: u64,
    waits: Option<(BlockingCall, Kind)>,
    holds: BTreeMap<BlockingCall, Kind>,
}

#[derive(Clone, Debug)]
struct Job {
    threads: BTreeMap<Thread, Program>,
    locks: BTreeMap<BlockingCall, Managed>,
    under_way: Vec<Message>,
}

impl Job {
    fn new() -> Self {
        let threads = (0..NODES).flat_map(|node| (0..THREADS).map(move |thread| (node, thread)));
        Self {
            threads: threads.map(|thread| (thread, Program::default())).collect(),
            locks: BTreeMap::new(),
            under_way: Vec::new(),
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Request(thread, id, kind) => {
                self.locks.entry(id).or_default().queue.push_back((thread, kind));
                self.serve(id);
            }
            Message::Release(id, kind) => {
                let lock = self.locks.get_mut(&id).unwrap();
                match kind {
                    Kind::Read => lock.readers -= 1,
                    Kind::Write => lock.writer = false,
                }
                self.serve(id);
            }
            Message::Grant(thread) => {
                let program = self.threads.get_mut(&thread).unwrap();
                let (id, kind) = program.waits.take().unwrap();
                program.holds.insert(id, kind);
            }
        }
    }

    fn serve(&mut self, id: BlockingCall) {
        let lock = self.locks.get_mut(&id).unwrap();
        while let Some(&(thread, kind)) = lock.queue.front()
            && !lock.writer
            && (kind == Kind::Read || lock.readers == 0)
        {
            lock.queue.pop_front();
            match kind {
                Kind::Read => lock.readers += 1,
                Kind::Write => lock.writer = true,
            }
            self.under_way.push(Message::Grant(thread));
        }
    }

    /// A thread that runs takes a lock that it has not, or gives one back.
    fn act(&mut self, rng: &mut Rng) {
        let at = rng.below(self.threads.len());
        let (&thread, program) = self.threads.iter_mut().nth(at).unwrap();
        if program.waits.is_some() {
            return;
        }
        if !program.holds.is_empty() && rng.below(2) == 0 {
            let at = rng.below(program.holds.len());
            let (&id, &kind) = program.holds.iter().nth(at).unwrap();
            program.holds.remove(&id);
            self.under_way.push(Message::Release(id, kind));
            return;
        }
        let number = rng.below(usize::try_from(LOCKS).unwrap()) as u64;
        let (id, kind) = match rng.below(4) {
            0 => (BlockingCall::Lock(number), Kind::Write),
            1 => (BlockingCall::ReadWriteLock(number), Kind::Write),
            _ => (BlockingCall::ReadWriteLock(number), Kind::Read),
        };
        if !program.holds.contains_key(&id) {
            program.wait += 1;
            program.waits = Some((id, kind));
            self.under_way.push(Message::Request(thread, id, kind));
        }
    }

    fn deliver_one(&mut self, rng: &mut Rng) {
        if !self.under_way.is_empty() {
            let at = rng.below(self.under_way.len());
            let message = self.under_way.swap_remove(at);
            self.deliver(message);
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(3) {
            0 => self.act(rng),
            _ => self.deliver_one(rng),
        }
    }

    /// Whoever runs gives all back, and every message comes, until nothing happens: who waits now waits for ever.
    fn stuck(&self) -> Vec<Thread> {
        let mut job = self.clone();
        loop {
            let running = job.threads.values_mut().filter(|program| program.waits.is_none());
            for (id, kind) in running.flat_map(|program| core::mem::take(&mut program.holds)) {
                job.under_way.push(Message::Release(id, kind));
            }
            let Some(message) = job.under_way.pop() else { break };
            job.deliver(message);
        }
        let waiting = job.threads.iter().filter(|(_, program)| program.waits.is_some());
        waiting.map(|(&thread, _)| thread).collect()
    }

    fn report(&self, node: usize) -> Option<Report> {
        let own = self.threads.range((node, 0)..(node + 1, 0));
        let waiters = own.filter_map(|(&(_, thread), program)| {
            let (call, _) = program.waits?;
            let holds = program.holds.keys().copied().collect();
            let (wait, name) = (program.wait, String::new());
            Some(Waiter {
                thread,
                wait,
                call,
                timed: false,
                holds,
                expected: 0,
                whole: false,
                name,
            })
        });
        let own = BlockingCall::ReadWriteLock(node as u64);
        let managed = self.locks.iter().filter(|&(&id, _)| id == own);
        let queued = managed.flat_map(|(_, lock)| &lock.queue);
        let known = queued.map(|&((node, thread), _)| (u16::try_from(node).unwrap(), thread));
        Some(Report {
            waiters: waiters.collect(),
            known_to_wait: known.collect(),
            ..Report::default()
        })
    }

    /// What all nodes say, in any order and with a few steps of the job in between.
    fn ask(&mut self, rng: &mut Rng, pace: usize) -> [Option<Report>; NODES] {
        let mut reports = [const { None }; NODES];
        let first = rng.below(NODES);
        for node in (0..NODES).map(|node| (node + first) % NODES) {
            for _ in 0..rng.below(pace) {
                self.step(rng);
            }
            reports[node] = self.report(node);
        }
        reports
    }
}

#[test]
fn nobody_is_accused_who_may_go_on_and_no_deadlock_is_missed() {
    let (mut found, mut doubtful) = (0, 0);
    for seed in 1..20_000 {
        let mut rng = Rng(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..3 {
            rng.below(2);
        }
        let mut job = Job::new();
        for _ in 0..20 + rng.below(40) {
            job.step(&mut rng);
        }
        let pace = [1, 3, 10, 30][rng.below(4)];
        let [before, between, after] = [(); 3].map(|()| job.ask(&mut rng, pace));
        let stuck = job.stuck();
        let accused = accused(&before, &between, &after);
        found += usize::from(!accused.is_empty());
        doubtful += usize::from(accused.is_empty() && may_be_deadlock(&before));
        assert!(
            accused.iter().all(|thread| stuck.contains(thread)),
            "{seed}: {accused:?} of {job:?}"
        );
        // When nothing moves any more.
        while !job.under_way.is_empty() {
            job.deliver_one(&mut rng);
        }
        let last = job.ask(&mut rng, 1);
        assert_eq!(
            deadlock(&last, &last, &last).is_some(),
            !job.stuck().is_empty(),
            "{seed}: {job:?}"
        );
    }
    assert!(found > 250 && doubtful > 50, "{found} found, {doubtful} in doubt");
}
