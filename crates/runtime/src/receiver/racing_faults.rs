//! Faults in a race: a thread traps on a minipage while another thread of its node is served the same one (ParADE 2, and Figure 11).
//!
//! For signal context too: no lock, no allocation. Of two threads that trap at the same moment both may be in a race.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_types::{MinipageId, ThreadId};

use super::slots::{self, SLOT_COUNT};

/// What a thread is being served, plus 1; 0 for nothing.
static SERVED: [AtomicU64; SLOT_COUNT] = [const { AtomicU64::new(0) }; SLOT_COUNT];

/// A thread is served from now on; whether another one is that already.
pub(crate) fn begin(thread: ThreadId, minipage: MinipageId) -> bool {
    let own = thread.0 as usize;
    let key = minipage.0.wrapping_add(1);
    if let Some(served) = SERVED.get(own) {
        served.store(key, Ordering::SeqCst);
    }
    let used = SERVED.iter().take(slots::used()).enumerate();
    used.into_iter().any(|(slot, served)| slot != own && served.load(Ordering::SeqCst) == key)
}

/// It has been served.
pub(crate) fn end(thread: ThreadId) {
    if let Some(served) = SERVED.get(thread.0 as usize) {
        served.store(0, Ordering::SeqCst);
    }
}
