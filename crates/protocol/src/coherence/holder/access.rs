//! Faults, prefetches and pushes of this node's threads.

use multigrain_types::Access;

use super::state::{AckTiming, Holder, Phase, Threads, Want, waiter};
use crate::coherence::event::AccessEvent;
use crate::context::{EngineContext, Illegal};
#[cfg(feature = "mutants")]
use crate::effect::Effect;
use crate::effect::Effects;
use crate::message::{Kind, PageMessage};
use crate::mutant_macro::mutant;

pub(super) fn handle(
    holder: &mut Holder,
    context: &EngineContext,
    event: &AccessEvent,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    use AccessEvent as E;
    use Phase::{Fetching, Granted, Idle};

    mutant!("pinned-retry-forgotten" => {
        if let &E::PinnedRetry { thread, kind } = event {
            return handle(holder, context, &E::Fault { thread, kind }, out);
        }
    });
    match (event, &mut holder.phase, holder.access) {
        // Figure 3, On Read Fault: send READ_REQUEST to the manager, wait.
        (E::Fault { thread, kind: Kind::Read }, Idle, NoAccess) => {
            holder.request(context, Want::Read, waiter(*thread), AckTiming::Deferred, out);
        }
        // Figure 3, On Write Fault: send WRITE_REQUEST to the manager, wait.
        (E::Fault { thread, kind: Kind::Write }, Idle, NoAccess | ReadOnly) => {
            holder.request(context, Want::Write, waiter(*thread), AckTiming::Deferred, out);
        }
        // It has lost the minipage before: whatever is here by now, a grant of its own stays.
        (E::PinnedRetry { thread, kind }, Idle, NoAccess | ReadOnly | ReadWrite) => {
            holder.request(context, Want::of(*kind), waiter(*thread), AckTiming::Now, out);
        }
        // Another thread of this node already waits for the minipage: join it, or be the next.
        (E::Fault { thread, kind: kind @ Kind::Read }, Fetching(open), NoAccess)
        | (E::Fault { thread, kind: kind @ Kind::Write }, Fetching(open), NoAccess | ReadOnly) => {
            open.join(*thread, *kind);
        }
        (E::PinnedRetry { thread, kind }, Fetching(open), NoAccess | ReadOnly | ReadWrite) => {
            open.join(*thread, *kind);
            open.ack = AckTiming::Now;
        }
        // A write while a read is granted: the readers of this node are served first.
        (E::Fault { thread, kind: Kind::Write }, Granted(open), ReadOnly) => {
            open.writers.push(*thread);
        }
        (E::PinnedRetry { thread, kind: Kind::Write }, Granted(open), ReadOnly) => {
            open.writers.push(*thread);
            open.ack = AckTiming::Now;
        }
        // The grant came between the trap and its handling: it is this thread's as well.
        (E::Fault { thread, kind: Kind::Read }, Granted(open), ReadOnly)
        | (E::Fault { thread, .. }, Granted(open), ReadWrite) => {
            open.threads.push(*thread);
            holder.spurious(context, *thread, out);
        }
        (E::PinnedRetry { thread, kind: Kind::Read }, Granted(open), ReadOnly)
        | (E::PinnedRetry { thread, .. }, Granted(open), ReadWrite) => {
            open.threads.push(*thread);
            open.ack = AckTiming::Now;
            holder.spurious(context, *thread, out);
        }
        // Spurious: the access is there already, only the page tables lag.
        (E::Fault { thread, kind: Kind::Read }, Idle | Fetching(_), ReadOnly)
        | (E::Fault { thread, .. }, Idle | Fetching(_), ReadWrite) => {
            holder.spurious(context, *thread, out);
        }

        // Prefetch: a request nobody waits for.
        (E::Prefetch { kind: Kind::Read }, Idle, NoAccess) => {
            holder.request(context, Want::Read, Threads::new(), AckTiming::Deferred, out);
        }
        (E::Prefetch { kind: Kind::Write }, Idle, NoAccess | ReadOnly) => {
            holder.request(context, Want::Write, Threads::new(), AckTiming::Deferred, out);
        }
        (E::Prefetch { kind: Kind::Read }, Idle, ReadOnly)
        | (E::Prefetch { .. }, Idle, ReadWrite)
        | (E::Prefetch { .. }, Fetching(_) | Granted(_), NoAccess | ReadOnly | ReadWrite) => {}

        // Push: only who has a copy can hand it out.
        (E::Push, Idle | Fetching(_) | Granted(_), ReadOnly | ReadWrite) => {
            Holder::send(context, context.manager, PageMessage::PushRequest, out);
        }
        (E::Push, Idle | Fetching(_), NoAccess) => {}

        // States that cannot be.
        (E::Fault { .. } | E::PinnedRetry { .. } | E::Push, Granted(_), NoAccess) => {
            return Err(holder.illegal());
        }
    }
    mutant!("spurious-fault-sleeps" => {
        if matches!(event, E::Fault { .. }) {
            out.retain(|effect| !matches!(effect, Effect::Wake { .. }));
        }
    });
    Ok(())
}
