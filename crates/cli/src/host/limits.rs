//! Limits: file descriptors, processes and locked memory of the user, memory mappings of a process.

use super::Needs;
use super::finding::Finding;
use multigrain_types::limits::MAX_HELPERS;
use rustix::process::{Resource, geteuid, getrlimit};
use std::fs;

/// Descriptors that a node and its program are left with, beside those of its links.
const BESIDE_LINKS: u64 = 256;
/// Of the launcher or an agent: a node's control channel, pipes and process descriptor; and its own. No less will do.
const OF_EACH_NODE: u64 = 4;
const OWN: u64 = 13;
/// What it is advised to have besides.
const SPARE: u64 = 17;
/// Kernels allow as many mappings unless they are told otherwise.
const USUAL_MAPPINGS: u64 = 65_530;

/// Descriptors that the launcher needs at least for so many nodes of its host, or an agent for those of its own.
fn least_of_launcher(nodes: u32) -> u64 {
    // The last of several has its listening socket until it is started.
    OF_EACH_NODE * u64::from(nodes) + OWN + u64::from(nodes > 1)
}

/// Descriptors below a limit that this process was given besides the standard ones, as its children are.
fn inherited(limit: u64) -> u64 {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let passed_on = |&number: &i32| {
        let is_below = u64::try_from(number).is_ok_and(|number| (3..limit).contains(&number));
        is_below && is_passed_on(number)
    };
    numbers.filter(passed_on).count() as u64
}

/// Descriptors that it had better have.
pub(crate) fn descriptors_of_launcher(nodes: u32) -> u64 {
    least_of_launcher(nodes) + SPARE
}

/// Descriptors that a node of so many needs: for its links, for their timers where networks are emulated, and for its
/// program.
pub(crate) fn descriptors_of_node(nodes: u32) -> u64 {
    2 * u64::from(nodes) + BESIDE_LINKS
}

/// Whether a child gets this descriptor, as who was given it itself.
fn is_passed_on(number: i32) -> bool {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC == 0)
}

/// Whether a limit is less than what is needed.
fn is_most(limit: Option<u64>, needed: u64) -> bool {
    limit.is_some_and(|limit| limit < needed)
}

/// Whether files, pipes and links can be opened. Up to the hard limit the launcher helps itself.
pub(super) fn descriptors(needs: &Needs) -> Finding {
    let check = "file descriptors";
    let most = getrlimit(Resource::Nofile).maximum;
    let found = match most {
        Some(most) => format!("a process may have {most} (ulimit -Hn)"),
        None => "unlimited".to_owned(),
    };
    let raise = |needed: u64| {
        format!(
            "as root: echo '* hard nofile {needed}' > /etc/security/limits.d/multigrain.conf, and log in anew"
        )
    };
    let node = descriptors_of_node(needs.nodes);
    let least = least_of_launcher(needs.here).max(u64::from(needs.nodes) + OWN);
    let least = least + most.map_or(0, inherited);
    if is_most(most, least) {
        let limits =
            format!("{} nodes here, of {}, need {least} at least", needs.here, needs.nodes);
        let advised = descriptors_of_launcher(needs.here).max(node);
        return Finding::prevents(check, found, limits, raise(advised));
    }
    if is_most(most, node) {
        let limits = format!("links to {} nodes leave few for the program", needs.nodes);
        return Finding::limits(check, found, limits, raise(node));
    }
    Finding::fine(check, found)
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
