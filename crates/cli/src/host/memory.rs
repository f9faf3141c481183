//! Shared memory: made once as a node would make it, to see whether that works.

use super::finding::Finding;
use multigrain_memory::MemoryError;
use rustix::fs::statvfs;

/// What /dev/shm should have room for at least.
const SHM_BYTES: u64 = 64 << 20;

/// Whether memory of that size can be shared: what came of making it.
pub(super) fn shared(bytes: u64, made: Result<(), MemoryError>) -> Finding {
    let check = "shared memory";
    match made {
        Ok(()) => Finding::fine(check, format!("{} MiB of addresses", bytes >> 20)),
        Err(error) => {
            let (found, remedy) = in_two(&error);
            Finding::prevents(check, found, "no node can start", remedy)
        }
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
pub(super) fn in_two(error: &MemoryError) -> (String, String) {
    let text = error.to_string();
    let both = text.rsplit_once(": ").map(|(found, remedy)| (found.to_owned(), remedy.to_owned()));
    match (error, both) {
        // It ends with the kernel's words.
        (MemoryError::System { .. }, _) | (_, None) => (text, String::new()),
        (_, Some(both)) => both,
    }
}
