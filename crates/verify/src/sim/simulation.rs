//! One run: the threads in the cluster, and the checks on them.

use multigrain_protocol::{Input, Words};
use multigrain_types::{MinipageId, NodeId, ThreadId};

use super::cluster::{Broken, Cluster, Event, Subject, Trace};
use super::heap::Heap;
use super::history::{History, Record};
use super::network_model::NetworkModel;
use super::operation::{Op, Sequence};
use super::plan::{Deaths, Plan};
use super::program::{Generator, Layout, SEMAPHORES};
use super::rng::Rng;
use super::threads::{Numbers, Role, State, Thread};

/// The timer at which a node dies; below are threads.
const DEATH: u64 = u64::MAX;
/// Frames of the runtime's own: a free, and its answer.
pub(super) const FREE: u8 = 64;
const FREED: u8 = 65;

/// What every part of a run may fail with.
pub(super) type Result<T> = core::result::Result<T, Broken>;

/// A run.
#[derive(Debug)]
pub(super) struct Simulation {
    pub(super) plan: Plan,
    pub(super) cluster: Cluster<NetworkModel>,
    pub(super) threads: Vec<Thread>,
    pub(super) numbers: Numbers,
    pub(super) program: Program,
    pub(super) oracle: Oracle,
    pub(super) course: Course,
    roles: Vec<Role>,
    rng: Rng,
}

/// What the threads run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) generator: Generator,
    pub(super) heap: Heap,
    pub(super) ids: Ids,
    pub(super) layout: Layout,
}

/// What the threads were given and have done, known to the run alone: the cluster is judged by it.
#[derive(Debug)]
pub(super) struct Oracle {
    /// By minipage: the thread between its lock and its unlock.
    pub(super) owners: Vec<Option<u32>>,
    /// By minipage: what has been added to it.
    pub(super) sums: Vec<u64>,
    /// By semaphore: units posted, and taken.
    pub(super) units: [(u64, u64); SEMAPHORES as usize],
    /// Calls of the barrier.
    pub(super) arrivals: u64,
    pub(super) accesses: u64,
    pub(super) history: History,
}

/// How far the run is.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// Barriers that somebody has left, and whether the last of them is the end.
    episodes: u32,
    last: bool,
    pub(super) ended: u32,
    pub(super) died: Option<NodeId>,
    /// Steps done when the virtual time was over.
    pub(super) steps_in_time: Option<u64>,
}

/// The synchronization ids in use: any 32-bit numbers, the same ones for locks and barriers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    first: u32,
    stride: u32,
}

impl Ids {
    pub(super) fn of(self, index: u32) -> u64 {
        self.first.wrapping_add(index.wrapping_mul(self.stride)).into()
    }
}

