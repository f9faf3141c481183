//! The result of one check of a host.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Fine,
    /// Jobs run, and something does not work or is slower.
    Limits,
    /// The job does not run.
    Prevents,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// What was looked at, in a word or two.
    check: String,
    level: Level,
    /// How it is.
    found: String,
    /// What that keeps from working; empty if nothing.
    limits: String,
    /// What mends it: a command, or what to do; empty if nothing is to be done.
    remedy: String,
}

impl Finding {
    /// It is as it should be.
    pub(crate) fn fine(check: &str, found: impl Into<String>) -> Self {
        Self::new(check, Level::Fine, found.into(), "", "")
    }

    /// Jobs run, but not as well as they could.
    pub(crate) fn limits(
        check: &str,
        found: impl Into<String>,
        limits: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Limits, found.into(), limits, remedy)
    }

    /// The job does not run.
    pub(crate) fn prevents(
        check: &str,
        found: impl Into<String>,
        limits: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Level::Prevents, found.into(), limits, remedy)
    }

    fn new(
        check: &str,
        level: Level,
        found: String,
        limits: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (limits, remedy) = (limits.into(), remedy.into());
        Self { check: check.to_owned(), level, found, limits, remedy }
    }

    /// How bad it is.
    pub(crate) fn level(&self) -> Level {
        self.level
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.check, self.found)?;
        [&self.limits, &self.remedy]
            .into_iter()
            .filter(|text| !text.is_empty())
            .try_for_each(|text| write!(out, "; {text}"))
    }
}
