//! Seeded faults: tests of the tests. Compiled in by the feature `mutants` alone, and chosen when
//! the program starts by the variable [`VARIABLE`]; nothing of this is in an ordinary build.
//!
//! Role: the list of all mutants, and what those of this crate change. The engines stay as they
//! are: a mutant turns an input into another before the honest step, or edits the effects of the
//! step after it. Those of the manager, of the engines of release consistency and of what nodes
//! tell each other are beside them, for they edit their state; those of the runtime are in that
//! crate. The environment is read here and nowhere else in this crate.
//!
//! `multigrain mutants` runs every check against every mutant.

mod list;
mod rows;

use std::env;
use std::sync::OnceLock;

use multigrain_types::{Access, MinipageId};

pub use self::list::{Mutant, Row};
pub use self::rows::MUTANTS;
use crate::coherence::{Holder, HolderEvent};
use crate::effect::{Effect, Effects};
use crate::message::{Attach, Kind, LockMessage, Message, PageMessage, SyncMessage};
use crate::sync::SyncInput;

/// The environment variable that chooses a mutant by its name.
pub const VARIABLE: &str = "MULTIGRAIN_MUTANT";

/// The mutant this process is, if it is one. Ends the process when the name is unknown: a test of
/// a mutant that is none would prove nothing.
pub fn chosen() -> Option<Mutant> {
    static CHOSEN: OnceLock<Option<Mutant>> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = env::var(VARIABLE).ok()?;
        let row = MUTANTS.iter().find(|row| row.name == name);
        if row.is_none() {
            eprintln!(
                "multigrain: {VARIABLE}={name} is no mutant; multigrain mutants --list has them"
            );
            std::process::exit(2);
        }
        row.map(|row| row.mutant)
    })
}

/// Whether this process is that mutant.
pub fn on(mutant: Mutant) -> bool {
    chosen() == Some(mutant)
}

/// What a holder is told instead of an event; `None`: nothing.
pub(crate) fn told(holder: &Holder, event: HolderEvent) -> Option<HolderEvent> {
    let fetching = holder.is_fetching();
    match (chosen(), &event) {
        (Some(Mutant::PushTakenForReply), HolderEvent::PushReply) if fetching => {
            Some(HolderEvent::Reply {
                kind: Kind::Read,
                attach: Attach::Page,
                ack_now: false,
                turns: 0,
            })
        }
        (Some(Mutant::FreeLostInFetch), HolderEvent::Reclaim)
        | (Some(Mutant::AckNowLost), HolderEvent::AckNow)
            if fetching =>
        {
            None
        }
        (Some(Mutant::AckBeforeInstruction), &HolderEvent::Resumed { thread }) => {
            Some(HolderEvent::Retired { thread })
        }
        (Some(Mutant::PinnedRetryForgotten), &HolderEvent::PinnedRetry { thread, kind }) => {
            Some(HolderEvent::Fault { thread, kind })
        }
        _ => Some(event),
    }
}

/// Edits what a holder does about an event.
pub(crate) fn held(event: &HolderEvent, out: &mut Effects) {
    use HolderEvent as E;
    let Some(mutant) = chosen() else { return };
    match (mutant, event) {
        (Mutant::ReadForwardKeepsWritable, E::Forward { kind: Kind::Read, .. })
        | (Mutant::WriteForwardKeepsCopy, E::Forward { kind: Kind::Write, .. })
        | (Mutant::InvalidationKeepsCopy, E::Invalidate)
        | (Mutant::PushKeepsWritable, E::PushForward { .. }) => {
            out.retain(|effect| !matches!(effect, Effect::Protect { .. }));
        }
        (Mutant::SentBeforeProtected, E::Forward { .. } | E::PushForward { .. }) => out.reverse(),
        (Mutant::ReadReplyWritable, E::Reply { kind: Kind::Read, .. }) => {
            for effect in out {
                if let Effect::Install { access, .. } = effect {
                    *access = Access::ReadWrite;
                }
            }
        }
        (Mutant::FirstWaiterOnly, E::Reply { .. }) => {
            let mut first = true;
            let woken = |effect: &Effect| matches!(effect, Effect::Wake { .. });
            out.retain(|effect| !woken(effect) || core::mem::take(&mut first));
        }
        (Mutant::SpuriousFaultSleeps, E::Fault { .. }) => {
            out.retain(|effect| !matches!(effect, Effect::Wake { .. }));
        }
        (Mutant::AckDropped, E::Resumed { .. } | E::Retired { .. })
        | (Mutant::FreeForgetsAck, E::Reclaim) => {
            out.retain(|effect| !is_ack(effect));
        }
        (Mutant::FreedReusedEarly, E::Reclaim) => early_reuse(out),
        _ => {}
    }
}

