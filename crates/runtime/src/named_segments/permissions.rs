//! What the job knows of a named segment, and who may do what with it.

use serde::{Deserialize, Serialize};

use multigrain_types::{Access, AreaId};

/// A segment as the registry has it; what else there is to it its area says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RegisteredSegment {
    /// Its area.
    pub(super) area: u32,
    pub(super) rights: Rights,
    /// Attaches that have not been detached, over all nodes, and how many nodes have some.
    pub(super) attached: u64,
    pub(super) nodes: u16,
    /// All attaches there have been.
    pub(super) attaches: u64,
    /// Its name is gone, and with the last detach it goes itself.
    pub(super) removed: bool,
}

/// Whose a segment is, and what others may do (System V's `ipc_perm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rights {
    /// The effective user of the process that created it.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Read and write bits of the user, the group and all others, as of a file.
    pub mode: u32,
}

/// All bits that a mode may have.
pub(super) const MODES: u32 = 0o777;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    user: u32,
    groups: Vec<u32>,
}

impl Credentials {
    /// Of this process, as they are now.
    pub(super) fn own() -> Self {
        let own = rustix::process::getegid();
        let groups = rustix::process::getgroups().unwrap_or_default();
        let groups = core::iter::once(own).chain(groups).map(|group| group.as_raw()).collect();
        Self { user: rustix::process::geteuid().as_raw(), groups }
    }

    /// What a segment belongs to that this process creates.
    pub(super) fn rights(&self, mode: u32) -> Rights {
        let group = self.groups.first().copied().unwrap_or_default();
        Rights { user: self.user, group, mode }
    }

    fn is_root(&self) -> bool {
        self.user == 0
    }
}

impl Rights {
    /// Whether somebody may attach for that access. The first class that fits decides, as for files.
    pub(super) fn allow(&self, who: &Credentials, access: Access) -> bool {
        let class = if who.user == self.user {
            self.mode >> 6
        } else if who.groups.contains(&self.group) {
            self.mode >> 3
        } else {
            self.mode
        };
        let wanted = match access {
            Access::NoAccess => 0,
            Access::ReadOnly => 0o4,
            Access::ReadWrite => 0o6,
        };
        who.is_root() || class & wanted == wanted
    }

    /// Whether somebody may remove it.
    pub(super) fn own(&self, who: &Credentials) -> bool {
        who.is_root() || who.user == self.user
    }
}

impl RegisteredSegment {
    pub(super) fn area(&self) -> AreaId {
        AreaId(self.area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: u32, groups: &[u32]) -> Credentials {
        Credentials { user, groups: groups.to_vec() }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let rights = Rights { user: 7, group: 70, mode: 0o064 };
        let (read, write) = (Access::ReadOnly, Access::ReadWrite);
        assert!(!rights.allow(&who(7, &[70]), read), "its user has none, whatever its group has");
        assert!(rights.allow(&who(8, &[1, 70]), write));
        assert!(rights.allow(&who(8, &[1]), read) && !rights.allow(&who(8, &[1]), write));
        assert!(rights.allow(&who(0, &[]), write));
        assert!(
            rights.own(&who(7, &[])) && rights.own(&who(0, &[])) && !rights.own(&who(8, &[70]))
        );
    }
}
