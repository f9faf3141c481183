//! What the checked threads do: tiny programs over minipages, and the job they run in.

use crate::LockWindows;
use core::fmt;

use multigrain_protocol::Kind;
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_protocol::sync::IDLE_TOKENS;
use multigrain_types::tree::Fan;
use multigrain_types::{MinipageId, NodeId};

/// What a minipage holds in a checked state: the value last written, or one of the marks below.
pub type Content = u8;
/// Mark: this node has no copy, and what its memory holds is of no meaning.
pub const NO_COPY: Content = 255;
/// Mark: the minipage was freed and not written since.
pub const FREED: Content = 254;

/// One step of a program. Minipages are named by their index in [`Job::minipages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Load.
    Read(u8),
    /// Store of a value.
    Write(u8, Content),
    /// Atomic fetch and add of one.
    Add(u8),
    /// One instruction that adds one to two minipages; the processor may miss either first.
    AddBoth(u8, u8),
    /// Asks for a copy without waiting for it.
    Prefetch(u8, Kind),
    /// Hands read copies to every node.
    Push(u8),
    /// Frees the minipage and waits until it may be used again; for its owner alone.
    Reclaim(u8),
    /// Takes a lock.
    Lock(u32),
    /// Gives a lock back.
    Unlock(u32),
    /// Meets the other threads; the fields are those of `SyncInput::Barrier`.
    Barrier {
        /// Synchronization id.
        id: u32,
        /// Threads of this node announced in one message.
        local: u32,
        /// Threads of the job.
        total: u32,
    },
    /// Takes one unit.
    Down(u32),
    /// Adds units.
    Up(u32, u32),
    /// Under `lock`: while the minipage does not hold `value`, wait on `condition`.
    Await {
        /// The minipage read.
        minipage: u8,
        /// What it shall hold.
        value: Content,
        /// Synchronization id of the condition variable.
        condition: u32,
        /// The lock held.
        lock: u32,
    },
    /// The same, and the wait may be withdrawn at any time: then it looks again.
    TimedAwait {
        /// The minipage read.
        minipage: u8,
        /// What it shall hold.
        value: Content,
        /// Synchronization id of the condition variable.
        condition: u32,
        /// The lock held.
        lock: u32,
    },
    /// Wakes one waiter of a condition, or all.
    Signal(u32, bool),
    /// Takes something if it can be had at once, or, if `timed`, unless it is withdrawn; refused, goes on
    /// behind the next `skip` operations.
    Attempt {
        /// What is wanted.
        what: Wanted,
        /// Whether it waits.
        timed: bool,
        /// Operations that are left out.
        skip: u8,
    },
    /// Takes a read-write lock.
    Hold(u32, Kind),
    /// Gives a read-write lock back.
    LetGo(u32),
}

/// What a thread attempts to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A lock.
    Lock(u32),
    /// A unit of a semaphore.
    Unit(u32),
    /// A read-write lock.
    Hold(u32, Kind),
}

impl Op {
    /// What a thread waits for under a lock: minipage, value, condition and lock.
    #[must_use]
    pub fn awaits(self) -> Option<(u8, Content, u32, u32)> {
        match self {
            Self::Await { minipage, value, condition, lock }
            | Self::TimedAwait { minipage, value, condition, lock } => {
                Some((minipage, value, condition, lock))
            }
            Self::Read(_)
            | Self::Write(..)
            | Self::Add(_)
            | Self::AddBoth(..)
            | Self::Prefetch(..)
            | Self::Push(_)
            | Self::Reclaim(_)
            | Self::Lock(_)
            | Self::Unlock(_)
            | Self::Barrier { .. }
            | Self::Down(_)
            | Self::Up(..)
            | Self::Signal(..)
            | Self::Attempt { .. }
            | Self::Hold(..)
            | Self::LetGo(_) => None,
        }
    }

    /// What a thread takes with this operation.
    #[must_use]
    pub fn wanted(self) -> Option<Wanted> {
        match self {
            Self::Lock(id) => Some(Wanted::Lock(id)),
            Self::Down(id) => Some(Wanted::Unit(id)),
            Self::Hold(id, kind) => Some(Wanted::Hold(id, kind)),
            Self::Attempt { what, .. } => Some(what),
            Self::Read(_)
            | Self::Write(..)
            | Self::Add(_)
            | Self::AddBoth(..)
            | Self::Prefetch(..)
            | Self::Push(_)
            | Self::Reclaim(_)
            | Self::Unlock(_)
            | Self::Barrier { .. }
            | Self::Up(..)
            | Self::Await { .. }
            | Self::TimedAwait { .. }
            | Self::Signal(..)
            | Self::LetGo(_) => None,
        }
    }

