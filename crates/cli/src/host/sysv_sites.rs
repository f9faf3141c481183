//! What `multigrain run --sysv` needs of a host: a site guards the memory of other processes.

use super::finding::Finding;
use crate::preload;
use rustix::process::geteuid;
use std::fs::{self, File};

/// A bit of `CapEff` in /proc/self/status.
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;

/// Whether sites can run here.
pub(super) fn examine() -> Vec<Finding> {
    vec![faults(), looks(), library(), other_users(), namespaces()]
}

/// Whether faults of other processes can be guarded, their forks followed.
fn faults() -> Finding {
    let check = "sites";
    match multigrain_sysv::site::guards_processes() {
        Ok(()) => Finding::fine(check, "userfaultfd tells forks, and faults in system calls"),
        Err((call, errno)) if call.starts_with("userfaultfd") => {
            let found = format!("no userfaultfd for faults of the kernel: {errno}");
            Finding::prevents(check, found, "no --sysv", "run it as root, or with CAP_SYS_PTRACE")
        }
        // The features of a kernel are the same for all users; fork events alone want a privilege.
        Err((call, errno)) => {
            let remedy = match has(SYS_PTRACE) {
                true => "boot Linux 6.4 or newer",
                false => "run it as root, or with CAP_SYS_PTRACE; Linux 6.4 or newer",
            };
            Finding::prevents(check, format!("{call}: {errno}"), "no --sysv", remedy)
        }
    }
}

/// Whether /proc tells of processes of other users.
fn looks() -> Finding {
    let check = "processes of sites";
    if geteuid().is_root() && has(SYS_PTRACE) {
        return Finding::fine(check, "of any user");
    }
    let limits = "programs run as this user alone, and deadlocks of processes are not named";
    Finding::limits(check, "this is not root with CAP_SYS_PTRACE", limits, "run it as root")
}

fn library() -> Finding {
    match preload::library() {
        Ok(file) => Finding::fine("preloaded library", file.display().to_string()),
        Err(why) => Finding::prevents("preloaded library", why, "no --sysv", ""),
    }
}

/// Whether processes that are not root can have their memory guarded.
fn other_users() -> Finding {
    let check = "userfaultfd of other users";
    let sysctl = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    if sysctl.trim() == "1" {
        return Finding::fine(check, "vm.unprivileged_userfaultfd is 1");
    }
    match File::options().read(true).write(true).open("/dev/userfaultfd") {
        Ok(_) => Finding::fine(check, "by /dev/userfaultfd, which sites hand on"),
        Err(error) => Finding::limits(
            check,
            format!("/dev/userfaultfd: {error}; vm.unprivileged_userfaultfd is 0"),
            "programs of other users than root cannot attach segments",
            "as root: sysctl vm.unprivileged_userfaultfd=1",
        ),
    }
}

/// Whether programs that do not load the library can be kept off the host's objects.
fn namespaces() -> Finding {
    let check = "IPC namespaces";
    if has(SYS_ADMIN) {
        return Finding::fine(check, "can be made");
    }
    let limits =
        "programs that do not load the library use the host's objects, and ipcs shows these";
    Finding::limits(check, "may not be made", limits, "run it as root, or with CAP_SYS_ADMIN")
}

fn has(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> capability & 1 != 0)
}
