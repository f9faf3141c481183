//! One random interleaving of one random job, both from a seed.

use core::fmt;
use std::collections::VecDeque;

use super::generate::generate;
use super::program::Job;
use super::state::State;
use super::step::Action;
use super::{properties, trace};
use crate::sim::rng::Rng;

/// Lines of trace that a failure tells.
const LINES: usize = 60;
/// Steps after which a run is said to have no end; programs need a few thousand at most.
const STEPS: u64 = 1_000_000;

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Nodes of the job.
    pub nodes: u16,
    /// Its threads.
    pub threads: usize,
    /// Steps taken.
    pub steps: u64,
    /// Accesses checked.
    pub accesses: usize,
}

/// A run that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed, which is the same run each time.
    pub seed: u64,
    /// What went wrong.
    pub what: String,
    /// The job, one line a minipage and a thread.
    pub job: Vec<String>,
    /// The last steps, one a line.
    pub steps: Vec<String>,
    /// The last state.
    pub last: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "seed {}: {}", self.seed, self.what)?;
        let lines = self.job.iter().chain(&self.steps).chain(&self.last);
        lines.into_iter().try_for_each(|line| writeln!(out, "      {line}"))
    }
}

/// How a run chooses among what can happen.
#[derive(Clone, Debug)]
struct Scheduler {
    rng: Rng,
    /// Actions of these places are put off...
    slow: u64,
    /// ...so many times.
    patience: u32,
}

impl Scheduler {
    fn choose(&mut self, job: &Job, actions: &[Action]) -> Action {
        for _ in 0..self.patience {
            let action = self.rng.pick(actions);
            let place = match action {
                Action::Deliver { from, to } => 32 + job.link(from, to) % 32,
                Action::Run(thread) => thread % 32,
                Action::EndLock(node, _) => 32 + node.index() % 32,
                Action::Queue(late) => late % 32,
            };
            if self.slow >> place & 1 == 0 {
                return action;
            }
        }
        self.rng.pick(actions)
    }
}

fn drawn(seed: u64) -> (Job, Scheduler) {
    let mut rng = Rng::of(seed, 1);
    let job = generate(&mut rng);
    // Few, half or most of the places are slow; threads alone, or links alone, are as well.
    let (first, second) = (rng.bits(), rng.bits());
    let slow =
        rng.pick(&[0, first, first & second, first | second, u64::MAX << 32, u64::MAX >> 32]);
    let patience = rng.below32(12);
    (job, Scheduler { rng: Rng::of(seed, 2), slow, patience })
}

/// One run, step by step.
struct Runner<'a> {
    job: &'a Job,
    scheduler: Scheduler,
    state: State,
    actions: Vec<Action>,
    steps: u64,
}

impl<'a> Runner<'a> {
    fn new(job: &'a Job, scheduler: Scheduler) -> Self {
        Self { job, scheduler, state: State::first(job), actions: Vec::new(), steps: 0 }
    }

    /// What happens next, if anything can.
    fn next(&mut self) -> Option<Action> {
        self.actions.clear();
        self.state.actions(self.job, &mut self.actions);
        let open = !self.actions.is_empty() && self.steps < STEPS;
        self.steps += u64::from(open);
        open.then(|| self.scheduler.choose(self.job, &self.actions))
    }

    fn take(&mut self, action: Action) {
        self.state.take(self.job, action);
    }

    fn verdict(&self) -> Result<(), String> {
        if let Some(broken) = &self.state.broken {
            return Err(broken.text().to_owned());
        }
        if !self.actions.is_empty() {
            return Err(format!("no end after {STEPS} steps"));
        }
        properties::at_the_end(self.job, &self.state)
    }
}

/// Runs the job of a seed.
///
/// # Errors
/// [`Failure`] if a property does not hold.
pub fn simulate(seed: u64) -> Result<Run, Failure> {
    let (job, scheduler) = drawn(seed);
    let mut runner = Runner::new(&job, scheduler);
    while let Some(action) = runner.next() {
        runner.take(action);
    }
    let programs = job.threads.iter().flat_map(|thread| &thread.program);
    let accesses = programs.filter(|op| op.access().is_some()).count();
    match runner.verdict() {
        Ok(()) => {
            let (nodes, threads) = (job.nodes, job.threads.len());
            Ok(Run { nodes, threads, steps: runner.steps, accesses })
        }
        Err(what) => Err(failure(seed, what)),
    }
}

/// Runs it again and writes down what happens.
fn failure(seed: u64, what: String) -> Failure {
    let (job, scheduler) = drawn(seed);
    let mut runner = Runner::new(&job, scheduler);
    let mut steps = VecDeque::new();
    while let Some(action) = runner.next() {
        let before = runner.state.clone();
        runner.take(action);
        let number = runner.steps;
        steps.push_back(format!(
            "{number:6}. {}",
            trace::line(&job, &before, action, &runner.state)
        ));
        if steps.len() > LINES {
            steps.pop_front();
        }
    }
    let mut lines = vec![format!("{} nodes", job.nodes)];
    for (index, placed) in job.minipages.iter().enumerate() {
        let (kind, manager, owner) = (placed.consistency, placed.manager, placed.owner);
        lines.push(format!("m{index}: {kind}, of {manager}, allocated by {owner}"));
    }
    for (index, thread) in job.threads.iter().enumerate() {
        let program: Vec<_> = thread.program.iter().map(ToString::to_string).collect();
        lines.push(format!("thread {index} on {}: {}", thread.node, program.join("; ")));
    }
    let last = trace::describe(&job, &runner.state);
    Failure { seed, what, job: lines, steps: steps.into(), last }
}
