//! How threads of a node wait: one receives for all, the others park on their slots.
//!
//! One thread at a time has the *receiver's role*. An application thread that takes it suppresses
//! wake-ups, so that arrivals do not wake the service thread; others park on their slot. Whoever gives the role
//! back hands it to a parked thread, or re-arms the service thread. What arrives goes to the sink that
//! the caller brings: nothing here knows what a frame means.

mod claim;
pub(crate) mod parking;
mod returns;
pub(crate) mod slots;
mod wait;
mod wait_mode;

// `parking` is checked by loom with other atomics in this place.
use crate::shim;

use claim::Claim;
use parking::Role;
use shim::Mutex;
pub use wait_mode::WaitMode;

/// Who receives on this node, and how.
#[derive(Debug)]
pub(crate) struct Receiver {
    role: Role,
    mode: WaitMode,
    claim: Mutex<Claim>,
}

impl Receiver {
    pub(crate) fn new(mode: WaitMode) -> Self {
        Self { role: Role::default(), mode, claim: Mutex::default() }
    }
}
