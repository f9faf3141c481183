//! Seeded faults of copies and homes: see [`crate::mutants`].

use multigrain_types::Access;

use super::{Copy, CopyEvent, Home, Moves, Page};
use crate::effect::{Effect, Effects};
use crate::message::{HlrcMessage, Message};
use crate::mutants::{Mutant, chosen, on};

impl Copy {
    /// Before the honest step; what [`Copy::bend_after`] has to know of the state.
    pub(crate) fn bend(&mut self, event: &CopyEvent) -> Self {
        let before = self.clone();
        if let (CopyEvent::Data { .. }, Self::Away { page: Page::Fetching(wait), .. }) =
            (event, self)
        {
            wait.stale &= !on(Mutant::StaleReplyTaken);
            wait.moved = wait.moved.filter(|_| !on(Mutant::MovedHomeForgotten));
        }
        before
    }

    /// After it.
    pub(crate) fn bend_after(&mut self, before: Self, event: &CopyEvent, out: &mut Effects) {
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
            (Some(Mutant::AloneNotNoticed), E::Fetch { zero: false, .. }) if before.is_alone() => {
                out.retain(|effect| !matches!(effect, Effect::Protect { .. }));
                *self = Self::Home { home: Home::Alone, moves: Moves::default() };
            }
            _ => {}
        }
    }
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
