//! Operations of checked programs as inputs of the synchronization engines.

use crate::LockWindows;
use multigrain_protocol::Input;
use multigrain_protocol::sync::SyncInput;
use multigrain_types::ThreadId;

use super::program::{Op, Wanted};

/// The window of a lock is over.
pub(super) fn end_of_window(lock: u64) -> Input {
    Input::Sync(SyncInput::LockWindowOver { id: lock })
}

/// What an operation asks of the synchronization engines, and whether its thread waits for it.
/// `lock_windows`: see [`super::Job::lock_windows`].
pub(super) fn synchronization(
    thread: ThreadId,
    op: Op,
    lock_windows: LockWindows,
) -> (SyncInput, bool) {
    let wide = u64::from;
    match op {
        Op::Lock(id) => (SyncInput::Lock { thread, id: wide(id) }, true),
        Op::Unlock(id) => (lock_windows.unlock(thread, wide(id)), false),
        Op::Barrier { id, local, total } => {
            (SyncInput::Barrier { thread, id: wide(id), local, total, quiescent: false }, true)
        }
        Op::Down(id) => (SyncInput::SemaphoreWait { thread, id: wide(id) }, true),
        Op::Up(id, count) => (SyncInput::SemaphorePost { id: wide(id), count }, false),
        Op::Signal(id, all) => (SyncInput::ConditionSignal { id: wide(id), all }, false),
        Op::Attempt { what, timed, .. } => {
            let input = match (what, timed) {
                (Wanted::Lock(id), false) => SyncInput::TryLock { thread, id: wide(id) },
                (Wanted::Lock(id), true) => SyncInput::TimedLock { thread, id: wide(id) },
                (Wanted::Unit(id), false) => SyncInput::SemaphoreTry { thread, id: wide(id) },
                (Wanted::Unit(id), true) => SyncInput::SemaphoreWait { thread, id: wide(id) },
                (Wanted::Hold(id, kind), _) => {
                    SyncInput::ReadWriteLock { thread, id: wide(id), kind, tries: true }
                }
            };
            (input, true)
        }
        Op::Hold(id, kind) => {
            (SyncInput::ReadWriteLock { thread, id: wide(id), kind, tries: false }, true)
        }
        Op::LetGo(id) => (SyncInput::ReadWriteUnlock { thread, id: wide(id) }, false),
        Op::Read(_)
        | Op::Write(..)
        | Op::Add(_)
        | Op::AddBoth(..)
        | Op::Prefetch(..)
        | Op::Push(_)
        | Op::Reclaim(_)
        | Op::Await { .. }
        | Op::TimedAwait { .. } => unreachable!("{op} does not synchronize"),
    }
}
