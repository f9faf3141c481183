//! The programs that faults are injected into: the C applications, or the built-in one.

use clap::ValueEnum;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;

/// A program, with inputs that take a second or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum App {
    /// The built-in one.
    #[value(skip)]
    Churn,
    Sor,
    Is,
    Water,
    Lu,
    Tsp,
    Jacobi,
}

impl App {
    /// Those of `apps/`.
    pub(super) const IN_C: [Self; 6] =
        [Self::Sor, Self::Is, Self::Water, Self::Lu, Self::Tsp, Self::Jacobi];

    fn flags(self) -> &'static str {
        match self {
            Self::Churn => "inject churn",
            Self::Sor => "--rows 4000 --cols 64 --iterations 700",
            Self::Is => "--keys 20 --iterations 300",
            Self::Water => "--molecules 200 --steps 20",
            Self::Lu => "--size 1536 --block 16",
            Self::Tsp => "--cities 17 --level 10",
            Self::Jacobi => "--size 500 --iterations 2000",
        }
    }
}

impl fmt::Display for App {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value();
        out.write_str(name.as_ref().map_or("churn", |value| value.get_name()))
    }
}

/// A program that is there, and its arguments.
pub(super) struct Program {
    app: App,
    /// The file and its arguments.
    pub(super) command: Vec<OsString>,
}

impl Program {
    /// Looks for an application in `directory`; the built-in one is this very file.
    pub(super) fn find(app: App, directory: Option<&Path>) -> io::Result<Self> {
        let file = match directory {
            Some(directory) => directory.join(format!("{app}-mg")).canonicalize()?,
            None => std::env::current_exe()?,
        };
        let flags = app.flags().split(' ').map(OsString::from);
        Ok(Self { app, command: [file.into()].into_iter().chain(flags).collect() })
    }

    /// Arguments with which it takes ten seconds, where it has some: a busy machine may look for a connection for as long as
    /// it usually takes, and what falls silent after the last frame is missed by nobody.
    pub(super) fn much_longer(&self) -> impl Iterator<Item = &'static str> {
        let has_some = self.app == App::Churn;
        ["--rounds", "3000"].into_iter().filter(move |_| has_some)
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        self.app.to_string()
    }
}
