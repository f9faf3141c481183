//! The home of a minipage: its contents are current, its threads write in place.

use multigrain_types::Access;

use super::copy::{Copy, CopyEvent, Moves, Page, acknowledge, send};
use crate::coherence::{Illegal, Site};
use crate::effect::{Effect, Effects};
use crate::message::{HlrcMessage, Kind};

/// What the home's threads may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// As [`Home::Exclusive`], and not handed on yet: who touches it first shall have it.
    Fresh,
    /// No other node ever had a copy: write what you like, nobody needs to know.
    Exclusive,
    /// Read-only until the next write, which is noticed.
    Clean,
    /// As [`Home::Clean`], but it came from hand to hand and nobody here has written it since.
    Transferred {
        /// Moves of homes known of then.
        epoch: u64,
    },
    /// Written since the last release.
    Dirty,
    /// In the place of [`Home::Clean`] where the world finds writes: no trap tells of them.
    Tracked,
    /// As [`Home::Tracked`], and found written since the last release.
    TrackedDirty,
}

impl Home {
    /// A home of which another node has a copy; its threads had this access.
    pub(super) fn shared(site: &Site, from: Access, out: &mut Effects) -> Self {
        let minipage = site.minipage;
        if site.tracked {
            out.push(Effect::Track { minipage, from });
            return Self::Tracked;
        }
        if from == Access::ReadWrite {
            out.push(Effect::Protect { minipage, from, to: Access::ReadOnly });
        }
        Self::Clean
    }

    /// One step of the home, at a node that knows of `epoch` moves of homes; the new state if it is
    /// the home no more.
    #[expect(clippy::too_many_lines, reason = "a transition table, one row per arc")]
    pub(super) fn handle(
        &mut self,
        site: &Site,
        epoch: u64,
        moves: &mut Moves,
        event: &CopyEvent,
        out: &mut Effects,
    ) -> Result<Option<Copy>, Illegal> {
        use CopyEvent as E;
        use Home::{Clean, Dirty, Exclusive, Fresh, Tracked, TrackedDirty, Transferred};

        let minipage = site.minipage;
        match (event, *self) {
            (E::Fault { thread, kind: Kind::Write }, Clean | Transferred { .. }) => {
                out.push(Effect::Dirty { minipage });
                let (from, to) = (Access::ReadOnly, Access::ReadWrite);
                out.push(Effect::Protect { minipage, from, to });
                out.push(Effect::Wake { thread: *thread });
                *self = Dirty;
            }
            // Spurious: the access is there already, only the page tables lag.
            (E::Fault { thread, kind: Kind::Read }, Clean | Transferred { .. }) => {
                out.push(Effect::Reprotect { minipage, access: Access::ReadOnly });
                out.push(Effect::Wake { thread: *thread });
            }
            (E::Fault { thread, .. }, Fresh | Exclusive | Dirty | Tracked | TrackedDirty) => {
                out.push(Effect::Reprotect { minipage, access: Access::ReadWrite });
                out.push(Effect::Wake { thread: *thread });
            }
            (
                E::Prefetch { .. } | E::AwaitedPrefetch,
                Fresh | Exclusive | Clean | Transferred { .. } | Dirty | Tracked | TrackedDirty,
            ) => {}

            // Nobody else has a copy of what is alone.
            (E::Wrote, Fresh | Exclusive | Clean | Transferred { .. } | Dirty | TrackedDirty) => {}
            (E::Wrote, Tracked) => {
                out.push(Effect::Dirty { minipage });
                *self = TrackedDirty;
            }

            // First touch: who asks first for what was never written is the home.
            (E::Fetch { requester, zero: true, .. }, Fresh) if *requester != site.me => {
                send(site, *requester, HlrcMessage::FirstTouch, out);
                return Ok(Some(Copy::Away {
                    home: *requester,
                    page: Page::Invalid,
                    moves: *moves,
                    unacked: 0,
                }));
            }
            // The first copy elsewhere: from now on writes are noticed.
            (E::Fetch { requester, zero: false, .. }, Fresh | Exclusive)
                if *requester != site.me =>
            {
                *self = Self::shared(site, Access::ReadWrite, out);
                send(site, *requester, HlrcMessage::Data, out);
            }
            // Its writers change: who wants it next is the next to write it, and sends no diff if it
            // is the home. Somebody waits there, so that no barrier can move the home meanwhile.
            // Not twice between two barriers if it was not written: all read it then.
            (
                E::Fetch { requester, zero: false, waits: true },
                from @ (Clean | Transferred { .. }),
            ) if moves.is_dynamic(site.dynamic_after)
                && *requester != site.me
                && from != (Transferred { epoch }) =>
            {
                send(site, *requester, HlrcMessage::HomeTransfer, out);
                let page = Page::Clean;
                return Ok(Some(Copy::Away { home: *requester, page, moves: *moves, unacked: 0 }));
            }
            (
                E::Fetch { requester, zero: false, .. },
                Clean | Transferred { .. } | Dirty | Tracked | TrackedDirty,
            ) if *requester != site.me => {
                send(site, *requester, HlrcMessage::Data, out);
            }
            (
                E::Diff { writer, flush },
                at @ (Clean | Transferred { .. } | Dirty | Tracked | TrackedDirty),
            ) => {
                let open = matches!(at, Dirty | Tracked | TrackedDirty);
                out.push(Effect::MergeDiffs { minipage, open });
                acknowledge(site, *writer, *flush, out);
            }

            (E::Release { flush }, Dirty) => {
                let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                out.push(Effect::Protect { minipage, from, to });
                let flush = *flush;
                out.push(Effect::Flushed { minipage, flush, awaited: false, notice: true });
                *self = Clean;
            }
            // It stays open. What is written after it was found is found the next time.
            (E::Release { flush }, TrackedDirty) => {
                let flush = *flush;
                out.push(Effect::Flushed { minipage, flush, awaited: false, notice: true });
                *self = Tracked;
            }
            (E::Release { .. }, Fresh | Exclusive | Clean | Transferred { .. } | Tracked) => {}
            // What others wrote is here.
            (
                E::Notice { .. },
                Fresh | Exclusive | Clean | Transferred { .. } | Dirty | Tracked | TrackedDirty,
            ) => {}
            (
                E::DiffAck { flush, count },
                Fresh | Exclusive | Clean | Transferred { .. } | Dirty | Tracked | TrackedDirty,
            ) => {
                out.push(Effect::Acked { flush: *flush, count: *count });
            }
            (
                E::Move { home },
                Fresh | Exclusive | Clean | Transferred { .. } | Dirty | Tracked | TrackedDirty,
            ) if *home == site.me => {
                moves.count(site, *home);
            }
            (E::Move { home }, at @ (Clean | Transferred { .. } | Tracked)) => {
                moves.count(site, *home);
                if at == Tracked {
                    let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                    out.push(Effect::Protect { minipage, from, to });
                }
                let page = Page::Clean;
                return Ok(Some(Copy::Away { home: *home, page, moves: *moves, unacked: 0 }));
            }

            // What no correct peer sends: contents for the home, a diff of a copy nobody has, a
            // fetch of one's own, a move of what is written.
            (
                E::Data { .. }
                | E::HomeTransfer
                | E::FirstTouch
                | E::Fetch { .. }
                | E::Diff { .. }
                | E::Move { .. },
                Fresh | Exclusive | Clean | Transferred { .. } | Dirty | Tracked | TrackedDirty,
            ) => {
                return Err(Illegal { role: "home", state: format!("{self:?}") });
            }
        }
        Ok(None)
    }
}
