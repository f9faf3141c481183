//! The limit of file descriptors: what a job needs, whether it is enough, that of the launcher and of agents, which is raised,
//! and what each node gets of it.

use super::Needs;
use super::finding::Finding;
use super::limits::is_most;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

/// Descriptors that a node and its program are left with, beside those of its links.
const BESIDE_LINKS: u64 = 256;
/// Of the launcher or an agent: a node's control channel, pipes and process descriptor; and its own. No less will do.
const OF_EACH_NODE: u64 = 4;
const OWN: u64 = 13;
/// Of an agent besides: its channel, what it asks other hosts, the other socket that a node listens at.
const OF_AGENT: u64 = 4;
/// What it is advised to have besides.
const SPARE: u64 = 17;

/// Descriptors that the launcher needs at least for so many nodes of its host, or an agent for those of its own.
fn least_of_launcher(nodes: u32) -> u64 {
    // The last of several has its listening socket until it is started.
    OF_EACH_NODE * u64::from(nodes) + OWN + u64::from(nodes > 1)
}

/// Descriptors that the launcher had better have.
pub(crate) fn needed_by_launcher(nodes: u32) -> u64 {
    least_of_launcher(nodes) + SPARE
}

/// Descriptors that a node of so many needs: for its links, for their timers where networks are emulated, and for its
/// program.
pub(crate) fn needed_by_node(nodes: u32) -> u64 {
    2 * u64::from(nodes) + BESIDE_LINKS
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

/// Whether a child gets this descriptor, as who was given it itself.
fn is_passed_on(number: i32) -> bool {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_CLOEXEC == 0)
}

/// Whether files, pipes and links can be opened. Up to the hard limit the launcher helps itself.
pub(super) fn check(needs: &Needs) -> Finding {
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
    let node = needed_by_node(needs.nodes);
    let of_agent = if needs.by_agent { OF_AGENT } else { 0 };
    let least = (least_of_launcher(needs.here) + of_agent).max(u64::from(needs.nodes) + OWN);
    let least = least + most.map_or(0, inherited);
    if is_most(most, least) {
        let limits =
            format!("{} nodes here, of {}, need {least} at least", needs.here, needs.nodes);
        let advised = needed_by_launcher(needs.here).max(node);
        return Finding::prevents(check, found, limits, raise(advised));
    }
    if is_most(most, node) {
        let limits = format!("links to {} nodes leave few for the program", needs.nodes);
        return Finding::limits(check, found, limits, raise(node));
    }
    Finding::fine(check, found)
}

/// Lets the launcher open as many descriptors as it may; returns the limit as it was.
pub(crate) fn raise() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Where this fails, the launch itself says so, when it runs out.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before
}

/// The limit of descriptors of each of so many nodes: the user's, and more where the links alone need more.
pub(crate) fn of_node(user: Rlimit, nodes: u32) -> Rlimit {
    let needed = needed_by_node(nodes);
    let enough = |limit: u64| user.maximum.map_or(limit, |most| limit.min(most));
    Rlimit { current: user.current.map(|limit| limit.max(enough(needed))), ..user }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_keep_the_users_limit_unless_their_links_alone_need_more() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let of = |current, maximum, nodes| of_node(limit(current, maximum), nodes);
        assert_eq!(of(Some(1024), Some(4096), 16).current, Some(1024));
        assert_eq!(of(Some(1024), Some(4096), 1024).current, Some(2304));
        assert_eq!(of(Some(1024), None, 1024).current, Some(2304));
        assert_eq!(of(Some(1024), Some(1100), 1024).current, Some(1100));
        assert_eq!(of(None, None, 1024).current, None);
    }
}
