//! Runs as text: one line a step, with what it was and what it changed.

use core::fmt::Write;

use multigrain_types::NodeId;

use super::program::Job;
use super::state::{Packet, Phase, State};
use super::step::Action;
use crate::check::Counterexample;

/// Replays the actions from the first state.
pub(super) fn replay(property: impl Into<String>, job: &Job, actions: &[Action]) -> Counterexample {
    let mut state = State::first(job);
    let mut steps = Vec::new();
    for &action in actions {
        let before = state.clone();
        state.take(job, action);
        steps.push(line(job, &before, action, &state));
    }
    Counterexample { property: property.into(), steps, last: describe(job, &state) }
}

fn packet(packet: &Packet) -> String {
    match packet {
        Packet::Message { message, page, diff } => {
            let mut text = format!("{message:?}");
            if let Some(page) = page {
                let _ = write!(text, " with {page:?}");
            }
            if let Some(diff) = diff {
                let _ = write!(text, " with {diff:?}");
            }
            text
        }
        Packet::Operand(id, operand) => format!("{operand:?} of {id:#x}"),
        Packet::WriteNotices(notices) => format!("{notices:?}"),
        Packet::Notified(id) => format!("word of {id}"),
        Packet::Start(thread) => format!("start of thread {thread}"),
        Packet::Started(thread) => format!("word that thread {thread} runs"),
        Packet::Join(thread) => format!("join of thread {thread}"),
        Packet::Ended(thread) => format!("word that thread {thread} has ended"),
    }
}

/// What a step was, then what it changed.
pub(super) fn line(job: &Job, before: &State, action: Action, after: &State) -> String {
    let mut text = match action {
        Action::Deliver { from, to } => match before.links[job.link(from, to)].front() {
            Some(first) => format!("{to} takes {} of {from}", packet(first)),
            None => format!("{to} takes nothing of {from}"),
        },
        Action::Run(thread) => {
            let (now, plan) = (&before.threads[thread], &job.threads[thread]);
            let op = plan.program.get(now.done as usize);
            let op = op.map_or("end".to_owned(), ToString::to_string);
            let how = match (now.phase, after.threads[thread].phase) {
                (Phase::Begun, _) => "begins, to",
                (Phase::Resumed, _) => "goes on, to",
                (Phase::Released, _) => "has released to",
                (_, Phase::Releasing | Phase::Released) => "releases to",
                (Phase::Woken, _) => "resumes to",
                (Phase::Trapped, _) => "has its trap handled to",
                (_, Phase::Trapped) => "traps to",
                (_, Phase::Faulted | Phase::Woken) => "faults to",
                (_, Phase::Blocked) => "waits to",
                (
                    _,
                    Phase::Running
                    | Phase::Unborn
                    | Phase::Beginning
                    | Phase::Begun
                    | Phase::Resuming
                    | Phase::Resumed
                    | Phase::Ended,
                ) => "does",
            };
            format!("thread {thread} on {} {how} {op}", plan.node)
        }
        Action::EndLock(node, id) => format!("the window of lock {id} is over at {node}"),
        Action::Queue(index) => before.unqueued[index].to_string(),
    };
    changes(job, before, action, after, &mut text);
    text
}

fn changes(job: &Job, before: &State, action: Action, after: &State, text: &mut String) {
    for from in (0..job.nodes).map(NodeId) {
        for to in (0..job.nodes).map(NodeId) {
            let link = job.link(from, to);
            let taken = usize::from(action == Action::Deliver { from, to });
            let old = before.links[link].len().saturating_sub(taken);
            for sent in after.links[link].iter().skip(old) {
                let _ = write!(text, "; sends {} to {to}", packet(sent));
            }
        }
    }
    for (rank, (old, new)) in before.memory.iter().zip(&after.memory).enumerate() {
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            if old.access != new.access {
                let (old, new) = (old.access, new.access);
                let _ = write!(text, "; m{index} goes from {old:?} to {new:?} on node {rank}");
            }
        }
    }
    for (thread, (old, new)) in before.threads.iter().zip(&after.threads).enumerate() {
        if action != Action::Run(thread) && old.phase != new.phase {
            let _ = write!(text, "; thread {thread} wakes");
        }
    }
}

/// A state, in lines.
pub(super) fn describe(job: &Job, state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for (node, pages) in state.nodes.iter().zip(&state.memory) {
        lines.push(format!("{}: {pages:?}", node.me));
        for (index, placed) in (0u8..).zip(&job.minipages) {
            let id = super::program::minipage_id(index);
            let (copy, eager) = (node.tables.lazy(id), node.tables.eager(id));
            let about = match (node.tables.cell(id), eager, copy) {
                (Some((holder, entry)), ..) => format!("{holder:?}, {entry:?}"),
                (_, Some((client, server)), _) if placed.manager == node.me => {
                    format!("{client:?}, {server:?}")
                }
                (_, Some((client, _)), _) => format!("{client:?}"),
                (_, _, copy) => format!("{copy:?}"),
            };
            lines.push(format!("  m{index} ({}): {about}", placed.consistency));
        }
        if !node.tables.sync_tables().is_resting() {
            lines.push(format!("  {:?}", node.tables.sync_tables()));
        }
        lines.push(format!("  {:?}", node.tables.release_tracker()));
    }
    for from in (0..job.nodes).map(NodeId) {
        for to in (0..job.nodes).map(NodeId) {
            let link = &state.links[job.link(from, to)];
            if !link.is_empty() {
                let packets: Vec<_> = link.iter().map(packet).collect();
                lines.push(format!("{from} to {to}: {}", packets.join(", ")));
            }
        }
    }
    lines.extend(state.unqueued.iter().map(|late| format!("later: {late}")));
    for (index, (thread, plan)) in state.threads.iter().zip(&job.threads).enumerate() {
        let (phase, done) = (thread.phase, thread.done);
        lines.push(format!("thread {index} on {}: {phase:?} after {done} steps", plan.node));
    }
    lines.push(format!("last written: {:?}", state.latest));
    lines.extend(state.broken.as_ref().map(|broken| broken.text().to_owned()));
    lines
}
