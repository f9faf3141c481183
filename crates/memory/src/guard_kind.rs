//! The kinds of guards, as options and errors name them.

use core::fmt;

/// The guard in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardKind {
    /// userfaultfd with SIGBUS in the faulting thread: protections live in page tables.
    Uffd,
    /// mprotect and SIGSEGV: works everywhere, costs a kernel mapping per change of protection.
    Mprotect,
}

impl fmt::Display for GuardKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Uffd => "uffd",
            Self::Mprotect => "mprotect",
        })
    }
}
