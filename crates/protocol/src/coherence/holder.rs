//! The holder role: what each node does about its own copy of a minipage (Millipage Figure 3,
//! left column).
//!
//! States: the access (`NoAccess`, `ReadOnly`, `ReadWrite`) times the phase:
//! - `Idle`: no request of this node is open.
//! - `Fetching`: a request was sent; threads wait for the reply.
//! - `Granted`: the reply is installed and the threads are awake, each with a *pin* on the grant.
//!   The last pin to be removed sends the ack (3.3: "once a fault is served and the faulting thread
//!   wakes up, it sends an additional ack message to the manager"). Until then the manager sends
//!   nothing more about this minipage except `AckNow`.
//!
//! Beside these, a node may have passed on an invalidation that came by a tree, and wait for answers ([`state::PassedOn`]). Then
//! the manager has a transaction open that is not this node's, so that nothing is granted to it.
//!
//! A pin is removed when its thread resumes, if nobody waits for the ack, which is then deferred. If somebody
//! waits, or the thread's fault is a pinned retry, the thread is told to hold the minipage, and its pin is removed
//! when the instruction is complete: a grant is never lost unused twice (ADR 17).

mod access;
mod grant;
mod invalidate;
mod reclaim;
mod state;
mod supply;

pub use self::state::{Holder, Want};
use super::event::HolderEvent;
use crate::context::{EngineContext, Illegal};
use crate::effect::Effects;

impl Holder {
    /// One step; effects are appended to `out`.
    ///
    /// # Errors
    /// [`Illegal`] when no correct peer can have sent this event in this state.
    pub fn handle(
        &mut self,
        context: &EngineContext,
        event: &HolderEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        match event {
            HolderEvent::Access(event) => access::handle(self, context, event, out),
            HolderEvent::Supply(event) => supply::handle(self, context, event, out),
            HolderEvent::Invalidation(from, event) => {
                invalidate::handle(self, context, *from, *event, out)
            }
            HolderEvent::Grant(event) => grant::handle(self, context, event, out),
            HolderEvent::Reclaim => reclaim::handle(self, context, out),
        }
    }
}
