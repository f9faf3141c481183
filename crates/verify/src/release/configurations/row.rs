//! A row of the table of checked jobs.

use crate::release::program::Job;

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
