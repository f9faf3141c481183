//! The programs on the cluster.

use core::ops::{Add, Sub};

use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_protocol::sync::{SyncContext, SyncInput};
use multigrain_protocol::{Input, Kind};
use multigrain_types::{Access, AreaId, Managed, MinipageId, NodeId, Placement, ThreadId};

use super::cores::{Alarm, Cores, Hosts};
use super::machine::{Costs, Machine};
use super::step::{Pattern, Program, Step};
use crate::sim::cluster::{Broken, Cluster, Event, Placed};

/// Every node has one thread.
const THREAD: ThreadId = ThreadId(0);
/// The applications' barrier.
const BARRIER: u64 = 0;
/// Patterns repeat after one round, or after two (Jacobi's matrices take turns).
const PERIOD: u32 = 2;

/// What is to be projected.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The application and its input.
    pub pattern: &'a dyn Pattern,
    /// Nodes of the job.
    pub nodes: u16,
    /// Nanoseconds a node takes for an element.
    pub element_ns: f64,
    /// What all else takes.
    pub costs: Costs,
    /// Which nodes share cores.
    pub hosts: Hosts,
    /// Who manages minipages; node 0 allocates them.
    pub placement: Placement,
    /// How invalidations go.
    pub invalidations: TreeShape,
    /// At most so many rounds are simulated, 3 at least; the others are taken to be like the last.
    pub most_rounds: u32,
}

/// What came out, for the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// Virtual time of the measured section.
    pub ns: u64,
    /// Frames sent, by all nodes.
    pub messages: u64,
    /// Their headers and pages.
    pub bytes: u64,
    /// Faults for a read copy, of all nodes.
    pub read_faults: u64,
    /// Faults for a writable copy.
    pub write_faults: u64,
    /// Calls of `Node::step`.
    pub steps: u64,
}

impl Projection {
    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            ns: with(self.ns, other.ns),
            messages: with(self.messages, other.messages),
            bytes: with(self.bytes, other.bytes),
            read_faults: with(self.read_faults, other.read_faults),
            write_faults: with(self.write_faults, other.write_faults),
            steps: with(self.steps, other.steps),
        }
    }
}

impl Add for Projection {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.each(other, |one, two| one + two)
    }
}

impl Sub for Projection {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.each(other, |one, two| one - two)
    }
}

/// Runs a plan.
///
/// # Errors
/// In words: an invariant of the protocol that does not hold.
pub fn project(plan: &Plan<'_>) -> Result<Projection, String> {
    let rounds = plan.pattern.rounds();
    let simulated = rounds.min(plan.most_rounds.max(PERIOD + 1));
    let mut job = Job::new(plan, simulated);
    job.run().map_err(|broken| format!("{:?}: {}", broken.subject, broken.text))?;
    let mut sum = job.tally();
    sum.ns = job.ended_ns;
    if let [.., before, _, last] = job.rounds[..] {
        let (period, missing) = (last - before, u64::from(rounds - simulated));
        sum = sum + period.each(period, |of_period, _| of_period * missing / u64::from(PERIOD));
    }
    Ok(sum)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A core works for it.
    Busy,
    /// Its fault is with the engine.
    Faulted,
    /// In a call that waits.
    Blocked,
    Ended,
}

struct Thread {
    program: Program,
    state: State,
    /// A step that is tried again.
    todo: Option<Step>,
    /// The trap of `todo` has been paid for.
    trapped: bool,
}

struct Job {
    cluster: Cluster<Machine>,
    cores: Cores,
    threads: Vec<Thread>,
    element_ns: f64,
    costs: Costs,
    faults: [u64; 2],
    /// What had happened when node 0 finished each round.
    rounds: Vec<Projection>,
    ended_ns: u64,
}

