//! The table of checked jobs, each with its number of unique states.
//!
//! The numbers are part of the check: a change of the protocol that adds or loses interleavings
//! shows here, and has to be explained.

mod auto;
mod eager;
mod home_migration;
mod lazy;
mod mixed;
mod opened_ahead;
mod row;
mod shared_programs;
mod thread_starts;
mod tracked;
mod trees;

pub use self::row::Configuration;

/// All configurations, group by group.
#[must_use]
pub fn configurations() -> Vec<Configuration> {
    let mut rows = eager::rows();
    rows.extend(lazy::rows());
    rows.extend(tracked::rows());
    rows.extend(auto::rows());
    rows.extend(opened_ahead::rows());
    rows.extend(mixed::rows());
    rows.extend(thread_starts::rows());
    rows.extend(trees::rows());
    rows
}
