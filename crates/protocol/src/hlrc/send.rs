//! The messages of a copy and of its home.

use multigrain_types::NodeId;

use super::state::{Away, Page, Wait};
use crate::effect::{Effect, Effects};
use crate::message::HlrcMessage;
use crate::site::Site;

pub(super) fn send(site: &Site, to: NodeId, body: HlrcMessage, out: &mut Effects) {
    out.push(Effect::Send { to, message: body.about(site.minipage) });
}

/// Acknowledges a node's diff; it is batched with the others of its flush.
pub(super) fn acknowledge(site: &Site, to: NodeId, flush: u64, out: &mut Effects) {
    let message = HlrcMessage::DiffAck { flush, count: 1 }.about(site.minipage);
    out.push(Effect::SendDeferred { to, message });
}

/// Asks the home for the minipage, once it has acknowledged the diffs of this copy.
pub(super) fn fetch(away: &mut Away, site: &Site, epoch: u64, wait: Wait, out: &mut Effects) {
    if away.unacked > 0 {
        away.page = Page::FetchQueued(Box::new(wait));
        return;
    }
    let fetch = HlrcMessage::Fetch { requester: site.me, epoch, waits: wait.has_thread() };
    send(site, away.home, fetch, out);
    away.page = Page::Fetching(Box::new(wait));
}

/// Sends what was written here to the home; no thread may write it any more.
pub(super) fn diff(away: &mut Away, site: &Site, epoch: u64, flush: u64, out: &mut Effects) {
    let minipage = site.minipage;
    out.push(Effect::Flushed { minipage, flush, awaited: true, notice: true });
    send(site, away.home, HlrcMessage::Diff { writer: site.me, flush, epoch }, out);
    out.push(Effect::DropTwin { minipage });
    away.unacked += u32::from(site.dynamic_after.is_some());
}

/// No node is sent the diff, and its acknowledgement is not awaited.
#[cfg(feature = "mutants")]
pub(super) fn unsend_diff(out: &mut Effects) {
    use crate::message::Message;
    out.retain(|effect| {
        if let Effect::Flushed { awaited, .. } = effect {
            *awaited = false;
        }
        !matches!(
            effect,
            Effect::Send { message: Message::Hlrc { body: HlrcMessage::Diff { .. }, .. }, .. }
        )
    });
}
