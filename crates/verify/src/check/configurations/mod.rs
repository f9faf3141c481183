//! The table of checked jobs, each with its number of unique states.
//!
//! The numbers are part of the check: a change of the protocol that adds or loses interleavings
//! shows here, and has to be explained.

mod coherence;
mod extensions;
mod litmus;
mod progress;
mod row;
mod synchronization;
mod withdrawals;

pub use self::row::{Configuration, Form};

/// All configurations of a form, group by group.
#[must_use]
pub fn configurations(form: Form) -> Vec<Configuration> {
    let mut rows = Vec::new();
    rows.extend(coherence::short());
    rows.extend(extensions::short());
    rows.extend(litmus::short());
    rows.extend(synchronization::short());
    rows.extend(withdrawals::short());
    rows.extend(withdrawals::windows());
    rows.extend(progress::short());
    if form == Form::Long {
        rows.extend(coherence::long());
        rows.extend(extensions::long());
        rows.extend(litmus::long());
        rows.extend(synchronization::long());
        rows.extend(progress::long());
    }
    rows
}
