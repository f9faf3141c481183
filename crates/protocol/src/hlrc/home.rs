//! The home of a minipage: its contents are current, its threads write in place.

use multigrain_types::Access;

use super::copy::{Copy, CopyEvent, Moves, Page, acknowledge, send};
use crate::coherence::{Illegal, Site};
use crate::effect::{Effect, Effects};
use crate::message::{HlrcMessage, Kind};

/// What the home's threads may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// As [`Home::Alone`], and not handed on yet: who touches it first shall have it.
    Fresh,
    /// No other node ever had a copy: write what you like, nobody needs to know.
    Alone,
    /// Read-only until the next write, which is noticed.
    Clean,
    /// As [`Home::Clean`], but it came from hand to hand and nobody here has written it since.
    Handed {
        /// Moves of homes known of then.
        epoch: u32,
    },
    /// Written since the last release.
    Dirty,
}

impl Home {
    /// One step of the home, at a node that knows of `epoch` moves of homes; the new state if it is
    /// the home no more.
    pub(super) fn handle(
        &mut self,
        site: &Site,
        epoch: u32,
        moves: &mut Moves,
        event: &CopyEvent,
        out: &mut Effects,
    ) -> Result<Option<Copy>, Illegal> {
        use CopyEvent as E;
        use Home::{Alone, Clean, Dirty, Fresh, Handed};

        let minipage = site.minipage;
        match (event, *self) {
            (E::Fault { thread, kind: Kind::Write }, Clean | Handed { .. }) => {
                out.push(Effect::Dirty { minipage });
                let (from, to) = (Access::ReadOnly, Access::ReadWrite);
                out.push(Effect::Protect { minipage, from, to });
                out.push(Effect::Wake { thread: *thread });
                *self = Dirty;
            }
            // Spurious: the access is there already, only the page tables lag.
            (E::Fault { thread, kind: Kind::Read }, Clean | Handed { .. }) => {
                out.push(Effect::Reprotect { minipage, access: Access::ReadOnly });
                out.push(Effect::Wake { thread: *thread });
            }
            (E::Fault { thread, .. }, Fresh | Alone | Dirty) => {
                out.push(Effect::Reprotect { minipage, access: Access::ReadWrite });
                out.push(Effect::Wake { thread: *thread });
            }
            (E::Prefetch { .. } | E::Ask, Fresh | Alone | Clean | Handed { .. } | Dirty) => {}

            // First touch: who asks first for what was never written is the home.
            (E::Fetch { requester, zero: true, .. }, Fresh) if *requester != site.me => {
                send(site, *requester, HlrcMessage::Yours, out);
                return Ok(Some(Copy::Away {
                    home: *requester,
                    page: Page::Invalid,
                    moves: *moves,
                    owed: 0,
                }));
            }
            // The first copy elsewhere: from now on writes are noticed.
            (E::Fetch { requester, zero: false, .. }, Fresh | Alone) if *requester != site.me => {
                let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                out.push(Effect::Protect { minipage, from, to });
                send(site, *requester, HlrcMessage::Data, out);
                *self = Clean;
            }
            // Its writers change: who wants it next is the next to write it, and sends no diff if it
            // is the home. Somebody waits there, so that no barrier can move the home meanwhile.
            // Not twice between two barriers if it was not written: all read it then.
            (E::Fetch { requester, zero: false, waits: true }, from @ (Clean | Handed { .. }))
                if moves.roam(site.roams)
                    && *requester != site.me
                    && from != (Handed { epoch }) =>
            {
                send(site, *requester, HlrcMessage::HandOver, out);
                let page = Page::Clean;
                return Ok(Some(Copy::Away { home: *requester, page, moves: *moves, owed: 0 }));
            }
            (E::Fetch { requester, zero: false, .. }, Clean | Handed { .. } | Dirty)
                if *requester != site.me =>
            {
                send(site, *requester, HlrcMessage::Data, out);
            }
            (E::Diff { writer, flush }, at @ (Clean | Handed { .. } | Dirty)) => {
                out.push(Effect::MergeDiffs { minipage, open: at == Dirty });
                acknowledge(site, *writer, *flush, out);
            }

            (E::Release { flush }, Dirty) => {
                let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                out.push(Effect::Protect { minipage, from, to });
                let flush = *flush;
                out.push(Effect::Flushed { minipage, flush, awaited: false, notice: true });
                *self = Clean;
            }
            (E::Release { .. }, Fresh | Alone | Clean | Handed { .. }) => {}
            // What others wrote is here.
            (E::Notice { .. }, Fresh | Alone | Clean | Handed { .. } | Dirty) => {}
            (E::DiffAck { flush, count }, Fresh | Alone | Clean | Handed { .. } | Dirty) => {
                out.push(Effect::Acked { flush: *flush, count: *count });
            }
            (E::Move { home }, Fresh | Alone | Clean | Handed { .. } | Dirty)
                if *home == site.me =>
            {
                moves.count(site, *home);
            }
            (E::Move { home }, Clean | Handed { .. }) => {
                moves.count(site, *home);
                let page = Page::Clean;
                return Ok(Some(Copy::Away { home: *home, page, moves: *moves, owed: 0 }));
            }

            // What no correct peer sends: contents for the home, a diff of a copy nobody has, a
            // fetch of one's own, a move of what is written.
            (
                E::Data { .. }
                | E::HandOver
                | E::Yours
                | E::Fetch { .. }
                | E::Diff { .. }
                | E::Move { .. },
                Fresh | Alone | Clean | Handed { .. } | Dirty,
            ) => {
                return Err(Illegal { role: "home", state: format!("{self:?}") });
            }
        }
        Ok(None)
    }
}
