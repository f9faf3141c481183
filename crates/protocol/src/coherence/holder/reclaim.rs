//! A freed minipage comes back to its owner before it is used again: the owner's side. The manager
//! invalidates all other copies, as for a write (`coherence/manager.rs`).

use multigrain_types::Access;

use super::state::{AckTiming, Holder, Phase, Threads, Want};
use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::mutant_macro::mutant;

pub(super) fn handle(
    holder: &mut Holder,
    context: &EngineContext,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    use Phase::{Fetching, Granted, Idle};

    match (&mut holder.phase, holder.access) {
        // Free: the owner takes the minipage back before it is used again.
        (Idle, ReadWrite) => out.push(Effect::Reclaimed { minipage: context.minipage }),
        (Idle, NoAccess | ReadOnly) => {
            holder.request(context, Want::Reclaim, Threads::new(), AckTiming::Deferred, out);
            mutant!("freed-reused-early" => {
                out.push(Effect::Reclaimed { minipage: context.minipage });
            });
        }
        (Fetching(open), NoAccess | ReadOnly | ReadWrite) => {
            open.reclaim_next = mutant!("free-lost-in-fetch": open.reclaim_next, else true);
        }
        (Granted(open), ReadOnly | ReadWrite) => {
            let writers = core::mem::take(&mut open.writers);
            holder.acknowledge(context, (AckTiming::Now, 0), out);
            mutant!("free-forgets-ack" => { super::grant::drop_ack(out); });
            holder.reclaim_when_idle(context, writers, out);
        }

        // A state that cannot be.
        (Granted(_), NoAccess) => return Err(holder.illegal()),
    }
    Ok(())
}
