//! Faults and prefetches of this node's threads.

use multigrain_types::Access;
use smallvec::SmallVec;

use crate::context::EngineContext;
use crate::effect::{Effect, Effects};
use crate::hlrc::event::AccessEvent;
use crate::hlrc::send::fetch;
use crate::hlrc::state::{Away, Home, OpenRequest, Page, open_with_twin};
use crate::message::Kind;
use crate::mutant_macro::mutant;

pub(super) fn at_home(
    home: &mut Home,
    context: &EngineContext,
    event: &AccessEvent,
    out: &mut Effects,
) {
    use AccessEvent as E;
    use Home::{
        Clean, Dirty, Exclusive, Fresh, OpenedAhead, Released, Tracked, TrackedDirty, Transferred,
    };

    let minipage = context.minipage;
    match (event, *home) {
        (E::Fault { thread, kind: Kind::Write }, Clean | Transferred { .. }) => {
            out.push(Effect::Dirty { minipage });
            let (from, to) = (Access::ReadOnly, Access::ReadWrite);
            out.push(Effect::Protect { minipage, from, to });
            out.push(Effect::Wake { thread: *thread });
            *home = Dirty;
        }
        // Who has a copy will have heard of the last release before it learns of this write.
        (E::Fault { thread, kind: Kind::Write }, Released) => {
            open_exclusive(home, context, out);
            out.push(Effect::Wake { thread: *thread });
        }
        (E::OpenAhead, Released) => open_exclusive(home, context, out),
        // Spurious: the access is there already, only the page tables lag.
        (E::Fault { thread, kind: Kind::Read }, Clean | Released | Transferred { .. }) => {
            out.push(Effect::Reprotect { minipage, access: Access::ReadOnly });
            out.push(Effect::Wake { thread: *thread });
        }
        (
            E::Fault { thread, .. },
            Fresh | Exclusive | Dirty | OpenedAhead { .. } | Tracked | TrackedDirty,
        ) => {
            out.push(Effect::Reprotect { minipage, access: Access::ReadWrite });
            out.push(Effect::Wake { thread: *thread });
        }
        (E::OpenAhead, Clean) => {
            open_with_twin(context, out);
            *home = OpenedAhead { transferred: None };
        }
        (E::OpenAhead, Transferred { epoch }) => {
            open_with_twin(context, out);
            *home = OpenedAhead { transferred: Some(epoch) };
        }
        (E::OpenAhead, Fresh | Exclusive | Dirty | OpenedAhead { .. } | Tracked | TrackedDirty) => {
        }
        (
            E::Prefetch { .. } | E::AwaitedPrefetch,
            Fresh
            | Exclusive
            | Clean
            | Released
            | Transferred { .. }
            | Dirty
            | OpenedAhead { .. }
            | Tracked
            | TrackedDirty,
        ) => {}
    }
}

/// Writes need no notice until another node asks for it.
fn open_exclusive(home: &mut Home, context: &EngineContext, out: &mut Effects) {
    let (minipage, from, to) = (context.minipage, Access::ReadOnly, Access::ReadWrite);
    out.push(Effect::Protect { minipage, from, to });
    *home = Home::Exclusive;
}

pub(super) fn away(
    away: &mut Away,
    context: &EngineContext,
    epoch: u64,
    event: &AccessEvent,
    out: &mut Effects,
) {
    use AccessEvent as E;
    use Page::{Clean, Dirty, FetchQueued, Fetching, Invalid, OpenedAhead, Upgrading};

    let minipage = context.minipage;
    match (event, &mut away.page) {
        (E::Fault { thread, kind }, Invalid) => {
            fetch(away, context, epoch, OpenRequest::fault(*kind, *thread), out);
        }
        (E::Fault { thread, kind: Kind::Write }, Clean) if away.unacked > 0 => {
            away.page = Upgrading(Box::new(OpenRequest::fault(Kind::Write, *thread)));
        }
        (E::Fault { thread, kind: Kind::Write }, Upgrading(wait)) => wait.waiters.push(*thread),
        (E::Fault { thread, kind }, FetchQueued(wait) | Fetching(wait)) => {
            wait.kind = wait.kind.max(*kind);
            wait.waiters.push(*thread);
        }
        // The first write since the last release.
        (E::Fault { thread, kind: Kind::Write }, Clean) => away.open(context, &[*thread], out),
        // Spurious: the access is there already, only the page tables lag.
        (E::Fault { thread, kind: Kind::Read }, Clean | Upgrading(_))
        | (E::Fault { thread, .. }, Dirty | OpenedAhead) => {
            out.push(Effect::Reprotect { minipage, access: away.access() });
            out.push(Effect::Wake { thread: *thread });
        }
        (E::Prefetch { kind }, Invalid) => {
            fetch(away, context, epoch, OpenRequest::of(*kind, SmallVec::new()), out);
        }
        (E::AwaitedPrefetch, Invalid) => {
            let wait =
                OpenRequest { awaited: true, ..OpenRequest::of(Kind::Read, SmallVec::new()) };
            fetch(away, context, epoch, wait, out);
        }
        (
            E::Prefetch { .. } | E::AwaitedPrefetch,
            FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        ) => {}
        // Two diffs on their way may overtake each other: see `Upgrading`.
        (E::OpenAhead, Clean) if mutant!("opened-ahead-over-a-diff": true, else away.unacked == 0) =>
        {
            open_with_twin(context, out);
            away.page = OpenedAhead;
        }
        (
            E::OpenAhead,
            Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty | OpenedAhead,
        ) => {}
    }
}
