//! A checked job of either table, and the result of checking it.

use multigrain_verify::check::{self, Form, Report};
use multigrain_verify::release;

/// A row of one of the tables.
#[derive(Debug)]
pub(super) enum Row {
    /// Of `multigrain_verify::check`: sequential consistency, synchronization.
    Sequential(check::Configuration),
    /// Of `multigrain_verify::release`: release consistency.
    Release(release::Configuration),
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
            Self::Sequential(row) => check::check(row),
            Self::Release(row) => release::check(row),
        }
    }
}
