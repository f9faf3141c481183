//! Containment of the nodes of one host: what makes sure that no process they fork is left over. A control group
//! where one can be made, a watchdog, and the role of child subreaper.

use super::cgroup::Cgroup;
use super::error::LaunchError;
use super::needed_calls::needed_calls;
use super::watchdog::{Ward, Watchdog};
use super::{leftovers, say};
use rustix::process::{PidfdFlags, getpid, pidfd_open, set_child_subreaper};
use std::path::Path;

/// The hold on the nodes that this process starts.
pub(super) struct Containment {
    watchdog: Watchdog,
    group: Option<Cgroup>,
}

impl Containment {
    /// Takes it, for nodes of a job of so many. `name` is that of their group, `mark` what they carry in their
    /// environment. To be called while this process has one thread and no descriptors of the job, and with its
    /// signals blocked.
    pub(super) fn take(
        ward: Ward,
        name: &str,
        mark: &str,
        nodes: u32,
    ) -> Result<Self, LaunchError> {
        needed_calls()
            .map_err(|(name, error)| LaunchError::needed_call(name, nodes, error.into()))?;
        let own = pidfd_open(getpid(), PidfdFlags::empty())
            .map_err(|error| LaunchError::needed_call("pidfd_open", nodes, error.into()))?;
        let group = Cgroup::planned(name);
        let watchdog = Watchdog::start(ward, mark, own, group.as_ref())
            .map_err(|error| LaunchError::system("the watchdog process", nodes, error))?;
        // The watchdog removes it, should this process be killed as soon as it is there.
        let group = group.and_then(Cgroup::made);
        if ward == Ward::Launcher && group.is_none() && !leftovers::sees_processes() {
            say(
                "/proc does not show the processes of this job: what its nodes start in sessions of their own may \
                 outlive it; mount it (mount -t proc proc /proc)",
            );
        }
        let containment = Self { watchdog, group };
        match set_child_subreaper(Some(getpid())) {
            Ok(()) => Ok(containment),
            Err(error) => {
                containment.end();
                Err(LaunchError::system("the child subreaper", nodes, error))
            }
        }
    }

    pub(super) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// The directory of the control group, if there is one.
    pub(super) fn group(&self) -> Option<&Path> {
        self.group.as_ref().map(Cgroup::path)
    }

    pub(super) fn watchdog_mut(&mut self) -> &mut Watchdog {
        &mut self.watchdog
    }

    /// What `start` starts is born in the control group.
    pub(super) fn hold<T>(&self, start: impl FnOnce() -> T) -> T {
        self.group.iter().for_each(Cgroup::enter);
        let started = start();
        self.group.iter().for_each(Cgroup::leave);
        started
    }

    /// All is over, and nothing is left.
    pub(super) fn end(self) {
        // The watchdog last: it removes the group if this process is killed meanwhile.
        drop(self.group);
        self.watchdog.dismiss();
    }
}
