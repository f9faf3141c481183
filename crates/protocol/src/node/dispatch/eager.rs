//! Routes events of an eagerly consistent minipage to its client and its server (MGS Table 5).

use multigrain_types::NodeId;

use crate::effect::Effects;
use crate::message::MgsMessage;
use crate::mgs::{ClientEvent, ServerEvent};
use crate::node::input::Violation;
use crate::node::refusal::{elsewhere, refused};
use crate::node::tables::Cell;
use crate::site::Site;

/// A message to the role it is meant for.
#[inline(never)]
pub(super) fn message(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    message: MgsMessage,
    out: &mut Effects,
) -> Result<(), Violation> {
    use {ClientEvent as C, MgsMessage as M, ServerEvent as S};
    match message {
        M::ReadRequest => server(site, cell, from, S::ReadRequest, out),
        M::WriteRequest => server(site, cell, from, S::WriteRequest, out),
        M::Release => server(site, cell, from, S::Release, out),
        M::WriteNotify => server(site, cell, from, S::WriteNotify, out),
        M::Ack => server(site, cell, from, S::Ack, out),
        M::Diff => server(site, cell, from, S::Diff, out),
        M::SingleWriterData => server(site, cell, from, S::SingleWriterData, out),
        M::SingleWriterAck => server(site, cell, from, S::SingleWriterAck, out),
        M::ReadData => client(site, cell, from, &C::ReadData, out),
        M::WriteData => client(site, cell, from, &C::WriteData, out),
        M::ReleaseAck => client(site, cell, from, &C::ReleaseAck, out),
        M::Invalidate => {
            let flush = cell.tracker().next_flush();
            client(site, cell, from, &C::Invalidate { flush }, out)
        }
        M::SingleWriterInvalidate => client(site, cell, from, &C::SingleWriterInvalidate, out),
        M::SingleWriterGrant => client(site, cell, from, &C::SingleWriterGrant, out),
    }
}

#[inline(never)]
pub(super) fn client(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: &ClientEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    // A client is directed by the home alone; what its own threads and flushes ask comes from here.
    if from != site.me && from != site.manager {
        return Err(refused(from, event, elsewhere("client", site)));
    }
    let result = cell.client().handle(site, event, out);
    result.map_err(|illegal| refused(from, event, illegal))
}

#[inline(never)]
fn server(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: ServerEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    if site.me != site.manager {
        return Err(refused(from, &event, elsewhere("server", site)));
    }
    let result = cell.server().handle(site, from, event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}
