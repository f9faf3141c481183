//! Whether the system has killed a process of the job for want of memory: it counts that of a control group, and of
//! the host.

use std::fs;
use std::path::{Path, PathBuf};

/// The counts, as they were when the job began.
#[derive(Debug, Default)]
pub(super) struct MemoryKills(Vec<(PathBuf, u64)>);

impl MemoryKills {
    /// Of the control group that this process is in (that of the nodes, if they get one, is in it and has no limit of its own),
    /// and of the host: whatever there is.
    pub(super) fn so_far() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let group = mounts.lines().filter_map(|mount| file_of_group(mount, &groups));
        let files = group.chain([PathBuf::from("/proc/vmstat")]);
        Self(files.filter_map(|file| count(&file).map(|count| (file, count))).collect())
    }

    /// The file that counts more of them by now, in words.
    pub(super) fn file(&self) -> Option<String> {
        self.risen().map(|file| file.display().to_string())
    }

    /// The same, the group's first.
    fn risen(&self) -> Option<&Path> {
        let more = |(file, before): &&(PathBuf, u64)| count(file).is_some_and(|now| now > *before);
        self.0.iter().find(more).map(|(file, _)| file.as_path())
    }
}

/// The number of processes killed, which the kernel calls `oom_kill` in all these files.
fn count(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Where the group of this process counts, if this line of mountinfo is of a hierarchy with a limit of memory;
/// `groups` is /proc/self/cgroup.
fn file_of_group(mount: &str, groups: &str) -> Option<PathBuf> {
    let (place, kind) = mount.split_once(" - ")?;
    let mut words = place.split(' ').skip(3);
    let (root, place) = (words.next()?, words.next()?);
    let mut kind = kind.split(' ');
    let (version, options) = (kind.next()?, kind.nth(1)?);
    let is_memory = |controllers: &str| controllers.split(',').any(|one| one == "memory");
    let file = match version {
        "cgroup2" => "memory.events",
        "cgroup" if is_memory(options) => "memory.oom_control",
        _ => return None,
    };
    let own = groups.lines().find_map(|line| {
        let (controllers, own) = line.split_once(':')?.1.split_once(':')?;
        let is_its =
            if version == "cgroup2" { controllers.is_empty() } else { is_memory(controllers) };
        is_its.then_some(own)
    })?;
    Some(Path::new(place).join(Path::new(own).strip_prefix(root).ok()?).join(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_file_is_found_in_either_version() {
        let groups = "4:memory:/job/a\n3:cpu,cpuacct:/\n0::/user/me\n";
        let second = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw";
        let first = "35 31 0:32 /job /cg/memory rw - cgroup cgroup rw,memory";
        let found = |mount| file_of_group(mount, groups);
        assert_eq!(found(second), Some("/sys/fs/cgroup/user/me/memory.events".into()));
        assert_eq!(found(first), Some("/cg/memory/a/memory.oom_control".into()));
        assert_eq!(found("35 31 0:32 / /cg/cpu rw - cgroup cgroup rw,cpu"), None);
        assert_eq!(found("35 31 0:32 / /proc rw - proc proc rw"), None);
    }

    #[test]
    fn a_count_that_has_risen_is_told() {
        let file = std::env::temp_dir().join(format!("memory-kills-{}", std::process::id()));
        fs::write(&file, "low 7\noom 9\noom_kill 1\n").unwrap();
        let kills = MemoryKills(vec![("/nonesuch".into(), 0), (file.clone(), 1)]);
        assert_eq!(kills.risen(), None);
        fs::write(&file, "low 7\noom 9\noom_kill 2\n").unwrap();
        assert_eq!(kills.risen(), Some(file.as_path()));
        fs::remove_file(file).unwrap();
    }
}
