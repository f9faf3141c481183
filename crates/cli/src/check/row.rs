//! A checked job of either table, and what checking it found.

use multigrain_verify::check::{self, Form};
use multigrain_verify::release;
use std::time::Duration;

/// A row of one of the tables.
#[derive(Debug)]
pub(super) enum Row {
    /// Of `multigrain_verify::check`: sequential consistency, synchronization.
    Sequential(check::Configuration),
    /// Of `multigrain_verify::release`: release consistency.
    Release(release::Configuration),
}

/// What checking a row found.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) states: usize,
    /// States the source gives.
    pub(super) expected: usize,
    pub(super) depth: usize,
    /// Of a litmus test; else 0.
    pub(super) outcomes: usize,
    pub(super) elapsed: Duration,
    /// What does not hold, for people.
    pub(super) counterexample: Option<String>,
}

/// All rows of a form. Those of release consistency are all in the short one.
pub(super) fn rows(form: Form) -> Vec<Row> {
    let sequential = check::configurations(form).into_iter().map(Row::Sequential);
    sequential.chain(release::configurations().into_iter().map(Row::Release)).collect()
}

impl Row {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Sequential(row) => row.name,
            Self::Release(row) => row.name,
        }
    }

    pub(super) fn states(&self) -> usize {
        match self {
            Self::Sequential(row) => row.states,
            Self::Release(row) => row.states,
        }
    }

    pub(super) fn check(&self) -> Report {
        match self {
            Self::Sequential(row) => {
                let found = check::check(row);
                Report {
                    name: found.name,
                    states: found.states,
                    expected: found.expected,
                    depth: found.depth,
                    outcomes: found.outcomes,
                    elapsed: found.elapsed,
                    counterexample: found.counterexample.map(|found| found.to_string()),
                }
            }
            Self::Release(row) => {
                let found = release::check(row);
                Report {
                    name: found.name,
                    states: found.states,
                    expected: found.expected,
                    depth: found.depth,
                    outcomes: 0,
                    elapsed: found.elapsed,
                    counterexample: found.counterexample.map(|found| found.to_string()),
                }
            }
        }
    }
}

impl Report {
    /// Whether everything holds and as many states were reached as the source gives.
    pub(super) fn is_clean(&self) -> bool {
        self.counterexample.is_none() && self.states == self.expected
    }
}
