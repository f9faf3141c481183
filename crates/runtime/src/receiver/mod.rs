//! How threads of a node wait: one receives for all, the others park on their slots.
//!
//! One thread at a time has the *receiver's role*. An application thread that takes it suppresses wake-ups, so that
//! arrivals do not wake the service thread; others park on their slot. A thread that gives the role back nudges a
//! parked thread, which looks whether it is free, or re-arms the service thread, at once or a little later
//! (`kept_claim`), unless it looks by itself until it waits again (`between_waits`). Arrivals go to the sink that the
//! caller brings: nothing here knows what a frame means. Beside it stand two predictions for contended locks: which
//! thread is likely to take one again soon (`lock_window`), and which one only polls under it (`critical_section`).

mod awaited;
pub(crate) mod between_waits;
pub(crate) mod critical_section;
mod kept_claim;
mod lock_window;
pub(crate) mod parking;
pub(crate) mod racing_faults;
mod service_level;
pub(crate) mod slots;
mod wait;

// `parking` is checked by loom with other atomics in this place.
use crate::shim;

use kept_claim::Claim;
use parking::Role;
pub use service_level::ServiceLevel;
use shim::Mutex;
pub use wait::WaitMode;

/// Who receives on this node, and how.
#[derive(Debug)]
pub(crate) struct Receiver {
    role: Role,
    mode: WaitMode,
    level: ServiceLevel,
    claim: Mutex<Claim>,
}

impl Receiver {
    pub(crate) fn new(mode: WaitMode, level: ServiceLevel) -> Self {
        // The service thread's from the beginning: it would wait for one that sleeps with it.
        let role = if level == ServiceLevel::Helping { Role::default() } else { Role::taken() };
        Self { role, mode, level, claim: Mutex::default() }
    }
}
