//! Replies, the pins on a grant, and the ack that closes it (Millipage 3.3, ADR 17).

use multigrain_types::{Access, ThreadId};

use super::state::{AckTiming, Holder, Open, Phase, Want};
use crate::coherence::event::GrantEvent;
use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::message::{Attach, Kind, PageMessage, Turns};
use crate::mutant_macro::mutant;

#[expect(
    clippy::too_many_lines,
    reason = "the replies of Figure 3 and the ack of section 3.3, one row per arc"
)]
pub(super) fn handle(
    holder: &mut Holder,
    context: &EngineContext,
    event: &GrantEvent,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    use GrantEvent as E;
    use Phase::{Fetching, Granted, Idle};

    mutant!("push-taken-for-reply" => {
        if *event == E::PushReply && holder.is_fetching() {
            let (kind, attach) = (Kind::Read, Attach::Page);
            let reply = E::Reply { kind, attach, ack_now: false, turns: Turns::NONE };
            return handle(holder, context, &reply, out);
        }
    });
    mutant!("ack-before-instruction" => {
        if let &E::Resumed { thread } = event {
            return handle(holder, context, &E::Retired { thread, turn_us: 0 }, out);
        }
    });
    match (event, &mut holder.phase, holder.access) {
        // Figure 3, Handle Read or Write Reply: the page becomes ReadOnly or ReadWrite.
        (
            E::Reply { kind: Kind::Read, attach: Attach::Page, ack_now, turns },
            Fetching(open),
            NoAccess,
        ) if open.want == Want::Read => {
            holder.install(context, ReadOnly, out);
            mutant!("read-reply-writable" => {
                for effect in out.iter_mut() {
                    if let Effect::Install { access, .. } = effect {
                        *access = ReadWrite;
                    }
                }
            });
            granted(holder, context, *ack_now, *turns, out);
        }
        (
            E::Reply { kind: Kind::Write, attach: Attach::Page, ack_now, turns },
            Fetching(open),
            NoAccess,
        ) if open.want == Want::Write => {
            holder.install(context, ReadWrite, out);
            granted(holder, context, *ack_now, *turns, out);
        }
        // A copy came before the reply, or was here: nothing more to install. What was here at a pinned retry
        // has trapped all the same: the page tables lag.
        (
            E::Reply { kind: Kind::Read, attach: Attach::Nothing, ack_now, turns },
            Fetching(open),
            ReadOnly | ReadWrite,
        ) if open.want == Want::Read => {
            holder.reprotect(context, out);
            granted(holder, context, *ack_now, *turns, out);
        }
        // Upgrade: all other copies are gone, the own one becomes writable.
        (
            E::Reply { kind: Kind::Write, attach: Attach::Nothing, ack_now, turns },
            Fetching(open),
            ReadOnly,
        ) if open.want == Want::Write => {
            holder.protect(context, ReadWrite, out);
            granted(holder, context, *ack_now, *turns, out);
        }
        // It was writable at a pinned retry.
        (
            E::Reply { kind: Kind::Write, attach: Attach::Nothing, ack_now, turns },
            Fetching(open),
            ReadWrite,
        ) if open.want == Want::Write => {
            holder.reprotect(context, out);
            granted(holder, context, *ack_now, *turns, out);
        }
        // Reclaim: no other copy is left; the contents are of no interest.
        (
            E::Reply { kind: Kind::Write, attach: Attach::Nothing, ack_now, turns },
            Fetching(open),
            NoAccess | ReadOnly,
        ) if open.want == Want::Reclaim => {
            holder.protect(context, ReadWrite, out);
            out.push(Effect::Reclaimed { minipage: context.minipage });
            granted(holder, context, *ack_now, *turns, out);
        }
        // A pushed read copy; the manager counts the acks of the targets.
        (E::PushReply, Idle | Fetching(_), NoAccess) => {
            holder.install(context, ReadOnly, out);
            Holder::send(context, context.manager, PageMessage::Ack { turn_us: 0 }, out);
        }

        // Section 3.3: the ack that closes the transaction follows the instruction where somebody
        // waits for it, and may be deferred where nobody does.
        (E::Resumed { thread }, Granted(open), ReadOnly | ReadWrite) => {
            let urgent = open.ack == AckTiming::Now;
            if !urgent && (open.turns.count == 0 || !open.writers.is_empty()) {
                unpin(holder, context, (*thread, 0), out);
            } else if open.threads.contains(thread) {
                // Any waiting request ends the turn of a writer.
                let ends = urgent && holder.access == ReadWrite;
                // Writers of this node wait for it to be over.
                let turns = match open.writers.is_empty() {
                    true => open.turns.at_least_one(ends),
                    false => Turns::NONE,
                };
                let (thread, minipage) = (*thread, context.minipage);
                out.push(Effect::Hold { thread, minipage, turns, urgent });
            }
            // Else it was woken by a grant that was given back for a free.
        }
        (E::Retired { thread, turn_us }, Granted(_), ReadOnly | ReadWrite) => {
            unpin(holder, context, (*thread, *turn_us), out);
        }
        // Somebody waits for the ack. If it is on its way, receiving this has sent it off.
        (E::AckNow, Granted(open), ReadOnly | ReadWrite) => open.ack = AckTiming::Now,
        (E::AckNow, Fetching(open), NoAccess | ReadOnly | ReadWrite) => {
            open.ack = mutant!("ack-now-lost": open.ack, else AckTiming::Now);
        }
        (E::AckNow, Idle, NoAccess | ReadOnly | ReadWrite) => {}

        // Woken by a spurious fault, or by a grant that was given back for a free.
        (
            E::Resumed { .. } | E::Retired { .. },
            Idle | Fetching(_),
            NoAccess | ReadOnly | ReadWrite,
        ) => {}

        // What no correct peer sends: a reply nobody asked for, a copy onto a copy; and states that
        // cannot be.
        (
            E::Reply { .. } | E::PushReply,
            Idle | Fetching(_) | Granted(_),
            NoAccess | ReadOnly | ReadWrite,
        )
        | (E::Resumed { .. } | E::Retired { .. } | E::AckNow, Granted(_), NoAccess) => {
            return Err(holder.illegal());
        }
    }
    Ok(())
}

