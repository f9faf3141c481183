//! What the nodes of a job report while it runs, and the lines that are printed for it.

use super::deadlock::Watch;
use super::races::{Check, Outcome, Races};
use super::refused_connections::Refused;
use multigrain_types::control::Count;
use std::time::Duration;

/// How long a line of an agent's stderr waits: ssh says as its last words that the connection is closed, and then the host is lost.
const STDERR_WAIT: Duration = Duration::from_millis(200);

/// The reports of all nodes.
pub(super) struct Reports {
    pub(super) deadlock: Watch,
    pub(super) refused: Refused,
    /// Lines of what leads to a host: when each is said, and the host.
    stderr_lines: Vec<(Duration, usize, String)>,
    pub(super) races: Races,
    count: Option<Count>,
    /// Of programs of System V calls, which processes wait, and for what.
    blocked: Option<String>,
}

impl Reports {
    /// None so far, of so many nodes.
    pub(super) fn new(nodes: usize, races: Check) -> Self {
        let (deadlock, races) = (Watch::new(nodes), Races::new(nodes, races));
        let (refused, stderr_lines) = (Refused::default(), Vec::new());
        Self { deadlock, refused, stderr_lines, races, count: None, blocked: None }
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

    /// What leads to a host has written this line.
    pub(super) fn agent_stderr(&mut self, host: usize, line: String, now: Duration) {
        self.stderr_lines.push((now + STDERR_WAIT, host, line));
    }

    /// A host is lost, and the verdict says why: its last lines are about that.
    pub(super) fn withdraw(&mut self, lost: usize) {
        self.stderr_lines.retain(|(_, host, _)| *host != lost);
    }

    /// Lines whose time has come.
    pub(super) fn due(&mut self, now: Duration) -> Vec<String> {
        let stderr_lines = self.stderr_lines.extract_if(.., |(at, ..)| *at <= now);
        let stderr_lines: Vec<String> = stderr_lines.map(|(.., line)| line).collect();
        self.refused.due(now).into_iter().chain(stderr_lines).collect()
    }

    /// When the next line is due.
    pub(super) fn next(&self) -> Option<Duration> {
        let stderr_lines = self.stderr_lines.iter().map(|(at, ..)| *at);
        self.refused.next().into_iter().chain(stderr_lines).min()
    }

    /// The job is over, and has failed or not: what was not said.
    pub(super) fn end(&mut self, failed: bool, outcome: Option<Outcome>) -> Vec<String> {
        let stderr_lines =
            core::mem::take(&mut self.stderr_lines).into_iter().map(|(.., line)| line);
        let refused = self.refused.end(failed);
        stderr_lines.chain(refused).chain(self.races.end(outcome)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_last_of_a_host_that_is_lost_is_not_said_twice() {
        let mut reports = Reports::new(2, Check::Off);
        reports.agent_stderr(0, "a: the disk is full".into(), Duration::ZERO);
        reports.agent_stderr(1, "b: Connection to b closed.".into(), Duration::ZERO);
        assert_eq!((reports.due(Duration::ZERO), reports.next()), (vec![], Some(STDERR_WAIT)));
        reports.withdraw(1);
        assert_eq!(reports.due(STDERR_WAIT), ["a: the disk is full"]);
        assert_eq!(reports.next(), None);
        reports.agent_stderr(0, "a: as the job ends".into(), STDERR_WAIT);
        assert_eq!(reports.end(false, None), ["a: as the job ends"]);
    }
}
