//! Random programs without data races.
//!
//! A program is a sequence of phases with barriers of all initial threads in between. It is written
//! phrase by phrase: a phrase appends operations to one thread or to several, and waits only for
//! what is written already. So the order in which operations are written is a legal execution, and
//! no other execution deadlocks: of all operations not done yet, the one written first can be done, or waits for
//! a lock whose holder waits for nothing.
//!
//! Every object is cut into cells. A cell belongs to one thread, which may write it, to several, which may
//! read it, or to a group, which accesses it under a lock only. Cells change
//! hands where a thread waits for another (`sync`, `threads`), and at the barriers of a phase all cells
//! that no started thread holds are distributed anew.
//!
//! | file | part |
//! |---|---|
//! | `owners` | who has which cell in a phase |
//! | `objects` | allocation, and reuse of freed memory |
//! | `memory` | reads, writes, copies, hints |
//! | `sync` | critical sections; passing cells on by semaphores, conditions and barriers of some threads |
//! | `threads` | threads that threads start and join |
//! | `sweeps` | pairs of threads that go over many pages |

mod memory;
mod objects;
mod owners;
mod sweeps;
mod sync;
mod threads;

use super::program::{GroupId, ObjectId, Op, Program, Thread, ThreadId};
use super::setting::{Mode, Setting};
use multigrain_verify::sim::rng::Rng;

/// Bytes of an object with one owner at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    object: ObjectId,
    from: usize,
    to: usize,
    owner: Owner,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// One may write, many may read; nobody in between two phases.
    Threads(Vec<ThreadId>),
    Group(GroupId),
}

/// What is known about a thread.
#[derive(Debug, Clone, Copy)]
struct State {
    /// The latest phase whose beginning happens before what it does next.
    phase: u32,
    life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Initial,
    /// Started in a phase by a thread.
    Started {
        by: ThreadId,
        born: u32,
    },
    Ended,
}

/// What is known about a group.
#[derive(Debug)]
struct Use {
    opened: u32,
    state: Access,
    /// Whether somebody may wait for it, so that every change is told to all.
    awaited: bool,
    users: Vec<ThreadId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// For everybody, until a phase ends.
    Open,
    /// For one thread to tell one other something.
    Flag(ThreadId),
    /// A flag that has been used, or a group of an earlier phase.
    Closed,
}

/// What is known about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    /// Nobody but who holds its cells may name it in this phase: it may be freed.
    Doomed,
    Freed,
}

/// A program while it is written.
#[derive(Debug)]
struct Draft {
    rng: Rng,
    job: Job,
    program: Program,
    /// Of all objects that are not freed, in order.
    cells: Vec<Cell>,
    states: Vec<State>,
    uses: Vec<Use>,
    fates: Vec<Fate>,
    /// By object: the thread that allocated it.
    allocators: Vec<ThreadId>,
    at: At,
}

/// The job that the program is for.
#[derive(Debug, Clone, Copy)]
struct Job {
    mode: Mode,
    nodes: usize,
    initial_threads: usize,
}

/// How far the program is written.
#[derive(Debug, Clone, Copy)]
struct At {
    phase: u32,
    /// The next id of a semaphore or of a barrier of some.
    id: u32,
    stamp: u32,
    /// Phrases that may still be written.
    left: u32,
}

/// The program of a setting, of so many phrases at most.
pub(super) fn generate(setting: &Setting, most: Option<u32>) -> Program {
    let mut draft = Draft::new(setting);
    draft.at.left = most.unwrap_or(u32::MAX);
    if setting.sweeps {
        draft.sweep(setting.seed, sweeps::MANY);
        return draft.program;
    }
    let (phases, phrases) = (draft.rng.magnitude(2, 10), draft.rng.magnitude(4, 40));
    draft.allocate_first();
    draft.meet();
    for _ in 0..phases {
        draft.deal();
        draft.spend(phrases);
        if draft.rng.once_in(2) && draft.at.left > 0 {
            draft.start_late();
        }
        draft.meet();
        if draft.at.left == 0 {
            break;
        }
    }
    draft.join_all();
    draft.meet();
    if draft.at.left > 0 && draft.rng.once_in(2) {
        draft.sweep(setting.seed, sweeps::FEW);
    }
    draft.program
}

