//! Invalidations of this node's copy: one of the manager's is answered; one that comes by a tree is passed on to the nodes of
//! this one's subtree, and answered for all of them.

use multigrain_types::{Access, NodeId};

use super::state::{Holder, PassedOn, Phase};
use crate::coherence::event::InvalidationEvent;
use crate::context::{EngineContext, Illegal};
use crate::effect::Effects;
use crate::invalidation_tree::{self, Ranks};
use crate::message::PageMessage;
use crate::mutant_macro::mutant;

pub(super) fn handle(
    holder: &mut Holder,
    context: &EngineContext,
    from: NodeId,
    event: InvalidationEvent,
    out: &mut Effects,
) -> Result<(), Illegal> {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    use InvalidationEvent as E;
    use Phase::{Fetching, Granted, Idle};

    match (event, &mut holder.passed_on, &holder.phase, holder.access) {
        // Figure 3, Handle Invalidate Request.
        (E::Invalidate, None, Idle | Fetching(_), ReadOnly | ReadWrite) => {
            holder.protect(context, NoAccess, out);
            mutant!("invalidation-keeps-copy" => { super::supply::unprotect(out); });
            Holder::send(context, context.manager, PageMessage::InvalidateReply, out);
        }
        // Only of a minipage that nobody may write are there so many copies.
        (E::InvalidateTree { below }, None, Idle | Fetching(_), ReadOnly) => {
            pass_on(holder, context, (from, below), out);
        }
        (E::Reply, Some(passed_on), Idle | Fetching(_), NoAccess)
            if passed_on.awaited.contains(from) =>
        {
            passed_on.awaited.remove(from);
            if passed_on.awaited.is_empty() {
                answer(holder, context, out);
            }
        }

        // What no correct node sends: to a node without a copy, with the only one, with an open grant, or that has
        // passed on another; and an answer that is not awaited.
        (
            E::Invalidate | E::InvalidateTree { .. } | E::Reply,
            None | Some(_),
            Idle | Fetching(_) | Granted(_),
            NoAccess | ReadOnly | ReadWrite,
        ) => return Err(holder.illegal()),
    }
    Ok(())
}

/// All that this node's answer is for are invalidated.
fn answer(holder: &mut Holder, context: &EngineContext, out: &mut Effects) {
    let Some(passed_on) = holder.passed_on.take() else { return };
    if mutant!("subtree-answers-early": false, else true) {
        Holder::send(context, passed_on.above, PageMessage::InvalidateReply, out);
    }
}

/// The others are told first, so that they need not wait for this node's page tables (in a run these change for all of it before).
fn pass_on(
    holder: &mut Holder,
    context: &EngineContext,
    (above, below): (NodeId, Ranks),
    out: &mut Effects,
) {
    let subtrees =
        invalidation_tree::subtrees(below.iter(), below.len(), context.invalidations.fan);
    let lost = mutant!("subtree-loses-last": 1, else 0);
    for subtree in &subtrees[..subtrees.len().saturating_sub(lost)] {
        Holder::send(
            context,
            subtree.root,
            PageMessage::InvalidateTree { below: subtree.below },
            out,
        );
    }
    holder.protect(context, Access::NoAccess, out);
    if mutant!("subtree-answers-early": true, else subtrees.is_empty()) {
        Holder::send(context, above, PageMessage::InvalidateReply, out);
    }
    if !subtrees.is_empty() {
        let awaited = subtrees.iter().map(|subtree| subtree.root).collect();
        holder.passed_on = Some(Box::new(PassedOn { above, awaited }));
    }
}
