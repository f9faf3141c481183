//! Routes events of a lazily consistent minipage to its copy, or lets them wait for the migration plan
//! that their sender knows.

use multigrain_types::NodeId;

use crate::effect::Effects;
use crate::hlrc::{CopyEvent, FetchEvent, FlushEvent};
use crate::message::HlrcMessage;
use crate::migration::Ahead;
use crate::mutant_macro::mutant;
use crate::node::apply::released;
use crate::node::input::Violation;
use crate::node::refusal::{elsewhere, refused};
use crate::node::tables::Cell;
use crate::site::{Illegal, Site};
use crate::world::World;

/// A message to the copy, or to the home.
#[inline(never)]
pub(super) fn message(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    message: HlrcMessage,
    out: &mut Effects,
    world: &mut impl World,
) -> Result<(), Violation> {
    if let HlrcMessage::Fetch { requester: node, .. } | HlrcMessage::Diff { writer: node, .. } =
        message
        && node.0 >= site.nodes
    {
        return Err(refused(from, &message, elsewhere("home", site)));
    }
    let event = match message {
        HlrcMessage::Fetch { requester, epoch, waits } => {
            let epoch = mutant!("early-fetch-served": 0, else epoch);
            let waits = mutant!("prefetch-transfers-home": true, else waits);
            // This node will receive a plan soon, and may be the home by then.
            let ahead = Ahead::Fetch { requester, waits };
            if let Some(room) = defer(site, cell, (from, epoch), ahead) {
                return room.map_err(|illegal| refused(from, &message, illegal));
            }
            let zero = cell.copy().is_fresh() && released(world).close_if_zero(site.minipage);
            CopyEvent::Fetch(FetchEvent::Fetch { requester, zero, waits })
        }
        HlrcMessage::Data => CopyEvent::Fetch(FetchEvent::Data { from }),
        HlrcMessage::FirstTouch => CopyEvent::Fetch(FetchEvent::FirstTouch),
        HlrcMessage::HomeTransfer => CopyEvent::Fetch(FetchEvent::HomeTransfer),
        HlrcMessage::Diff { writer, flush, epoch } => {
            released(world).buffer_diff(site.minipage);
            let away = cell.copy().home().is_some();
            mutant!("early-diff-dropped" => {
                if away && epoch > cell.tracker().log().epoch() {
                    let message = HlrcMessage::DiffAck { flush, count: 1 }.about(site.minipage);
                    out.push(crate::effect::Effect::SendDeferred { to: writer, message });
                    return Ok(());
                }
            });
            // As above: this node will be the home, or will know which node is.
            if away
                && let Some(room) = defer(site, cell, (from, epoch), Ahead::Diff { writer, flush })
            {
                return room.map_err(|illegal| refused(from, &message, illegal));
            }
            CopyEvent::Flush(FlushEvent::Diff { writer, flush })
        }
        HlrcMessage::DiffAck { flush, count } => {
            CopyEvent::Flush(FlushEvent::DiffAck { flush, count })
        }
    };
    copy(site, cell, from, &event, out)
}

/// Lets it wait if its sender knows of one plan more than this node; `None` if of none. Nobody knows of two:
/// at the second barrier this node has to declare that it is quiescent, which it does when it has
/// switched. The tracker is locked between the look and the entry: no plan comes in between.
fn defer(
    site: &Site,
    cell: &mut impl Cell,
    (from, epoch): (NodeId, u64),
    ahead: Ahead,
) -> Option<Result<(), Illegal>> {
    let mut tracker = cell.tracker();
    let known = tracker.log().epoch();
    if epoch <= known {
        return None;
    }
    let state = if epoch > known + 1 {
        format!("that knows of {known} plans, when none has made two more")
    } else if tracker.ahead_mut().push(site.minipage, from, ahead) {
        return Some(Ok(()));
    } else {
        "with too much that waits for the next migration plan".to_owned()
    };
    Some(Err(Illegal { role: "home", state }))
}

#[inline(never)]
pub(super) fn copy(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: &CopyEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    let epoch = cell.tracker().log().epoch();
    let result = cell.copy().handle(site, epoch, event, out);
    result.map_err(|illegal| refused(from, event, illegal))
}
