//! The home migrates at a quiescent barrier ([`crate::migration`]): no thread writes, and no diff is under way.

use multigrain_types::{Access, NodeId};

use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::hlrc::state::{Away, Copy, Home, HomeMoves, Page};
use crate::mutant_macro::mutant;

/// The new state if this node is the home no more.
pub(super) fn at_home(
    home: Home,
    moves: &mut HomeMoves,
    context: &EngineContext,
    to: NodeId,
    out: &mut Effects,
) -> Result<Option<Copy>, Illegal> {
    use Home::{
        Clean, Dirty, Exclusive, Fresh, OpenedAhead, Released, Tracked, TrackedDirty, Transferred,
    };

    let stays = to == context.me;
    match home {
        Fresh
        | Exclusive
        | Clean
        | Released
        | Transferred { .. }
        | Dirty
        | OpenedAhead { .. }
        | Tracked
        | TrackedDirty
            if stays =>
        {
            moves.count(context, to);
            Ok(None)
        }
        Clean | Released | Transferred { .. } | Tracked => {
            moves.count(context, to);
            if home == Tracked && mutant!("tracked-home-stays-writable": false, else true) {
                let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                out.push(Effect::Protect { minipage: context.minipage, from, to });
            }
            Ok(Some(Copy::Away(Away::left(to, Page::Clean, *moves))))
        }
        // No correct manager migrates what is written.
        Fresh | Exclusive | Dirty | OpenedAhead { .. } | TrackedDirty => Err(home.illegal()),
    }
}

/// The new state if this node becomes the home.
pub(super) fn away(
    away: &mut Away,
    context: &EngineContext,
    to: NodeId,
    out: &mut Effects,
) -> Result<Option<Copy>, Illegal> {
    use Page::{Clean, Dirty, FetchQueued, Fetching, Invalid, OpenedAhead, Upgrading};

    let comes = to == context.me;
    match &mut away.page {
        // The only writer since the last barrier has what the home has.
        Clean if comes => {
            away.moves.count(context, to);
            let home = Home::shared(context, Access::ReadOnly, out);
            return Ok(Some(Copy::Home { home, moves: away.moves }));
        }
        Invalid | Clean if !comes => {}
        Fetching(wait) if !comes => wait.moved = Some(to),
        // No correct manager migrates the home while somebody writes, or waits for the
        // acknowledgement of a diff.
        Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead => {
            return Err(away.illegal());
        }
    }
    away.moves.count(context, to);
    away.home = to;
    Ok(None)
}
