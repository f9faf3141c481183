//! Predictions against real runs on this host. Its cores are shared by all nodes of a run.

use anyhow::{Context, Result};
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_verify::scale::{Costs, Hosts, Plan, Projection, project};

use super::real::{Measured, Setting};
use super::{App, RUNS};

/// Numbers of nodes compared.
const NODES: [u16; 2] = [2, 4];
/// Rounds simulated: more than for a projection, for rounds are not all alike on few cores.
const ROUNDS: u32 = 20;
/// How far messages and bytes may differ, where chance has no part in them.
const BOUND: f64 = 0.05;

/// One application on some nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) app: &'static str,
    pub(super) nodes: u16,
    pub(super) predicted: Projection,
    pub(super) measured: Measured,
}

/// Runs it and predicts it, with the costs of this machine.
pub(super) fn compare(app: &App, setting: Setting<'_>, costs: Costs) -> Result<Vec<Row>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = u16::try_from(cores).unwrap_or(u16::MAX);
    let row = |nodes| {
        let plan = Plan {
            pattern: app.small.as_ref(),
            nodes,
            element_ns: app.element_ns,
            costs,
            hosts: Hosts { nodes, cores },
            invalidations: TreeShape::default(),
            placement: setting.manager.placement(nodes),
            most_rounds: ROUNDS,
        };
        let name = app.small.name();
        let predicted = project(&plan)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("{name} on {nodes} nodes"))?;
        let measured = setting.best_of(RUNS, app.small.as_ref(), nodes)?;
        Ok(Row { app: name, nodes, predicted, measured })
    };
    NODES.into_iter().map(row).collect()
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    pub(super) fn predicted_ms(&self) -> f64 {
        self.predicted.ns as f64 / 1e6
    }

    /// Predicted against measured, less 1: of the time, the messages, the bytes, the faults.
    pub(super) fn errors(&self) -> [f64; 4] {
        let Projection { messages, bytes, read_faults, write_faults, .. } = self.predicted;
        #[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
        let counts = [messages, bytes, read_faults + write_faults].map(|count| count as f64);
        let Measured { ms, .. } = self.measured;
        [
            self.predicted_ms() / ms - 1.0,
            counts[0] / self.measured.messages - 1.0,
            counts[1] / self.measured.bytes - 1.0,
            counts[2] / self.measured.faults - 1.0,
        ]
    }

    /// Whether chance has no part in what is sent. In SOR a row is written by one neighbour and
    /// read by the other in the same phase, whoever comes first; in TSP any node may find a tour.
    fn is_settled(&self) -> bool {
        matches!(self.app, "is" | "water" | "lu" | "jacobi")
    }

    /// What is wrong with it.
    pub(super) fn complaint(&self) -> Option<String> {
        let [_, messages, bytes, _] = self.errors();
        let held = messages.abs() <= BOUND && bytes.abs() <= BOUND;
        (self.is_settled() && !held).then(|| {
            format!(
                "{} on {} nodes: messages differ by {:.1}%, bytes by {:.1}%; at most {:.0}% is right",
                self.app,
                self.nodes,
                messages * 100.0,
                bytes * 100.0,
                BOUND * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(app: &'static str, messages: u64) -> Row {
        let predicted = Projection { messages, bytes: 10, ..Projection::default() };
        let measured = Measured { ms: 1.0, messages: 100.0, bytes: 10.0, faults: 1.0 };
        Row { app, nodes: 2, predicted, measured }
    }

    #[test]
    fn counts_may_differ_only_where_chance_has_a_part() {
        assert_eq!(row("lu", 104).complaint(), None);
        assert!(row("lu", 106).complaint().is_some());
        assert!(row("lu", 94).complaint().is_some());
        assert_eq!(row("sor", 150).complaint(), None);
    }
}
