//! Orders of the manager to supply a requester with this node's copy.

use multigrain_types::Access;

use super::state::{Holder, Phase};
use crate::coherence::event::SupplyEvent;
use crate::context::{EngineContext, Illegal};
#[cfg(feature = "mutants")]
use crate::effect::Effect;
use crate::effect::Effects;
use crate::message::{Attach, Kind, PageMessage};
use crate::mutant_macro::mutant;

pub(super) fn handle(
    holder: &mut Holder,
    context: &EngineContext,
    event: &SupplyEvent,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    use Phase::{Fetching, Granted, Idle};
    use SupplyEvent as E;

    match (event, &mut holder.phase, holder.access) {
        // Figure 3, Handle Read Request: ReadWrite becomes ReadOnly, then the page is sent.
        (
            E::Forward { kind: Kind::Read, requester, ack_now, turns },
            Idle | Fetching(_),
            ReadOnly | ReadWrite,
        ) => {
            let (requester, ack_now, turns) = (*requester, *ack_now, *turns);
            holder.downgrade(context, out);
            mutant!("read-forward-keeps-writable" => { unprotect(out); });
            let (kind, attach) = (Kind::Read, Attach::Page);
            Holder::send(
                context,
                requester,
                PageMessage::Reply { kind, attach, ack_now, turns },
                out,
            );
        }
        // Figure 3, Handle Write Request: NoAccess, then the page is sent.
        (
            E::Forward { kind: Kind::Write, requester, ack_now, turns },
            Idle | Fetching(_),
            ReadOnly | ReadWrite,
        ) => {
            let (requester, ack_now, turns) = (*requester, *ack_now, *turns);
            holder.protect(context, NoAccess, out);
            mutant!("write-forward-keeps-copy" => { unprotect(out); });
            let (kind, attach) = (Kind::Write, Attach::Page);
            Holder::send(
                context,
                requester,
                PageMessage::Reply { kind, attach, ack_now, turns },
                out,
            );
        }
        // Push: as a read request that the manager makes in the target's name.
        (E::PushForward { target }, Idle | Fetching(_), ReadOnly | ReadWrite) => {
            let target = *target;
            holder.downgrade(context, out);
            mutant!("push-keeps-writable" => { unprotect(out); });
            Holder::send(context, target, PageMessage::PushReply, out);
        }

        // What no correct manager sends: a request to a node without a copy or with an open grant.
        (
            E::Forward { .. } | E::PushForward { .. },
            Idle | Fetching(_) | Granted(_),
            NoAccess | ReadOnly | ReadWrite,
        ) => return Err(holder.illegal()),
    }
    mutant!("sent-before-protected" => { out.reverse(); });
    Ok(())
}

/// A mutant: the copy stays as accessible as it was.
#[cfg(feature = "mutants")]
pub(super) fn unprotect(out: &mut Effects) {
    out.retain(|effect| !matches!(effect, Effect::Protect { .. }));
}
