//! What threads ask of the synchronization engines, and why it is refused.

use multigrain_types::ThreadId;

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
    /// migrate if all threads of the node wait; it is said only if every thread that can write has begun
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
