//! Homes move at barriers that all threads of the job wait in (ParADE's migratory home).
//!
//! One sequence, from the manager's decision to the last node's turn:
//! 1. *Quiescent*: every node has said that all its threads wait, and none has taken that back
//!    ([`crate::sync::Barrier`]). Each has flushed before it said so, and the flush has ended.
//! 2. *Flush, decide* ([`decide`], at the manager, before any release leaves): what the manager itself
//!    has written is with the homes; of every minipage with one writer since the last such barrier,
//!    the writer becomes the home. It has the contents: nobody else has written them, and its copy is
//!    the home's.
//! 3. *Notify*: the moves travel with the releases.
//! 4. *MigrationPlan* ([`switch`], at every node, before its release wakes anybody): the homes move, and what came
//!    early, from nodes that have turned already, is served.

use multigrain_types::NodeId;

use super::dispatch::{Local, Place, run};
use super::{Cell, SyncCell, Violation, release};
use crate::effect::World;
use crate::hlrc::CopyEvent;
use crate::message::{HlrcMessage, SyncMessage};
use crate::release::Early;

/// The manager of a barrier at which all is quiescent decides which homes move.
pub(super) fn decide(
    place: Place,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    release::flush(place, guard, world)?;
    let owes = guard.tracker().owes();
    #[cfg(feature = "mutants")]
    let some = guard.tracker().log_mut().some_writers();
    let sole = guard.tracker().log_mut().sole_writers();
    #[cfg(feature = "mutants")]
    let sole = some.unwrap_or(sole);
    // Who still owes something has not come to a barrier with all it wrote: nothing is decided.
    let moves = sole.into_iter().filter(|&(minipage, writer)| {
        let mut cell = guard.minipage(minipage);
        let dynamic_after = cell.dynamic_after();
        let copy = cell.copy();
        !owes && (copy.dynamic_after(dynamic_after) || copy.home().unwrap_or(place.me) != writer)
    });
    let moves = moves.collect();
    guard.tracker().log_mut().announce(place.nodes, moves);
    #[cfg(feature = "mutants")]
    guard.tracker().log_mut().forget_early();
    Ok(())
}

/// Before the release of a quiescent barrier wakes anybody: homes move, and fetches and diffs that knew
/// of it already are served.
pub(super) fn switch(
    place: Place,
    from: NodeId,
    id: u32,
    message: SyncMessage,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let manager = u32::from(from.0) == id % u32::from(place.nodes.max(1));
    if !message.is_quiescent_release() || !manager {
        return Ok(());
    }
    let moves = guard.tracker().log_mut().switch();
    for (minipage, home) in moves {
        let mut cell = guard.minipage(minipage);
        run(place, minipage, &mut cell, Local::Lazy(CopyEvent::Move { home }), world)?;
    }
    // Write notices of what was written after the barrier may have come already. It is right for the new
    // homes: the one that was forgets its copy, the one that is has the writes.
    release::acquire(place, guard, world)?;
    let epoch = guard.tracker().log_mut().epoch();
    let deferred = guard.tracker().take_deferred();
    for (minipage, early) in deferred {
        let local = match early {
            Early::Fetch { requester, waits } => {
                let body = HlrcMessage::Fetch { requester, epoch, waits };
                Local::Message(requester, body.about(minipage))
            }
            Early::Diff { writer, flush } => Local::Lazy(CopyEvent::Diff { writer, flush }),
        };
        run(place, minipage, &mut guard.minipage(minipage), local, world)?;
    }
    Ok(())
}