/// The reply is in place: wake who waits; without anybody to resume, acknowledge at once.
fn granted(
    holder: &mut Holder,
    context: &EngineContext,
    ack_now: bool,
    turns: Turns,
    out: &mut Effects,
) {
    let Phase::Fetching(mut open) = core::mem::take(&mut holder.phase) else {
        unreachable!("a grant is only given to a fetching holder");
    };
    if holder.access == Access::ReadWrite {
        let writers = core::mem::take(&mut open.writers);
        open.threads.extend(writers);
    }
    if ack_now {
        open.ack = AckTiming::Now;
    }
    open.turns = turns;
    let woken = mutant!("first-waiter-only": 1, else usize::MAX);
    out.extend(open.threads.iter().take(woken).map(|&thread| Effect::Wake { thread }));
    if open.reclaim_next {
        holder.acknowledge(context, (AckTiming::Now, 0), out);
        holder.reclaim_when_idle(context, open.writers, out);
    } else if open.threads.is_empty() {
        close(holder, context, (Open { ack: AckTiming::Now, ..*open }, 0), out);
    } else {
        holder.phase = Phase::Granted(open);
    }
}

/// A thread that was woken needs the grant no longer; the last one closes it.
fn unpin(
    holder: &mut Holder,
    context: &EngineContext,
    (thread, turn_us): (ThreadId, u32),
    out: &mut Effects,
) {
    let Phase::Granted(open) = &mut holder.phase else {
        unreachable!("only a grant has pins");
    };
    if let Some(place) = open.threads.iter().position(|&pin| pin == thread) {
        open.threads.remove(place);
    }
    if open.threads.is_empty()
        && let Phase::Granted(open) = core::mem::take(&mut holder.phase)
    {
        close(holder, context, (*open, turn_us), out);
        mutant!("ack-dropped" => { drop_ack(out); });
    }
}

/// Nobody needs the grant: acknowledge it, and ask for what writers want beyond it.
fn close(
    holder: &mut Holder,
    context: &EngineContext,
    (open, turn_us): (Open, u32),
    out: &mut Effects,
) {
    holder.acknowledge(context, (open.ack, turn_us), out);
    if !open.writers.is_empty() {
        holder.request(context, Want::Write, open.writers, open.ack, out);
    }
}

/// A mutant: the ack is never sent.
#[cfg(feature = "mutants")]
pub(super) fn drop_ack(out: &mut Effects) {
    use crate::message::Message;
    out.retain(|effect| {
        !matches!(
            effect,
            Effect::Send { message: Message::Page { body: PageMessage::Ack { .. }, .. }, .. }
                | Effect::SendDeferred {
                    message: Message::Page { body: PageMessage::Ack { .. }, .. },
                    ..
                }
        )
    });
}
