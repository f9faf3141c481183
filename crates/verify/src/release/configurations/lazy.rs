//! Lazy release consistency with homes.

use multigrain_types::Consistency;

use super::Configuration;
use super::cases::{cases, rows as numbered};

/// How many states the cases have.
const STATES: [(&str, usize); 22] = [
    ("lazy/two-writers-of-one-page", 0),
    ("lazy/two-writers-away-from-home", 0),
    ("lazy/writers-change-places", 0),
    ("lazy/one-writer-many-episodes", 0),
    ("lazy/two-homes-three-nodes", 0),
    ("lazy/prefetch-across-a-barrier", 0),
    ("lazy/prefetch-to-write-across-a-barrier", 0),
    ("lazy/counter", 0),
    ("lazy/counter-at-a-third-node", 0),
    ("lazy/counter-on-three-nodes", 0),
    ("lazy/reader-and-writer", 0),
    ("lazy/single-writer-and-a-late-reader", 0),
    ("lazy/upgrade-meets-a-release", 0),
    ("lazy/false-sharing-under-two-locks", 0),
    ("lazy/two-threads-on-a-node", 0),
    ("lazy/prefetch-in-a-critical-section", 0),
    ("lazy/late-traps", 0),
    ("lazy/semaphore-hand-off", 0),
    ("lazy/semaphore-of-two-units", 0),
    ("lazy/first-touch", 0),
    ("lazy/told-by-other-means", 0),
    ("lazy/release-of-one-thread-while-another-writes", 0),
];

pub(super) fn rows() -> Vec<Configuration> {
    numbered(cases(Consistency::LazyRelease), &STATES)
}
