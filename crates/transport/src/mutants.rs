//! Seeded faults of this crate, which knows no protocol: the table of all mutants, which has these too, is
//! in `crates/protocol/src/mutants`. The variable is read here and nowhere else in this crate.

use std::env;
use std::sync::OnceLock;

/// The environment variable that chooses a mutant by its name.
pub const VARIABLE: &str = "MULTIGRAIN_MUTANT";
/// Deferred frames are marked as sent by a load and a store, not by one swap.
pub const DEFERRED_PEER_FORGOTTEN: &str = "deferred-peer-forgotten";
/// A peer may ask without end and never read the answers.
pub const ANSWERS_WITHOUT_END: &str = "answers-without-end";
/// All of them.
pub const NAMES: [&str; 2] = [DEFERRED_PEER_FORGOTTEN, ANSWERS_WITHOUT_END];

/// Whether this process is that mutant.
pub(crate) fn on(name: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| env::var(VARIABLE).ok()).as_deref() == Some(name)
}
