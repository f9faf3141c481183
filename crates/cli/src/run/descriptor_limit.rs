//! The limit of file descriptors: raised for the launcher or an agent, and what each node gets of it.

use crate::host;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the launcher open as many descriptors as it may; returns the limit as it was.
pub(super) fn raise() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Where this fails, the launch itself says so, when it runs out.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before
}

/// The limit of descriptors of each of so many nodes: the user's, and more where the links alone need more.
pub(super) fn of_node(user: Rlimit, nodes: u32) -> Rlimit {
    let needed = host::descriptors_of_node(nodes);
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
