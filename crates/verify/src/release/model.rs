//! All interleavings of a small job, by stateright.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::configurations::Configuration;
use super::program::Job;
use super::state::{Broken, State};
use super::step::Action;
use super::{graph, properties, trace};
use crate::check::{Counterexample, Report};

/// All interleavings of a job.
#[derive(Clone, Debug)]
pub struct JobModel {
    /// The job.
    pub job: Job,
}

type Holds = fn(&JobModel, &State) -> bool;

/// Name and predicate of every property.
const ALWAYS: [(&str, Holds); 6] = [
    ("the engines accept every input", |_, state| {
        !matches!(state.broken, Some(Broken::Protocol(_)))
    }),
    ("the worlds' assertions hold", |_, state| !matches!(state.broken, Some(Broken::World(_)))),
    ("a read returns the last write that happens before it", |_, state| {
        !matches!(state.broken, Some(Broken::StaleRead(_)))
    }),
    ("page tables and twins agree with engines", |_, state| {
        !matches!(state.broken, Some(Broken::Disagreement(_)))
    }),
    ("queues are bounded", |model, state| properties::bounded(&model.job, state)),
    ("when nothing can happen all is done", |model, state| {
        let mut actions = Vec::new();
        state.actions(&model.job, &mut actions);
        !actions.is_empty()
            || state.broken.is_some()
            || properties::at_the_end(&model.job, state).is_ok()
    }),
];

impl Model for JobModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.job)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        state.actions(&self.job, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.take(&self.job, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        ALWAYS.iter().map(|&(name, holds)| Property::always(name, holds)).collect()
    }
}

/// Checks one configuration, with two threads.
#[must_use]
pub fn check(configuration: &Configuration) -> Report {
    let begin = Instant::now();
    let model = JobModel { job: configuration.job.clone() };
    // A broken job may have no end of states: the first thing found is enough.
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let shortest = checker
        .discoveries()
        .into_iter()
        .map(|(property, path)| (property, path.into_actions()))
        .min_by_key(|(property, actions)| (actions.len(), *property));
    let job = &configuration.job;
    let mut report = Report {
        name: configuration.name,
        states: checker.unique_state_count(),
        expected: configuration.states,
        depth: checker.max_depth(),
        outcomes: 0,
        elapsed: Duration::ZERO,
        counterexample: shortest.map(|(property, actions)| counterexample(property, job, &actions)),
    };
    if report.counterexample.is_none() {
        let graph = graph::explore(job);
        assert_eq!(graph.states, report.states, "two searches of {} differ", report.name);
        report.depth = graph.depth;
        report.counterexample =
            graph.livelock.map(|actions| counterexample("the programs can end", job, &actions));
    }
    report.elapsed = begin.elapsed();
    report
}

fn counterexample(property: &str, job: &Job, actions: &[Action]) -> Counterexample {
    let mut found = trace::replay(property, job, actions);
    let mut state = State::first(job);
    actions.iter().for_each(|&action| state.take(job, action));
    found.last.extend(properties::at_the_end(job, &state).err());
    found
}
