//! The kinds of guards, as options and errors name them; which may be chosen.

use core::fmt;
use core::str::FromStr;

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

/// Which guard to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum GuardChoice {
    /// userfaultfd where it works, else mprotect.
    #[default]
    Auto,
    /// userfaultfd, or an error.
    Uffd,
    /// mprotect.
    Mprotect,
}

impl FromStr for GuardChoice {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "auto" => Ok(Self::Auto),
            "uffd" => Ok(Self::Uffd),
            "mprotect" => Ok(Self::Mprotect),
            _ => Err("a guard is auto, uffd or mprotect"),
        }
    }
}