impl Job {
    fn new(plan: &Plan<'_>, rounds: u32) -> Self {
        let nodes = plan.nodes;
        let places = plan.pattern.places(nodes);
        let minipages = u32::try_from(places.len()).expect("what a pattern shares fits an area");
        let managed = Managed { owner: NodeId(0), minipages };
        let ids = (0..minipages).map(|index| MinipageId::new(AreaId(0), index));
        let places = places.into_iter().zip(ids);
        let places = places
            .map(|(place, id)| Placed {
                manager: plan.placement.manager(id, managed, nodes),
                owner: NodeId(place.owner),
                bytes: place.bytes,
            })
            .collect();
        let bounds = (nodes.into(), 1 + u64::from(plan.pattern.locks()));
        let programs = plan.pattern.programs(nodes, rounds).into_iter();
        Self {
            cluster: Cluster::new(nodes, places, Machine::new(plan.costs, nodes), bounds)
                .with_invalidations(plan.invalidations),
            cores: Cores::new(plan.hosts, nodes),
            threads: programs
                .map(|program| Thread { program, state: State::Busy, todo: None, trapped: false })
                .collect(),
            element_ns: plan.element_ns,
            costs: plan.costs,
            faults: [0; 2],
            rounds: Vec::new(),
            ended_ns: 0,
        }
    }

    fn run(&mut self) -> Result<(), Broken> {
        for node in self.nodes() {
            self.go(node)?;
        }
        while let Some(happening) = self.cluster.next()? {
            match happening {
                Event::Timer { token } => {
                    let (done, alarm) = self.cores.ring(token, self.cluster.now_ns());
                    self.set(alarm);
                    for node in done {
                        self.computed(NodeId(node))?;
                    }
                }
                Event::Woken { node, .. } => self.woken(node)?,
                Event::Reclaimed { .. } | Event::Control { .. } | Event::Lost { .. } => {
                    unreachable!("patterns free nothing, and their nodes do not die")
                }
            }
        }
        let waits = self.threads.iter().position(|thread| thread.state != State::Ended);
        assert_eq!(waits, None, "a pattern in which this node waits for ever");
        self.nodes().for_each(|node| self.cluster.flush(node));
        while self.cluster.next()?.is_some() {}
        self.cluster.check_rest()
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        let nodes = u16::try_from(self.threads.len()).expect("one thread a node");
        (0..nodes).map(NodeId)
    }

    fn tally(&self) -> Projection {
        let traffic = self.cluster.traffic();
        let [read_faults, write_faults] = self.faults;
        Projection {
            ns: self.cluster.now_ns(),
            messages: traffic.messages,
            bytes: traffic.bytes,
            read_faults,
            write_faults,
            steps: self.cluster.steps(),
        }
    }

    /// Steps of a node until it computes or waits.
    fn go(&mut self, node: NodeId) -> Result<(), Broken> {
        loop {
            let thread = &mut self.threads[node.index()];
            let Some(step) = thread.todo.take().or_else(|| thread.program.next()) else {
                thread.state = State::Ended;
                if node == NodeId(0) {
                    self.ended_ns = self.cluster.now_ns();
                }
                return Ok(());
            };
            if !self.perform(node, step)? {
                return Ok(());
            }
        }
    }