    /// Whether a wait in it may be withdrawn.
    #[must_use]
    pub fn is_timed(self) -> bool {
        matches!(self, Self::TimedAwait { .. } | Self::Attempt { timed: true, .. })
    }

    /// The minipages a thread touches with this operation, and how.
    #[must_use]
    pub fn accesses(self) -> [Option<(u8, Kind)>; 2] {
        match self {
            Self::Read(minipage)
            | Self::Await { minipage, .. }
            | Self::TimedAwait { minipage, .. } => [Some((minipage, Kind::Read)), None],
            Self::Write(minipage, _) | Self::Add(minipage) => [Some((minipage, Kind::Write)), None],
            Self::AddBoth(one, other) => [Some((one, Kind::Write)), Some((other, Kind::Write))],
            Self::Prefetch(..)
            | Self::Push(_)
            | Self::Reclaim(_)
            | Self::Lock(_)
            | Self::Unlock(_)
            | Self::Barrier { .. }
            | Self::Down(_)
            | Self::Up(..)
            | Self::Signal(..)
            | Self::Attempt { .. }
            | Self::Hold(..)
            | Self::LetGo(_) => [None, None],
        }
    }

    /// Most faults it takes under any schedule (ADR 17).
    #[must_use]
    pub fn most_faults(self) -> u8 {
        match self.accesses() {
            [Some(_), Some(_)] => 5,
            [Some(_), None] | [None, Some(_)] => 2,
            [None, None] => 0,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(minipage) => write!(out, "read m{minipage}"),
            Self::Write(minipage, value) => write!(out, "write m{minipage} = {value}"),
            Self::Add(minipage) => write!(out, "add 1 to m{minipage}"),
            Self::AddBoth(one, other) => write!(out, "add 1 to m{one} and m{other}"),
            Self::Prefetch(minipage, kind) => write!(out, "prefetch m{minipage} for {kind:?}"),
            Self::Push(minipage) => write!(out, "push m{minipage}"),
            Self::Reclaim(minipage) => write!(out, "free m{minipage}"),
            Self::Lock(id) => write!(out, "lock {id}"),
            Self::Unlock(id) => write!(out, "unlock {id}"),
            Self::Barrier { id, local, total } => {
                write!(out, "barrier {id} ({local} here, {total} in all)")
            }
            Self::Down(id) => write!(out, "wait for semaphore {id}"),
            Self::Up(id, count) => write!(out, "post {count} to semaphore {id}"),
            Self::Await { minipage, value, condition, .. } => {
                write!(out, "await m{minipage} = {value} on condition {condition}")
            }
            Self::TimedAwait { minipage, value, condition, .. } => {
                write!(out, "await m{minipage} = {value} on condition {condition} for a while")
            }
            Self::Attempt { what, timed, .. } => {
                write!(out, "{} {what:?}", if *timed { "wait a while for" } else { "try" })
            }
            Self::Hold(id, kind) => write!(out, "take read-write lock {id} for {kind:?}"),
            Self::LetGo(id) => write!(out, "give read-write lock {id} back"),
            Self::Signal(id, false) => write!(out, "signal condition {id}"),
            Self::Signal(id, true) => write!(out, "broadcast condition {id}"),
        }
    }
}

/// Where a minipage is managed and who allocated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The node with the directory entry.
    pub manager: NodeId,
    /// The allocating node, which has the first copy, holding 0.
    pub owner: NodeId,
}

/// One thread: where it runs and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its node.
    pub node: NodeId,
    /// Its program.
    pub program: Vec<Op>,
}

