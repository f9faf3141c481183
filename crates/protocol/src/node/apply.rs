//! Applies the effects of an engine.

use multigrain_types::NodeId;
use smallvec::SmallVec;

use super::input::Violation;
use super::refusal::refused;
use super::state_tables::Cell;
use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::message::Message;
use crate::world::{ReleaseWorld, World};

/// Messages of the node to itself, in the order sent; a fetch from here has one.
pub(super) type LocalMessages = SmallVec<[Message; 2]>;

/// The part of the world that release consistency acts on.
///
/// # Panics
/// If it has none: then no minipage of it may be release consistent.
pub(super) fn released(world: &mut impl World) -> &mut dyn ReleaseWorld {
    world
        .release_world()
        .expect("a world with release consistent minipages implements ReleaseWorld")
}

/// Applies the effects of what came from `from` in order; messages to the node itself go to
/// `own`.
/// True if a flush of this node was acknowledged.
pub(super) fn apply(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    effects: &mut Effects,
    own: &mut LocalMessages,
    world: &mut impl World,
) -> Result<bool, Violation> {
    let mut acked = false;
    for effect in &*effects {
        match *effect {
            Effect::Send { to, message } | Effect::SendDeferred { to, message }
                if to == context.me =>
            {
                own.push(message);
            }
            Effect::Send { to, message } => world.send(to, message),
            Effect::SendDeferred { to, message } => world.send_deferred(to, message),
            Effect::Install { minipage, access } => world.install(minipage, access),
            Effect::InstallZero { minipage, access } => {
                released(world).install_zero(minipage, access)
            }
            Effect::Protect { minipage, from, to } => world.protect(minipage, from, to),
            Effect::Track { minipage, from } => released(world).track(minipage, from),
            Effect::Reprotect { minipage, access } => world.reprotect(minipage, access),
            Effect::Wake { thread } => world.wake(thread),
            Effect::Refuse { thread } => world.refuse(thread),
            Effect::Hold { thread, minipage, turns, urgent } => {
                world.hold(thread, minipage, turns, urgent);
            }
            Effect::Reclaimed { minipage } => world.reclaimed(minipage),
            Effect::MakeTwin { minipage } => released(world).make_twin(minipage),
            Effect::DropTwin { minipage } => released(world).drop_twin(minipage),
            Effect::Store { minipage } => released(world).store(minipage),
            Effect::BufferDiff { minipage } => released(world).buffer_diff(minipage),
            Effect::MergeDiffs { minipage, open } => released(world).merge_diffs(minipage, open),
            Effect::ForwardDiff { to, message } => released(world).forward_diff(to, message),
            Effect::Dirty { minipage } => cell.tracker().dirty(minipage),
            Effect::Clean { minipage } => cell.tracker().clean(minipage),
            Effect::Flushed { minipage, flush, awaited, notice } => {
                cell.tracker().flushed(minipage, flush, awaited, notice);
            }
            Effect::Acked { flush, count, by } => {
                if !cell.tracker().acked(flush, count, by) {
                    let state = format!("flush {flush} of {}, not sent to it", context.minipage);
                    let illegal = Illegal { role: "release tracker", state };
                    return Err(refused(from, &"an acknowledgement", illegal));
                }
                acked = true;
            }
            Effect::Competing { minipage } => world.competing(minipage),
        }
    }
    effects.clear();
    Ok(acked)
}
