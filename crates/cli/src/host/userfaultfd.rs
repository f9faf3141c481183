//! Userfaultfd: how accesses to shared memory and written pages are noticed, tried as a node would.

use super::finding::Finding;
use super::memory::{in_two, shared};
use multigrain_memory::{AccessPath, Config, GuardChoice, Memory, MemoryError};
use std::fs;

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

/// Which access paths can be had for memory of that size, and under which guards.
pub(super) fn access_paths(shared_bytes: u64) -> Finding {
    let check = "access paths";
    let (mut found, mut missing) = (Vec::new(), None);
    for path in AccessPath::ALL {
        let config = Config { path, ..Config::new(shared_bytes, GuardChoice::Auto) };
        match Memory::new(&config) {
            Ok(memory) => found.push(format!("{path} under {}", memory.guard())),
            Err(error) => missing = missing.or(Some((path, error))),
        }
    }
    match missing {
        None => Finding::fine(check, found.join(", ")),
        Some((path, error)) => {
            let (found, remedy) = in_two(&error);
            Finding::limits(check, found, format!("no --path {path}"), remedy)
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
