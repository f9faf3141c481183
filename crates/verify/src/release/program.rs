//! What the checked threads do: straight-line programs without data races, and their job.

use crate::LockWindows;
use core::fmt;

use multigrain_protocol::Kind;
use multigrain_protocol::sync::IDLE_TOKENS;
use multigrain_types::tree::Fan;
use multigrain_types::{Consistency, MinipageId, NodeId};

/// What a word of a minipage holds; it begins with 0.
pub type Value = u32;
/// Words of a minipage, so that several nodes can write one at the same time.
pub const WORDS: usize = 4;
/// The contents of a minipage.
pub type Words = [Value; WORDS];

/// A node that is notified of this acquires at once, whatever its threads do: the service thread does, for one that frees what was
/// allocated there.
pub const SERVED: u32 = u32::MAX;

/// One step of a program. Minipages are named by their index in [`Job::minipages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Loads a word of a minipage.
    Read(u8, u8),
    /// Stores a value in a word of a minipage.
    Write(u8, u8, Value),
    /// Loads a word and stores one more.
    Add(u8, u8),
    /// Asks for a copy without waiting for it.
    Prefetch(u8, Kind),
    /// Asks for a copy to read; the thread reads it before it synchronizes again.
    AwaitedPrefetch(u8),
    /// Opens what is here to be read for writes, if it is lazily consistent.
    OpenAhead(u8),
    /// Takes a lock.
    Lock(u32),
    /// Gives a lock back.
    Unlock(u32),
    /// Meets the other threads; the fields are those of `SyncInput::Barrier`. With ids that have bit 1 they do a
    /// collective operation.
    Barrier {
        /// Synchronization id.
        id: u32,
        /// Threads of this node announced in one message.
        local: u32,
        /// Threads of the job.
        total: u32,
        /// Whether no other thread of this node runs.
        quiescent: bool,
    },
    /// Under `lock`: while the word does not hold `value`, waits on `condition`.
    Await {
        /// The word: minipage, and its place there.
        place: (u8, u8),
        /// What it shall hold.
        value: Value,
        /// Synchronization id of the condition variable.
        condition: u32,
        /// The lock held.
        lock: u32,
    },
    /// Wakes one waiter of a condition, or all.
    Signal(u32, bool),
    /// Hands read copies to every node, where the consistency knows that.
    Push(u8),
    /// Frees the minipage and waits until it may be used again; for its owner alone.
    Reclaim(u8),
    /// Takes one unit of a semaphore.
    Down(u32),
    /// Adds units to a semaphore.
    Up(u32, u32),
    /// Waits until this node's writes can be seen, to notify others by means of its own.
    Release,
    /// Notifies a node by means of its own; a release has gone before.
    Notify(u16, u32),
    /// Waits until this node has been notified, and acquires.
    Receive(u32),
    /// Starts the thread of this index, which waits for that, on its node; goes on when it runs.
    Start(u8),
    /// Waits until the thread of this index has ended.
    Join(u8),
}

