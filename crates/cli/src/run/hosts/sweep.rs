//! A last look at a host whose agent was killed, and whose watchdog may have been killed with it: by the same way as to
//! that agent, the launcher has a watchdog there that finds nobody to wait for (ADR 34).

use super::super::{leftovers, spawn};
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One that is under way.
pub(super) struct Sweep(Child);

impl Sweep {
    /// Starts it, by this command; it is no matter if that cannot be.
    pub(super) fn start(command: &[String]) -> Option<Self> {
        let (program, arguments) = command.split_first()?;
        let mut process = Command::new(program);
        process.args(arguments);
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        spawn::in_own_session(&mut process);
        process.spawn().ok().map(Self)
    }

    /// Waits no longer than so long for its end.
    pub(super) fn end(mut self, limit: Duration) {
        let pid = Pid::from_child(&self.0);
        leftovers::wait_for_end(pid, Instant::now() + limit);
        // Not reaped yet, so its group cannot be somebody else's.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.0.wait();
    }
}

/// For the host's shell, whichever that is.
pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
