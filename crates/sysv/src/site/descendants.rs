//! All that a site's program has forked: what nobody else waits for is this process's, and nothing of it outlives the site, for
//! its memory is guarded no more then.

use std::fs;
use std::sync::mpsc::{RecvError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal,
    set_child_subreaper, wait,
};

use super::{end, no_thread};

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitStatus {
    Exited(i32),
    Killed(i32),
}

/// From now on processes whose parents have ended are this one's children.
///
/// # Errors
/// The system call's.
pub(super) fn adopt() -> Result<(), Errno> {
    set_child_subreaper(Some(getpid()))
}

/// Waits for all children, and returns when one has ended.
///
/// # Errors
/// It is none, or was waited for by another.
pub(super) fn reap(child: u32) -> Result<WaitStatus, RecvError> {
    let (ended, of_child) = channel();
    let reaper = thread::Builder::new().name("sysv-reaps".to_owned());
    if let Err(error) = reaper.spawn(move || reap_all(child, &ended)) {
        end(&no_thread("sysv-reaps", &error));
    }
    of_child.recv()
}

fn reap_all(child: u32, ended: &Sender<WaitStatus>) {
    // Until there are none: whoever comes after that is nobody's.
    loop {
        let (pid, status) = match wait(WaitOptions::empty()) {
            Ok(Some(waited)) => waited,
            Ok(None) | Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        if u32::try_from(pid.as_raw_nonzero().get()) != Ok(child) {
            continue;
        }
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => WaitStatus::Exited(code),
            (None, Some(signal)) => WaitStatus::Killed(signal),
            (None, None) => continue,
        };
        // Heard, unless this process is about to end.
        let _ = ended.send(how);
    }
}

/// Between two looks whether all have ended.
const STEP: Duration = Duration::from_millis(1);

/// Kills a process if it is below this one still: another may have got its number meanwhile.
fn kill(pid: i32) {
    let Some(number) = Pid::from_raw(pid) else { return };
    match pidfd_open(number, PidfdFlags::empty()) {
        // It may have ended by itself.
        Ok(process) if is_one(pid) => drop(pidfd_send_signal(process, Signal::KILL)),
        Ok(_) | Err(Errno::SRCH) => {}
        // No descriptor is left: its number is all there is.
        Err(_) if is_one(pid) => drop(kill_process(number, Signal::KILL)),
        Err(_) => {}
    }
}

/// Kills all that is left, and what that forks meanwhile.
pub(super) fn kill_all() {
    loop {
        let left = all();
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(kill);
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        // One that is in a system call that cannot be ended takes a while.
        thread::sleep(STEP);
    }
}

/// The parent of a process.
pub(super) fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse(&stat).map(|of| of.parent)
}

/// The groups of a process beside its own, as they are now.
pub(super) fn groups_of(pid: i32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

/// Whether a process is below this one.
pub(super) fn is_one(mut pid: i32) -> bool {
    let own = getpid().as_raw_nonzero().get();
    while pid > 1 {
        if pid == own {
            return true;
        }
        pid = parent_of(pid).unwrap_or(0);
    }
    false
}

/// The processes below this one that have not ended.
pub(super) fn all() -> Vec<i32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(of_process) = parse(&stat) {
            parents.push(of_process);
        }
    }
    let mut found = vec![getpid().as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        found.extend(parents.iter().filter(|of| of.parent == parent).map(|of| of.pid));
    }
    let lives = |pid: &i32| parents.iter().any(|of| of.pid == *pid && !of.has_ended);
    found[1..].iter().copied().filter(lives).collect()
}

/// What /proc says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OfProcess {
    pid: i32,
    parent: i32,
    has_ended: bool,
}

/// Words of that line between the parent and the number of threads.
const THREADS_BEHIND_PARENT: usize = 15;

/// The name in its brackets may hold anything.
fn parse(stat: &str) -> Option<OfProcess> {
    let (pid, rest) = stat.split_once(" (")?;
    let mut words = rest.rsplit_once(") ")?.1.split(' ');
    let is_zombie = matches!(words.next()?, "Z" | "X");
    let parent = words.next()?.parse().ok()?;
    // A process whose first thread has ended is a zombie to look at, and its other threads go on.
    let threads: u32 = words.nth(THREADS_BEHIND_PARENT)?.parse().ok()?;
    Some(OfProcess { pid: pid.parse().ok()?, parent, has_ended: is_zombie && threads <= 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let read = |pid, parent, has_ended| Some(OfProcess { pid, parent, has_ended });
        let rest = "12 12 0 -1 4 9 8 7 6 1 2 3 4 20 0";
        assert_eq!(parse(&format!("12 (sh) S 7 {rest} 1 0")), read(12, 7, false));
        assert_eq!(parse(&format!("12 (a) Z 1 (b) Z 9 {rest} 1 0")), read(12, 9, true));
        assert_eq!(parse(&format!("12 (a) Z 9 {rest} 2 0")), read(12, 9, false), "a thread lives");
        assert_eq!(parse("12 (sh"), None);
        assert_eq!(parse(""), None);
    }
}
