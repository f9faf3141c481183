//! Why an engine refuses an event: what no correct peer sends.

use multigrain_types::NodeId;

use super::input::Violation;
use crate::context::{EngineContext, Illegal};
use crate::sync::SyncError;

/// What only the manager is asked.
pub(super) fn wrong_node(role: &'static str, context: &EngineContext) -> Illegal {
    Illegal { role, state: format!("managed by {}, of {} nodes", context.manager, context.nodes) }
}

/// A peer sent what no correct peer sends.
#[cold]
#[inline(never)]
pub(super) fn refused(from: NodeId, event: &impl core::fmt::Debug, illegal: Illegal) -> Violation {
    Violation::Peer { from, role: illegal.role, state: illegal.state, event: format!("{event:?}") }
}

/// Why a synchronization input was refused.
pub(super) fn refuse(from: NodeId, event: &impl core::fmt::Debug, error: SyncError) -> Violation {
    match error {
        SyncError::Misuse(text) => Violation::Misuse(text),
        SyncError::Limit(text) => Violation::Limit { from, text },
        SyncError::Illegal(state) => {
            refused(from, event, Illegal { role: "synchronization", state })
        }
    }
}
