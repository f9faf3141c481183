//! Properties of the reachable graph as a whole: deadlock, livelock, and the outcomes of litmus tests.
//!
//! stateright's `eventually` knows no fairness: two nodes that take a page from each other for
//! ever would fail it. Here every state must be able to reach one where all is done; under strong
//! fairness it then does (AG EF done). Deferred packets count as lost for that, so a
//! thread that waits for one is found; with them, every transaction must be able to close.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use super::model::{Action, JobModel};
use super::sequential_consistency::Outcome;
use super::state::State;

/// The reachable states of a job, by number.
pub(super) struct Graph {
    /// How each state was first reached, but for the first.
    parents: Vec<Option<(u32, Action)>>,
    /// From which to which.
    edges: Vec<(u32, u32)>,
    /// Those of them that no sender need take: deferred packets are sent alone.
    optional: Vec<(u32, u32)>,
    done: Vec<u32>,
    quiescent: Vec<u32>,
    stuck: Vec<u32>,
    /// What the threads had read in the states that are done.
    pub(super) outcomes: BTreeSet<Outcome>,
    /// Steps from the first state to the farthest.
    pub(super) depth: usize,
}

impl Graph {
    /// Explores breadth first. No state of the job may be broken.
    pub(super) fn explore(model: &JobModel) -> Self {
        let mut graph = Self {
            parents: Vec::new(),
            edges: Vec::new(),
            optional: Vec::new(),
            quiescent: Vec::new(),
            done: Vec::new(),
            stuck: Vec::new(),
            outcomes: BTreeSet::new(),
            depth: 0,
        };
        let mut numbers = HashMap::<u64, u32>::new();
        let mut frontier = VecDeque::<(State, u32, usize)>::new();
        for state in model.init_states() {
            numbers.insert(fingerprint(&state), 0);
            graph.parents.push(None);
            frontier.push_back((state, 0, 0));
        }
        let mut actions = Vec::new();
        while let Some((state, number, depth)) = frontier.pop_front() {
            graph.depth = graph.depth.max(depth);
            graph.visit(model, &state, number, &mut actions);
            for action in actions.drain(..) {
                let Some(next) = model.next_state(&state, action) else { continue };
                let fresh = u32::try_from(graph.parents.len()).expect("fewer than 2^32 states");
                let target = *numbers.entry(fingerprint(&next)).or_insert(fresh);
                match action {
                    Action::Release { .. } | Action::Keep(_) => {
                        graph.optional.push((number, target));
                    }
                    Action::Deliver { .. }
                    | Action::Run(_)
                    | Action::Withdraw(_)
                    | Action::EndLock(..)
                    | Action::Miss(..)
                    | Action::End(..) => graph.edges.push((number, target)),
                }
                if target == fresh {
                    graph.parents.push(Some((number, action)));
                    frontier.push_back((next, fresh, depth + 1));
                }
            }
        }
        graph
    }

    fn visit(&mut self, model: &JobModel, state: &State, number: u32, actions: &mut Vec<Action>) {
        model.actions(state, actions);
        let forced = |action: &Action| !matches!(action, Action::Release { .. } | Action::Keep(_));
        if state.is_quiescent(&model.job) {
            self.quiescent.push(number);
            self.outcomes.insert(state.threads.iter().map(|thread| thread.reads.clone()).collect());
        } else if !actions.iter().any(forced) {
            self.stuck.push(number);
        }
        if state.is_done(&model.job) {
            self.done.push(number);
        } else if actions.is_empty() && state.is_quiescent(&model.job) {
            self.stuck.push(number);
        }
    }

    pub(super) fn states(&self) -> usize {
        self.parents.len()
    }

    /// The steps to the nearest state with nothing left to do that is not done.
    pub(super) fn deadlock(&self) -> Option<Vec<Action>> {
        self.stuck.first().map(|&state| self.path(state))
    }

    /// The steps to the nearest state from which the programs cannot end, were nothing deferred
    /// ever sent alone; or from which the last transaction cannot be closed.
    pub(super) fn livelock(&mut self) -> Option<Vec<Action>> {
        let lost = first_lost(self.states(), &self.edges, &self.quiescent);
        self.edges.append(&mut self.optional);
        let lost = lost.or_else(|| first_lost(self.states(), &self.edges, &self.done))?;
        Some(self.path(lost))
    }

    fn path(&self, mut state: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some((parent, action)) = self.parents[state as usize] {
            actions.push(action);
            state = parent;
        }
        actions.reverse();
        actions
    }
}

/// The first state from which no path along the edges leads to one of `ends`.
pub(crate) fn first_lost(states: usize, edges: &[(u32, u32)], ends: &[u32]) -> Option<u32> {
    let mut starts = vec![0u32; states + 1];
    for &(_, to) in edges {
        starts[to as usize + 1] += 1;
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut fill = starts.clone();
    let mut before = vec![0u32; edges.len()];
    for &(from, to) in edges {
        before[fill[to as usize] as usize] = from;
        fill[to as usize] += 1;
    }
    let mut leads = vec![false; states];
    let mut work = ends.to_vec();
    while let Some(state) = work.pop() {
        if core::mem::replace(&mut leads[state as usize], true) {
            continue;
        }
        let range = starts[state as usize] as usize..starts[state as usize + 1] as usize;
        work.extend_from_slice(&before[range]);
    }
    let lost = leads.iter().position(|&leads| !leads)?;
    Some(u32::try_from(lost).expect("fewer than 2^32 states"))
}

pub(crate) fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
