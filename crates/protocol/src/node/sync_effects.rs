//! Synchronization messages: sent after the writes that they release, and with the write notices they need.

use multigrain_types::NodeId;
use smallvec::SmallVec;

use super::apply::released;
use super::dispatch::NodeContext;
use super::flush::{acquire_if_any_runs, flush};
use super::input::Violation;
use super::migrate;
use super::refusal::refuse;
use super::state_tables::SyncCell;
use crate::effect::{Effect, Effects};
use crate::message::{BarrierMessage, Message, SyncMessage};
use crate::mutant_macro::mutant;
use crate::release::{Ready, ReleaseTracker};
use crate::sync::{Collected, SyncContext};
use crate::world::World;

/// Messages that the synchronization engines take next, by sender; mostly the node itself.
pub(super) type LocalSync = SmallVec<[(NodeId, u64, SyncMessage); 2]>;

/// Applies what synchronization engines want done; messages to the node itself go to `own`.
pub(super) fn apply(
    place: NodeContext,
    effects: &mut Effects,
    own: &mut LocalSync,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    migrate::before_sending(place, effects, guard, world)?;
    collected(place, guard, world)?;
    for effect in effects.drain(..) {
        match effect {
            Effect::Send { to, message: Message::Sync { id, body } } => {
                world.on_send(to, id, body);
                post(place, Ready::Send { to, id, body }, own, guard, world)?;
            }
            Effect::Wake { thread } => {
                // One that leaves the job, while others wait in a barrier, reads nothing any more.
                acquire_if_any_runs(place, guard, world)?;
                world.wake(thread);
            }
            Effect::Refuse { thread } => world.refuse(thread),
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
                unreachable!(
                    "synchronization engines send, refuse and wake, nothing else: {effect:?}"
                )
            }
        }
    }
    Ok(())
}

/// Operands and results of collective operations go ahead of the messages they belong to.
fn collected(
    place: NodeContext,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let Some(Collected { sent, results }) = guard.tables().take_collected() else { return Ok(()) };
    for (to, id, operand) in sent {
        if to != place.me {
            world.send_operand(to, id, &operand);
            continue;
        }
        let context = SyncContext::new(place.me, place.nodes, id);
        let taken = guard.tables().receive_operand(&context, place.me, operand);
        taken.map_err(|error| refuse(place.me, &"an operand", error))?;
    }
    for (thread, values) in results {
        world.result(thread, values);
    }
    Ok(())
}

/// Sends a synchronization message, after what it releases.
fn post(
    place: NodeContext,
    ready: Ready,
    own: &mut LocalSync,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let Ready::Send { to, id, body } = ready else { return Ok(()) };
    // Within a node hardware keeps the threads' memory coherent; but who comes to a barrier comes
    // with all it wrote, also to a manager on its own node.
    let arrives = matches!(
        body,
        SyncMessage::Barrier(BarrierMessage::Arrive { .. } | BarrierMessage::Combine { .. })
    );
    if body.carries_release() && (to != place.me || arrives) {
        flush(place, guard, world)?;
        mutant!("grant-before-acks" => {
            guard.tracker().follow(ready);
            deliver(place, &mut guard.tracker(), own, world);
            return Ok(());
        });
        guard.tracker().hold(ready);
    } else if to == place.me && body != SyncMessage::Barrier(BarrierMessage::Retract) {
        own.push((place.me, id, body));
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
    place: NodeContext,
    tracker: &mut ReleaseTracker,
    own: &mut LocalSync,
    world: &mut impl World,
) {
    while let Some(ready) = tracker.pop_ready() {
        match ready {
            Ready::Wake { thread } => world.wake(thread),
            Ready::Send { to, id, body } if to == place.me => own.push((place.me, id, body)),
            Ready::Send { to, id, body } => {
                if body.carries_release()
                    && let Some(notices) =
                        tracker.log_mut().notices_for(to, place.nodes, Some(body))
                {
                    mutant!("grant-without-notices" => {
                        if body == SyncMessage::Lock(crate::message::LockMessage::Grant) {
                            world.send(to, Message::Sync { id, body });
                            continue;
                        }
                    });
                    released(world).send_notices(to, notices);
                }
                world.send(to, Message::Sync { id, body });
            }
        }
    }
}
