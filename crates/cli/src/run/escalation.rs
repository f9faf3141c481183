//! From SIGTERM to SIGKILL: how long the nodes of a job may take to end.
//!
//! Role: the times alone. [`super::node_signals`] passes signals on, [`super::job`] has the phases in which they are waited
//! for; how long the dead may take after SIGKILL is in [`super::leftovers`].

use std::time::Duration;

/// Who has sent the nodes SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terminated {
    /// The launcher, for the job is to end.
    ByLauncher,
    /// The user, through the launcher: a program may have a handler that takes its time.
    ByUser,
}

/// How long after SIGTERM comes SIGKILL: as long as the user has asked for (`--kill-after`), or a time of ours.
pub(super) fn kill_after(terminated: Terminated, asked: Option<Duration>) -> Duration {
    asked.unwrap_or(match terminated {
        Terminated::ByLauncher => Duration::from_millis(500),
        Terminated::ByUser => Duration::from_secs(5),
    })
}