fn is_ack(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Send { message: Message::Page { body: PageMessage::Ack, .. }, .. }
            | Effect::SendDeferred { message: Message::Page { body: PageMessage::Ack, .. }, .. }
    )
}

/// The copies elsewhere are asked for, and the minipage is used again without them.
fn early_reuse(out: &mut Effects) {
    if let [Effect::Send { message: Message::Page { minipage, .. }, .. }] = out[..] {
        out.push(Effect::Reclaimed { minipage });
    }
}

/// What the synchronization engines are asked instead.
pub(crate) fn asked(mut input: SyncInput) -> SyncInput {
    match (chosen(), &mut input) {
        (Some(Mutant::BarrierOpensEarly), SyncInput::Barrier { total, .. }) if *total > 1 => {
            *total -= 1;
        }
        (Some(Mutant::PostCountsTwice), SyncInput::SemaphorePost { count, .. }) => *count *= 2,
        (Some(Mutant::BroadcastWakesOne), SyncInput::ConditionSignal { all, .. }) => *all = false,
        _ => {}
    }
    input
}

/// Edits what the synchronization engines answer to a request.
pub(crate) fn answered(input: &SyncInput, out: &mut Effects) {
    match (chosen(), input) {
        (Some(Mutant::LockWaitersForgotten), SyncInput::Unlock { .. }) => {
            out.retain(|effect| !is_lock_request(effect));
        }
        (Some(Mutant::HandoverSleeps), SyncInput::Unlock { .. }) => {
            out.retain(|effect| !matches!(effect, Effect::Wake { .. }));
        }
        _ => {}
    }
}

fn is_lock_request(effect: &Effect) -> bool {
    let request = SyncMessage::Lock(LockMessage::Request);
    matches!(effect, Effect::Send { message: Message::Sync { body, .. }, .. } if *body == request)
}

/// Does something when a synchronization message arrives, before it is taken.
pub(crate) fn heard(id: u32, message: SyncMessage, out: &mut Effects) {
    if let SyncMessage::Lock(LockMessage::Recall { to }) = message
        && on(Mutant::LockTokenCopied)
    {
        out.push(Effect::Send { to, message: LockMessage::Grant.about(id) });
    }
}

/// Whether a message that carries a release waits for the acknowledgements of what it releases.
pub(crate) fn waits() -> bool {
    !on(Mutant::GrantBeforeAcks)
}

/// Whether what this node knows of writes goes before a message.
pub(crate) fn tells(message: SyncMessage) -> bool {
    !(on(Mutant::GrantWithoutNotices) && message == SyncMessage::Lock(LockMessage::Grant))
}

/// Whether write notices that a node counts as told are on their way by then.
pub(crate) fn queues_what_it_tells() -> bool {
    !on(Mutant::NotifiedBeforeQueued)
}

/// How much may come too early.
pub(crate) fn most_early(most: u32) -> u32 {
    if on(Mutant::EarlyWithoutEnd) { u32::MAX } else { most }
}

/// The number after another, in 32 bits if this process is that mutant.
pub(crate) fn next_number(mutant: Mutant, number: u64) -> u64 {
    if on(mutant) { u64::from(u32::try_from(number + 1).unwrap_or(0)) } else { number + 1 }
}

/// The oldest open flush; the largest number of 32 bits for none, if they have so many.
pub(crate) fn oldest_flush(oldest: Option<u64>) -> Option<u64> {
    if on(Mutant::FlushesWrap) { oldest.or(Some(u32::MAX.into())) } else { oldest }
}

/// Edits what was found written at homes.
pub(crate) fn found(written: Vec<MinipageId>) -> Vec<MinipageId> {
    if on(Mutant::TrackedHomesNotScanned) { Vec::new() } else { written }
}

/// The moves of homes that the sender of a fetch is said to know of.
pub(crate) fn known(epoch: u64) -> u64 {
    if on(Mutant::EarlyFetchServed) { 0 } else { epoch }
}

/// Whether a thread is said to wait for what is fetched.
pub(crate) fn waited(waits: bool) -> bool {
    waits || on(Mutant::PrefetchTransfersHome)
}

/// Whether a diff that came before the turn of homes is acknowledged and forgotten.
pub(crate) fn acknowledges_early() -> bool {
    on(Mutant::EarlyDiffDropped)
}
