//! The report of runs of a plan.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use multigrain_types::NodeId;

use super::cluster::{Broken, Subject, Traffic};
use super::network_model::NetworkModel;
use super::plan::Plan;
use super::simulation::Simulation;

/// Lines of the trace of a failure.
const TRACE: usize = 60;

/// A run that held.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was run.
    pub plan: Plan,
    /// In which network.
    pub network: NetworkModel,
    /// Calls of `Node::step`.
    pub steps: u64,
    /// What went over the links.
    pub traffic: Traffic,
    /// Accesses whose values were checked.
    pub accesses: u64,
    /// Virtual time from start to end.
    pub virtual_ns: u64,
    /// The node that died.
    pub died: Option<NodeId>,
    /// Equal for equal runs.
    pub fingerprint: u64,
}

/// A run that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was run.
    pub plan: Plan,
    /// What is wrong.
    pub broken: Broken,
    /// Calls of `Node::step` until then.
    pub steps: u64,
    /// The last events about what is wrong.
    pub trace: Vec<String>,
}

/// Runs a plan. A plan that fails is run once more to the same end, with a trace.
///
/// # Errors
/// [`Failure`]
///
/// # Panics
/// If the plan has a [`Plan::complaint`].
pub fn run(plan: &Plan) -> Result<Report, Box<Failure>> {
    assert_eq!(plan.complaint(), None, "such a plan is not run");
    let (simulation, ended) = simulate(plan, None);
    let cluster = &simulation.cluster;
    match ended {
        Ok(()) => Ok(Report {
            plan: *plan,
            network: NetworkModel::of(plan.seed, plan.nodes),
            steps: cluster.steps(),
            traffic: cluster.traffic(),
            accesses: simulation.oracle.accesses,
            virtual_ns: cluster.now_ns(),
            died: simulation.course.died,
            fingerprint: cluster.fingerprint(),
        }),
        Err(broken) => {
            let steps = cluster.steps();
            drop(simulation);
            let (mut again, _) = simulate(plan, Some(broken.subject));
            let trace = again.cluster.trace().lines();
            Err(Box::new(Failure { plan: *plan, broken, steps, trace }))
        }
    }
}

fn simulate(plan: &Plan, tracked: Option<Subject>) -> (Simulation, Result<(), Broken>) {
    let mut simulation = Simulation::new(plan);
    if let Some(subject) = tracked {
        simulation.trace(subject, TRACE);
    }
    let ended = catch_unwind(AssertUnwindSafe(|| simulation.run()));
    let ended = ended.unwrap_or_else(|_| {
        let text = "an engine panicked".into();
        Err(Broken { subject: simulation.cluster.subject(), text })
    });
    (simulation, ended)
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, broken: Broken { subject, text }, steps, trace } = self;
        match subject {
            Subject::Job => writeln!(out, "after {steps} steps: {text}")?,
            Subject::Minipage(id) => writeln!(out, "after {steps} steps, {id}: {text}")?,
            Subject::Id(id) => {
                writeln!(out, "after {steps} steps, synchronization id {id}: {text}")?;
            }
        }
        trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        write!(out, "seed {}; to see it again: {plan}", plan.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_about_its_subject_and_does_not_change_the_run() {
        let plan = Plan { virtual_ns: 300_000_000, ..Plan::new(1, 3) };
        let (plain, ended) = simulate(&plan, None);
        ended.unwrap();
        let minipage = plain.cluster.id(0);
        let (mut traced, _) = simulate(&plan, Some(Subject::Minipage(minipage)));
        assert_eq!(traced.cluster.fingerprint(), plain.cluster.fingerprint());
        let lines = traced.cluster.trace().lines();
        assert_eq!(lines.len(), TRACE);
        assert!(lines.iter().any(|line| line.contains("takes")), "{lines:#?}");
        let other = format!("{:?}", plain.cluster.id(1));
        assert!(
            lines.iter().all(|line| !line.contains(&format!("minipage: {other},"))),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_failure_names_its_seed_and_the_command_that_shows_it_again() {
        let broken = Broken { subject: Subject::Job, text: "it broke".into() };
        let plan = Plan { virtual_ns: 3_600_000_000, ..Plan::new(42, 3) };
        let failure = Failure { plan, broken, steps: 9, trace: vec!["the last line".into()] };
        let command = "seed 42; to see it again: multigrain sim --seed 42 --nodes 3 --hours 0.001 \
                       --threads 2 --minipages 48 --deaths some";
        assert_eq!(
            failure.to_string(),
            format!("after 9 steps: it broke\nthe last line\n{command}")
        );
    }
}
