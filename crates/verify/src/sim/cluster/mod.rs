//! A cluster on a virtual clock: many real nodes, their memories, and the links between them.
//!
//! Role: the world that simulations are made of. It knows no programs: its user sets timers, lets
//! threads fault and synchronize with [`Cluster::step`], and learns from [`Cluster::next`] what
//! happens. Every message goes through the real codec; deferred frames wait as in the transport.
//!
//! Invariants checked at every step, none of them by asking the engines: one writer or many
//! readers; every accessible copy holds what was written last; no page is sent while it can be
//! written, nor changes while it is under way. Beyond these: engines and page tables agree, a
//! directory entry at rest lists as many nodes as have copies, queues are bounded.

mod checks;
mod codec;
mod content;
mod links;
mod memory;
mod network;
mod queue;
mod reports;
mod tables;
mod trace;
mod world;

use std::collections::VecDeque;

pub use content::{Content, FREED};
pub(crate) use links::Even;
pub use links::{LinkSpeed, Timing};
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_protocol::window_length::{Estimator, Window, window};
use multigrain_protocol::{Input, Node, Turns, Words};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};
pub use network::Traffic;
pub use reports::{Broken, Event, Hold};
pub use tables::Placed;
pub use trace::Subject;
pub(crate) use trace::Trace;

use codec::{Frame, Said};
use memory::Memory;
use network::{Due, Net};
use tables::{Cells, Lens};
use world::{At, Stage};

/// A node but for its engines and its memory.
#[derive(Debug, Default)]
struct Host {
    state: State,
    /// Until when it is busy with the last frame.
    busy_until: u64,
    /// Frames that have arrived and wait for it.
    inbox: VecDeque<Frame>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Alive,
    /// Gone; what it had sent arrives.
    Ended,
    /// Gone, and so are its frames that had not arrived.
    CutOff,
}

/// Nodes, links and virtual time.
#[derive(Debug)]
pub struct Cluster<T> {
    cells: Cells,
    memory: Memory,
    hosts: Vec<Host>,
    net: Net<T>,
    happened: VecDeque<Event>,
    /// Whether a step had its thread hold a minipage.
    asked_to_hold: Option<Hold>,
    /// What each node knows of its turns.
    turns: Vec<Estimator>,
    /// How many threads of each run at once.
    running: Vec<u64>,
    now_ns: u64,
    log: Log,
}

/// What was done.
#[derive(Debug)]
struct Log {
    /// Calls of `Node::step`.
    steps: u64,
    fingerprint: u64,
    /// What the last step was about, for the report of a panic.
    subject: Subject,
    trace: Trace,
}

impl<T: Timing> Cluster<T> {
    /// A cluster of `nodes` nodes with these minipages. `threads` and `ids`, the threads of the
    /// job and the synchronization ids it uses, bound the frames that can be under way.
    pub fn new(nodes: u16, places: Vec<Placed>, timing: T, (threads, ids): (u64, u64)) -> Self {
        let owners: Vec<NodeId> = places.iter().map(|placed| placed.owner).collect();
        let all = u64::from(nodes);
        let bound = 8 * all * places.len() as u64 + 8 * threads + 4 * all * ids;
        Self {
            memory: Memory::new(nodes, &owners),
            cells: Cells::new(nodes, places),
            hosts: (0..nodes).map(|_| Host::default()).collect(),
            net: Net::new(nodes, timing, bound),
            happened: VecDeque::new(),
            asked_to_hold: None,
            turns: vec![Estimator::default(); nodes.into()],
            running: vec![1; nodes.into()],
            now_ns: 0,
            log: Log { steps: 0, fingerprint: 0, subject: Subject::Job, trace: Trace::default() },
        }
    }

    /// The same, in which invalidations go so.
    #[must_use]
    pub fn with_invalidations(mut self, shape: TreeShape) -> Self {
        self.cells.invalidations = shape;
        self
    }

    /// Virtual time since the start.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Calls of `Node::step`.
    pub fn steps(&self) -> u64 {
        self.log.steps
    }

    /// What the last step was about.
    pub(crate) fn subject(&self) -> Subject {
        self.log.subject
    }

    /// What happened to the subject that is traced.
    pub(crate) fn trace(&mut self) -> &mut Trace {
        &mut self.log.trace
    }

    /// What went over the links.
    pub fn traffic(&self) -> Traffic {
        self.net.traffic
    }

    /// Events that are due.
    pub fn pending(&self) -> usize {
        self.net.queue.len()
    }

    /// A number that two runs have in common only if they are the same run.
    pub fn fingerprint(&self) -> u64 {
        self.log.fingerprint
    }

    /// Takes a number into the fingerprint.
    pub fn mix(&mut self, number: u64) {
        let mixed = (self.log.fingerprint ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.log.fingerprint = mixed.rotate_left(29);
    }

    /// The id of a minipage by its index among those given to [`Cluster::new`].
    pub fn id(&self, index: u32) -> MinipageId {
        self.cells.id(index)
    }

    /// How long things take.
    pub fn timing(&mut self) -> &mut T {
        &mut self.net.timing
    }

    /// What the page tables of a node allow.
    pub fn access(&self, node: NodeId, minipage: MinipageId) -> Access {
        self.memory.access(node, minipage)
    }

    /// What was written last, wherever.
    pub fn last_written(&self, minipage: MinipageId) -> Content {
        self.memory.latest(minipage)
    }

    /// Whether a node takes part.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.hosts[node.index()].state == State::Alive
    }

