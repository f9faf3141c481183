//! How long a job waits for somebody to take its output.

use super::job::{Job, Phase};
use rustix::process::Signal;
use std::time::Duration;

/// How long a blocked stdout is waited for, if the job was ended from outside.
const DRAIN_WAIT: Duration = Duration::from_secs(1);
/// The same if the user wants out at once: the writer has its turn.
const HURRIED_WAIT: Duration = Duration::from_millis(100);
/// How long a reader may take nothing of the output of a job that failed or that a signal has ended.
const UNREAD_WAIT: Duration = Duration::from_secs(2);

impl Job<'_> {
    /// Whether what is not read yet is waited for.
    pub(super) fn is_patient(&self, now: Duration) -> bool {
        let given_up = self.give_up_at().is_some_and(|at| now >= at);
        self.facts.ended_by.is_none() && !self.user.hurries() && !given_up
    }

    /// When output that nobody takes is given up, unless some is taken until then. Not that of a job which ended
    /// well by itself: there may be a pager.
    pub(super) fn give_up_at(&self) -> Option<Duration> {
        let since = match self.course.phase {
            Phase::Lingering { until: since }
            | Phase::Swept { since }
            | Phase::Draining { since } => since,
            Phase::Running | Phase::Ending { .. } | Phase::Killed { .. } | Phase::Done => {
                return None;
            }
        };
        let user = [Signal::USR1, Signal::USR2].map(Signal::as_raw);
        let ended = self.facts.forwarded.is_some_and(|signal| !user.contains(&signal));
        (ended || self.course.verdict.code != 0)
            .then(|| since.max(self.writer.progress_at()) + UNREAD_WAIT)
    }

    /// Whether output waits at its source because the writer is behind.
    pub(super) fn is_held_back(&self) -> bool {
        self.writer.is_held_back() || self.agents.is_paused()
    }

    /// How long what is to be written is waited for, if somebody is impatient.
    pub(super) fn drain_wait(&self) -> Duration {
        if self.user.hurries() { HURRIED_WAIT } else { DRAIN_WAIT }
    }
}
