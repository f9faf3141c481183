//! Write notices: an acquire invalidates the copy that a notice names. A home is current already.

use multigrain_types::Access;

use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::hlrc::send::diff;
#[cfg(feature = "mutants")]
use crate::hlrc::send::unsend_diff;
use crate::hlrc::state::{Away, OpenRequest, Page};
use crate::message::Kind;
use crate::mutant_macro::mutant;

/// What was written here beside it goes home first, with that flush.
pub(super) fn away(
    away: &mut Away,
    context: &EngineContext,
    epoch: u64,
    flush: u64,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use Page::{Clean, Dirty, FetchQueued, Fetching, Invalid, OpenedAhead, Upgrading};

    let minipage = context.minipage;
    let to = Access::NoAccess;
    mutant!("notice-ignored" => {
        if away.access() == Access::ReadOnly {
            return Ok(());
        }
    });
    match &mut away.page {
        Invalid | FetchQueued(_) => {}
        Fetching(wait) => wait.stale = true,
        Clean => {
            out.push(Effect::Protect { minipage, from: Access::ReadOnly, to });
            away.page = Invalid;
        }
        Upgrading(wait) => {
            out.push(Effect::Protect { minipage, from: Access::ReadOnly, to });
            let waiters = core::mem::take(&mut wait.waiters);
            away.page = FetchQueued(Box::new(OpenRequest::of(Kind::Write, waiters)));
        }
        Dirty => {
            out.push(Effect::Protect { minipage, from: Access::ReadWrite, to });
            diff(away, context, epoch, flush, out);
            mutant!("noticed-diff-lost" => { unsend_diff(out); });
            out.push(Effect::Clean { minipage });
            away.page = Invalid;
        }
        // The world looks before this.
        OpenedAhead => return Err(away.illegal()),
    }
    Ok(())
}
