//! A row of the table of checked jobs.

use crate::check::program::Job;

/// How much to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For every test run: under a minute without optimization.
    Short,
    /// The short form and bigger jobs: several minutes with optimization.
    Long,
}

/// One job of the table.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// What it is called, `group/case`.
    pub name: &'static str,
    /// Unique states it has.
    pub states: usize,
    /// The job.
    pub job: Job,
}

/// A row.
pub(super) fn row(name: &'static str, states: usize, job: Job) -> Configuration {
    Configuration { name, states, job }
}
