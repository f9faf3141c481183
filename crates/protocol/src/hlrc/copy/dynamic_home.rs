//! Dynamic homes: a minipage whose writers change has its home where it is written next (ADR 11).
//!
//! After so many migrations at barriers ([`HomeMoves`]) the home goes to the next node that fetches
//! the minipage: that node writes in place and sends no diff. Other nodes do not know of it; former
//! homes forward fetches (`super::fetch`) and diffs (`super::diffs`).

use multigrain_types::{Access, NodeId};

use crate::context::EngineContext;
use crate::effect::{Effect, Effects};
use crate::hlrc::state::{Home, HomeMoves, OpenRequest};
use crate::message::{HlrcMessage, Kind};

/// Whether the home goes to the node that fetches the minipage. A thread waits there, so that no barrier can
/// migrate the home meanwhile.
pub(super) fn follows(home: Home, moves: HomeMoves, context: &EngineContext, epoch: u64) -> bool {
    // Not twice between two barriers if it was not written: all read it then.
    moves.is_dynamic(context.dynamic_after) && home != Home::Transferred { epoch }
}

/// Whether this node may become the home with what it fetches.
pub(super) fn may_take(wait: &OpenRequest, context: &EngineContext) -> bool {
    context.dynamic_after.is_some() && wait.moved.is_none()
}

/// The home comes to its next writer. It is current, whatever notice came meanwhile: the writes that a
/// notice names are acknowledged by a home, and this node was none yet.
pub(super) fn take(
    wait: &OpenRequest,
    context: &EngineContext,
    epoch: u64,
    out: &mut Effects,
) -> Home {
    let minipage = context.minipage;
    let (home, access) = match wait.kind {
        Kind::Write => (Home::Dirty, Access::ReadWrite),
        Kind::Read => (Home::Transferred { epoch }, Access::ReadOnly),
    };
    if home == Home::Dirty {
        out.push(Effect::Dirty { minipage });
    }
    out.push(Effect::Install { minipage, access });
    wait.wake(out);
    home
}

/// A former home sends a diff to its successor.
pub(super) fn forward_diff(
    context: &EngineContext,
    to: NodeId,
    (writer, flush): (NodeId, u64),
    epoch: u64,
    out: &mut Effects,
) {
    let body = HlrcMessage::Diff { writer, flush, epoch };
    out.push(Effect::ForwardDiff { to, message: body.about(context.minipage) });
}
