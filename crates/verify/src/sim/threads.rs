//! The threads of a run: where each is in its program, and which one receives while it waits.

use multigrain_protocol::held_accesses::Accesses;
use multigrain_types::NodeId;

use super::cluster::Content;
use super::operation::{Op, Sequence};

/// What a thread is about to do, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// About to do its operation.
    Running,
    /// Its access trapped; the handler has not looked yet.
    Trapped,
    /// Its fault is with the engine.
    Faulted,
    /// Woken from a fault; the engine does not know that it resumes.
    Woken,
    /// In a call that waits.
    Blocked,
    /// At the end of its program, or of its node.
    Ended,
}

/// One thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) state: State,
    sequence: Sequence,
    at: u8,
    /// Sequences left before the barrier.
    pub(super) left: u32,
    /// Its duty comes when so many are left.
    pub(super) duty: Option<u32>,
    /// Barriers passed.
    pub(super) episode: u32,
    /// Accesses, and stores among them.
    pub(super) accesses: u32,
    pub(super) stores: u32,
    /// What the operation at hand was granted, and holds.
    pub(super) held: Accesses<()>,
    /// What it read last.
    pub(super) seen: Content,
}

impl Thread {
    pub(super) fn new() -> Self {
        Self {
            state: State::Running,
            sequence: Sequence::of(&[]),
            at: 0,
            left: 0,
            duty: None,
            episode: 0,
            accesses: 0,
            stores: 0,
            held: Accesses::new(),
            seen: 0,
        }
    }

    /// The operation at hand.
    pub(super) fn op(&self) -> Option<Op> {
        self.sequence.get(self.at)
    }

    pub(super) fn begin(&mut self, sequence: Sequence) {
        (self.sequence, self.at) = (sequence, 0);
    }

    /// The operation at hand is done.
    pub(super) fn advance(&mut self) {
        self.state = State::Running;
        self.at += 1;
    }

    /// Whether it sleeps in the runtime.
    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::Faulted | State::Blocked)
    }
}

/// Which of a node's waiting threads has the receiver's role: the one that takes it sends what the node has deferred
/// (`Runtime::receive_until`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Role {
    receiver: Option<u32>,
}

impl Role {
    /// A thread begins to wait; true if it takes the role.
    pub(super) fn enter(&mut self, thread: u32) -> bool {
        let free = self.receiver.is_none();
        if free {
            self.receiver = Some(thread);
        }
        free
    }

    /// A thread waits no more; true if another takes the role from it.
    pub(super) fn leave(&mut self, thread: u32, mut others: impl Iterator<Item = u32>) -> bool {
        if self.receiver != Some(thread) {
            return false;
        }
        self.receiver = others.next();
        self.receiver.is_some()
    }
}

/// The numbers of threads: `of_node` threads a node, counted over the job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) of_node: u32,
}

impl Numbers {
    pub(super) fn node(self, thread: u32) -> NodeId {
        NodeId(u16::try_from(thread / self.of_node).unwrap_or(u16::MAX))
    }

    pub(super) fn first(self, node: NodeId) -> u32 {
        u32::from(node.0) * self.of_node
    }

    pub(super) fn all(self, node: NodeId) -> core::ops::Range<u32> {
        self.first(node)..self.first(node) + self.of_node
    }
}
