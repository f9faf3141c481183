//! Routes events of a lazily consistent minipage to its copy, or queues them until the migration plan arrives
//! that their sender knows.

#[cfg(feature = "mutants")]
use multigrain_types::Access;
use multigrain_types::NodeId;

use crate::context::{EngineContext, Illegal};
use crate::effect::Effects;
use crate::hlrc::{CopyEvent, FetchEvent, FlushEvent};
use crate::message::HlrcMessage;
use crate::migration::EarlyMessage;
use crate::mutant_macro::mutant;
use crate::node::apply::released;
use crate::node::input::Violation;
use crate::node::refusal::{refused, wrong_node};
use crate::node::state_tables::Cell;
use crate::world::World;

/// A message to the copy, or to the home.
#[inline(never)]
pub(super) fn message(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    message: HlrcMessage,
    out: &mut Effects,
    world: &mut impl World,
) -> Result<(), Violation> {
    if let HlrcMessage::Fetch { requester: node, .. } | HlrcMessage::Diff { writer: node, .. } =
        message
        && node.0 >= context.nodes
    {
        return Err(refused(from, &message, wrong_node("home", context)));
    }
    let event = match message {
        HlrcMessage::Fetch { requester, epoch, waits } => {
            if requester != from && !may_pass_on(context, cell, from, epoch) {
                return Err(refused(from, &message, not_its_own(from)));
            }
            let epoch = mutant!("early-fetch-served": 0, else epoch);
            let waits = mutant!("prefetch-transfers-home": true, else waits);
            // This node will receive a plan soon, and may be the home by then.
            let early = EarlyMessage::Fetch { requester, waits };
            if let Some(room) = defer(context, cell, (from, epoch), early) {
                return room.map_err(|illegal| refused(from, &message, illegal));
            }
            let zero = cell.copy().is_fresh() && released(world).close_if_zero(context.minipage);
            CopyEvent::Fetch(FetchEvent::Fetch { requester, zero, waits })
        }
        HlrcMessage::Data => CopyEvent::Fetch(FetchEvent::Data { from }),
        HlrcMessage::FirstTouch => CopyEvent::Fetch(FetchEvent::FirstTouch),
        HlrcMessage::HomeTransfer => CopyEvent::Fetch(FetchEvent::HomeTransfer),
        HlrcMessage::Diff { writer, .. } if writer != from && context.dynamic_after.is_none() => {
            return Err(refused(from, &message, not_its_own(from)));
        }
        HlrcMessage::Diff { writer, flush, epoch } => {
            released(world).buffer_diff(context.minipage);
            let away = cell.copy().home().is_some();
            mutant!("early-diff-dropped" => {
                if away && epoch > cell.tracker().log().epoch() {
                    let message = HlrcMessage::DiffAck { flush, count: 1 }.about(context.minipage);
                    out.push(crate::effect::Effect::SendDeferred { to: writer, message });
                    return Ok(());
                }
            });
            // As above: this node will be the home, or will know which node is.
            if away
                && let Some(room) =
                    defer(context, cell, (from, epoch), EarlyMessage::Diff { writer, flush })
            {
                return room.map_err(|illegal| refused(from, &message, illegal));
            }
            CopyEvent::Flush(FlushEvent::Diff { writer, flush })
        }
        HlrcMessage::DiffAck { flush, count } => {
            CopyEvent::Flush(FlushEvent::DiffAck { from, flush, count })
        }
    };
    // The node that fetches now may have seen what a thread of the home writes back before it releases; and what is
    // merged may be what a thread writes over with what the twin has. Contents would tell of neither.
    let exposes = matches!(
        event,
        CopyEvent::Fetch(FetchEvent::Fetch { .. }) | CopyEvent::Flush(FlushEvent::Diff { .. })
    );
    if exposes && cell.copy().home().is_none() {
        look_for_writes(context, cell, out, world)?;
    }
    copy(context, cell, from, &event, out)
}

/// An event of this node's own.
#[inline(never)]
pub(super) fn event(
    context: &EngineContext,
    cell: &mut impl Cell,
    event: &CopyEvent,
    out: &mut Effects,
    world: &mut impl World,
) -> Result<(), Violation> {
    if let CopyEvent::Flush(FlushEvent::Release { .. }) | CopyEvent::Notice { .. } = event {
        look_for_writes(context, cell, out, world)?;
    }
    copy(context, cell, context.me, event, out)
}

/// Whether a minipage that was opened ahead has been written is found out: if not it is closed, and nobody has
/// to learn of it.
fn look_for_writes(
    context: &EngineContext,
    cell: &mut impl Cell,
    out: &mut Effects,
    world: &mut impl World,
) -> Result<(), Violation> {
    if !cell.copy().is_opened_ahead() {
        return Ok(());
    }
    let unwritten = released(world).close_if_unwritten(context.minipage);
    mutant!("opened-ahead-taken-for-unwritten" => {
        if !unwritten {
            world.protect(context.minipage, Access::ReadWrite, Access::ReadOnly);
        }
    });
    let unwritten = mutant!("opened-ahead-taken-for-unwritten": true, else unwritten);
    let found = if unwritten { FlushEvent::FoundUnwritten } else { FlushEvent::FoundWritten };
    copy(context, cell, context.me, &CopyEvent::Flush(found), out)
}

/// Whether a node that knows of so many plans may have been the home and pass on another's fetch, as far as this node can
/// tell: the owner may, before a barrier has moved the home; any node after that, and where homes are dynamic. Of a node that
/// knows of the next plan that is found out when this one does.
fn may_pass_on(context: &EngineContext, cell: &mut impl Cell, from: NodeId, epoch: u64) -> bool {
    context.dynamic_after.is_some()
        || from == cell.owner()
        || cell.copy().has_moved()
        || epoch > cell.tracker().log().epoch()
}

#[cold]
fn not_its_own(from: NodeId) -> Illegal {
    Illegal { role: "home", state: format!("of which {from} has never been the home") }
}

/// Lets it wait if its sender knows of one plan more than this node; `None` if of none. Nobody knows of two:
/// at the second barrier this node has to declare that it is quiescent, which it does when it has
/// switched. The tracker is locked between the look and the entry: no plan comes in between.
fn defer(
    context: &EngineContext,
    cell: &mut impl Cell,
    (from, epoch): (NodeId, u64),
    early: EarlyMessage,
) -> Option<Result<(), Illegal>> {
    let mut tracker = cell.tracker();
    let known = tracker.log().epoch();
    if epoch <= known {
        return None;
    }
    let state = if epoch > known + 1 {
        format!("that knows of {known} plans, when none has made two more")
    } else if tracker.early_mut().push(context.minipage, from, early) {
        return Some(Ok(()));
    } else {
        "with too much that waits for the next migration plan".to_owned()
    };
    Some(Err(Illegal { role: "home", state }))
}

#[inline(never)]
fn copy(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    event: &CopyEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    let epoch = cell.tracker().log().epoch();
    let result = cell.copy().handle(context, epoch, event, out);
    result.map_err(|illegal| refused(from, event, illegal))
}
