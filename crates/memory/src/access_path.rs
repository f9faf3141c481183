//! The access paths (ParADE 4), as options and errors name them.

use core::fmt;
use core::str::FromStr;

/// How a page of a node's memory is mapped twice: for the program's threads, and for the runtime that updates it
/// meanwhile (ParADE 4: the atomic page update).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AccessPath {
    /// A memfd is mapped twice.
    #[default]
    Memfd,
    /// A file without a name is mapped twice.
    File,
    /// A System V segment is attached, and its attachment duplicated.
    SystemV,
    /// Shared anonymous memory is mapped, and its mapping duplicated.
    Mdup,
}

impl AccessPath {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memfd, Self::File, Self::SystemV, Self::Mdup];

    /// As options name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memfd => "memfd",
            Self::File => "file",
            Self::SystemV => "sysv",
            Self::Mdup => "mdup",
        }
    }

    /// What it is, in a line.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Memfd => "A memfd, which is memory alone",
            Self::File => {
                "A file without a name in TMPDIR (/tmp), which costs disk writes; userfaultfd on tmpfs alone"
            }
            Self::SystemV => "A System V segment, removed at once; not with userfaultfd",
            Self::Mdup => "Shared anonymous memory, whose mapping mremap duplicates",
        }
    }
}

impl FromStr for AccessPath {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|path| path.name() == name);
        known.ok_or("an access path is memfd, file, sysv or mdup")
    }
}

impl fmt::Display for AccessPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