/// Whether windows keep what threads were granted ([`multigrain_protocol::window_length`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// They do not.
    None,
    /// They may keep what threads were asked to hold, for any time.
    Granted,
    /// A window keeps all that threads are granted, from before they resume it, as the program may ask for.
    Asked,
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
    /// Whether it is followed what every single access has been through: its faults are counted, an
    /// instruction that lost a minipage pinned, and what it held is retired in a step of its own.
    pub progress: bool,
    /// Whether windows keep what threads were granted.
    pub windows: Windows,
    /// Whether unlocks leave locks free here for a window.
    pub lock_windows: LockWindows,
    /// Whether what each thread read is part of the state: a litmus test.
    pub observe: bool,
    /// How invalidations go.
    pub invalidations: TreeShape,
    /// Idle tokens of locks that a node keeps.
    pub idle_tokens: u32,
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
            progress: false,
            windows: Windows::None,
            lock_windows: LockWindows::None,
            observe: false,
            invalidations: TreeShape::default(),
            idle_tokens: IDLE_TOKENS,
        }
    }

    /// Adds a minipage managed by one node and allocated by another, or the same.
    #[must_use]
    pub fn minipage(mut self, manager: u16, owner: u16) -> Self {
        self.minipages.push(Placed { manager: NodeId(manager), owner: NodeId(owner) });
        self
    }

    /// Adds a thread.
    #[must_use]
    pub fn thread(mut self, node: u16, program: &[Op]) -> Self {
        self.threads.push(Thread { node: NodeId(node), program: program.to_vec() });
        self
    }

    /// Lets time pass between traps and their handling.
    #[must_use]
    pub fn with_trap_gap(mut self) -> Self {
        self.trap_gap = true;
        self
    }

    /// Follows what every access has been through, with windows: see [`Job::windows`].
    #[must_use]
    pub fn with_windows(mut self) -> Self {
        (self.progress, self.windows) = (true, Windows::Granted);
        self
    }

    /// The same with windows that keep every grant.
    #[must_use]
    pub fn with_asked_windows(mut self) -> Self {
        (self.progress, self.windows) = (true, Windows::Asked);
        self
    }

    /// Unlocks leave locks free here for a window: see [`Job::lock_windows`].
    #[must_use]
    pub fn with_lock_windows(mut self, lock_windows: LockWindows) -> Self {
        self.lock_windows = lock_windows;
        self
    }

    /// Follows what every access has been through: see [`Job::progress`].
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.progress = true;
        self
    }

    /// Lets a node tell so many of an invalidation, where there are more copies than that.
    #[must_use]
    pub fn with_fan(mut self, fan: u16) -> Self {
        self.invalidations = TreeShape { fan: Fan(fan), beyond: fan };
        self
    }

    /// Lets nodes keep so many idle tokens, and offer the others.
    #[must_use]
    pub fn keeping(mut self, idle_tokens: u32) -> Self {
        self.idle_tokens = idle_tokens;
        self
    }

    /// Makes it a litmus test: see [`Job::observe`].
    #[must_use]
    pub fn observed(mut self) -> Self {
        self.observe = true;
        self
    }

    /// Locks and read-write locks (with a kind) that a thread holds once it has done the first `done`
    /// operations of its program, without those that are `skipped`, a bit each.
    pub(super) fn held(
        &self,
        thread: usize,
        done: usize,
        skipped: u32,
    ) -> Vec<(u32, Option<Kind>)> {
        let mut held = Vec::new();
        for (place, op) in self.threads[thread].program[..done].iter().enumerate() {
            if skipped & 1 << place != 0 {
                continue;
            }
            match op {
                Op::Lock(id) | Op::Attempt { what: Wanted::Lock(id), .. } => held.push((*id, None)),
                Op::Hold(id, kind) | Op::Attempt { what: Wanted::Hold(id, kind), .. } => {
                    held.push((*id, Some(*kind)));
                }
                Op::Unlock(id) => held.retain(|other| *other != (*id, None)),
                Op::LetGo(id) => held.retain(|(other, kind)| other != id || kind.is_none()),
                Op::Read(_)
                | Op::Write(..)
                | Op::Add(_)
                | Op::AddBoth(..)
                | Op::Prefetch(..)
                | Op::Push(_)
                | Op::Reclaim(_)
                | Op::Barrier { .. }
                | Op::Down(_)
                | Op::Up(..)
                | Op::Await { .. }
                | Op::TimedAwait { .. }
                | Op::Attempt { what: Wanted::Unit(_), .. }
                | Op::Signal(..) => {}
            }
        }
        held
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
