//! Eager release consistency (MGS).

use multigrain_types::Consistency;

use super::Configuration;
use super::cases::{cases, rows as numbered};

/// How many states the cases have.
const STATES: [(&str, usize); 22] = [
    ("eager/two-writers-of-one-page", 0),
    ("eager/two-writers-away-from-home", 0),
    ("eager/writers-change-places", 0),
    ("eager/one-writer-many-episodes", 0),
    ("eager/two-homes-three-nodes", 0),
    ("eager/prefetch-across-a-barrier", 0),
    ("eager/prefetch-to-write-across-a-barrier", 0),
    ("eager/counter", 0),
    ("eager/counter-at-a-third-node", 0),
    ("eager/counter-on-three-nodes", 0),
    ("eager/reader-and-writer", 0),
    ("eager/single-writer-and-a-late-reader", 0),
    ("eager/upgrade-meets-a-release", 0),
    ("eager/false-sharing-under-two-locks", 0),
    ("eager/two-threads-on-a-node", 0),
    ("eager/prefetch-in-a-critical-section", 0),
    ("eager/late-traps", 0),
    ("eager/semaphore-hand-off", 0),
    ("eager/semaphore-of-two-units", 0),
    ("eager/first-touch", 0),
    ("eager/told-by-other-means", 0),
    ("eager/release-of-one-thread-while-another-writes", 0),
];

pub(super) fn rows() -> Vec<Configuration> {
    numbered(cases(Consistency::EagerRelease), &STATES)
}
