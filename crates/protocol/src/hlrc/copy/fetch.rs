//! Fetches that arrive and are served, and the contents that answer this node's own.

use multigrain_types::Access;

use super::dynamic_home;
use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::hlrc::event::FetchEvent;
use crate::hlrc::send::{fetch, send};
use crate::hlrc::state::{Away, Copy, Home, HomeMoves, OpenRequest, Page};
use crate::message::{HlrcMessage, Kind};
use crate::mutant_macro::mutant;

/// The new state if this node is the home no more.
pub(super) fn at_home(
    home: &mut Home,
    moves: HomeMoves,
    context: &EngineContext,
    epoch: u64,
    event: &FetchEvent,
    out: &mut Effects,
) -> Result<Option<Copy>, Illegal> {
    use FetchEvent as E;
    use Home::{
        Clean, Dirty, Exclusive, Fresh, OpenedAhead, Released, Tracked, TrackedDirty, Transferred,
    };

    match (event, *home) {
        // First touch: the first to ask for what was never written is the home.
        (E::Fetch { requester, zero: true, .. }, Fresh) if *requester != context.me => {
            send(context, *requester, HlrcMessage::FirstTouch, out);
            return Ok(Some(Copy::Away(Away::left(*requester, Page::Invalid, moves))));
        }
        (
            E::Fetch { requester, zero: false, waits: true },
            at @ (Exclusive | Clean | Released | Transferred { .. }),
        ) if dynamic_home::follows(at, moves, context, epoch) && *requester != context.me => {
            if at == Exclusive {
                let (minipage, from, to) = (context.minipage, Access::ReadWrite, Access::ReadOnly);
                out.push(Effect::Protect { minipage, from, to });
            }
            send(context, *requester, HlrcMessage::HomeTransfer, out);
            mutant!("former-home-stays" => {
                return Ok(None);
            });
            return Ok(Some(Copy::Away(Away::left(*requester, Page::Clean, moves))));
        }
        // The first copy elsewhere: from now on writes are noticed.
        (E::Fetch { requester, zero: false, .. }, Fresh | Exclusive)
            if *requester != context.me =>
        {
            *home = Home::shared(context, Access::ReadWrite, out);
            mutant!("exclusive-home-stays-writable" => {
                out.retain(|effect| !matches!(effect, Effect::Protect { .. }));
                *home = Exclusive;
            });
            send(context, *requester, HlrcMessage::Data, out);
        }
        (
            E::Fetch { requester, zero: false, .. },
            Clean | Released | Transferred { .. } | Dirty | Tracked | TrackedDirty,
        ) if *requester != context.me => {
            mutant!("dirty-home-transferred" => {
                let waits = matches!(event, E::Fetch { waits: true, .. });
                if context.dynamic_after.is_some() && waits && *home == Dirty {
                    let (minipage, from, to) =
                        (context.minipage, Access::ReadWrite, Access::ReadOnly);
                    out.push(Effect::Protect { minipage, from, to });
                    send(context, *requester, HlrcMessage::HomeTransfer, out);
                    return Ok(Some(Copy::Away(Away::left(*requester, Page::Clean, moves))));
                }
            });
            if *home == Released && mutant!("released-home-fetched": false, else true) {
                *home = Clean;
            }
            send(context, *requester, HlrcMessage::Data, out);
        }

        // What no correct peer sends: contents for the home, a fetch of its own.
        (
            E::Data { .. } | E::HomeTransfer | E::FirstTouch | E::Fetch { .. },
            Fresh
            | Exclusive
            | Clean
            | Released
            | Transferred { .. }
            | Dirty
            | OpenedAhead { .. }
            | Tracked
            | TrackedDirty,
        ) => return Err(home.illegal()),
    }
    Ok(None)
}

/// The new state if this node becomes the home.
pub(super) fn away(
    away: &mut Away,
    context: &EngineContext,
    epoch: u64,
    event: &FetchEvent,
    out: &mut Effects,
) -> Result<Option<Copy>, Illegal> {
    use FetchEvent as E;
    use Page::{Clean, Dirty, FetchQueued, Fetching, Invalid, OpenedAhead, Upgrading};

    let minipage = context.minipage;
    match (event, &mut away.page) {
        // Asked for in vain: what came was sent before writes that this node knows of.
        (E::Data { .. }, Fetching(wait)) if mutant!("stale-reply-taken": false, else wait.stale) => {
            let (kind, waiters) = (wait.kind, core::mem::take(&mut wait.waiters));
            if waiters.is_empty() {
                away.page = Invalid;
            } else {
                fetch(away, context, epoch, OpenRequest::of(kind, waiters), out);
            }
        }
        (E::Data { from }, Fetching(wait)) => {
            // It may have come from the node that touched it first, by way of the allocating one: a
            // home that no barrier names.
            let moved = mutant!("moved-home-forgotten": None, else wait.moved);
            away.home = moved.unwrap_or(*from);
            // What nobody waits for is opened for reads: it may come while all threads are at a
            // barrier, where homes migrate only if nothing is written. To write it asks nobody.
            let write = wait.kind == Kind::Write && !wait.waiters.is_empty();
            if write {
                out.push(Effect::Dirty { minipage });
                out.push(Effect::MakeTwin { minipage });
            }
            let access = if write { Access::ReadWrite } else { Access::ReadOnly };
            out.push(Effect::Install { minipage, access });
            wait.wake(out);
            away.page = if write { Dirty } else { Clean };
        }
        // First touch: this node is the home.
        (E::FirstTouch, Fetching(wait)) => {
            out.push(Effect::InstallZero { minipage, access: Access::ReadWrite });
            wait.wake(out);
            return Ok(Some(Copy::Home { home: Home::Exclusive, moves: away.moves }));
        }
        (E::HomeTransfer, Fetching(wait)) if dynamic_home::may_take(wait, context) => {
            let home = dynamic_home::take(wait, context, epoch, out);
            return Ok(Some(Copy::Home { home, moves: away.moves }));
        }
        // The requester does not know of a migration, of a transfer, or of a first touch. Every node that was
        // the home knows one that was it later, so this has an end.
        (
            E::Fetch { requester, waits, .. },
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        ) if *requester != context.me && away.home != *requester => {
            let message = HlrcMessage::Fetch { requester: *requester, epoch, waits: *waits };
            send(context, away.home, message, out);
        }

        // What no correct peer sends: contents nobody asked for, a fetch of its own.
        (
            E::Data { .. } | E::FirstTouch,
            Invalid | FetchQueued(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        )
        | (
            E::HomeTransfer | E::Fetch { .. },
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        ) => return Err(away.illegal()),
    }
    Ok(None)
}
