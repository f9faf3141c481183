//! Synchronization engines: locks, barriers, counting semaphores, condition variables.
//!
//! Ids are any 32-bit numbers; an id is managed by node `id mod nodes`. Each engine has two roles
//! in one struct: the manager's, used on the managing node alone, and the node's own. States equal
//! to the first state are dropped from the tables, so ids cost nothing once they rest. Tokens of locks
//! stay where they were used last, but a node keeps [`IDLE_TOKENS`] of them at most.

mod barrier;
mod condition;
mod lock;
mod semaphore;
mod tables;
mod uses;

pub use barrier::Barrier;
pub use condition::Condition;
pub use lock::{LOCAL_HANDOVERS, Lock};
use multigrain_types::{NodeId, ThreadId};
pub use semaphore::Semaphore;
pub use tables::{IDLE_TOKENS, SyncTables};
pub use uses::MOST_IDS;

use crate::effect::{Effect, Effects};
use crate::message::Message;

/// What a synchronization engine knows of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct SyncSite {
    /// The node the engine runs on.
    pub me: NodeId,
    /// The synchronization id.
    pub id: u32,
    /// The node that manages it.
    pub manager: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
}

impl SyncSite {
    /// The site of `id` on node `me` of a job of `nodes` nodes.
    #[must_use]
    pub fn new(me: NodeId, nodes: u16, id: u32) -> Self {
        let rank = id % u32::from(nodes.max(1));
        Self { me, id, manager: NodeId(u16::try_from(rank).unwrap_or(0)), nodes }
    }

    fn send(&self, to: NodeId, message: Message, out: &mut Effects) {
        debug_assert!(matches!(message, Message::Sync { id, .. } if id == self.id));
        out.push(Effect::Send { to, message });
    }

    /// Whether this node manages the id.
    #[must_use]
    pub fn is_manager(&self) -> bool {
        self.me == self.manager
    }
}

/// Why a synchronization input is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncError {
    /// The calling program is wrong: unlock without lock, barriers of unlike size.
    Misuse(String),
    /// Who asks uses more than anybody may.
    Limit(String),
    /// No correct peer can have sent this now.
    Illegal(String),
}

/// What the tables ask of every engine.
trait SyncState: PartialEq {
    /// The state of an id at rest, of which nothing is kept.
    fn new(site: &SyncSite) -> Self;

    /// The node that keeps this one in use, apart from its threads that wait.
    fn user(&self, _: &SyncSite) -> Option<NodeId> {
        None
    }

    /// Whether it is a token that nobody uses, away from its manager.
    fn is_idle(&self, _: &SyncSite) -> bool {
        false
    }
}

/// What threads ask of the synchronization engines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are ids and counts in the caller's words")]
pub enum SyncInput {
    /// A thread begins on this node; it runs when it is woken. `thread` waits for that, and need not be
    /// the one that begins.
    Begin {
        thread: ThreadId,
    },
    /// A thread of this node has ended.
    End,
    Lock {
        thread: ThreadId,
        id: u32,
    },
    Unlock {
        thread: ThreadId,
        id: u32,
    },
    /// `local` threads of this node come together and are announced in one message; 0 announces
    /// each thread alone. `total` threads of the job make the episode complete. `quiescent`: homes may
    /// move if all threads of the node wait; it is said only if every thread that can write has begun
    /// ([`SyncInput::Begin`]), or its first write would trap.
    Barrier {
        thread: ThreadId,
        id: u32,
        local: u32,
        total: u32,
        quiescent: bool,
    },
    SemaphoreWait {
        thread: ThreadId,
        id: u32,
    },
    SemaphorePost {
        id: u32,
        count: u32,
    },
    /// The caller holds `lock`.
    ConditionWait {
        thread: ThreadId,
        id: u32,
        lock: u32,
    },
    ConditionSignal {
        id: u32,
        all: bool,
    },
}
