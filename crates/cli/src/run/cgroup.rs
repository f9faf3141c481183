//! A control group for the job, where the system lets this user make one: every process that a node forks is
//! born in it and stays there, even with a session, a parent and an environment of its own.
//!
//! While the launcher lives it is a child subreaper, so such a process becomes its child. The group serves the
//! watchdog after the launcher was killed. Two things escape both: a process that moves itself to another group,
//! and a launcher and a watchdog that are killed at the same moment (ADR 34).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the group's last processes may take to be gone.
const EMPTY_WAIT: Duration = Duration::from_secs(1);
/// Between two looks whether they are, if the system does not say.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The group; removed when this is dropped.
#[derive(Debug)]
pub(super) struct Cgroup {
    path: PathBuf,
    /// The launcher's own.
    parent: PathBuf,
}

impl Cgroup {
    /// Where it is to be, before it is made: who is to remove it has to know. None without control groups of version 2.
    pub(super) fn planned(job: &str) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let parent = mounts.lines().find_map(|mount| directory(mount, own))?;
        Some(Self { path: parent.join(format!("multigrain-{job}")), parent })
    }

    /// Makes it; none where none may be made, or it has no `cgroup.kill`.
    pub(super) fn made(self) -> Option<Self> {
        fs::create_dir(&self.path).ok()?;
        self.path.join("cgroup.kill").exists().then_some(self)
    }

    /// The group of this directory, which another process has made.
    pub(super) fn at(path: &Path) -> Self {
        let parent = path.parent().unwrap_or(path).to_path_buf();
        Self { path: path.to_path_buf(), parent }
    }

    /// Its directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The caller, with the children it forks, is in the group from now on.
    pub(super) fn enter(&self) {
        let _ = fs::write(self.path.join("cgroup.procs"), "0");
    }

    /// The caller is where it was before.
    pub(super) fn leave(&self) {
        let _ = fs::write(self.parent.join("cgroup.procs"), "0");
    }

    /// Kills all processes of the group.
    pub(super) fn kill(&self) {
        kill(&self.path);
    }

    /// Removes it once its processes are gone, and those of agents on this host, which are killed with the launcher whose
    /// descendants they are, and their watchdogs with them.
    pub(super) fn remove(&self) {
        let deadline = Instant::now() + EMPTY_WAIT;
        let own = self.path.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!("{own}-");
        let beside = fs::read_dir(&self.parent).into_iter().flatten().flatten();
        beside
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
            .for_each(|entry| remove_by(&entry.path(), deadline));
        remove_by(&self.path, deadline);
    }
}

/// With the groups in it: of jobs that nodes have started, whose launchers and watchdogs were killed with them.
fn remove_by(path: &Path, deadline: Instant) {
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    inside
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .for_each(|entry| remove_by(&entry.path(), deadline));
    while rustix::fs::rmdir(path) == Err(Errno::BUSY) && Instant::now() < deadline {
        // Wakes when the last process is gone.
        let Ok(mut events) = File::open(path.join("cgroup.events")) else { return };
        // Only what changes after it was read wakes.
        let _ = events.read(&mut [0; 256]);
        let _ = poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&POLL_INTERVAL));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Kills all processes of the group of this directory.
pub(super) fn kill(path: &Path) {
    let _ = fs::write(path.join("cgroup.kill"), "1");
}

/// The directory of the group `own`, if this line of mountinfo is of version 2's hierarchy:
/// `ID PARENT DEVICE ROOT PLACE OPTIONS... - cgroup2 ...`.
fn directory(mount: &str, own: &str) -> Option<PathBuf> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut words = place.split(' ').skip(3);
    let (root, place) = (words.next()?, words.next()?);
    let inside = Path::new(own).strip_prefix(root).ok()?;
    kind.starts_with("cgroup2 ").then(|| Path::new(place).join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of agents on this host stayed where the launcher killed those and their watchdogs.
    #[test]
    fn the_groups_of_a_jobs_agents_go_with_its_own_and_no_others() {
        let parent = std::env::temp_dir().join(format!("groups-{}", std::process::id()));
        let at = |name: &str| parent.join(name);
        let of_a_node = "multigrain-5/multigrain-6";
        for name in [of_a_node, "multigrain-5-0", "multigrain-5-12", "multigrain-57-0"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        Cgroup::at(&at("multigrain-5")).remove();
        let left = fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["multigrain-57-0"]);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn the_groups_directory_is_found_through_the_mount() {
        let whole = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw";
        let part = "41 31 0:38 /user /cg rw - cgroup2 none rw";
        let found = |mount, own| directory(mount, own);
        assert_eq!(found(whole, "/"), Some(PathBuf::from("/sys/fs/cgroup/")));
        assert_eq!(found(whole, "/user/me"), Some(PathBuf::from("/sys/fs/cgroup/user/me")));
        assert_eq!(found(part, "/user/me"), Some(PathBuf::from("/cg/me")));
        assert_eq!(found(part, "/other"), None);
        assert_eq!(found("41 31 0:38 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw", "/"), None);
    }
}