impl Op {
    /// The word a thread touches with this operation, and how.
    #[must_use]
    pub fn access(self) -> Option<(u8, u8, Kind)> {
        match self {
            Self::Read(minipage, word) | Self::Await { place: (minipage, word), .. } => {
                Some((minipage, word, Kind::Read))
            }
            Self::Write(minipage, word, _) | Self::Add(minipage, word) => {
                Some((minipage, word, Kind::Write))
            }
            Self::Prefetch(..)
            | Self::AwaitedPrefetch(_)
            | Self::OpenAhead(_)
            | Self::Lock(_)
            | Self::Unlock(_)
            | Self::Barrier { .. }
            | Self::Signal(..)
            | Self::Push(_)
            | Self::Reclaim(_)
            | Self::Down(_)
            | Self::Up(..)
            | Self::Release
            | Self::Notify(..)
            | Self::Receive(_)
            | Self::Start(_)
            | Self::Join(_) => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(minipage, word) => write!(out, "read m{minipage}[{word}]"),
            Self::Write(minipage, word, value) => {
                write!(out, "write m{minipage}[{word}] = {value}")
            }
            Self::Add(minipage, word) => write!(out, "add 1 to m{minipage}[{word}]"),
            Self::Prefetch(minipage, kind) => write!(out, "prefetch m{minipage} for {kind:?}"),
            Self::AwaitedPrefetch(minipage) => write!(out, "ask for m{minipage}"),
            Self::OpenAhead(minipage) => write!(out, "open m{minipage} ahead"),
            Self::Lock(id) => write!(out, "lock {id}"),
            Self::Unlock(id) => write!(out, "unlock {id}"),
            Self::Barrier { id, local, total, quiescent } => {
                let quiescent = if *quiescent { ", quiescent" } else { "" };
                write!(out, "barrier {id} ({local} here, {total} in all{quiescent})")
            }
            Self::Await { place: (minipage, word), value, condition, .. } => {
                write!(out, "await m{minipage}[{word}] = {value} on condition {condition}")
            }
            Self::Signal(id, false) => write!(out, "signal condition {id}"),
            Self::Signal(id, true) => write!(out, "broadcast condition {id}"),
            Self::Push(minipage) => write!(out, "push m{minipage}"),
            Self::Reclaim(minipage) => write!(out, "free m{minipage}"),
            Self::Down(id) => write!(out, "wait for semaphore {id}"),
            Self::Up(id, count) => write!(out, "post {count} to semaphore {id}"),
            Self::Release => write!(out, "release"),
            Self::Notify(node, id) => write!(out, "notify node {node} of {id}"),
            Self::Receive(id) => write!(out, "receive {id}"),
            Self::Start(thread) => write!(out, "start thread {thread}"),
            Self::Join(thread) => write!(out, "join thread {thread}"),
        }
    }
}

/// Where a minipage is managed, who allocated it, and what its users may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The manager, or the home under eager release consistency.
    pub manager: NodeId,
    /// The allocating node, which has the first copy, all words 0.
    pub owner: NodeId,
    /// Its protocol.
    pub consistency: Consistency,
}

/// One thread: where it runs and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its node.
    pub node: NodeId,
    /// Its program.
    pub program: Vec<Op>,
    /// Whether another thread starts it: then it ends with its program.
    pub started: bool,
}

/// What is checked: nodes, minipages, threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Nodes of the job.
    pub nodes: u16,
    /// The minipages, by index.
    pub minipages: Vec<Placed>,
    /// The threads, by index.
    pub threads: Vec<Thread>,
    /// Whether time may pass between a trap and its handling, so that the copy the thread missed
    /// can come in between (a spurious fault).
    pub trap_gap: bool,
    /// Moves of a home at barriers after which it is dynamic (`Consistency::Auto`).
    pub dynamic_after: u8,
    /// Whether lazily consistent homes that stay are tracked instead of closed.
    pub tracks: bool,
    /// What the runtime does with locks.
    pub locks: LockRules,
    /// Write notices that one frame holds, and as many moves of homes: more go in several.
    notices_in_a_frame: usize,
    /// Flushes, intervals and migrations are counted on from here.
    pub first_number: u64,
    /// Of the tree by which barriers of all threads go, if there are more nodes.
    pub fan: Fan,
}

/// What the runtime does with the locks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRules {
    /// Idle tokens that a node keeps.
    pub idle_tokens: u32,
    /// Whether unlocks leave locks free at their nodes for a window.
    pub windows: LockWindows,
}

impl Job {
    /// A job without minipages and threads.
    #[must_use]
    pub fn new(nodes: u16) -> Self {
        Self {
            nodes,
            minipages: vec![],
            threads: vec![],
            trap_gap: false,
            dynamic_after: 0,
            tracks: false,
            locks: LockRules { idle_tokens: IDLE_TOKENS, windows: LockWindows::None },
            notices_in_a_frame: usize::MAX,
            first_number: 0,
            fan: Fan::default(),
        }
    }

    /// Adds a minipage managed by one node and allocated by another, or the same.
    #[must_use]
    pub fn minipage(mut self, consistency: Consistency, manager: u16, owner: u16) -> Self {
        let (manager, owner) = (NodeId(manager), NodeId(owner));
        self.minipages.push(Placed { manager, owner, consistency });
        self
    }