impl Simulation {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut rng = Rng::of(plan.seed, 3);
        let layout = Layout::of(plan.minipages);
        let places = plan.places(&mut rng);
        let owner = |index: u32| places[index as usize].owner;
        let heap = Heap::new(&layout.objects, owner);
        let all = plan.all_threads();
        let bounds = (u64::from(all), u64::from(2 * plan.minipages + SEMAPHORES));
        let mut cluster =
            Cluster::new(plan.nodes, places, NetworkModel::of(plan.seed, plan.nodes), bounds);
        for thread in 0..all {
            cluster.timer(rng.below(1000), thread.into());
        }
        if plan.deaths == Deaths::Always || (plan.deaths == Deaths::Some && rng.once_in(8)) {
            cluster.timer(rng.below(plan.virtual_ns), DEATH);
        }
        let generator = Generator::new(plan, layout.clone());
        let mut simulation = Self {
            plan: *plan,
            cluster,
            threads: vec![Thread::new(); all as usize],
            numbers: Numbers { of_node: plan.threads },
            program: Program {
                generator,
                heap,
                ids: Ids { first: rng.below32(u32::MAX), stride: 1 + rng.below32(1000) },
                layout,
            },
            oracle: Oracle {
                owners: vec![None; plan.minipages as usize],
                sums: vec![0; plan.minipages as usize],
                units: [(0, 0); SEMAPHORES as usize],
                arrivals: 0,
                accesses: 0,
                history: History::new(all as usize, plan.minipages as usize),
            },
            course: Course::default(),
            roles: vec![Role::default(); usize::from(plan.nodes)],
            rng,
        };
        (0..all).for_each(|thread| simulation.begin_episode(thread));
        simulation
    }

    pub(super) fn trace(&mut self, subject: Subject, keep: usize) {
        *self.cluster.trace() = Trace::on(subject, keep);
    }

    /// Runs to the end.
    pub(super) fn run(&mut self) -> Result<()> {
        while let Some(happening) = self.cluster.next()? {
            match happening {
                Event::Timer { token: DEATH } => self.kill_one(),
                Event::Timer { token } => {
                    if !self.end_lock_window(token)? {
                        self.turn(u32::try_from(token).unwrap_or(0))?;
                    }
                }
                Event::Woken { node, thread } => self.woken(node, thread)?,
                Event::Reclaimed { minipage } => self.reclaimed(minipage)?,
                Event::Control { from, to, words } => self.control(from, to, words)?,
                Event::Lost { node, .. } => self.end_node(node),
            }
            self.check_progress()?;
        }
        self.finish()
    }

    /// A thread goes on where it is.
    fn turn(&mut self, thread: u32) -> Result<()> {
        match self.threads[thread as usize].state {
            State::Running => self.go(thread),
            State::Trapped => self.fault(thread),
            State::Woken => self.resume(thread),
            State::Faulted | State::Blocked | State::Ended => Ok(()),
        }
    }

    /// Operations of a thread until it waits, or takes its time.
    pub(super) fn go(&mut self, thread: u32) -> Result<()> {
        loop {
            let op = self.next_op(thread);
            if !self.perform(thread, op)? {
                return Ok(());
            }
            self.threads[thread as usize].advance();
            let node = self.numbers.node(thread);
            let think_ns = self.cluster.timing().think_ns(node);
            if think_ns > 0 {
                self.cluster.timer(think_ns, thread.into());
                return Ok(());
            }
        }
    }

    fn next_op(&mut self, number: u32) -> Op {
        let over = self.is_over();
        let node = self.numbers.node(number);
        loop {
            let thread = &mut self.threads[number as usize];
            if let Some(op) = thread.op() {
                return op;
            }
            let sequence = if thread.duty.is_some_and(|left| over || thread.left <= left) {
                thread.duty = None;
                self.program.generator.duty(number, self.plan.all_threads(), thread.episode)
            } else if thread.left > 0 && !over {
                thread.left -= 1;
                self.program.generator.sequence(node, &mut self.program.heap)
            } else {
                Sequence::of(&[Op::Barrier])
            };
            thread.begin(sequence);
        }
    }

    fn begin_episode(&mut self, thread: u32) {
        let duty = self.program.generator.duty_after();
        let thread = &mut self.threads[thread as usize];
        (thread.left, thread.duty) = (self.program.generator.sequences, Some(duty));
    }

    /// The engine wakes a thread.
    fn woken(&mut self, node: NodeId, local: ThreadId) -> Result<()> {
        if !self.cluster.is_alive(node) {
            return Ok(());
        }
        let number = self.numbers.first(node) + local.0;
        let state = match self.threads.get(number as usize) {
            Some(thread) if local.0 < self.numbers.of_node => thread.state,
            Some(_) | None => State::Ended,
        };
        match state {
            State::Faulted => {
                self.threads[number as usize].state = State::Woken;
                self.leave_wait(number);
                let gap_ns = self.cluster.timing().gap_ns(node);
                if gap_ns == 0 {
                    return self.resume(number);
                }
                self.cluster.timer(gap_ns, number.into());
                Ok(())
            }
            State::Blocked => self.unblock(number),
            State::Running | State::Trapped | State::Woken | State::Ended => {
                let text = format!("{node} wakes its {local}, which does not wait");
                Err(Broken { subject: self.cluster.subject(), text })
            }
        }
    }

    /// A call that waited returns.
    fn unblock(&mut self, number: u32) -> Result<()> {
        let op = self.threads[number as usize].op().unwrap_or(Op::Barrier);
        self.granted(number, op)?;
        let thread = &mut self.threads[number as usize];
        if let Op::Await(_) = op {
            // It looks again whether there is something.
            thread.state = State::Running;
        } else {
            thread.advance();
        }
        self.leave_wait(number);
        if op == Op::Barrier && self.leave_barrier(number) {
            return Ok(());
        }
        let gap_ns = {
            let node = self.numbers.node(number);
            self.cluster.timing().gap_ns(node)
        };
        if gap_ns == 0 {
            return self.go(number);
        }
        self.cluster.timer(gap_ns, number.into());
        Ok(())
    }

    /// Whether the threads shall come to their ends.
    pub(super) fn is_over(&self) -> bool {
        self.cluster.now_ns() >= self.plan.virtual_ns || self.cluster.steps() >= self.plan.steps
    }

    /// True if the thread is at its end: the time was over when the first one left.
    fn leave_barrier(&mut self, number: u32) -> bool {
        let thread = &mut self.threads[number as usize];
        thread.episode += 1;
        if thread.episode > self.course.episodes {
            self.course.episodes = thread.episode;
            self.course.last = self.is_over();
        }
        if self.course.last {
            self.end_thread(number);
        } else {
            self.begin_episode(number);
        }
        self.course.last
    }

    /// A thread begins to wait: the one that takes the receiver's role sends what was deferred.
    pub(super) fn enter_wait(&mut self, thread: u32) {
        let node = self.numbers.node(thread);
        if self.roles[node.index()].enter(thread) {
            self.cluster.flush(node);
        }
    }

    fn leave_wait(&mut self, thread: u32) {
        let node = self.numbers.node(thread);
        let threads = &self.threads;
        let others = self.numbers.all(node).filter(|other| threads[*other as usize].waits());
        if self.roles[node.index()].leave(thread, others) {
            self.cluster.flush(node);
        }
    }

    /// A frame of the runtime's own: a free at the owner, or its answer.
    fn control(&mut self, from: NodeId, to: NodeId, words: Words) -> Result<()> {
        if !self.cluster.is_alive(to) {
            return Ok(());
        }
        if words.kind == FREED {
            return self.unblock(words.thread);
        }
        let minipage = MinipageId(words.subject);
        self.cluster.step(to, Input::Reclaim { minipage })?;
        self.cluster.send_control(to, from, Words { kind: FREED, ..words });
        Ok(())
    }

    fn reclaimed(&mut self, minipage: MinipageId) -> Result<()> {
        let index = minipage.index();
        if !self.program.heap.reclaimed(index) {
            let text = "it came back, but nobody has freed it".into();
            return Err(Broken { subject: Subject::Minipage(minipage), text });
        }
        let told = self.oracle.history.forget(index);
        told.map_err(|wrong| self.not_consistent(wrong))
    }

    /// An access, as its thread saw it.
    pub(super) fn record(
        &mut self,
        number: u32,
        minipage: u32,
        (saw, wrote): (Option<u64>, Option<u64>),
    ) -> Result<()> {
        let thread = &mut self.threads[number as usize];
        let record = Record { thread: number, number: thread.accesses, minipage, saw, wrote };
        thread.accesses = thread.accesses.wrapping_add(1);
        self.oracle.accesses += 1;
        let (id, node) = (self.cluster.id(minipage), self.numbers.node(number));
        self.cluster.trace().note(Subject::Minipage(id), || {
            let said = |what: &str, value: Option<u64>| match value {
                Some(value) => format!(" {what} {value:#x}"),
                None => String::new(),
            };
            format!("thread {number} of {node}{}{}", said("reads", saw), said("writes", wrote))
        });
        let told = self.oracle.history.add(record);
        told.map_err(|wrong| self.not_consistent(wrong))
    }

    pub(super) fn not_consistent(&self, (record, text): (Record, String)) -> Broken {
        let subject = Subject::Minipage(self.cluster.id(record.minipage));
        Broken { subject, text: format!("the history is not consistent at {record:?}: {text}") }
    }

    fn kill_one(&mut self) {
        if self.course.ended == self.plan.all_threads() {
            return;
        }
        let rank = self.rng.below(self.plan.nodes.into());
        let node = NodeId(u16::try_from(rank).unwrap_or(0));
        let cut_off = self.rng.once_in(2);
        self.course.died = Some(node);
        self.end_node(node);
        self.cluster.kill(node, cut_off);
    }

    /// The job is over for a node, as when `lost` ends a real one.
    fn end_node(&mut self, node: NodeId) {
        self.cluster.end(node);
        for thread in self.numbers.all(node) {
            if self.threads[thread as usize].state != State::Ended {
                self.end_thread(thread);
            }
        }
    }

    /// The last thread lets all nodes leave: their last frames take along what was deferred.
    fn end_thread(&mut self, thread: u32) {
        self.threads[thread as usize].state = State::Ended;
        self.course.ended += 1;
        if self.course.ended == self.plan.all_threads() {
            (0..self.plan.nodes).for_each(|node| self.cluster.flush(NodeId(node)));
        }
    }
}