impl Draft {
    fn new(setting: &Setting) -> Self {
        let (nodes, each) = (usize::from(setting.nodes), usize::from(setting.threads));
        let initial_threads = nodes * each;
        let threads =
            (0..initial_threads).map(|thread| Thread { node: thread / each, ops: Vec::new() });
        let (objects, groups, order) = (Vec::new(), Vec::new(), Vec::new());
        let program = Program { objects, groups, threads: threads.collect(), order };
        Self {
            rng: Rng::of(setting.seed, 2),
            job: Job { mode: setting.mode, nodes, initial_threads },
            program,
            cells: Vec::new(),
            states: vec![State { phase: 0, life: Life::Initial }; initial_threads],
            uses: Vec::new(),
            fates: Vec::new(),
            allocators: Vec::new(),
            at: At { phase: 0, id: 100, stamp: 0, left: u32::MAX },
        }
    }

    fn emit(&mut self, thread: ThreadId, op: Op) {
        self.program.threads[thread.0].ops.push(op);
        self.program.order.push(thread);
    }

    fn emit_all(&mut self, thread: ThreadId, ops: impl IntoIterator<Item = Op>) {
        ops.into_iter().for_each(|op| self.emit(thread, op));
    }

    /// A number below `bound`, 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).unwrap_or(0)
    }

    /// A number of that range, every order of magnitude as likely as any other.
    fn size(&mut self, low: usize, high: usize) -> usize {
        usize::try_from(self.rng.magnitude(low as u64, high as u64)).unwrap_or(low)
    }

    fn fresh_id(&mut self) -> u32 {
        self.at.id += 1;
        self.at.id
    }

    /// Threads that run.
    fn alive(&self) -> Vec<ThreadId> {
        let threads = (0..self.states.len()).map(ThreadId);
        threads.filter(|thread| self.states[thread.0].life != Life::Ended).collect()
    }

    fn is_initial(&self, thread: ThreadId) -> bool {
        thread.0 < self.job.initial_threads
    }

    fn someone(&mut self) -> ThreadId {
        let alive = self.alive();
        self.rng.pick(&alive)
    }

    /// Somebody else, if there is anybody.
    fn other_than(&mut self, thread: ThreadId) -> Option<ThreadId> {
        let others: Vec<_> = self.alive().into_iter().filter(|&other| other != thread).collect();
        (!others.is_empty()).then(|| self.rng.pick(&others))
    }

    /// What a thread knows, another knows as well from now on.
    fn learn(&mut self, thread: ThreadId, from: ThreadId) {
        let phase = self.states[from.0].phase;
        let known = &mut self.states[thread.0].phase;
        *known = (*known).max(phase);
    }

    /// All initial threads meet, and a phase begins.
    fn meet(&mut self) {
        let id = self.rng.below32(4);
        let all = u32::try_from(self.job.initial_threads).unwrap_or(u32::MAX);
        // Often each thread sends a message of its own.
        let (id, total) = if self.rng.once_in(3) { (4 + id, all) } else { (id, 0) };
        for thread in (0..self.job.initial_threads).map(ThreadId) {
            self.emit(thread, Op::Barrier { id, total });
        }
        self.at.phase += 1;
        for state in &mut self.states[..self.job.initial_threads] {
            state.phase = self.at.phase;
        }
    }

    /// Up to so many phrases.
    fn spend(&mut self, most: u64) {
        for _ in 0..self.rng.below(most + 1) {
            if self.at.left == 0 {
                return;
            }
            self.at.left -= 1;
            self.phrase();
        }
    }

    fn phrase(&mut self) {
        let thread = self.someone();
        match self.rng.below(24) {
            0..6 => self.access_some(thread, 4),
            6..10 => self.critical_section(thread),
            10 => self.nested_sections(thread),
            11 | 12 => self.hint(thread),
            13 | 14 => self.hand_by_semaphore(thread),
            15 => self.share_by_semaphore(thread),
            16 => self.hand_by_group(thread),
            17 => self.hand_by_flag(),
            18 | 19 => self.start(thread),
            20 => self.join_one(),
            21 => self.some_meet(),
            22 => self.free_one(),
            _ => self.allocate_more(thread),
        }
    }
}