    /// Adds a minipage under eager release consistency, with its home and its allocating node.
    #[must_use]
    pub fn eager(self, home: u16, owner: u16) -> Self {
        self.minipage(Consistency::EagerRelease, home, owner)
    }

    /// Adds a minipage under lazy release consistency, with its allocating node.
    #[must_use]
    pub fn lazy(self, owner: u16) -> Self {
        self.minipage(Consistency::LazyRelease, owner, owner)
    }

    /// Adds a minipage whose home is dynamic, with its allocating node.
    #[must_use]
    pub fn auto(self, owner: u16) -> Self {
        self.minipage(Consistency::Auto, owner, owner)
    }

    /// Homes are dynamic after so many migrations at barriers; at once if not called.
    #[must_use]
    pub fn dynamic_after(self, moves: u8) -> Self {
        Self { dynamic_after: moves, ..self }
    }

    /// Tracks homes that stay: no trap shows what their threads write.
    #[must_use]
    pub fn tracking(self) -> Self {
        Self { tracks: true, ..self }
    }

    /// The same, whose nodes keep so many idle tokens, and offer the others.
    #[must_use]
    pub fn keeping(self, idle_tokens: u32) -> Self {
        Self { locks: LockRules { idle_tokens, ..self.locks }, ..self }
    }

    /// The same, whose unlocks leave locks free for a window: see [`LockRules::windows`].
    #[must_use]
    pub fn with_lock_windows(self, windows: LockWindows) -> Self {
        Self { locks: LockRules { windows, ..self.locks }, ..self }
    }

    /// Write notices that one frame holds.
    #[must_use]
    pub fn notices_in_a_frame(&self) -> usize {
        self.notices_in_a_frame
    }

    /// The same, with so many write notices in a frame.
    #[must_use]
    pub fn with_notices_in_a_frame(self, notices_in_a_frame: usize) -> Self {
        Self { notices_in_a_frame, ..self }
    }

    /// Adds a thread.
    #[must_use]
    pub fn thread(mut self, node: u16, program: &[Op]) -> Self {
        self.threads.push(Thread { node: NodeId(node), program: program.to_vec(), started: false });
        self
    }

    /// Adds a thread that another one starts.
    #[must_use]
    pub fn started_thread(mut self, node: u16, program: &[Op]) -> Self {
        self.threads.push(Thread { node: NodeId(node), program: program.to_vec(), started: true });
        self
    }

    /// Counts flushes, intervals and migrations on from a number.
    #[must_use]
    pub fn counting_from(self, number: u64) -> Self {
        Self { first_number: number, ..self }
    }

    /// The same, whose tree has this fan.
    #[must_use]
    pub fn with_fan(self, fan: u16) -> Self {
        Self { fan: Fan(fan), ..self }
    }

    /// Whether a barrier of so many threads goes by the tree: all come, and each node with as many as the others.
    #[must_use]
    pub fn goes_by_tree(&self, local: u32, total: u32) -> bool {
        let here = |rank| {
            let here = |thread: &&Thread| thread.node == NodeId(rank) && !thread.started;
            self.threads.iter().filter(here).count()
        };
        let all = self.nodes > self.fan.0 && total == self.first_threads();
        local > 0 && all && (0..self.nodes).all(|rank| here(rank) == local as usize)
    }

    /// Threads that run from the start on.
    #[must_use]
    pub fn first_threads(&self) -> u32 {
        let first = self.threads.iter().filter(|thread| !thread.started);
        u32::try_from(first.count()).unwrap_or(u32::MAX)
    }

    /// Lets time pass between traps and their handling.
    #[must_use]
    pub fn with_trap_gap(mut self) -> Self {
        self.trap_gap = true;
        self
    }

    /// The link between two nodes in [`super::state::State::links`].
    pub(super) fn link(&self, from: NodeId, to: NodeId) -> usize {
        from.index() * usize::from(self.nodes) + to.index()
    }
}

/// The id of the minipage with this index.
#[must_use]
pub fn minipage_id(index: u8) -> MinipageId {
    MinipageId(index.into())
}

/// The index of a minipage with this id.
pub(super) fn minipage_index(id: MinipageId) -> usize {
    id.index() as usize
}
