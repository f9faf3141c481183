//! Seeded faults of copies and homes: see [`crate::mutants`].

use multigrain_types::Access;

use super::{Copy, CopyEvent, Home, Moves, Page};
use crate::coherence::Site;
use crate::effect::{Effect, Effects};
use crate::message::{HlrcMessage, Message};
use crate::mutants::{Mutant, chosen, on};

impl Copy {
    /// Before the honest step; what [`Copy::bend_after`] has to know of the state.
    pub(crate) fn bend(&mut self, event: &CopyEvent) -> Self {
        let before = self.clone();
        if let (true, Self::Away { unacked, .. }) = (on(Mutant::FetchOvertakesDiff), &mut *self) {
            *unacked = u32::from(matches!(event, CopyEvent::DiffAck { .. }));
        }
        if let (CopyEvent::Data { .. }, Self::Away { page: Page::Fetching(wait), .. }) =
            (event, self)
        {
            wait.stale &= !on(Mutant::StaleReplyTaken);
            wait.moved = wait.moved.filter(|_| !on(Mutant::MovedHomeForgotten));
        }
        before
    }

    /// After it.
    pub(crate) fn bend_after(
        &mut self,
        site: &Site,
        before: Self,
        event: &CopyEvent,
        out: &mut Effects,
    ) {
        use CopyEvent as E;
        match (chosen(), event) {
            (Some(Mutant::DiffNotSent), E::Release { .. })
            | (Some(Mutant::NoticedDiffLost), E::Notice { .. }) => unsend_diff(out),
            (Some(Mutant::DiffNotMerged), E::Diff { .. }) => {
                out.retain(|effect| !matches!(effect, Effect::MergeDiffs { .. }));
            }
            (Some(Mutant::NoticeIgnored), E::Notice { .. })
                if before.access() == Access::ReadOnly =>
            {
                out.clear();
                *self = before;
            }
            (Some(Mutant::ExclusiveHomeStaysWritable), E::Fetch { zero: false, .. })
                if before.is_exclusive() =>
            {
                out.retain(|effect| !matches!(effect, Effect::Protect { .. }));
                *self = Self::Home { home: Home::Exclusive, moves: Moves::default() };
            }
            (Some(Mutant::DirtyHomeTransferred), E::Fetch { requester, waits: true, .. })
                if site.dynamic_after.is_some() =>
            {
                if let Self::Home { home: Home::Dirty, moves } = before {
                    let (minipage, home) = (site.minipage, *requester);
                    let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                    let message = HlrcMessage::HomeTransfer.about(minipage);
                    out.clear();
                    out.push(Effect::Protect { minipage, from, to });
                    out.push(Effect::Send { to: home, message });
                    *self = Self::Away { home, page: Page::Clean, moves, unacked: 0 };
                }
            }
            (Some(Mutant::WritableHomeMergedAsClosed), E::Diff { .. }) => {
                for effect in out.iter_mut() {
                    if let Effect::MergeDiffs { open, .. } = effect {
                        *open = false;
                    }
                }
            }
            (Some(Mutant::TrackedWriteNotNoticed), E::Release { .. })
                if matches!(before, Self::Home { home: Home::TrackedDirty, .. }) =>
            {
                out.retain(|effect| !matches!(effect, Effect::Flushed { .. }));
            }
            (Some(Mutant::TrackedHomeStaysWritable), E::Move { .. })
                if matches!(before, Self::Home { home: Home::Tracked, .. }) =>
            {
                out.retain(|effect| !matches!(effect, Effect::Protect { .. }));
            }
            (Some(Mutant::FormerHomeStays), E::Fetch { .. }) if out.iter().any(transfers_home) => {
                *self = before;
            }
            (Some(Mutant::ForwardedDiffDropped), E::Diff { writer, flush }) => {
                let passed = |effect: &Effect| matches!(effect, Effect::ForwardDiff { .. });
                if out.iter().any(passed) {
                    let minipage = site.minipage;
                    let message = HlrcMessage::DiffAck { flush: *flush, count: 1 }.about(minipage);
                    out.clear();
                    out.push(Effect::MergeDiffs { minipage, open: true });
                    out.push(Effect::SendDeferred { to: *writer, message });
                }
            }
            _ => {}
        }
    }
}

fn transfers_home(effect: &Effect) -> bool {
    let hand_over = HlrcMessage::HomeTransfer;
    matches!(effect, Effect::Send { message: Message::Hlrc { body, .. }, .. } if *body == hand_over)
}

/// Nobody is sent the diff, and nobody waits for its acknowledgement.
fn unsend_diff(out: &mut Effects) {
    out.retain(|effect| {
        if let Effect::Flushed { awaited, .. } = effect {
            *awaited = false;
        }
        !matches!(
            effect,
            Effect::Send { message: Message::Hlrc { body: HlrcMessage::Diff { .. }, .. }, .. }
        )
    });
}
