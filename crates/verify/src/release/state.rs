//! One state of a job: the nodes as they are in production, their memories, the links, the threads.

use std::collections::VecDeque;
use std::sync::Arc;

use multigrain_protocol::{Node, OwnedTables, Tables};
use multigrain_types::{Access, NodeId};

pub use super::packet::{Diff, Packet};
use super::program::{Job, Thread, Value, WORDS, Words, minipage_id};
use super::unqueued_notices::UnqueuedNotices;

/// Mark: this node has no copy, and what its memory holds is of no meaning.
pub const NO_COPY: Value = Value::MAX;
/// Mark: the minipage was freed and this word not written since.
pub const FREED: Value = Value::MAX - 1;

/// A node's memory for one minipage, as its page tables have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// What threads may do.
    pub access: Access,
    /// What they find.
    pub words: Words,
    /// What it held when it was opened for writes.
    pub twin: Option<Words>,
    /// Diffs that came and are not merged yet, in the order they came.
    pub buffered: Vec<Diff>,
    /// Whether the kernel looks who writes, and has seen somebody.
    pub tracked: Option<bool>,
}

/// What a thread is about to do, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// About to do the next operation of its program.
    Running,
    /// The access trapped; the handler has not looked yet.
    Trapped,
    /// Its fault is with the engine.
    Faulted,
    /// Woken by the engine; the engine does not know that it resumes.
    Woken,
    /// In a call.
    Blocked,
    /// Nobody has started it.
    Unborn,
    /// Its node takes it up (`SyncInput::Begin`).
    Beginning,
    /// It runs, and its starter does not know.
    Begun,
    /// Another thread has ended for which it waited; its node takes it up again.
    Resuming,
    /// It runs again, and has not acquired what that thread has released.
    Resumed,
    /// About to start a thread, or to end: it releases first.
    Releasing,
    /// It has released, and has not notified anybody.
    Released,
    /// At the end of its program, and joined or not.
    Ended,
}

/// One thread of the job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ThreadState {
    /// Operations done.
    pub done: u32,
    /// What comes next.
    pub phase: Phase,
    /// Another thread waits for its end.
    pub joined: bool,
}

/// What went wrong in the step that led to a state; such a state has no successors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// An engine refused an input, or panicked.
    Protocol(String),
    /// An engine had something done that a world forbids.
    World(String),
    /// A thread read something else than the last value written.
    StaleRead(String),
    /// Page tables, twins and engines do not agree.
    Disagreement(String),
}

impl Broken {
    /// What it was.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Protocol(text)
            | Self::World(text)
            | Self::StaleRead(text)
            | Self::Disagreement(text) => text,
        }
    }
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes. Shared with the states before: a step changes one.
    pub nodes: Vec<Arc<Node<OwnedTables>>>,
    /// Memory by node, then minipage.
    pub memory: Vec<Vec<Page>>,
    /// Packets by sender times nodes plus receiver, oldest first.
    pub links: Vec<VecDeque<Packet>>,
    /// Write notices that steps have left over, oldest first.
    pub unqueued: Vec<UnqueuedNotices>,
    /// Whether the step at hand had its thread to hold a minipage.
    pub(super) asked_to_hold: bool,
    /// The threads.
    pub threads: Vec<ThreadState>,
    /// By node, what it has been notified of by a program's own means, and nobody has taken yet.
    pub notified: Vec<Vec<u32>>,
    /// The last values written to each minipage; known to the checker only.
    pub latest: Vec<Words>,
    /// Whether the step to this state broke something.
    pub broken: Option<Broken>,
}

impl State {
    /// The state in which a job begins.
    #[must_use]
    pub fn first(job: &Job) -> Self {
        let nodes = (0..job.nodes).map(|rank| {
            let here = |thread: &&Thread| thread.node.0 == rank && !thread.started;
            let threads = job.threads.iter().filter(here).count();
            let mut tables = OwnedTables::new(NodeId(rank), [])
                .with_dynamic_homes_after(job.dynamic_after)
                .with_tracking(job.tracks)
                .with_threads(u32::try_from(threads).unwrap_or(u32::MAX))
                .with_idle_tokens(job.locks.idle_tokens)
                .counting_from(job.first_number, job.nodes)
                .with_fan(job.fan);
            for (index, placed) in (0u8..).zip(&job.minipages) {
                let id = minipage_id(index);
                tables.add(id, placed.manager, placed.owner, placed.consistency);
                tables.minipage(id);
            }
            Arc::new(Node { me: NodeId(rank), nodes: job.nodes, tables })
        });
        let memory = (0..job.nodes).map(|rank| {
            let page = |owner: NodeId| {
                let (access, value) = if owner.0 == rank {
                    (Access::ReadWrite, 0)
                } else {
                    (Access::NoAccess, NO_COPY)
                };
                Page {
                    access,
                    words: [value; WORDS],
                    twin: None,
                    buffered: Vec::new(),
                    tracked: None,
                }
            };
            job.minipages.iter().map(|placed| page(placed.owner)).collect()
        });
        let thread = |plan: &Thread| {
            let phase = if plan.started { Phase::Unborn } else { Phase::Running };
            ThreadState { done: 0, phase, joined: false }
        };
        Self {
            nodes: nodes.collect(),
            memory: memory.collect(),
            links: vec![VecDeque::new(); usize::from(job.nodes).pow(2)],
            unqueued: Vec::new(),
            asked_to_hold: false,
            threads: job.threads.iter().map(thread).collect(),
            notified: vec![Vec::new(); usize::from(job.nodes)],
            latest: vec![[0; WORDS]; job.minipages.len()],
            broken: None,
        }
    }

    /// Remembers the first thing that broke.
    pub(super) fn breaks(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    /// Whether every thread has done its program.
    #[must_use]
    pub fn is_finished(&self, job: &Job) -> bool {
        let finished = |(state, thread): (&ThreadState, &Thread)| {
            let end = if thread.started { Phase::Ended } else { Phase::Running };
            state.done as usize == thread.program.len() && state.phase == end
        };
        self.threads.iter().zip(&job.threads).all(finished)
    }
}
