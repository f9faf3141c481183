//! Routes the events of a minipage to its engine, and the messages of the node to itself that follow.

mod eager;
mod lazy;
mod sequential;

use multigrain_types::{MinipageId, NodeId};

use super::apply::{LocalMessages, apply};
use super::input::Violation;
use super::refusal::refused;
use super::state_tables::Cell;
use crate::coherence::HolderEvent;
use crate::consistency::EngineKind;
use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::hlrc::CopyEvent;
use crate::message::Message;
use crate::mgs::ClientEvent;
use crate::world::World;

/// A node's place in its job.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeContext {
    pub(super) me: NodeId,
    pub(super) nodes: u16,
}

/// What happens to a minipage on this node.
pub(super) enum Local {
    /// The same under every consistency.
    Any { sequential: HolderEvent, eager: ClientEvent, lazy: CopyEvent },
    /// Only the sequential engines need it.
    Sequential(HolderEvent),
    /// Only the engines of release consistency need it.
    Release { eager: ClientEvent, lazy: CopyEvent },
    /// Only the lazy engine needs it.
    Lazy(CopyEvent),
    /// A message.
    Message(NodeId, Message),
}

/// Runs an event, and the messages of the node to itself that it leads to; true if something this
/// node waited for was acknowledged.
pub(super) fn run(
    place: NodeContext,
    minipage: MinipageId,
    cell: &mut impl Cell,
    first: Local,
    world: &mut impl World,
) -> Result<bool, Violation> {
    let context = EngineContext {
        me: place.me,
        nodes: place.nodes,
        minipage,
        manager: cell.manager(),
        invalidations: cell.invalidations(),
        dynamic_after: cell.dynamic_after(),
        tracked: cell.tracked(),
    };
    let mut effects = Effects::new();
    let mut own = LocalMessages::new();
    let mut acked = false;
    let mut next = Some(first);
    for done in 0.. {
        let Some(local) = next else { break };
        let from = if let Local::Message(from, _) = &local { *from } else { place.me };
        dispatch(&context, cell, local, &mut effects, world)?;
        acked |= apply(&context, cell, from, &mut effects, &mut own, world)?;
        next = own.get(done).map(|message| Local::Message(place.me, *message));
    }
    Ok(acked)
}

fn dispatch(
    context: &EngineContext,
    cell: &mut impl Cell,
    local: Local,
    out: &mut Effects,
    world: &mut impl World,
) -> Result<(), Violation> {
    let me = context.me;
    match (local, EngineKind::of(cell.consistency())) {
        (Local::Any { sequential, .. } | Local::Sequential(sequential), EngineKind::Sequential) => {
            sequential::holder(context, cell, me, &sequential, out)
        }
        (Local::Any { eager, .. } | Local::Release { eager, .. }, EngineKind::Eager) => {
            eager::client(context, cell, me, &eager, out)
        }
        (
            Local::Any { lazy, .. } | Local::Release { lazy, .. } | Local::Lazy(lazy),
            EngineKind::Lazy,
        ) => lazy::event(context, cell, &lazy, out, world),
        // The thread that frees such memory has released before; the next one that writes it has acquired.
        (Local::Sequential(HolderEvent::Reclaim), EngineKind::Eager | EngineKind::Lazy) => {
            out.push(Effect::Reclaimed { minipage: context.minipage });
            Ok(())
        }
        // No ack closes a transaction there, and copies come to nodes that ask.
        (Local::Sequential(_), EngineKind::Eager | EngineKind::Lazy) => Ok(()),
        (Local::Message(from, Message::Page { body, .. }), EngineKind::Sequential) => {
            sequential::message(context, cell, from, body, out)
        }
        (Local::Message(from, Message::Mgs { body, .. }), EngineKind::Eager) => {
            eager::message(context, cell, from, body, out)
        }
        (Local::Message(from, Message::Hlrc { body, .. }), EngineKind::Lazy) => {
            lazy::message(context, cell, from, body, out, world)
        }
        (Local::Release { .. } | Local::Lazy(_), EngineKind::Sequential)
        | (Local::Lazy(_), EngineKind::Eager) => {
            let state = cell.consistency().to_string();
            Err(refused(me, &"a release", Illegal { role: "release tracker", state }))
        }
        (
            Local::Message(from, message),
            EngineKind::Sequential | EngineKind::Eager | EngineKind::Lazy,
        ) => {
            let state = format!("under {} consistency", cell.consistency());
            Err(refused(from, &message, Illegal { role: "minipage", state }))
        }
    }
}
