//! Releases, diffs and their acknowledgements.

use multigrain_types::Access;

use super::dynamic_home;
use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::hlrc::event::FlushEvent;
#[cfg(feature = "mutants")]
use crate::hlrc::send::unsend_diff;
use crate::hlrc::send::{acknowledge, acknowledger, diff, fetch};
use crate::hlrc::state::{Away, Home, HomeMoves, OpenRequest, Page};
use crate::mutant_macro::mutant;

pub(super) fn at_home(
    home: &mut Home,
    moves: HomeMoves,
    context: &EngineContext,
    event: &FlushEvent,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use FlushEvent as E;
    use Home::{
        Clean, Dirty, Exclusive, Fresh, OpenedAhead, Released, Tracked, TrackedDirty, Transferred,
    };

    let minipage = context.minipage;
    match (event, *home) {
        (E::Release { flush }, Dirty) => {
            let (from, to) = (Access::ReadWrite, Access::ReadOnly);
            out.push(Effect::Protect { minipage, from, to });
            let flush = *flush;
            out.push(Effect::Flushed { minipage, flush, awaited: None, notice: true });
            *home = Released;
        }
        // It stays open. What is written after it was found is found the next time.
        (E::Release { flush }, TrackedDirty) => {
            let flush = *flush;
            out.push(Effect::Flushed { minipage, flush, awaited: None, notice: true });
            mutant!("tracked-write-not-noticed" => {
                out.retain(|effect| !matches!(effect, Effect::Flushed { .. }));
            });
            *home = Tracked;
        }
        (
            E::Release { .. },
            Fresh | Exclusive | Clean | Released | Transferred { .. } | Tracked,
        ) => {}

        // Known already, or nobody else has a copy of it (exclusive), or its next write traps.
        (
            E::FoundWritten,
            Fresh | Exclusive | Clean | Released | Transferred { .. } | Dirty | TrackedDirty,
        ) => {}
        (E::FoundWritten, OpenedAhead { .. }) => {
            out.push(Effect::DropTwin { minipage });
            *home = Dirty;
        }
        (E::FoundWritten, Tracked) => {
            out.push(Effect::Dirty { minipage });
            *home = TrackedDirty;
        }
        (E::FoundUnwritten, OpenedAhead { transferred }) => {
            unwritten(context, out);
            *home = transferred.map_or(Clean, |epoch| Transferred { epoch });
        }

        (
            E::Diff { writer, flush },
            at @ (Exclusive
            | Clean
            | Released
            | Transferred { .. }
            | Dirty
            | Tracked
            | TrackedDirty),
        ) => {
            let open = matches!(at, Exclusive | Dirty | Tracked | TrackedDirty);
            let open = mutant!("writable-home-merged-as-closed": false, else open);
            out.push(Effect::MergeDiffs { minipage, open });
            mutant!("diff-not-merged" => {
                out.retain(|effect| !matches!(effect, Effect::MergeDiffs { .. }));
            });
            // The writer has a copy of before the last release, which has not learnt of that.
            acknowledge(context, *writer, *flush, out);
        }
        (
            E::DiffAck { from, flush, count },
            Fresh
            | Exclusive
            | Clean
            | Released
            | Transferred { .. }
            | Dirty
            | OpenedAhead { .. }
            | Tracked
            | TrackedDirty,
        ) => {
            let by = acknowledger(context, moves, *from);
            out.push(Effect::Acked { flush: *flush, count: *count, by });
        }

        // What no correct peer sends: a diff of a copy nobody has. And the world looks at what was opened ahead
        // before this, and at nothing else.
        (E::Diff { .. }, Fresh | OpenedAhead { .. })
        | (E::Release { .. }, OpenedAhead { .. })
        | (
            E::FoundUnwritten,
            Fresh
            | Exclusive
            | Clean
            | Released
            | Transferred { .. }
            | Dirty
            | Tracked
            | TrackedDirty,
        ) => return Err(home.illegal()),
    }
    Ok(())
}

pub(super) fn away(
    away: &mut Away,
    context: &EngineContext,
    epoch: u64,
    event: &FlushEvent,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use FlushEvent as E;
    use Page::{Clean, Dirty, FetchQueued, Fetching, Invalid, OpenedAhead, Upgrading};

    let minipage = context.minipage;
    match (event, &mut away.page) {
        // What was written goes home.
        (E::Release { flush }, Dirty) => {
            let (from, to) = (Access::ReadWrite, Access::ReadOnly);
            out.push(Effect::Protect { minipage, from, to });
            diff(away, context, epoch, *flush, out);
            mutant!("diff-not-sent" => { unsend_diff(out); });
            away.page = Clean;
        }
        (E::Release { .. }, Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_)) => {}

        // Found before the home migrated: its release has been.
        (
            E::FoundWritten,
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty,
        ) => {}
        (E::FoundWritten, OpenedAhead) => away.page = Dirty,
        (E::FoundUnwritten, OpenedAhead) => {
            unwritten(context, out);
            away.page = Clean;
        }

        (
            E::DiffAck { from, flush, count },
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        ) if context.dynamic_after.is_none() || away.unacked >= *count => {
            away.unacked = away.unacked.saturating_sub(*count);
            let by = acknowledger(context, away.moves, *from);
            out.push(Effect::Acked { flush: *flush, count: *count, by });
            if away.unacked == 0 {
                all_acknowledged(away, context, epoch, out);
            }
        }
        // This node was the home.
        (
            E::Diff { writer, flush },
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        ) if context.dynamic_after.is_some() && *writer != context.me && away.home != *writer => {
            mutant!("forwarded-diff-dropped" => {
                out.push(Effect::MergeDiffs { minipage, open: true });
                acknowledge(context, *writer, *flush, out);
                return Ok(());
            });
            dynamic_home::forward_diff(context, away.home, (*writer, *flush), epoch, out);
        }

        // What no correct peer sends: a diff to a node that is not the home, and where homes are dynamic an
        // acknowledgement of none (of fixed homes they are not counted here). The world looks at what was opened ahead
        // before a release, and finds nothing else unwritten.
        (
            E::Diff { .. } | E::DiffAck { .. },
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        )
        | (
            E::FoundUnwritten,
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty,
        )
        | (E::Release { .. }, OpenedAhead) => return Err(away.illegal()),
    }
    Ok(())
}

/// What was opened ahead has been closed again as it was: nobody has to be told.
fn unwritten(context: &EngineContext, out: &mut Effects) {
    let minipage = context.minipage;
    out.push(Effect::DropTwin { minipage });
    out.push(Effect::Clean { minipage });
}

/// The home has all diffs of this copy: what waited for that goes on.
fn all_acknowledged(away: &mut Away, context: &EngineContext, epoch: u64, out: &mut Effects) {
    match &mut away.page {
        Page::FetchQueued(wait) => {
            let waiters = core::mem::take(&mut wait.waiters);
            let wait = OpenRequest { awaited: wait.awaited, ..OpenRequest::of(wait.kind, waiters) };
            fetch(away, context, epoch, wait, out);
        }
        Page::Upgrading(wait) => {
            let waiters = core::mem::take(&mut wait.waiters);
            away.open(context, &waiters, out);
        }
        Page::Invalid | Page::Fetching(_) | Page::Clean | Page::Dirty | Page::OpenedAhead => {}
    }
}
