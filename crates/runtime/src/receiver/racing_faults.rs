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
        served.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_in_a_race_while_another_thread_is_served_the_same_minipage() {
        let [one, two] = [slots::reserve().unwrap(), slots::reserve().unwrap()];
        let (first, second) = (one.place().0, two.place().0);
        // Of an area that no other test has.
        let [raced, other] = [MinipageId(u64::MAX - 9), MinipageId(u64::MAX - 8)];
        assert!(!begin(first, raced), "alone");
        assert!(!begin(second, other), "at another minipage");
        assert!(begin(second, raced));
        end(first);
        assert!(!begin(second, raced), "the other has been served");
        end(second);
    }
}
