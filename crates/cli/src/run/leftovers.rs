//! Finds the processes that a job left behind: those that nodes forked and that outlived them.
//!
//! The launcher is a child subreaper, so an orphan of the job becomes its child.
//!
//! Process numbers are those of a PID namespace. Where /proc is of another one (`unshare --pid` without
//! `--mount-proc`), its numbers are other processes' here: nothing is found then, and nobody killed.

use super::facts::{NodeFacts, Status};
use multigrain_types::exit_codes::LAUNCHER_FAILED;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, getpgrp, getpid,
    kill_process, kill_process_group, pidfd_open, test_kill_process, waitid, waitpid,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long dead orphans may wait to be reaped.
const REAP_WAIT: Duration = Duration::from_secs(1);

/// From SIGKILL until what nodes have left is believed not to die.
pub(super) const KILL_WAIT: Duration = Duration::from_millis(1500);

/// From SIGKILL until nodes are believed not to die. A node that is dying needs a processor to give its memory back, and each
/// of many closes as many links: on hosts where 25 others want each processor it has taken above 4 s.
pub(super) fn kill_wait(nodes: usize) -> Duration {
    Duration::from_secs(30) + Duration::from_millis(50) * u32::try_from(nodes).unwrap_or(u32::MAX)
}

/// Whether the numbers in /proc are those of this process's PID namespace.
pub(super) fn sees_processes() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| is_of(&status, getpid()))
}

/// Whether a /proc that says this of the process `own` is of the namespace in which it has that number: `NSpid` has its
/// numbers from the namespace of /proc down to its own.
fn is_of(status: &str, own: Pid) -> bool {
    let numbers = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let own = own.as_raw_nonzero().to_string();
    // Kernels without PID namespaces have no NSpid.
    numbers("NSpid:").or_else(|| numbers("Pid:")) == Some(own.as_str())
}

/// All children of this process but `known`, dead ones included.
pub(super) fn children_but(known: &[Pid]) -> Vec<Pid> {
    let me = getpid();
    processes().filter(|&pid| parent_of(pid) == Some(me) && !known.contains(&pid)).collect()
}

/// All processes whose environment, as they were started, has this variable, such as `MULTIGRAIN_JOB=7f`.
pub(super) fn marked(mark: &str) -> Vec<Pid> {
    let mark = mark.as_bytes();
    let me = getpid();
    processes()
        .filter(|&pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            pid != me && environment.split(|&byte| byte == 0).any(|variable| variable == mark)
        })
        .collect()
}

/// All processes of this user that have a descriptor of this name, such as `socket:[7]`.
pub(super) fn holding(name: &str) -> Vec<Pid> {
    let holds = |pid: &Pid| {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
        let mut names = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        names.any(|held| held.as_os_str() == name)
    };
    processes().filter(holds).collect()
}

/// What nodes have left: when the dead are reaped, and how the last [`REMEMBERED`] have ended, for that one was a node may be
/// known after its end.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    ended: VecDeque<(Pid, Status)>,
    reap_at: Option<Instant>,
}

const REMEMBERED: usize = 4096;

impl Orphans {
    /// A child has ended.
    pub(super) fn reap_later(&mut self) {
        self.reap_at.get_or_insert_with(|| Instant::now() + REAP_WAIT);
    }

    /// When children are to be reaped, if any has ended.
    pub(super) fn reap_at(&self) -> Option<Instant> {
        self.reap_at
    }

    pub(super) fn are_due(&self) -> bool {
        self.reap_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Reaps those children that are dead, but none of `known`.
    pub(super) fn reap_but(&mut self, known: &[Pid]) {
        self.reap_at = None;
        for pid in children_but(known) {
            if let Ok(Some(status)) = waitid(WaitId::Pid(pid), ENDED) {
                self.ended.push_front((pid, Status::of(&status)));
            }
        }
        self.ended.truncate(REMEMBERED);
    }

    /// How this process has ended, if it has, and is or was a child of this one. It is not reaped.
    pub(super) fn end_of(&self, pid: i32) -> Option<Status> {
        let pid = Pid::from_raw(pid)?;
        match waitid(WaitId::Pid(pid), ENDED | WaitIdOptions::NOWAIT) {
            Ok(ended) => ended.map(|status| Status::of(&status)),
            // No child. It may be one yet, if it lives.
            Err(_) if test_kill_process(pid).is_ok() => None,
            Err(_) => self.ended.iter().find(|(of, _)| *of == pid).map(|(_, status)| *status),
        }
    }
}

/// How the process of this descriptor, which is readable, has ended: it is not reaped, so its number, which names the group
/// too, stays ours. None if it has not; and why that is not to be had.
pub(super) fn end_by_pidfd(pidfd: &OwnedFd) -> Option<(Status, Option<String>)> {
    match waitid(WaitId::PidFd(pidfd.as_fd()), ENDED | WaitIdOptions::NOWAIT) {
        Ok(status) => Some((Status::of(&status?), None)),
        // It is dead, for its descriptor is readable.
        Err(error) => {
            let error = io::Error::from(error);
            let why = format!("how it ended is not to be had: waitid: {error}");
            Some((Status::Exited(LAUNCHER_FAILED.into()), Some(why)))
        }
    }
}

const ENDED: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG);

