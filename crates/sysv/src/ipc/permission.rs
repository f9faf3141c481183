//! Who may do what with an object: the kernel's check of nine bits, and that of the owner.

use super::call::{Caller, PermissionStat};
use super::errno::Errno;

/// Read, for the owner, the group and the others alike: the class that applies is found by the check.
pub(super) const READ: i32 = 0o444;
/// Write (the semaphores' "alter").
pub(super) const WRITE: i32 = 0o222;
/// Execute, which only `shmat` with `SHM_EXEC` asks for.
pub(super) const EXECUTE: i32 = 0o111;

const RIGHTS: u32 = 0o777;

/// The owner, the creator and the mode of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permission {
    pub(super) key: i32,
    uid: u32,
    gid: u32,
    creator_uid: u32,
    creator_gid: u32,
    pub(super) mode: u32,
}

impl Permission {
    /// Of an object that the caller makes with the flags of its `*get`.
    pub(super) fn new(key: i32, flags: i32, caller: &Caller) -> Self {
        Self {
            key,
            uid: caller.uid,
            gid: caller.gid,
            creator_uid: caller.uid,
            creator_gid: caller.gid,
            mode: flags.cast_unsigned() & RIGHTS,
        }
    }

    /// Whether the caller has the rights in `wanted`, whichever class they are asked for.
    pub(super) fn allow(&self, caller: &Caller, wanted: i32) -> Result<(), Errno> {
        let wanted = wanted.cast_unsigned();
        let wanted = (wanted >> 6 | wanted >> 3 | wanted) & 0o7;
        let granted = if self.owned_by(caller) {
            self.mode >> 6
        } else if caller_in(caller, self.creator_gid) || caller_in(caller, self.gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        if wanted & !granted == 0 || caller.privileged { Ok(()) } else { Err(Errno::ACCES) }
    }

    /// Whether the caller may change or remove the object, which no bit of the mode grants.
    pub(super) fn allow_control(&self, caller: &Caller) -> Result<(), Errno> {
        if self.owned_by(caller) || caller.privileged { Ok(()) } else { Err(Errno::PERM) }
    }

    /// `IPC_SET`.
    pub(super) fn set(&mut self, uid: u32, gid: u32, mode: u32) -> Result<(), Errno> {
        // (uid_t)-1 names nobody.
        if uid == u32::MAX || gid == u32::MAX {
            return Err(Errno::INVAL);
        }
        self.uid = uid;
        self.gid = gid;
        self.mode = self.mode & !RIGHTS | mode & RIGHTS;
        Ok(())
    }

    pub(super) fn stat(&self) -> PermissionStat {
        PermissionStat {
            key: self.key,
            uid: self.uid,
            gid: self.gid,
            creator_uid: self.creator_uid,
            creator_gid: self.creator_gid,
            mode: self.mode,
        }
    }

    fn owned_by(&self, caller: &Caller) -> bool {
        caller.uid == self.creator_uid || caller.uid == self.uid
    }
}

fn caller_in(caller: &Caller, group: u32) -> bool {
    caller.gid == group || caller.groups.contains(&group)
}

#[cfg(test)]
mod tests {
    use super::super::tests::user;
    use super::*;

    #[test]
    fn the_owner_has_the_owners_bits_even_if_others_have_more() {
        let permission = Permission::new(1, 0o066, &user(7));
        assert_eq!(permission.allow(&user(7), READ), Err(Errno::ACCES));
        assert_eq!(permission.allow(&user(8), READ), Ok(()));
    }

    #[test]
    fn the_creator_keeps_the_owners_bits_after_the_object_is_given_away() {
        let mut permission = Permission::new(1, 0o600, &user(7));
        permission.set(8, 8, 0o600).expect("a user that exists");
        assert_eq!(permission.allow(&user(7), WRITE), Ok(()));
        assert_eq!(permission.allow(&user(8), WRITE), Ok(()));
        assert_eq!(permission.allow_control(&user(7)), Ok(()));
        assert_eq!(permission.allow_control(&user(9)), Err(Errno::PERM));
    }

    #[test]
    fn a_supplementary_group_counts_as_the_group() {
        let permission = Permission::new(1, 0o640, &user(7));
        let mut other = user(8);
        assert_eq!(permission.allow(&other, READ), Err(Errno::ACCES));
        other.groups.push(7);
        assert_eq!(permission.allow(&other, READ), Ok(()));
        assert_eq!(permission.allow(&other, WRITE), Err(Errno::ACCES));
    }

    #[test]
    fn nobody_is_not_an_owner_and_set_keeps_bits_that_are_not_rights() {
        let mut permission = Permission::new(1, 0o600, &user(7));
        assert_eq!(permission.set(u32::MAX, 1, 0), Err(Errno::INVAL));
        assert_eq!(permission.set(1, u32::MAX, 0), Err(Errno::INVAL));
        permission.mode |= 0o1000;
        permission.set(7, 7, 0o7044).expect("a user that exists");
        assert_eq!(permission.mode, 0o1044);
    }
}
