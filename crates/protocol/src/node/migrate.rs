//! Homes migrate at a quiescent barrier: runs steps 2 to 4 of [`crate::migration`].

use multigrain_types::NodeId;

use super::dispatch::{Local, NodeContext, run};
use super::flush::{acquire, flush};
use super::input::Violation;
use super::refusal::refused;
use super::state_tables::{Cell, SyncCell};
use crate::context::Illegal;
use crate::effect::Effect;
use crate::hlrc::{CopyEvent, FlushEvent};
use crate::message::{HlrcMessage, Message, SyncMessage};
use crate::migration::{EarlyMessage, migrates};
use crate::world::World;

/// Before these messages leave: if they release a quiescent barrier, its manager, or the root of the tree
/// by which it goes, decides which homes migrate.
pub(super) fn before_sending(
    place: NodeContext,
    effects: &[Effect],
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let released = effects.iter().find_map(|effect| {
        let Effect::Send { message: Message::Sync { id, body }, .. } = effect else { return None };
        body.is_quiescent_release().then_some(*id)
    });
    // Who passes on what another node has decided decides nothing.
    let Some(barrier) = released else { return Ok(()) };
    if guard.tables().releaser(place.me, place.nodes, barrier) != place.me {
        return Ok(());
    }
    flush(place, guard, world)?;
    // A node with writes outstanding has not come to a barrier with all it wrote: nothing is decided.
    let outstanding = guard.tracker().has_outstanding();
    let sole_writers = guard.tracker().log_mut().sole_writers();
    let moves = sole_writers.into_iter().filter(|&(minipage, writer)| {
        let mut cell = guard.minipage(minipage);
        let after = cell.dynamic_after();
        let copy = cell.copy();
        let home = copy.home().unwrap_or(place.me);
        !outstanding && migrates(home, copy.is_home_known(after), writer)
    });
    let moves = moves.collect();
    guard.tracker().log_mut().announce(place.nodes, moves);
    // Who has its release fetches from the new homes at once, and another thread of this node may receive that while
    // this step goes on.
    switch(place, place.me, guard, world)
}

/// Before this message wakes anybody: if another node releases a quiescent barrier by it, homes migrate, and
/// fetches and diffs that came early are served. The node that receives this does nothing else meanwhile.
pub(super) fn before_taking(
    place: NodeContext,
    from: NodeId,
    id: u64,
    message: SyncMessage,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let releaser = guard.tables().releaser(place.me, place.nodes, id);
    if !message.is_quiescent_release() || from != releaser || from == place.me {
        return Ok(());
    }
    // It was declared, and has not been taken back: no correct manager decides before.
    if !guard.tables().is_declared_quiescent(id) {
        let state = format!("{} has not come to barrier {id} with all its threads", place.me);
        return Err(refused(from, &message, Illegal { role: "synchronization", state }));
    }
    switch(place, from, guard, world)?;
    let epoch = guard.tracker().log().epoch();
    let waiting = guard.tracker().early_mut().take();
    for (minipage, sender, early) in waiting {
        let local = match early {
            EarlyMessage::Fetch { requester, waits } => {
                let body = HlrcMessage::Fetch { requester, epoch, waits };
                Local::Message(sender, body.about(minipage))
            }
            EarlyMessage::Diff { writer, flush } => {
                Local::Lazy(CopyEvent::Flush(FlushEvent::Diff { writer, flush }))
            }
        };
        let served = run(place, minipage, &mut guard.minipage(minipage), local, world);
        served.map_err(|violation| violation.of_peer(place.me, sender))?;
    }
    Ok(())
}

/// Makes the moves of the plan that this node has from the manager of a quiescent barrier, perhaps itself.
fn switch(
    place: NodeContext,
    manager: NodeId,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let moves = guard.tracker().log_mut().switch(manager);
    for (minipage, home) in moves {
        let mut cell = guard.minipage(minipage);
        run(place, minipage, &mut cell, Local::Lazy(CopyEvent::Migrate { home }), world)?;
    }
    // Write notices of what was written after the barrier may have come already. They are right for the
    // new homes: the former home invalidates its copy, the new one has the writes.
    acquire(place, guard, world)
}
