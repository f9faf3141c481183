//! The messages of a copy and of its home.

use multigrain_types::NodeId;

use super::state::{Away, HomeMoves, OpenRequest, Page};
use crate::context::EngineContext;
use crate::effect::{AckFrom, Effect, Effects};
use crate::message::HlrcMessage;

pub(super) fn send(context: &EngineContext, to: NodeId, body: HlrcMessage, out: &mut Effects) {
    out.push(Effect::Send { to, message: body.about(context.minipage) });
}

/// Acknowledges a node's diff; it is batched with the others of its flush.
pub(super) fn acknowledge(context: &EngineContext, to: NodeId, flush: u64, out: &mut Effects) {
    let message = HlrcMessage::DiffAck { flush, count: 1 }.about(context.minipage);
    out.push(Effect::SendDeferred { to, message });
}

/// Asks the home for the minipage, once it has acknowledged the diffs of this copy.
pub(super) fn fetch(
    away: &mut Away,
    context: &EngineContext,
    epoch: u64,
    wait: OpenRequest,
    out: &mut Effects,
) {
    if away.unacked > 0 {
        away.page = Page::FetchQueued(Box::new(wait));
        return;
    }
    let fetch = HlrcMessage::Fetch { requester: context.me, epoch, waits: wait.has_thread() };
    send(context, away.home, fetch, out);
    away.page = Page::Fetching(Box::new(wait));
}

/// Who acknowledges what is sent to this home, or has acknowledged: of a dynamic home a former one passes it on, to a
/// node that this one need not know.
pub(super) fn acknowledger(context: &EngineContext, moves: HomeMoves, home: NodeId) -> AckFrom {
    if moves.is_dynamic(context.dynamic_after) { AckFrom::Any } else { AckFrom::Node(home) }
}

/// Sends what was written here to the home; no thread may write it any more.
pub(super) fn diff(
    away: &mut Away,
    context: &EngineContext,
    epoch: u64,
    flush: u64,
    out: &mut Effects,
) {
    let minipage = context.minipage;
    let awaited = Some(acknowledger(context, away.moves, away.home));
    out.push(Effect::Flushed { minipage, flush, awaited, notice: true });
    send(context, away.home, HlrcMessage::Diff { writer: context.me, flush, epoch }, out);
    out.push(Effect::DropTwin { minipage });
    away.unacked += u32::from(context.dynamic_after.is_some());
}

/// No node is sent the diff, and its acknowledgement is not awaited.
#[cfg(feature = "mutants")]
pub(super) fn unsend_diff(out: &mut Effects) {
    use crate::message::Message;
    out.retain(|effect| {
        if let Effect::Flushed { awaited, .. } = effect {
            *awaited = None;
        }
        !matches!(
            effect,
            Effect::Send { message: Message::Hlrc { body: HlrcMessage::Diff { .. }, .. }, .. }
        )
    });
}
