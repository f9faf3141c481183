//! Shared memory and its guards: made once as a node would make them, to see whether that works.

use super::finding::Finding;
use multigrain_memory::{Config, GuardChoice, Memory, MemoryError};
use rustix::fs::statvfs;
use std::fs;

/// What /dev/shm should have room for at least.
const SHM_BYTES: u64 = 64 << 20;

/// Whether memory of that size can be shared, and how accesses to it are noticed.
pub(super) fn objects_and_guard(shared_bytes: u64) -> (Finding, Finding) {
    let made = |guard| Memory::new(&Config::new(shared_bytes, guard));
    let guard = "userfaultfd";
    match made(GuardChoice::Uffd) {
        Ok(_) => {
            let sysctl = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
            let found = match sysctl.as_deref().map(str::trim) {
                Ok("0") => {
                    "works, as vm.unprivileged_userfaultfd=0 does: faults of user mode are all it is for"
                }
                Ok(_) | Err(_) => "works",
            };
            (shared(shared_bytes, Ok(())), Finding::fine(guard, found))
        }
        Err(error @ MemoryError::GuardUnavailable { .. }) => {
            let (found, remedy) = in_two(&error);
            let limits = "65,000 minipages a node under the guard mprotect";
            let without = made(GuardChoice::Mprotect).map(drop);
            (shared(shared_bytes, without), Finding::limits(guard, found, limits, remedy))
        }
        Err(error) => {
            let found = "not tried, for want of memory";
            (shared(shared_bytes, Err(error)), Finding::fine(guard, found))
        }
    }
}

fn shared(bytes: u64, made: Result<(), MemoryError>) -> Finding {
    let check = "shared memory";
    match made {
        Ok(()) => Finding::fine(check, format!("{} MiB of addresses", bytes >> 20)),
        Err(error) => {
            let (found, remedy) = in_two(&error);
            Finding::prevents(check, found, "no node can start", remedy)
        }
    }
}

/// Whether written pages can be found by scans.
pub(super) fn scans() -> Finding {
    let check = "scans";
    let memory = Memory::without_segments(GuardChoice::Mprotect);
    match memory.and_then(Memory::with_tracking) {
        Ok(_) => Finding::fine(check, "work"),
        Err(error @ MemoryError::TrackingUnavailable { .. }) => {
            let (found, remedy) = in_two(&error);
            Finding::limits(check, found, "no --tracking scans", remedy)
        }
        Err(_) => Finding::fine(check, "not tried, for want of memory"),
    }
}

/// Whether programs can share files in memory.
pub(super) fn shm() -> Finding {
    let check = "/dev/shm";
    let limits = "memory that programs bring along lies there (nodes need none of it)";
    let Ok(of) = statvfs("/dev/shm") else {
        let remedy = "mount -t tmpfs tmpfs /dev/shm";
        return Finding::limits(check, "it is missing", limits, remedy);
    };
    let bytes = of.f_blocks.saturating_mul(of.f_frsize);
    let found = format!("{} MiB", bytes >> 20);
    if bytes < SHM_BYTES {
        let remedy =
            "mount -o remount,size=50% /dev/shm (in a container: docker run --shm-size 1g)";
        return Finding::limits(check, found, limits, remedy);
    }
    Finding::fine(check, found)
}

/// What an error of the memory layer says, and what it says to do.
fn in_two(error: &MemoryError) -> (String, String) {
    let text = error.to_string();
    let both = text.rsplit_once(": ").map(|(found, remedy)| (found.to_owned(), remedy.to_owned()));
    match (error, both) {
        // It ends with the kernel's words.
        (MemoryError::System { .. }, _) | (_, None) => (text, String::new()),
        (_, Some(both)) => both,
    }
}