/// Sends a signal to all children but `known`, once: those in the process groups of `known` have it, and whom the others
/// have started gets it as they do, by their groups.
pub(super) fn signal_but(known: &[Pid], signal: Signal) {
    let mut signalled = known.to_vec();
    for pid in children_but(known) {
        match getpgid(Some(pid)) {
            Ok(group) if signalled.contains(&group) => {}
            Ok(group) if group != getpgrp() => {
                let _ = kill_process_group(group, signal);
                signalled.push(group);
            }
            _ => {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Kills and reaps all children but `known`, and the children that they leave in turn, for no longer
/// than `limit`.
pub(super) fn kill_but(known: &[Pid], limit: Duration) {
    let deadline = Instant::now() + limit;
    loop {
        let found = children_but(known);
        for &pid in &found {
            let _ = kill_process(pid, Signal::KILL);
        }
        for &pid in &found {
            wait_for_end(pid, deadline);
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
        if found.is_empty() || Instant::now() >= deadline {
            return;
        }
    }
}

/// Waits until a process is dead, no longer than until then. Of a child that is not reaped.
pub(super) fn wait_for_end(pid: Pid, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    if let (Ok(pidfd), Ok(left)) = (pidfd_open(pid, PidfdFlags::empty()), Timespec::try_from(left))
    {
        let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left));
    }
}

/// What is said of nodes that have not died of SIGKILL.
pub(super) fn left_behind(nodes: &[NodeFacts]) -> String {
    let alive = nodes.iter().enumerate().filter(|(_, node)| !node.is_over());
    let names: Vec<String> = alive
        .map(|(rank, node)| match node.process_id() {
            0 => format!("node {rank}"),
            pid => format!("node {rank} (pid {pid})"),
        })
        .collect();
    format!(
        "killed, and not gone: {}; what does not die of SIGKILL waits for a device or a file system that does not \
         answer, or for a processor. Left behind",
        names.join(", ")
    )
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = sees_processes().then(|| std::fs::read_dir("/proc").ok()).flatten();
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // PID (NAME) STATE PPID ...; the name may hold anything, the last ')' ends it.
    let (_, rest) = stat.rsplit_once(')')?;
    Pid::from_raw(rest.split_ascii_whitespace().nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_proc_of_another_namespace_is_told_by_its_numbers() {
        let own = Pid::from_raw(7).unwrap();
        assert!(is_of("Name:\tx\nPid:\t7\nNSpid:\t7\n", own));
        assert!(is_of("Name:\tx\nPid:\t7\n", own));
        assert!(!is_of("Name:\tx\nPid:\t4711\nNSpid:\t4711\t7\n", own));
        // Numbers that happen to be the same.
        assert!(!is_of("Name:\tx\nPid:\t7\nNSpid:\t7\t7\n", own));
        assert!(!is_of("", own));
    }

    #[test]
    fn a_child_is_found_by_parent_and_by_job_id() {
        let job = format!("leftovers-test-{}", getpid());
        let mut child =
            Command::new("sleep").arg("60").env("MULTIGRAIN_JOB", &job).spawn().unwrap();
        let mark = format!("MULTIGRAIN_JOB={job}");
        let pid = Pid::from_child(&child);
        // The kernel lets the parent go on before the child's new environment can be read.
        while std::fs::read(format!("/proc/{pid}/environ")).unwrap().is_empty() {
            std::thread::yield_now();
        }
        assert!(children_but(&[]).contains(&pid));
        assert!(!children_but(&[pid]).contains(&pid));
        assert_eq!(marked(&mark), [pid]);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
