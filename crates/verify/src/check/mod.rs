//! The model checker: the real `Node::step` of every node, all interleavings of messages on FIFO
//! links and of the threads' accesses, for small programs.
//!
//! - [`program`]: what the threads do. [`configurations`]: the table of checked jobs.
//! - [`state`], [`model`], `world`: a state of the whole job, its steps, and the memories and links
//!   the nodes act on. Page tables are the world's own, so what a thread may do is never asked of
//!   the engine under test.
//! - `properties`: what holds in every state, checked by stateright. `graph`: deadlock, livelock
//!   and litmus outcomes, which are properties of the reachable graph. [`sequential_consistency`]: sequential
//!   consistency by definition. [`trace`]: counterexamples for people.

pub mod action;
pub mod configurations;
pub(crate) mod graph;
pub mod model;
pub mod program;
mod properties;
pub mod sequential_consistency;
pub mod state;
mod sync_calls;
pub mod trace;
mod world;

use std::time::{Duration, Instant};

pub use configurations::{Configuration, Form, configurations};
pub use program::{Job, Op};
use stateright::{Checker, HasDiscoveries, Model};
pub use trace::Counterexample;

use self::graph::Graph;
use self::model::JobModel;

/// What checking a configuration found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The configuration's name.
    pub name: &'static str,
    /// Unique states reached.
    pub states: usize,
    /// Unique states the table of configurations gives.
    pub expected: usize,
    /// Steps from the first state to the farthest.
    pub depth: usize,
    /// Different results of a litmus test; 0 for other jobs.
    pub outcomes: usize,
    /// Time taken.
    pub elapsed: Duration,
    /// What does not hold, if anything.
    pub counterexample: Option<Counterexample>,
}

impl Report {
    /// Whether everything holds and as many states were reached as the table gives.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counterexample.is_none() && self.states == self.expected
    }
}

/// Checks one configuration, with two threads.
#[must_use]
pub fn check(configuration: &Configuration) -> Report {
    let begin = Instant::now();
    let model = JobModel { job: configuration.job.clone() };
    // A broken job may have no end of states: the first thing found is enough.
    let checker =
        model.clone().checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let mut report = Report {
        name: configuration.name,
        states: checker.unique_state_count(),
        expected: configuration.states,
        depth: checker.max_depth(),
        outcomes: 0,
        elapsed: Duration::ZERO,
        counterexample: None,
    };
    let shortest = checker
        .discoveries()
        .into_iter()
        .map(|(property, path)| (property, path.into_actions()))
        .min_by_key(|(property, actions)| (actions.len(), *property));
    report.counterexample = match shortest {
        Some((property, actions)) => Some(Counterexample::replay(property, &model, &actions)),
        None => check_graph(&model, &mut report),
    };
    report.elapsed = begin.elapsed();
    report
}

/// What needs the whole graph; it must be the one stateright saw.
fn check_graph(model: &JobModel, report: &mut Report) -> Option<Counterexample> {
    let mut graph = Graph::explore(model);
    assert_eq!(graph.states(), report.states, "two searches of {} differ", report.name);
    report.depth = graph.depth;
    if let Some(actions) = graph.deadlock() {
        return Some(Counterexample::replay("no deadlock", model, &actions));
    }
    if let Some(actions) = graph.livelock() {
        return Some(Counterexample::replay("every fault can end", model, &actions));
    }
    if !model.job.observe {
        return None;
    }
    report.outcomes = graph.outcomes.len();
    let allowed = sequential_consistency::outcomes(&model.job);
    let differ: Vec<_> = graph.outcomes.symmetric_difference(&allowed).collect();
    (!differ.is_empty()).then(|| Counterexample {
        property: format!("the outcomes are those of sequential consistency, but for {differ:?}"),
        steps: Vec::new(),
        last: Vec::new(),
    })
}
