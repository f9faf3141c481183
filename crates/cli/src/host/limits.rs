//! Limits: processes and locked memory of the user, memory mappings of a process.

use super::Needs;
use super::finding::Finding;
use multigrain_types::limits::MAX_HELPERS;
use rustix::process::{Resource, geteuid, getrlimit};
use std::fs;

/// Kernels allow as many mappings unless they are told otherwise.
const USUAL_MAPPINGS: u64 = 65_530;

/// Whether a limit is less than what is needed.
pub(super) fn is_most(limit: Option<u64>, needed: u64) -> bool {
    limit.is_some_and(|limit| limit < needed)
}

/// Whether the nodes and their threads can be started.
pub(super) fn processes(needs: &Needs) -> Finding {
    let check = "processes";
    let most = getrlimit(Resource::Nproc).current.filter(|_| !geteuid().is_root());
    let found = match most {
        Some(most) => format!("a user may have {most} with their threads (ulimit -u)"),
        None => "unlimited".to_owned(),
    };
    let needed = u64::from(needs.here) * (u64::from(needs.threads) + u64::from(MAX_HELPERS));
    if is_most(most, needed) {
        let limits = format!("{} nodes of {} threads need {needed}", needs.here, needs.threads);
        let remedy =
            format!("ulimit -u {}, or a higher limit as root", needed.next_multiple_of(1024));
        return Finding::prevents(check, found, limits, remedy);
    }
    Finding::fine(check, found)
}

/// How much memory a program may lock: nothing of Multigrain's is.
pub(super) fn locked_memory() -> Finding {
    let check = "locked memory";
    Finding::fine(
        check,
        match getrlimit(Resource::Memlock).current {
            Some(most) => format!(
                "{} KiB (ulimit -l), which only a program feels that locks its own",
                most >> 10
            ),
            None => "unlimited".to_owned(),
        },
    )
}

/// How many mappings a process may have.
pub(super) fn mappings() -> Finding {
    let check = "mappings";
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let Ok(count) = text.trim().parse::<u64>() else {
        return Finding::fine(check, "not known: there is no /proc/sys/vm/max_map_count");
    };
    let found = format!("vm.max_map_count is {count}");
    if count < USUAL_MAPPINGS {
        let limits = "views of allocations, and minipages under the guard mprotect, take one each";
        return Finding::limits(check, found, limits, "sysctl -w vm.max_map_count=1048576");
    }
    Finding::fine(check, found)
}
