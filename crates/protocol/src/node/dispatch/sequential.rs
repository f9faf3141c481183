//! Routes events of a sequentially consistent minipage to its holder and its manager.

use multigrain_types::NodeId;

use crate::coherence::{GrantEvent, HolderEvent, InvalidationEvent, ManagerEvent, SupplyEvent};
use crate::context::{EngineContext, Illegal};
use crate::effect::Effects;
use crate::message::{Attach, PageMessage};
use crate::node::input::Violation;
use crate::node::refusal::{refused, wrong_node};
use crate::node::state_tables::Cell;

/// A message to the role it is meant for.
pub(super) fn message(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    message: PageMessage,
    out: &mut Effects,
) -> Result<(), Violation> {
    use GrantEvent as G;
    use InvalidationEvent as I;
    use SupplyEvent as S;
    check_director(context, from, message)?;
    check_tree(context, from, message)?;
    let event = match message {
        PageMessage::Request { kind } => {
            return manager(context, cell, from, ManagerEvent::Fetch(kind), out);
        }
        PageMessage::ReclaimRequest => {
            return manager(context, cell, from, ManagerEvent::Reclaim, out);
        }
        PageMessage::PushRequest => return manager(context, cell, from, ManagerEvent::Push, out),
        PageMessage::InvalidateReply if context.me == context.manager => {
            return manager(context, cell, from, ManagerEvent::InvalidateReply, out);
        }
        PageMessage::InvalidateReply => HolderEvent::Invalidation(from, I::Reply),
        PageMessage::InvalidateTree { below } => {
            HolderEvent::Invalidation(from, I::InvalidateTree { below })
        }
        PageMessage::Ack { turn_us } => {
            return manager(context, cell, from, ManagerEvent::Ack { turn_us }, out);
        }
        PageMessage::Forward { kind, requester, ack_now, turns } => {
            HolderEvent::Supply(S::Forward { kind, requester, ack_now, turns })
        }
        PageMessage::PushForward { target } => HolderEvent::Supply(S::PushForward { target }),
        PageMessage::InvalidateRequest => HolderEvent::Invalidation(from, I::Invalidate),
        PageMessage::Reply { kind, attach, ack_now, turns } => {
            HolderEvent::Grant(G::Reply { kind, attach, ack_now, turns })
        }
        PageMessage::PushReply => HolderEvent::Grant(G::PushReply),
        PageMessage::AckNow => HolderEvent::Grant(G::AckNow),
    };
    holder(context, cell, from, &event, out)
}

pub(super) fn holder(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    event: &HolderEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    let result = cell.holder().handle(context, event, out);
    result.map_err(|illegal| refused(from, event, illegal))
}

/// A holder is directed by its manager alone, and only towards nodes of the job.
fn check_director(
    context: &EngineContext,
    from: NodeId,
    message: PageMessage,
) -> Result<(), Violation> {
    let towards = match message {
        PageMessage::Forward { requester, .. } => requester,
        PageMessage::PushForward { target } => target,
        PageMessage::InvalidateRequest
        | PageMessage::AckNow
        | PageMessage::Reply { attach: Attach::Nothing, .. } => context.me,
        PageMessage::Request { .. }
        | PageMessage::ReclaimRequest
        | PageMessage::PushRequest
        | PageMessage::Reply { attach: Attach::Page | Attach::Diff, .. }
        | PageMessage::PushReply
        | PageMessage::InvalidateTree { .. }
        | PageMessage::InvalidateReply
        | PageMessage::Ack { .. } => return Ok(()),
    };
    if from == context.manager && towards.0 < context.nodes {
        return Ok(());
    }
    let state = format!("managed by {}, in a job of {} nodes", context.manager, context.nodes);
    Err(refused(from, &message, Illegal { role: "holder", state }))
}

/// An invalidation goes by a tree where there are more copies than one node tells, and never back to who sent it, to the
/// manager, or to this node.
fn check_tree(
    context: &EngineContext,
    from: NodeId,
    message: PageMessage,
) -> Result<(), Violation> {
    let PageMessage::InvalidateTree { below } = message else { return Ok(()) };
    let goes_by_trees = context.nodes > context.invalidations.beyond;
    let apart = [context.me, context.manager, from].iter().all(|node| !below.contains(*node));
    let in_job = below.iter().all(|node| node.0 < context.nodes);
    if goes_by_trees && apart && in_job && context.me != context.manager {
        return Ok(());
    }
    let state = format!("managed by {}, in a job of {} nodes", context.manager, context.nodes);
    Err(refused(from, &message, Illegal { role: "holder", state }))
}

fn manager(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    event: ManagerEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    if context.me != context.manager {
        return Err(refused(from, &event, wrong_node("manager", context)));
    }
    let result = cell.entry().handle(context, from, event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}
