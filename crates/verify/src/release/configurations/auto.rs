//! Lazy release consistency whose homes go from hand to hand.

use multigrain_types::Consistency;

use super::Configuration;
use super::cases::{cases, rows as numbered};

/// How many states the cases have.
const STATES: [(&str, usize); 28] = [
    ("auto/two-writers-of-one-page", 1),
    ("auto/two-writers-away-from-home", 1),
    ("auto/writers-change-places", 1),
    ("auto/one-writer-many-episodes", 1),
    ("auto/two-homes-three-nodes", 1),
    ("auto/prefetch-across-a-barrier", 1),
    ("auto/prefetch-to-write-across-a-barrier", 1),
    ("auto/counter", 1),
    ("auto/counter-at-a-third-node", 1),
    ("auto/counter-on-three-nodes", 1),
    ("auto/reader-and-writer", 1),
    ("auto/single-writer-and-a-late-reader", 1),
    ("auto/upgrade-meets-a-release", 1),
    ("auto/false-sharing-under-two-locks", 1),
    ("auto/two-threads-on-a-node", 1),
    ("auto/prefetch-in-a-critical-section", 1),
    ("auto/late-traps", 1),
    ("auto/semaphore-hand-off", 1),
    ("auto/semaphore-of-two-units", 1),
    ("auto/first-touch", 1),
    ("auto/told-by-other-means", 1),
    ("auto/release-of-one-thread-while-another-writes", 1),
    ("auto/three-writers-in-turn", 1),
    ("auto/two-threads-a-node-at-a-barrier", 1),
    ("auto/posts-that-nobody-waits-for", 1),
    ("auto/posts-and-prefetches", 1),
    ("auto/two-locks-on-three-nodes", 1),
    ("auto/two-threads-a-node-and-late-traps", 1),
];

pub(super) fn rows() -> Vec<Configuration> {
    numbered(cases(Consistency::Auto), &STATES)
}
