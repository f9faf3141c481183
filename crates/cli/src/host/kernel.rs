//! The kernel: its version, process descriptors, processors, huge pages.

use super::Needs;
use super::finding::Finding;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::fs;

/// From which version on the guard uffd works.
const OF_GUARD: (u32, u32) = (6, 4);
/// Who decides whether shared memory gets huge pages.
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Which kernel this is.
pub(super) fn version() -> Finding {
    let check = "kernel";
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let found = format!("Linux {release} on {}", uname.machine().to_string_lossy());
    let mut numbers = release.split(['.', '-', '+']).map(|number| number.parse().ok());
    let version = numbers.next().flatten().zip(numbers.next().flatten());
    if version.is_some_and(|version: (u32, u32)| version < OF_GUARD) {
        let (major, minor) = OF_GUARD;
        let limits = format!(
            "the guard uffd needs Linux {major}.{minor}, and mprotect serves 65,000 minipages a node"
        );
        return Finding::limits(check, found, limits, "boot a newer kernel");
    }
    Finding::fine(check, found)
}

/// Whether processes can be watched by descriptors.
pub(super) fn process_descriptors() -> Finding {
    let check = "pidfd_open";
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::fine(check, "works"),
        Err(error) => Finding::prevents(
            check,
            format!("this system or a filter of it refuses process descriptors ({error})"),
            "the launcher watches its nodes by them",
            "boot Linux 5.3 or newer, or allow pidfd_open in the container's seccomp profile",
        ),
    }
}

/// Whether each thread has a processor.
pub(super) fn processors(needs: &Needs) -> Finding {
    let check = "processors";
    let Ok(count) = std::thread::available_parallelism() else {
        return Finding::fine(check, "not known");
    };
    let threads = u64::from(needs.here) * u64::from(needs.threads);
    let found = format!("{count} for {threads} threads of the job");
    if threads <= count.get() as u64 {
        return Finding::fine(check, found);
    }
    let limits = "threads that wait take time from those that compute";
    Finding::limits(check, found, limits, "start fewer nodes here (-n, HOST:SLOTS, -t)")
}

/// Whether the kernel puts huge pages under the views.
pub(super) fn huge_pages() -> Finding {
    let check = "huge pages";
    let text = fs::read_to_string(HUGE).unwrap_or_default();
    let chosen = text.split(['[', ']']).nth(1).unwrap_or("never");
    let found = format!("{chosen} for shared memory");
    match chosen {
        "always" | "within_size" | "force" => Finding::limits(
            check,
            found,
            "the first touch of a page fills 2 MiB, in each node",
            format!("as root: echo advise > {HUGE}"),
        ),
        _ => Finding::fine(check, found),
    }
}
