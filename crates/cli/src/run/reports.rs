//! What the nodes of a job report while it runs, and the lines that are printed for it.

use super::deadlock::Watch;
use super::races::{Check, Outcome, Races};
use super::refused_connections::Refused;
use multigrain_types::control::Count;
use std::time::Duration;

/// The reports of all nodes.
pub(super) struct Reports {
    pub(super) deadlock: Watch,
    pub(super) refused: Refused,
    pub(super) races: Races,
    count: Option<Count>,
    /// Of programs of System V calls, which processes wait, and for what.
    blocked: Option<String>,
}

impl Reports {
    /// None so far, of so many nodes.
    pub(super) fn new(nodes: usize, races: Check) -> Self {
        let (deadlock, races) = (Watch::new(nodes), Races::new(nodes, races));
        Self { deadlock, refused: Refused::default(), races, count: None, blocked: None }
    }

    /// Who waits, and for what, as far as that is known.
    pub(super) fn waiting(&self) -> Option<String> {
        match &self.blocked {
            // Where nodes are sites, their own threads are nothing to the user.
            Some(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            None => self.deadlock.waiting(),
        }
    }

    /// A site says which processes of the job wait.
    pub(super) fn receive_blocked(&mut self, text: String) {
        self.blocked = Some(text);
    }

    /// How far the program is: as far as the farthest node that says so.
    pub(super) fn count(&self) -> Option<Count> {
        self.count
    }

    /// A node says how far it is.
    pub(super) fn receive_count(&mut self, count: Count) {
        if self.count.is_none_or(|largest| count.done >= largest.done) {
            self.count = Some(count);
        }
    }

    /// Lines whose time has come.
    pub(super) fn due(&mut self, now: Duration) -> Vec<String> {
        self.refused.due(now)
    }

    /// When the next line is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.refused.next()
    }

    /// The job is over, and has failed or not: what was not said.
    pub(super) fn end(&mut self, failed: bool, outcome: Option<Outcome>) -> Vec<String> {
        let refused = self.refused.end(failed);
        refused.into_iter().chain(self.races.end(outcome)).collect()
    }
}
