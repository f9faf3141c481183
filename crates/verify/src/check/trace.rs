//! Counterexamples as text: one line a step, with what it was and what it changed.

use core::fmt::{self, Write};

use multigrain_types::NodeId;
use stateright::Model;

use super::model::{Action, JobModel};
use super::state::{Broken, Packet, Phase, State};

/// Why a job fails, and how it comes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The property that does not hold.
    pub property: String,
    /// The steps, one a line.
    pub steps: Vec<String>,
    /// The last state, one line a node and a thread.
    pub last: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "does not hold: {}", self.property)?;
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(out, "{number:4}. {step}")?;
        }
        self.last.iter().try_for_each(|line| writeln!(out, "      {line}"))
    }
}

impl Counterexample {
    /// Replays the actions from the first state.
    pub(super) fn replay(
        property: impl Into<String>,
        model: &JobModel,
        actions: &[Action],
    ) -> Self {
        let mut state = State::first(&model.job);
        let mut steps = Vec::new();
        for &action in actions {
            let Some(next) = model.next_state(&state, action) else { break };
            steps.push(line(model, &state, action, &next));
            state = next;
        }
        Self { property: property.into(), steps, last: describe(model, &state) }
    }
}

fn packet(packet: &Packet) -> String {
    match packet.page {
        Some(content) => format!("{:?} with {content}", packet.message),
        None if packet.deferred => format!("{:?} (deferred)", packet.message),
        None => format!("{:?}", packet.message),
    }
}

/// What a step was, then what it changed.
fn line(model: &JobModel, before: &State, action: Action, after: &State) -> String {
    let job = &model.job;
    let mut text = match action {
        Action::Deliver { from, to } => {
            format!("{to} takes {} of {from}", packet(&before.links[model.link(from, to)][0]))
        }
        Action::Release { from, to } => format!("{from} sends {to} what it has deferred"),
        Action::Keep(thread) => format!("windows hold for thread {thread} what it holds"),
        Action::Withdraw(thread) => format!("thread {thread} waits no longer"),
        Action::End(thread, minipage) => {
            format!("the window of thread {thread} on m{minipage} is over")
        }
        Action::EndLock(node, id) => format!("the window of lock {id} is over at {node}"),
        Action::Run(thread) | Action::Miss(thread, _) => {
            let (now, plan) = (&before.threads[thread], &job.threads[thread]);
            let after = &after.threads[thread];
            let done = usize::from(now.done) - usize::from(now.phase == Phase::Through);
            let op = plan.program[done];
            let how = match (now.phase, after.phase) {
                (Phase::Through, _) => "gives up what it held to",
                (Phase::Woken(_), _) if after.accesses != now.accesses => "resumes, and holds, to",
                (Phase::Woken(_), _) => "resumes to",
                (Phase::Trapped(_), _) => "has its trap handled to",
                (_, Phase::Trapped(_)) => "traps to",
                (_, Phase::Faulted(_) | Phase::Woken(_)) => "faults to",
                (_, Phase::Blocked) => "waits to",
                (Phase::Running | Phase::Faulted(_) | Phase::Blocked, _) => "does",
            };
            let missed = match action {
                Action::Miss(_, minipage) => format!(", of which it misses m{minipage}"),
                Action::Run(_)
                | Action::Deliver { .. }
                | Action::Release { .. }
                | Action::Keep(_)
                | Action::Withdraw(_)
                | Action::EndLock(..)
                | Action::End(..) => String::new(),
            };
            format!("thread {thread} on {} {how} {op}{missed}", plan.node)
        }
    };
    changes(model, before, action, after, &mut text);
    text
}

fn changes(model: &JobModel, before: &State, action: Action, after: &State, text: &mut String) {
    let job = &model.job;
    for from in (0..job.nodes).map(NodeId) {
        for to in (0..job.nodes).map(NodeId) {
            let link = model.link(from, to);
            let taken = usize::from(action == Action::Deliver { from, to });
            for sent in &after.links[link][before.links[link].len() - taken..] {
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
        let own = matches!(
            action,
            Action::Run(it) | Action::Miss(it, _) | Action::Keep(it) if it == thread
        );
        if !own && old.phase != new.phase {
            let _ = write!(text, "; thread {thread} wakes");
        }
    }
}

fn describe(model: &JobModel, state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for (node, pages) in state.nodes.iter().zip(&state.memory) {
        lines.push(format!("{}: {pages:?}", node.me));
        for index in 0..model.job.minipages.len() {
            let index = u8::try_from(index).expect("few minipages");
            let (holder, entry) = super::state::cell(node, index);
            let managed = model.job.minipages[usize::from(index)].manager == node.me;
            let entry = if managed { format!(", {entry:?}") } else { String::new() };
            lines.push(format!("  m{index}: {holder:?}{entry}"));
        }
        if !node.tables.sync_tables().is_resting() {
            lines.push(format!("  {:?}", node.tables.sync_tables()));
        }
    }
    for from in (0..model.job.nodes).map(NodeId) {
        for to in (0..model.job.nodes).map(NodeId) {
            let link = &state.links[model.link(from, to)];
            if !link.is_empty() {
                let packets: Vec<_> = link.iter().map(packet).collect();
                lines.push(format!("{from} to {to}: {}", packets.join(", ")));
            }
        }
    }
    for (index, thread) in state.threads.iter().enumerate() {
        lines.push(format!("thread {index}: {:?} after {} steps", thread.phase, thread.done));
    }
    lines.push(format!("last written: {:?}", state.latest));
    if let Some(Broken::Protocol(text) | Broken::World(text) | Broken::StaleRead(text)) =
        &state.broken
    {
        lines.push(text.clone());
    }
    lines
}
