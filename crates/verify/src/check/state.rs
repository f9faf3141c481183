//! One checked state: the nodes as they are in production, their memories, the links, the threads.

use std::sync::Arc;

use multigrain_protocol::held_accesses::Accesses;
use multigrain_protocol::{Message, Node, OwnedTables, Tables};
use multigrain_types::{Access, NodeId};

use super::program::{Content, Job, NO_COPY, minipage_id};

/// A node's memory for one minipage, as its page tables have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// What threads may do.
    pub access: Access,
    /// What they find.
    pub content: Content,
}

/// A message on its way, with the minipage's content at the time of sending if it carries a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The message.
    pub message: Message,
    /// The page.
    pub page: Option<Content>,
    /// Whether the sender defers it until another goes (`World::send_deferred`). Only the last
    /// packets of a link can be deferred.
    pub deferred: bool,
}

/// What a thread is about to do, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// About to do the next operation of its program.
    Running,
    /// The access trapped on this minipage; the handler has not looked yet.
    Trapped(u8),
    /// Its fault is with the engine.
    Faulted(u8),
    /// Woken by the engine; the engine does not know that it resumes.
    Woken(u8),
    /// Its access is done; what it held for it is not retired yet.
    Through,
    /// In a synchronization call, or in a free.
    Blocked,
}

/// What became of a thread's wait; all false while it does not wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WaitOutcome {
    /// What it waits for is refused.
    pub refused: bool,
    /// It was withdrawn.
    pub withdrawn: bool,
    /// Since it began, another thread held what is waited for, or waited for it.
    pub contended: bool,
}

/// One thread of the job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ThreadState {
    /// Operations done.
    pub done: u8,
    /// What comes next.
    pub phase: Phase,
    /// Faults of the operation at hand.
    pub faults: u8,
    /// What the instruction at hand was granted, and holds.
    pub accesses: Accesses<()>,
    /// Whether it asked for its last grant as one that it may not lose.
    pub pinned: bool,
    /// Minipages that windows hold for it, a bit each ([`super::Job::windows`]).
    pub windows: u8,
    /// What became of its wait so far.
    pub wait: WaitOutcome,
    /// Operations of its program that it has left out, a bit each.
    pub skipped: u32,
    /// What its reads returned, if the job is observed.
    pub reads: Vec<Content>,
}

/// What went wrong in the step that led to a state; such a state has no successors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// The engine refused an input, or panicked.
    Protocol(String),
    /// The engine had something done that a world forbids.
    World(String),
    /// A thread read something else than the last value written.
    StaleRead(String),
}

/// One checked state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes. Shared with the states before: a step changes one.
    pub nodes: Vec<Arc<Node<OwnedTables>>>,
    /// Memory by node, then minipage.
    pub memory: Vec<Vec<Page>>,
    /// Packets by sender times nodes plus receiver, oldest first.
    pub links: Vec<Vec<Packet>>,
    /// The threads.
    pub threads: Vec<ThreadState>,
    /// The last value written to each minipage; known to the checker only.
    pub latest: Vec<Content>,
    /// Whether the step to this state broke something.
    pub broken: Option<Broken>,
}

impl State {
    /// What a node holds of a minipage it may not access means nothing: states that differ in it only
    /// are one, and an engine that sends it later is found out.
    pub(super) fn forget_lost_copies(&mut self) {
        for page in self.memory.iter_mut().flatten() {
            if page.access == Access::NoAccess {
                page.content = NO_COPY;
            }
        }
    }

    /// Locks that nodes keep for a window; it may end at any time.
    pub(super) fn kept_locks(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.nodes
            .iter()
            .flat_map(|node| node.tables.sync_tables().kept_locks().map(|id| (node.me, id)))
    }

    /// The state in which a job begins.
    #[must_use]
    pub fn first(job: &Job) -> Self {
        let ids = 0u8..;
        let sites: Vec<_> = ids
            .zip(&job.minipages)
            .map(|(index, placed)| (minipage_id(index), placed.manager, placed.owner))
            .collect();
        let nodes = (0..job.nodes).map(|rank| {
            let mut tables = OwnedTables::new(NodeId(rank), sites.iter().copied())
                .with_idle_tokens(job.idle_tokens)
                .with_invalidations(job.invalidations);
            for (id, ..) in &sites {
                tables.minipage(*id);
            }
            Arc::new(Node { me: NodeId(rank), nodes: job.nodes, tables })
        });
        let memory = (0..job.nodes).map(|rank| {
            let page = |owner| match owner {
                NodeId(owner) if owner == rank => Page { access: Access::ReadWrite, content: 0 },
                NodeId(_) => Page { access: Access::NoAccess, content: NO_COPY },
            };
            job.minipages.iter().map(|placed| page(placed.owner)).collect()
        });
        let thread = ThreadState {
            done: 0,
            phase: Phase::Running,
            faults: 0,
            accesses: Accesses::new(),
            pinned: false,
            windows: 0,
            wait: WaitOutcome::default(),
            skipped: 0,
            reads: Vec::new(),
        };
        Self {
            nodes: nodes.collect(),
            memory: memory.collect(),
            links: vec![Vec::new(); usize::from(job.nodes).pow(2)],
            threads: vec![thread; job.threads.len()],
            latest: vec![0; job.minipages.len()],
            broken: None,
        }
    }

    /// Whether every thread has done its program and nothing can arrive: packets that are deferred
    /// may stay deferred, since nobody waits for them.
    #[must_use]
    pub fn is_quiescent(&self, job: &Job) -> bool {
        let finished = |(state, thread): (&ThreadState, &super::program::Thread)| {
            usize::from(state.done) == thread.program.len() && state.phase == Phase::Running
        };
        self.broken.is_none()
            && self.threads.iter().zip(&job.threads).all(finished)
            && self.links.iter().flatten().all(|packet| packet.deferred)
    }

    /// Whether every thread has done its program and nothing is open anywhere.
    #[must_use]
    pub fn is_done(&self, job: &Job) -> bool {
        self.is_quiescent(job)
            && self.links.iter().all(Vec::is_empty)
            && self.nodes.iter().all(|node| {
                (0u8..).zip(&job.minipages).all(|(index, _)| {
                    let (holder, entry) = cell(node, index);
                    holder.is_idle() && entry.is_idle()
                })
            })
    }
}

/// The engines of one minipage on one node.
pub(super) fn cell(
    node: &Node<OwnedTables>,
    index: u8,
) -> &(multigrain_protocol::coherence::Holder, multigrain_protocol::coherence::Entry) {
    node.tables.cell(minipage_id(index)).expect("the first state has every cell")
}
