//! The errors of the kernel that the calls fail with.

/// An errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) i32);

impl Errno {
    pub(super) const ACCES: Self = Self(libc::EACCES);
    pub(super) const AGAIN: Self = Self(libc::EAGAIN);
    pub(super) const EXIST: Self = Self(libc::EEXIST);
    pub(super) const FBIG: Self = Self(libc::EFBIG);
    pub(super) const IDRM: Self = Self(libc::EIDRM);
    pub(super) const INVAL: Self = Self(libc::EINVAL);
    pub(super) const NAME_TOO_LONG: Self = Self(libc::ENAMETOOLONG);
    pub(super) const NOENT: Self = Self(libc::ENOENT);
    pub(super) const NOMSG: Self = Self(libc::ENOMSG);
    pub(super) const NOSPC: Self = Self(libc::ENOSPC);
    pub(super) const OVERFLOW: Self = Self(libc::EOVERFLOW);
    pub(super) const PERM: Self = Self(libc::EPERM);
    pub(super) const RANGE: Self = Self(libc::ERANGE);
    pub(super) const TOO_BIG: Self = Self(libc::E2BIG);
}
