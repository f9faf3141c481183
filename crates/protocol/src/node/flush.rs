//! A flush empties the delayed update queue; an acquire invalidates what write notices name.

use multigrain_types::{Access, MinipageId};

use super::dispatch::{Local, NodeContext, run};
use super::input::Violation;
use super::state_tables::{Cell, SyncCell};
use crate::consistency::EngineKind;
use crate::hlrc::{CopyEvent, FlushEvent};
use crate::mgs::ClientEvent;
use crate::mutant_macro::mutant;
use crate::world::World;

/// Empties the delayed update queue.
pub(super) fn flush(
    place: NodeContext,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let written = world.release_world().map(|world| world.written()).unwrap_or_default();
    for minipage in mutant!("tracked-homes-not-scanned": Vec::new(), else written) {
        let found = Local::Lazy(CopyEvent::Flush(FlushEvent::FoundWritten));
        run(place, minipage, &mut guard.minipage(minipage), found, world)?;
    }
    let Some((flush, minipages)) = guard.tracker().begin() else { return Ok(()) };
    // A tracked home stays open.
    let mut closes = |minipage: &MinipageId| {
        let mut cell = guard.minipage(*minipage);
        EngineKind::of(cell.consistency()) == EngineKind::Lazy
            && !(cell.tracked() && cell.copy().home().is_none())
    };
    let closing: Vec<MinipageId> = minipages.iter().copied().filter(&mut closes).collect();
    if let Some(world) = world.release_world() {
        world.closing(&closing);
    }
    for minipage in minipages {
        let mut cell = guard.minipage(minipage);
        let local = Local::Release {
            eager: ClientEvent::Release { flush },
            lazy: CopyEvent::Flush(FlushEvent::Release { flush }),
        };
        run(place, minipage, &mut cell, local, world)?;
    }
    if let Some(world) = world.release_world() {
        world.send_batched();
    }
    guard.tracker().sent();
    Ok(())
}

/// Invalidates the copies that write notices have named since the last acquire.
pub(super) fn acquire(
    place: NodeContext,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let pending = {
        let mut tracker = guard.tracker();
        if !tracker.log().has_pending() {
            return Ok(());
        }
        tracker.log_mut().take_pending()
    };
    let mut is_read_copy = |minipage: &MinipageId| {
        let mut cell = guard.minipage(*minipage);
        EngineKind::of(cell.consistency()) == EngineKind::Lazy
            && cell.copy().home().is_some()
            && cell.copy().access() == Access::ReadOnly
    };
    let losing: Vec<MinipageId> = pending.iter().copied().filter(&mut is_read_copy).collect();
    if let Some(world) = world.release_world() {
        world.losing(&losing);
    }
    for minipage in pending {
        let mut cell = guard.minipage(minipage);
        let flush = cell.tracker().next_flush();
        run(place, minipage, &mut cell, Local::Lazy(CopyEvent::Notice { flush }), world)?;
    }
    if let Some(world) = world.release_world() {
        world.send_batched();
    }
    Ok(())
}

/// [`acquire`], unless all threads wait in a barrier that may have moved homes: what this node is notified of may be of behind
/// that, and for the homes of then. Its release acquires.
pub(super) fn acquire_if_any_runs(
    place: NodeContext,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    if guard.tables().nothing_runs() && mutant!("acquires-before-the-move": false, else true) {
        return Ok(());
    }
    acquire(place, guard, world)
}
