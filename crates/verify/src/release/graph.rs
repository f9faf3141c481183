//! The reachable graph as a whole: livelock, which stateright's `eventually` cannot tell from two
//! nodes that take a page from each other for a while.
//!
//! Every state must be able to reach one where nothing is left to do; under strong fairness it then
//! does.

use std::collections::{HashMap, VecDeque};

use super::program::Job;
use super::state::State;
use super::step::Action;
use crate::check::graph::{fingerprint, first_lost};

/// What a search found.
pub(super) struct Graph {
    /// States reached.
    pub(super) states: usize,
    /// Steps from the first state to the farthest.
    pub(super) depth: usize,
    /// The steps to a state from which the programs cannot end, if there is one.
    pub(super) livelock: Option<Vec<Action>>,
}

/// Explores a job, no state of which may be broken, breadth first.
pub(super) fn explore(job: &Job) -> Graph {
    let mut parents: Vec<Option<(u32, Action)>> = vec![None];
    let (mut edges, mut ends, mut depth) = (Vec::new(), Vec::new(), 0);
    let first = State::first(job);
    let mut numbers = HashMap::from([(fingerprint(&first), 0)]);
    let mut frontier = VecDeque::from([(first, 0u32, 0usize)]);
    let mut actions = Vec::new();
    while let Some((state, number, steps)) = frontier.pop_front() {
        depth = depth.max(steps);
        state.actions(job, &mut actions);
        if actions.is_empty() {
            ends.push(number);
        }
        for action in actions.drain(..) {
            let mut next = state.clone();
            next.take(job, action);
            let fresh = u32::try_from(parents.len()).unwrap_or(u32::MAX);
            let target = *numbers.entry(fingerprint(&next)).or_insert(fresh);
            edges.push((number, target));
            if target == fresh {
                parents.push(Some((number, action)));
                frontier.push_back((next, fresh, steps + 1));
            }
        }
    }
    let lost = first_lost(parents.len(), &edges, &ends);
    let livelock = lost.map(|mut state| {
        let mut path = Vec::new();
        while let Some((parent, action)) = parents[state as usize] {
            path.push(action);
            state = parent;
        }
        path.reverse();
        path
    });
    Graph { states: parents.len(), depth, livelock }
}