    /// A load; the page tables allow it.
    ///
    /// # Errors
    /// [`Broken`] when it does not return what was written last.
    pub fn read(&mut self, node: NodeId, minipage: MinipageId) -> Result<Content, Broken> {
        let subject = Subject::Minipage(minipage);
        let seen = self.memory.read(node, minipage).map_err(|text| Broken { subject, text })?;
        self.mix(seen);
        Ok(seen)
    }

    /// A store; the page tables allow it.
    pub fn write(&mut self, node: NodeId, minipage: MinipageId, value: Content) {
        debug_assert_eq!(self.access(node, minipage), Access::ReadWrite);
        self.memory.write(node, minipage, value);
        self.mix(value);
    }

    /// Tells [`Cluster::next`] to return `token` after so many nanoseconds.
    pub fn timer(&mut self, after_ns: u64, token: u64) {
        self.net.queue.push(self.now_ns + after_ns, Due::Timer(token));
    }

    /// Sends a frame that is no message of the protocol (kind 64 and up), as the runtime does.
    pub fn send_control(&mut self, from: NodeId, to: NodeId, words: Words) {
        if from == to {
            return self.happened.push_back(Event::Control { from, to, words });
        }
        let frame = Frame::new(from, to, &words, None);
        self.net.post(from, frame, self.now_ns, true).expect("there is such a node");
    }

    /// Sends what a node defers (`Mesh::flush_deferred`).
    pub fn flush(&mut self, node: NodeId) {
        self.net.flush(node, self.now_ns);
    }

    /// A node dies; all others learn it when the ends of its links reach them. `cut_off`: what it
    /// has sent and has not arrived is lost.
    pub fn kill(&mut self, node: NodeId, cut_off: bool) {
        self.end(node);
        if cut_off {
            self.hosts[node.index()].state = State::CutOff;
        }
        self.log.trace.note(Subject::Job, || format!("{node} dies"));
        for peer in (0..self.cells.nodes).map(NodeId).filter(|peer| *peer != node) {
            let at = self.net.end_of(node, peer, self.now_ns);
            self.net.queue.push(at, Due::Lost { node: peer, peer: node });
        }
    }

    /// A node leaves the job at once.
    pub fn end(&mut self, node: NodeId) {
        self.hosts[node.index()] = Host { state: State::Ended, ..Host::default() };
        self.net.forget(node);
    }

    /// Lets time pass until something happens; `None` when nothing more can.
    ///
    /// # Errors
    /// [`Broken`]; the cluster is of no use then.
    #[expect(clippy::should_implement_trait, reason = "no iterator: it fails, and time passes")]
    pub fn next(&mut self) -> Result<Option<Event>, Broken> {
        loop {
            if let Some(happening) = self.happened.pop_front() {
                return Ok(Some(happening));
            }
            let Some((at, due)) = self.net.queue.pop() else { return Ok(None) };
            self.now_ns = at;
            self.log.trace.now_ns = at;
            match due {
                Due::Timer(token) => return Ok(Some(Event::Timer { token })),
                Due::Frame { frame, bounded } => {
                    self.net.landed(bounded);
                    self.arrive(frame)?;
                }
                Due::Ready(node) => self.resume(node)?,
                Due::Lost { node, peer } if self.is_alive(node) => {
                    return Ok(Some(Event::Lost { node, peer }));
                }
                Due::Lost { .. } => {}
            }
        }
    }

    fn arrive(&mut self, frame: Frame) -> Result<(), Broken> {
        let cut_off = self.hosts[frame.from.index()].state == State::CutOff;
        let host = &mut self.hosts[frame.to.index()];
        if host.state != State::Alive || cut_off {
            return Ok(());
        }
        if host.busy_until <= self.now_ns && host.inbox.is_empty() {
            return self.take(&frame);
        }
        if host.inbox.is_empty() {
            self.net.queue.push(host.busy_until, Due::Ready(frame.to));
        }
        host.inbox.push_back(frame);
        Ok(())
    }

    fn resume(&mut self, node: NodeId) -> Result<(), Broken> {
        let Some(frame) = self.hosts[node.index()].inbox.pop_front() else { return Ok(()) };
        self.take(&frame)?;
        let host = &self.hosts[node.index()];
        if !host.inbox.is_empty() {
            self.net.queue.push(host.busy_until, Due::Ready(node));
        }
        Ok(())
    }