    /// One step; false if the node goes on later.
    fn perform(&mut self, node: NodeId, step: Step) -> Result<bool, Broken> {
        match step {
            Step::Compute(elements) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "a time, to the nanosecond"
                )]
                let ns = (elements as f64 * self.element_ns) as u64;
                self.compute(node, ns);
                Ok(false)
            }
            Step::Read(page) => self.access(node, step, page, Kind::Read),
            Step::Write(page) => self.access(node, step, page, Kind::Write),
            Step::Prefetch(page) => {
                let minipage = self.cluster.id(page);
                self.cluster.step(node, Input::Prefetch { minipage, kind: Kind::Read })?;
                Ok(true)
            }
            Step::Push(page) => {
                let minipage = self.cluster.id(page);
                self.cluster.step(node, Input::Push { minipage })?;
                Ok(true)
            }
            Step::Lock(id) => self.wait_in(node, SyncInput::Lock { thread: THREAD, id: id.into() }),
            Step::Unlock(id) => {
                self.cluster
                    .step(node, Input::Sync(SyncInput::Unlock { thread: THREAD, id: id.into() }))?;
                self.cluster.flush(node);
                Ok(true)
            }
            Step::Barrier => {
                let nodes = u16::try_from(self.threads.len()).expect("one thread a node");
                let total = nodes.into();
                let call = SyncInput::Barrier {
                    thread: THREAD,
                    id: SyncContext::of_all(nodes, BARRIER),
                    local: 1,
                    total,
                    quiescent: false,
                };
                self.wait_in(node, call)
            }
            Step::Round => {
                if node == NodeId(0) {
                    self.rounds.push(self.tally());
                }
                Ok(true)
            }
        }
    }

    fn access(&mut self, node: NodeId, step: Step, page: u32, kind: Kind) -> Result<bool, Broken> {
        let minipage = self.cluster.id(page);
        let thread = &mut self.threads[node.index()];
        match (kind, self.cluster.access(node, minipage)) {
            (Kind::Read, Access::ReadOnly | Access::ReadWrite) => {
                thread.trapped = false;
                return self.cluster.read(node, minipage).map(|_| true);
            }
            (Kind::Write, Access::ReadWrite) => {
                thread.trapped = false;
                let value = self.cluster.last_written(minipage) + 1;
                self.cluster.write(node, minipage, value);
                return Ok(true);
            }
            (Kind::Read | Kind::Write, Access::NoAccess) | (Kind::Write, Access::ReadOnly) => {}
        }
        thread.todo = Some(step);
        thread.trapped = !thread.trapped;
        if thread.trapped {
            self.faults[usize::from(kind == Kind::Write)] += 1;
            self.compute(node, self.costs.fault_ns);
        } else {
            thread.state = State::Faulted;
            self.cluster.step(node, Input::Fault { thread: THREAD, minipage, kind })?;
            self.wait(node);
        }
        Ok(false)
    }

    fn wait_in(&mut self, node: NodeId, call: SyncInput) -> Result<bool, Broken> {
        self.threads[node.index()].state = State::Blocked;
        self.cluster.step(node, Input::Sync(call))?;
        self.wait(node);
        Ok(false)
    }

    /// A thread that begins to wait sends what the node has deferred.
    fn wait(&mut self, node: NodeId) {
        self.cluster.flush(node);
        let now_ns = self.cluster.now_ns();
        self.cluster.timing().waits(node, now_ns);
    }

    fn woken(&mut self, node: NodeId) -> Result<(), Broken> {
        let thread = &mut self.threads[node.index()];
        if thread.state == State::Faulted
            && let Some(Step::Read(page) | Step::Write(page)) = thread.todo
        {
            let minipage = self.cluster.id(page);
            self.cluster.step(node, Input::Resumed { thread: THREAD, minipage })?;
            // The access follows at once.
            if self.cluster.take_asked_to_hold().is_some() {
                self.go(node)?;
                return self
                    .cluster
                    .step(node, Input::Retired { thread: THREAD, minipage, turn_us: 0 });
            }
        }
        self.go(node)
    }

    fn compute(&mut self, node: NodeId, ns: u64) {
        self.threads[node.index()].state = State::Busy;
        self.cluster.timing().computes(node);
        let alarm = self.cores.begin(node.0, ns, self.cluster.now_ns());
        self.set(Some(alarm));
    }

    /// A node's work is done, but for what frames took of its time meanwhile.
    fn computed(&mut self, node: NodeId) -> Result<(), Broken> {
        let stolen_ns = self.cluster.timing().take_stolen_ns(node);
        if stolen_ns == 0 {
            return self.go(node);
        }
        let alarm = self.cores.begin(node.0, stolen_ns, self.cluster.now_ns());
        self.set(Some(alarm));
        Ok(())
    }

    fn set(&mut self, alarm: Option<Alarm>) {
        if let Some((after_ns, token)) = alarm {
            self.cluster.timer(after_ns, token);
        }
    }
}
