//! The consistencies of shared memory and their names; the engines that implement them are in `protocol`.

use core::fmt;

/// What a program may rely on when it shares a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Consistency {
    /// Every access in one order all nodes agree on (Millipage 3.3): a program that is right on
    /// one machine is right here.
    #[default]
    Sequential,
    /// Writes are seen after a release has ended, which updates or invalidates all copies (MGS
    /// 3.2); for programs without data races.
    EagerRelease,
    /// Writes are seen after an acquire that follows their release (ParADE, home-based lazy
    /// release consistency); for programs without data races.
    LazyRelease,
    /// As [`Consistency::LazyRelease`], and adapted by what is counted at barriers: the home of a
    /// minipage whose writers change is dynamic. Where a grain makes minipages smaller than a page,
    /// those of a page that are used together are fetched together.
    Auto,
}

impl Consistency {
    /// Whether every read returns the last write, without synchronization.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(self, Self::Sequential)
    }

    /// Whether writes are seen by threads that acquire after their release: home-based lazy release
    /// consistency, adapted or not.
    #[must_use]
    pub const fn is_lazy(self) -> bool {
        match self {
            Self::Sequential | Self::EagerRelease => false,
            Self::LazyRelease | Self::Auto => true,
        }
    }
}

/// The list of names, of which [`Consistency::ALL`] is made too: the match is exhaustive, and so are both.
macro_rules! names {
    ($($consistency:ident: $name:literal),*) => {
        impl Consistency {
            /// All of them, the default first.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$consistency),*];

            /// Its name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$consistency => $name),*
                }
            }
        }
    };
}

names!(Sequential: "sequential", EagerRelease: "eager-release", LazyRelease: "lazy-release", Auto: "auto");

/// For who has given another name.
const NAMES: &str = "a consistency is sequential, eager-release, lazy-release or auto";

impl fmt::Display for Consistency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl core::str::FromStr for Consistency {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|consistency| consistency.name() == name).ok_or(NAMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_an_unknown_name_is_told_all_names() {
        let words: Vec<&str> = NAMES.split([' ', ',']).collect();
        assert!(Consistency::ALL.iter().all(|known| words.contains(&known.name())));
    }
}
