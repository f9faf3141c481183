//! What a release and an acquire do on the way between the synchronization engines and the world.

use std::collections::VecDeque;

use multigrain_types::MinipageId;

use super::dispatch::{Local, Place, run};
use super::{Cell, SyncCell, Violation, migration};
use crate::effect::{Effect, Effects, World};
use crate::hlrc::CopyEvent;
use crate::message::{BarrierMessage, Message, SyncMessage};
use crate::mgs::ClientEvent;
#[cfg(feature = "mutants")]
use crate::mutants;
use crate::release::{Ready, ReleaseTracker};

/// Messages of the synchronization engines to their own node.
pub(super) type Own = VecDeque<(u32, SyncMessage)>;

/// Applies what synchronization engines want done; messages to the node itself go to `own`.
pub(super) fn apply(
    place: Place,
    effects: &mut Effects,
    own: &mut Own,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let quiescent = SyncMessage::is_quiescent_release;
    if effects.iter().any(|effect| matches!(effect, Effect::Send { message: Message::Sync { body, .. }, .. } if quiescent(*body))) {
        migration::decide(place, guard, world)?;
    }
    for effect in effects.drain(..) {
        match effect {
            Effect::Send { to, message: Message::Sync { id, body } } => {
                world.posts(to, id, body);
                post(place, Ready::Send { to, id, body }, own, guard, world)?;
            }
            Effect::Wake { thread } => {
                acquire(place, guard, world)?;
                world.wake(thread);
            }
            Effect::Send { .. }
            | Effect::SendDeferred { .. }
            | Effect::Install { .. }
            | Effect::Protect { .. }
            | Effect::Track { .. }
            | Effect::Reprotect { .. }
            | Effect::Reclaimed { .. }
            | Effect::MakeTwin { .. }
            | Effect::DropTwin { .. }
            | Effect::Hold { .. }
            | Effect::Store { .. }
            | Effect::BufferDiff { .. }
            | Effect::MergeDiffs { .. }
            | Effect::ForwardDiff { .. }
            | Effect::InstallZero { .. }
            | Effect::Dirty { .. }
            | Effect::Clean { .. }
            | Effect::Flushed { .. }
            | Effect::Acked { .. }
            | Effect::Competing { .. } => {
                unreachable!("synchronization engines send and wake, nothing else: {effect:?}")
            }
        }
    }
    Ok(())
}

/// Sends a synchronization message, after what it releases.
fn post(
    place: Place,
    ready: Ready,
    own: &mut Own,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let Ready::Send { to, id, body } = ready else { return Ok(()) };
    // Within a node hardware keeps the threads' memory coherent; but who comes to a barrier comes
    // with all it wrote, also to a manager on its own node.
    let arrives = matches!(body, SyncMessage::Barrier(BarrierMessage::Arrive { .. }));
    if body.is_release() && (to != place.me || arrives) {
        flush(place, guard, world)?;
        #[cfg(feature = "mutants")]
        if !mutants::waits() {
            guard.tracker().follow(ready);
            deliver(place, &mut guard.tracker(), own, world);
            return Ok(());
        }
        guard.tracker().hold(ready);
    } else if to == place.me && body != SyncMessage::Barrier(BarrierMessage::Retract) {
        own.push_back((id, body));
        return Ok(());
    } else {
        // Also to its own manager: what a thread's begin takes back may still be held.
        guard.tracker().follow(ready);
    }
    deliver(place, &mut guard.tracker(), own, world);
    Ok(())
}

/// Lets go what no flush holds any more.
pub(super) fn deliver(
    place: Place,
    tracker: &mut ReleaseTracker,
    own: &mut Own,
    world: &mut impl World,
) {
    while let Some(ready) = tracker.pop_ready() {
        match ready {
            Ready::Wake { thread } => world.wake(thread),
            Ready::Send { to, id, body } if to == place.me => own.push_back((id, body)),
            Ready::Send { to, id, body } => {
                if body.is_release()
                    && let Some(notices) =
                        tracker.log_mut().notices_for(to, place.nodes, Some(body))
                {
                    #[cfg(feature = "mutants")]
                    if !mutants::tells(body) {
                        world.send(to, Message::Sync { id, body });
                        continue;
                    }
                    world.send_notices(to, notices);
                }
                world.send(to, Message::Sync { id, body });
            }
        }
    }
}

/// Empties the delayed update queue.
pub(super) fn flush(
    place: Place,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let written = world.written();
    #[cfg(feature = "mutants")]
    let written = mutants::found(written);
    for minipage in written {
        run(place, minipage, &mut guard.minipage(minipage), Local::Lazy(CopyEvent::Wrote), world)?;
    }
    let Some((flush, minipages)) = guard.tracker().begin() else { return Ok(()) };
    // What is tracked stays open.
    let mut closes = |minipage: &MinipageId| {
        let mut cell = guard.minipage(*minipage);
        cell.consistency().is_lazy() && !(cell.tracked() && cell.copy().home().is_none())
    };
    let closing: Vec<MinipageId> = minipages.iter().copied().filter(&mut closes).collect();
    world.closing(&closing);
    for minipage in minipages {
        let mut cell = guard.minipage(minipage);
        let local = Local::Release {
            eager: ClientEvent::Release { flush },
            lazy: CopyEvent::Release { flush },
        };
        run(place, minipage, &mut cell, local, world)?;
    }
    world.send_batched();
    guard.tracker().swept();
    Ok(())
}

/// Forgets the copies that write notices have named since the last acquire.
pub(super) fn acquire(
    place: Place,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let pending = guard.tracker().log_mut().take_pending();
    for minipage in pending {
        let mut cell = guard.minipage(minipage);
        let flush = cell.tracker().next_flush();
        run(place, minipage, &mut cell, Local::Lazy(CopyEvent::Notice { flush }), world)?;
    }
    world.send_batched();
    Ok(())
}
