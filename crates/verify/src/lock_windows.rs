//! Windows of locks ([`multigrain_protocol::sync::SyncInput::UnlockToReacquire`]) in checked and in random jobs.

use multigrain_protocol::sync::SyncInput;
use multigrain_types::ThreadId;

/// Whether unlocks leave locks free for a window, of any length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LockWindows {
    /// They do not.
    #[default]
    None,
    /// Threads are expected back soon: other nodes wait for the window.
    Soon,
    /// Threads are expected back at once: other threads of the node wait for it, too.
    AtOnce,
}

impl LockWindows {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Soon, Self::AtOnce];

    /// How a thread unlocks.
    pub(crate) fn unlock(self, thread: ThreadId, id: u64) -> SyncInput {
        match self {
            Self::None => SyncInput::Unlock { thread, id },
            Self::Soon => SyncInput::UnlockToReacquire { thread, id, at_once: false },
            Self::AtOnce => SyncInput::UnlockToReacquire { thread, id, at_once: true },
        }
    }
}
