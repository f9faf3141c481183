//! Everything of a job outside of its launcher: processes, and what they could leave behind.
//!
//! All processes of a job, its launcher and its watchdog too, carry a mark in their environment.

use anyhow::Result;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit, test_kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The variable every process of a job inherits.
pub(super) const MARK: &str = "MULTIGRAIN_INJECT";

/// A process of a job.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    environment: BTreeMap<String, String>,
}

/// All live processes with this mark.
pub(super) fn processes(mark: &str) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
            let environment = environment(&fs::read(entry.path().join("environ")).ok()?);
            let process = Process { pid, environment };
            (process.variable(MARK) == Some(mark)).then_some(process)
        })
        .collect()
}

fn environment(bytes: &[u8]) -> BTreeMap<String, String> {
    let variable = |bytes| {
        let text = String::from_utf8_lossy(bytes);
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    bytes.split(|&byte| byte == 0).filter_map(variable).collect()
}

impl Process {
    /// A variable it was started with.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// Its rank, if it is a node.
    pub(super) fn rank(&self) -> Option<u32> {
        self.variable("MULTIGRAIN_RANK")?.parse().ok()
    }

    /// Whether it is the process that ends the job of a killed launcher.
    pub(super) fn is_watchdog(&self) -> bool {
        self.read("comm").starts_with("mg-watchdog")
    }

    /// Processor time it has used, in clock ticks.
    pub(super) fn ticks(&self) -> u64 {
        let stat = self.read("stat");
        // PID (NAME) STATE ...; the name may hold anything, the last ')' ends it.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace());
        // The user's and the system's share are fields 14 and 15.
        fields
            .map_or(0, |fields| fields.skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum())
    }

    /// What it is doing, thread by thread.
    pub(super) fn describe(&self) -> String {
        let who = match self.rank() {
            Some(rank) => format!("node {rank}"),
            None => self.read("comm"),
        };
        let mut text = format!("{who} (pid {}):", self.pid);
        for task in fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten()
        {
            let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let status = read("status");
            let state = status.lines().find_map(|line| line.strip_prefix("State:\t"));
            let (name, call) = (read("comm"), read("syscall"));
            let call = call.split_whitespace().next().unwrap_or("?");
            let (name, state) = (name.trim(), state.unwrap_or("?"));
            text += &format!(" {name}: {state}, in {} (system call {call});", read("wchan").trim());
        }
        text
    }

    fn read(&self, file: &str) -> String {
        let text = fs::read_to_string(format!("/proc/{}/{file}", self.pid)).unwrap_or_default();
        text.trim().to_owned()
    }
}

/// What was there before a job: what is there after it and was not is a leftover.
#[derive(Debug)]
pub(super) struct Before(BTreeSet<String>);

impl Before {
    /// To be called before the job starts; `own` is a directory for the job alone.
    pub(super) fn look(own: &Path) -> Self {
        Self(things(own))
    }

    /// What is new since then, and sockets named after the job.
    pub(super) fn left(&self, own: &Path, job: Option<&str>) -> Vec<String> {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let of_job = |line: &&str| job.is_some_and(|job| line.contains(job));
        let sockets = sockets.lines().filter(of_job).map(|line| format!("socket {line}"));
        things(own).difference(&self.0).cloned().chain(sockets).collect()
    }
}

/// Files in shared memory and in the job's own directory, System V segments and the like.
fn things(own: &Path) -> BTreeSet<String> {
    let files = |directory: &Path| -> Vec<PathBuf> {
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let files = files(own).into_iter().chain(files(Path::new("/dev/shm")));
    let mut all: BTreeSet<String> = files.map(|path| format!("file {}", path.display())).collect();
    for kind in ["shm", "sem", "msg"] {
        let list = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        // Key and id name it; the rest of the line changes while it lives.
        let name = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let lines = list.lines().skip(1).filter(|line| may_be_of_a_job(kind, line));
        all.extend(lines.map(|line| format!("System V {kind} {}", name(line))));
    }
    all
}

/// Whether a job may have left this System V object, and not another program of this host: nodes make none with a key, and
/// nobody is attached to a segment that is left, nor is its creator alive. `line` is one of /proc/sysvipc/ (proc_sysvipc_shm(5)).
fn may_be_of_a_job(kind: &str, line: &str) -> bool {
    let field = |column| line.split_whitespace().nth(column).and_then(|field| field.parse().ok());
    let lives = |creator| test_kill_process(creator) != Err(Errno::SRCH);
    let is_used = || field(6) != Some(0) || field(4).and_then(Pid::from_raw).is_some_and(lives);
    field(0) == Some(0) && (kind != "shm" || !is_used())
}

/// Nodes that abort must not fill the disk.
pub(super) fn dump_no_cores() -> Result<()> {
    let limit = getrlimit(Resource::Core);
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit })?)
}

/// Bytes of address space and of private memory in use, and open descriptors.
pub(super) fn usage(pid: Pid, resource: Resource) -> io::Result<u64> {
    if resource == Resource::Nofile {
        return Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64);
    }
    let column = match [Resource::As, Resource::Data].map(|one| one == resource) {
        [true, _] => 0,
        [_, true] => 5,
        [false, false] => return Ok(0),
    };
    let pages = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = pages.split_whitespace().nth(column).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_a_leftover_and_an_old_one_is_not() {
        let own = std::env::temp_dir().join(format!("multigrain-traces-{}", std::process::id()));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("old"), "").unwrap();
        let before = Before::look(&own);
        fs::write(own.join("new"), "").unwrap();
        let left = before.left(&own, None);
        fs::remove_dir_all(&own).unwrap();
        assert_eq!(left, [format!("file {}", own.join("new").display())]);
    }

    #[test]
    fn a_segment_of_one_who_lives_or_that_is_attached_or_has_a_key_is_no_leftover() {
        let is_left = |key: i32, creator: u32, attached: u32| {
            let line =
                format!("{key} 8060979 1600 4096 {creator} 7 {attached} 0 0 0 0 1 0 1 4096 0");
            may_be_of_a_job("shm", &line)
        };
        let (alive, dead) = (std::process::id(), u32::MAX >> 1);
        assert!(is_left(0, dead, 0));
        assert!(!is_left(0, alive, 0) && !is_left(0, dead, 1) && !is_left(889_590_932, dead, 0));
        assert!(may_be_of_a_job("sem", "0 3 600 2 0 0 0 0 1 1"));
        assert!(!may_be_of_a_job("msg", "7 3 600 0 0 0 0 0 0 0 0 1 1 1"));
    }
}
