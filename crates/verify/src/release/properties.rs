//! Properties of every state, and of the last one.

use std::sync::Arc;

use multigrain_protocol::mgs::Server;
use multigrain_protocol::{Node, OwnedTables};
use multigrain_types::{Access, Consistency, NodeId};

use super::program::{Job, Placed, minipage_id};
use super::state::{Page, Phase, State};

/// Whether a node's engines agree with its page tables and twins, between two steps.
pub(super) fn node(job: &Job, state: &State, me: NodeId) -> Result<(), String> {
    let (node, pages) = (&state.nodes[me.index()], &state.memory[me.index()]);
    for (index, (placed, page)) in (0u8..).zip(job.minipages.iter().zip(pages)) {
        minipage(node, index, placed, page).map_err(|text| format!("m{index} {text}"))?;
    }
    Ok(())
}

fn minipage(
    node: &Node<OwnedTables>,
    index: u8,
    placed: &Placed,
    page: &Page,
) -> Result<(), String> {
    let id = minipage_id(index);
    let missing = || "has no engine".to_owned();
    // Whether there must be a twin, whether there must be none, and how many diffs wait to be
    // merged if that is known.
    let (access, twin, no_twin, buffered) = match placed.consistency {
        Consistency::Sequential => {
            let (holder, _) = node.tables.cell(id).ok_or_else(missing)?;
            (holder.access(), false, true, Some(0))
        }
        Consistency::EagerRelease => {
            let (client, server) = node.tables.eager(id).ok_or_else(missing)?;
            let away = node.me != placed.manager && client.access() == Access::ReadWrite;
            let single = client.is_single_writer();
            (client.access(), away && !single, !away, server.is_idle().then_some(0))
        }
        Consistency::LazyRelease | Consistency::Auto => {
            let copy = node.tables.lazy(id).ok_or_else(missing)?;
            let away = copy.home().is_some() && copy.access() == Access::ReadWrite;
            let twin = away || copy.is_opened_ahead();
            (copy.access(), twin, !twin, Some(node.tables.release_tracker().early().diffs(id)))
        }
    };
    if access != page.access {
        return Err(format!("has {access:?} for the engine and {:?} in truth", page.access));
    }
    if (twin && page.twin.is_none()) || (no_twin && page.twin.is_some()) {
        return Err(format!("with {access:?} has the twin {:?}", page.twin));
    }
    if buffered.is_some_and(|buffered| buffered != page.buffered.len()) {
        return Err(format!("has buffered the diffs {:?}", page.buffered));
    }
    if page.twin.is_some() || page.access == Access::ReadWrite {
        tracked(node, index, placed, page)?;
    }
    Ok(())
}

/// What may be written unseen is in the delayed update queue, but for modes that need none, and for
/// what is tracked.
fn tracked(
    node: &Node<OwnedTables>,
    index: u8,
    placed: &Placed,
    page: &Page,
) -> Result<(), String> {
    let id = minipage_id(index);
    let free = match placed.consistency {
        Consistency::Sequential => true,
        Consistency::EagerRelease => {
            // A copy whose REL is on its way is out of the queue until it is written off.
            node.tables
                .eager(id)
                .is_some_and(|(client, _)| client.is_single_writer() || !client.is_idle())
        }
        Consistency::LazyRelease | Consistency::Auto => {
            let copy = node.tables.lazy(id);
            page.tracked.is_some()
                || copy.is_some_and(multigrain_protocol::hlrc::Copy::is_exclusive)
        }
    };
    if free || node.tables.release_tracker().queue().contains(&id) {
        return Ok(());
    }
    Err("may be written and is not in the delayed update queue".to_owned())
}

/// How long a link gets: a bound that no run of the checked jobs needs more than.
pub(super) fn bounded(job: &Job, state: &State) -> bool {
    let most = 8 * (job.minipages.len() + job.threads.len()) + 8;
    state.links.iter().all(|link| link.len() <= most)
}

/// Whether all threads have done their programs when nothing can happen any more; and whether,
/// after one more release of every node, nothing is unacked or open and every home is current.
pub(super) fn at_the_end(job: &Job, state: &State) -> Result<(), String> {
    if !state.is_finished(job) {
        return Err("some threads wait for ever".to_owned());
    }
    let mut settled = state.clone();
    settled.settle(job);
    if let Some(broken) = &settled.broken {
        return Err(format!("after a last release: {}", broken.text()));
    }
    for (now, before) in settled.threads.iter().zip(&state.threads) {
        let rests = matches!(now.phase, Phase::Running | Phase::Ended);
        if !rests || now.done > before.done + 1 {
            return Err("a last release does not end".to_owned());
        }
    }
    for node in &settled.nodes {
        rests(job, node)?;
    }
    for (index, placed) in (0u8..).zip(&job.minipages) {
        let (latest, at) = (settled.latest[usize::from(index)], home(&settled, index, placed)?);
        let words = settled.memory[at.index()][usize::from(index)].words;
        if words != latest {
            return Err(format!("m{index} is {words:?} at {at}, but the latest is {latest:?}"));
        }
    }
    Ok(())
}

/// The node that must have what was last written.
fn home(state: &State, index: u8, placed: &Placed) -> Result<NodeId, String> {
    let id = minipage_id(index);
    match placed.consistency {
        Consistency::Sequential => {
            let copies = state.nodes.iter().filter(|node| {
                let holder = node.tables.cell(id).map(|(holder, _)| holder.access());
                holder.is_some_and(|access| access != Access::NoAccess)
            });
            copies.map(|node| node.me).next().ok_or(format!("m{index} is nowhere"))
        }
        Consistency::EagerRelease => {
            let server = state.nodes[placed.manager.index()].tables.eager(id);
            Ok(match server {
                Some((_, Server::Single { writer })) => *writer,
                Some((_, Server::Shared { .. } | Server::Releasing(_))) | None => placed.manager,
            })
        }
        Consistency::LazyRelease | Consistency::Auto => {
            let is_home = |node: &&Arc<Node<OwnedTables>>| {
                node.tables.lazy(id).is_some_and(|copy| copy.home().is_none())
            };
            let homes: Vec<_> = state.nodes.iter().filter(is_home).map(|node| node.me).collect();
            match homes[..] {
                [home] => Ok(home),
                _ => Err(format!("m{index} has the homes {homes:?}")),
            }
        }
    }
}

fn rests(job: &Job, node: &Node<OwnedTables>) -> Result<(), String> {
    let (me, unacked) = (node.me, node.tables.release_tracker());
    if !unacked.is_settled() || !unacked.queue().is_empty() {
        return Err(format!("{me} is not settled: {unacked:?}"));
    }
    if !unacked.early().is_empty() {
        return Err(format!("{me} has not served all: {unacked:?}"));
    }
    if !node.tables.sync_tables().is_quiescent() {
        return Err(format!("{me} does not rest: {:?}", node.tables.sync_tables()));
    }
    for (index, _) in (0u8..).zip(&job.minipages) {
        let id = minipage_id(index);
        let (holder, eager) = (node.tables.cell(id), node.tables.eager(id));
        let lazy = node.tables.lazy(id);
        let idle = holder.is_none_or(|(holder, entry)| holder.is_idle() && entry.is_idle())
            && eager.is_none_or(|(client, server)| client.is_idle() && server.is_idle())
            && lazy.is_none_or(multigrain_protocol::hlrc::Copy::is_idle);
        if !idle {
            return Err(format!("{me} has m{index} open: {holder:?} {eager:?} {lazy:?}"));
        }
    }
    Ok(())
}