    /// A node takes a frame.
    fn take(&mut self, frame: &Frame) -> Result<(), Broken> {
        let (from, me) = (frame.from, frame.to);
        let busy_until = self.now_ns + self.net.timing.service_ns(me, frame.payload);
        self.hosts[me.index()].busy_until = busy_until;
        self.mix(self.now_ns);
        frame.numbers().into_iter().for_each(|number| self.mix(number));
        let refused = |text| Broken { subject: Subject::Job, text: format!("{me}: {text}") };
        let said = frame.open().map_err(refused)?;
        self.check_page(frame, &said).map_err(refused)?;
        match said {
            Said::Control(words) => {
                self.happened.push_back(Event::Control { from, to: me, words });
            }
            Said::Message(message) => {
                self.log
                    .trace
                    .note(Subject::of(&message), || format!("{me} takes {message:?} of {from}"));
                let page = said.page().map(|_| frame.page);
                self.perform(me, Input::Message { from, message }, page, busy_until)?;
            }
        }
        // A node that has received something sends what it has deferred.
        if self.hosts[me.index()].inbox.is_empty() {
            self.net.flush(me, busy_until);
        }
        Ok(())
    }

    /// A thread of a node asks something of its engines.
    ///
    /// # Errors
    /// [`Broken`]; the cluster is of no use then.
    pub fn step(&mut self, node: NodeId, input: Input) -> Result<(), Broken> {
        self.log.trace.note(Subject::of_input(&input), || format!("{node}: {input:?}"));
        self.perform(node, input, None, self.now_ns)
    }

    /// Whether the last step, of a thread that resumes, had it hold its minipage.
    pub fn take_asked_to_hold(&mut self) -> Option<Hold> {
        self.asked_to_hold.take()
    }

    /// So many threads of each node run at once, each on a processor of its own.
    pub(crate) fn run_at_once(&mut self, threads: &[u32]) {
        self.running = threads.iter().map(|&count| count.max(1).into()).collect();
    }

    /// The processor time that a node has used, as if its threads always ran.
    fn processor_ns(&self, node: NodeId) -> u64 {
        self.now_ns * self.running[node.index()]
    }

    /// For how long a thread of a node keeps a minipage that it has waited for so long, after these turns of others.
    pub(crate) fn window_ns(
        &mut self,
        node: NodeId,
        minipage: MinipageId,
        (waited_ns, turns): (u64, Turns),
    ) -> u64 {
        let now_ns = self.processor_ns(node);
        let at_once = self.running.iter().copied().max().unwrap_or(1);
        let began_ns = self.turns[node.index()].granted(minipage, now_ns);
        let managed_here = self.cells.manager(minipage) == node;
        let passage_ns = if managed_here { 0 } else { self.turns[node.index()].passage_ns() };
        window(turns, (waited_ns, passage_ns), at_once).map_or(
            0,
            |Window { time_ns, processor_ns }| {
                let left_ns = (began_ns + processor_ns).saturating_sub(now_ns);
                time_ns.min(left_ns / self.running[node.index()])
            },
        )
    }

    /// The access of a thread that holds a minipage is done, or it gives it up; `urgent`: others waited for
    /// the minipage when it was told to hold it.
    ///
    /// # Errors
    /// As [`Cluster::step`].
    pub(crate) fn retire(
        &mut self,
        node: NodeId,
        thread: ThreadId,
        minipage: MinipageId,
        urgent: bool,
    ) -> Result<(), Broken> {
        let processor_ns = self.processor_ns(node);
        let turns = &mut self.turns[node.index()];
        if urgent && self.cells.manager(minipage) != node {
            turns.released(minipage, self.now_ns);
        }
        let turn_us = turns.turn_us(minipage, processor_ns);
        self.step(node, Input::Retired { thread, minipage, turn_us })
    }

    /// One step of one node.
    fn perform(
        &mut self,
        me: NodeId,
        input: Input,
        arrived: Option<Content>,
        leaves_ns: u64,
    ) -> Result<(), Broken> {
        self.log.steps += 1;
        let subject = Subject::of_input(&input);
        self.log.subject = subject;
        let bytes = match subject {
            Subject::Minipage(id) => self.cells.places[id.index() as usize].bytes,
            Subject::Job | Subject::Id(_) => 0,
        };
        let nodes = self.cells.nodes;
        let mut stage = Stage {
            at: At {
                me,
                now_ns: self.now_ns,
                processor_ns: self.processor_ns(me),
                leaves_ns,
                bytes,
            },
            memory: &mut self.memory,
            net: &mut self.net,
            arrived,
            given_up: None,
            happened: &mut self.happened,
            asked_to_hold: &mut self.asked_to_hold,
            turns: &mut self.turns[me.index()],
            trace: &mut self.log.trace,
            broken: None,
        };
        let tables = Lens { me, cells: &mut self.cells };
        let taken = Node { me, nodes, tables }.step(input, &mut stage);
        let (left, broken) = (stage.arrived, stage.broken);
        if let Some(broken) = broken {
            return Err(broken);
        }
        let text = match (taken, left) {
            (Err(violation), _) => format!("{me}: {violation}"),
            (Ok(()), Some(_)) => format!("{me} got a page and did not install it"),
            (Ok(()), None) => return self.agree(me, subject),
        };
        Err(Broken { subject, text })
    }
}

#[cfg(test)]
mod tests;
