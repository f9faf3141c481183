//! What threads ask of the synchronization engines, and why it is refused.

use multigrain_types::ThreadId;

use super::operand::Operand;
use crate::message::Kind;

/// What threads ask of the synchronization engines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are ids and counts in the caller's words")]
pub enum SyncInput {
    /// A thread begins on this node; it runs when it is woken. `thread` waits for that, and need not be
    /// the one that begins.
    Begin {
        thread: ThreadId,
    },
    /// A thread of this node has ended. What it holds is nobody's from now on, and stays taken.
    End {
        thread: ThreadId,
    },
    /// A thread of this node waits for what no barrier gives it, and runs no more before it begins again
    /// ([`SyncInput::Begin`]): for the end of another one, or for all nodes to leave.
    Pause {
        thread: ThreadId,
    },
    Lock {
        thread: ThreadId,
        id: u64,
    },
    /// As [`SyncInput::Lock`], unless the lock is taken: then the thread is refused.
    TryLock {
        thread: ThreadId,
        id: u64,
    },
    /// As [`SyncInput::Lock`], of a thread that may be withdrawn.
    TimedLock {
        thread: ThreadId,
        id: u64,
    },
    Unlock {
        thread: ThreadId,
        id: u64,
    },
    /// As [`SyncInput::Unlock`], of a thread that is likely to take the lock again soon: it may stay free
    /// here for a window, until [`SyncInput::LockWindowOver`], though another node waits. `at_once`: so soon that threads of
    /// this node wait for the window, too.
    UnlockToReacquire {
        thread: ThreadId,
        id: u64,
        at_once: bool,
    },
    /// The window of a lock is over. Nothing if its token is not kept any more.
    LockWindowOver {
        id: u64,
    },
    /// `local` threads of this node come together and are announced in one message; 0 announces
    /// each thread alone. `total` threads of the job make the episode complete. `quiescent`: homes may
    /// migrate if all threads of the node wait here; it is said only if every thread that can write has begun
    /// ([`SyncInput::Begin`]), or its first write would trap. With [`super::WHOLE`] in the id all nodes come, with as
    /// many threads each.
    Barrier {
        thread: ThreadId,
        id: u64,
        local: u32,
        total: u32,
        quiescent: bool,
    },
    /// As [`SyncInput::Barrier`], with an operand; the id has [`super::COLLECTIVE`]. The result comes before the
    /// thread is woken ([`crate::World::result`]).
    Collective {
        thread: ThreadId,
        id: u64,
        local: u32,
        total: u32,
        quiescent: bool,
        operand: Box<Operand>,
    },
    SemaphoreWait {
        thread: ThreadId,
        id: u64,
    },
    /// The thread is refused if there is no unit.
    SemaphoreTry {
        thread: ThreadId,
        id: u64,
    },
    SemaphorePost {
        id: u64,
        count: u32,
    },
    /// The caller holds `lock`.
    ConditionWait {
        thread: ThreadId,
        id: u64,
        lock: u64,
    },
    ConditionSignal {
        id: u64,
        all: bool,
    },
    /// A read-write lock, to read or to write. `tries`: the thread is refused if it would wait.
    ReadWriteLock {
        thread: ThreadId,
        id: u64,
        kind: Kind,
        tries: bool,
    },
    ReadWriteUnlock {
        thread: ThreadId,
        id: u64,
    },
    /// The thread waits no longer: it is refused, unless what it waits for is on its way. Nothing if it does
    /// not wait there any more.
    Withdraw {
        thread: ThreadId,
        from: Withdrawable,
    },
}

/// What a thread that may be withdrawn waits for: the lock of [`SyncInput::TimedLock`], a unit of a
/// semaphore, or a condition's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "one variant per engine")]
pub enum Withdrawable {
    Lock(u64),
    Semaphore(u64),
    Condition(u64),
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
