//! Routes events of an eagerly consistent minipage to its client and its server (MGS Table 5).

use multigrain_types::NodeId;

use crate::context::EngineContext;
use crate::effect::Effects;
use crate::message::MgsMessage;
use crate::mgs::{ClientEvent, ServerEvent};
use crate::node::input::Violation;
use crate::node::refusal::{refused, wrong_node};
use crate::node::state_tables::Cell;

/// A message to the role it is meant for.
#[inline(never)]
pub(super) fn message(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    message: MgsMessage,
    out: &mut Effects,
) -> Result<(), Violation> {
    use {ClientEvent as C, MgsMessage as M, ServerEvent as S};
    match message {
        M::ReadRequest => server(context, cell, from, S::ReadRequest, out),
        M::WriteRequest => server(context, cell, from, S::WriteRequest, out),
        M::Release => server(context, cell, from, S::Release, out),
        M::WriteNotify => server(context, cell, from, S::WriteNotify, out),
        M::Ack => server(context, cell, from, S::Ack, out),
        M::Diff => server(context, cell, from, S::Diff, out),
        M::SingleWriterData => server(context, cell, from, S::SingleWriterData, out),
        M::SingleWriterAck => server(context, cell, from, S::SingleWriterAck, out),
        M::ReadData => client(context, cell, from, &C::ReadData, out),
        M::WriteData => client(context, cell, from, &C::WriteData, out),
        M::ReleaseAck => client(context, cell, from, &C::ReleaseAck, out),
        M::Invalidate => {
            let flush = cell.tracker().next_flush();
            client(context, cell, from, &C::Invalidate { flush }, out)
        }
        M::SingleWriterInvalidate => client(context, cell, from, &C::SingleWriterInvalidate, out),
        M::SingleWriterGrant => client(context, cell, from, &C::SingleWriterGrant, out),
    }
}

#[inline(never)]
pub(super) fn client(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    event: &ClientEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    // A client is directed by the home alone; what its own threads and flushes ask comes from here.
    if from != context.me && from != context.manager {
        return Err(refused(from, event, wrong_node("client", context)));
    }
    let result = cell.client().handle(context, event, out);
    result.map_err(|illegal| refused(from, event, illegal))
}

#[inline(never)]
fn server(
    context: &EngineContext,
    cell: &mut impl Cell,
    from: NodeId,
    event: ServerEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    if context.me != context.manager {
        return Err(refused(from, &event, wrong_node("server", context)));
    }
    let result = cell.server().handle(context, from, event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}
