//! Seeded faults of what nodes tell each other: see [`crate::mutants`].

use std::collections::BTreeMap;

use multigrain_types::{MinipageId, NodeId};

use super::{IntervalLog, MigrationPlan, at};
use crate::mutants::{Mutant, on};

impl IntervalLog {
    /// In place of the sole writers: one of the writers of every minipage.
    pub(crate) fn some_writers(&self) -> Option<Vec<(MinipageId, NodeId)>> {
        if !on(Mutant::TwoWritersMoveHome) || self.blurred {
            return None;
        }
        let mut writers = BTreeMap::new();
        for (&writer, log) in &self.logs {
            let written = log.after(at(&self.episode, writer));
            writers.extend(written.map(|(_, minipage)| (minipage, writer)));
        }
        Some(writers.into_iter().collect())
    }

    /// Whether another plan is taken for the last one, for nobody wrote in between.
    pub(crate) fn mistakes(&self, plan: &MigrationPlan) -> bool {
        on(Mutant::OldPlanRepeated) && plan.clock == self.latest.clock
    }

    /// Forgets all that this node knows, as if all nodes did.
    pub(crate) fn forget_early(&mut self) {
        if on(Mutant::NoticesForgottenEarly) {
            let clock = self.clock.clone();
            self.forget(&clock);
        }
    }
}
