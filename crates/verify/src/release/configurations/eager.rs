//! Eager release consistency (MGS).

use multigrain_types::Consistency;

use super::row::Configuration;
use super::shared_programs::{cases, rows as numbered};

/// How many states the cases have.
const STATES: [(&str, usize); 31] = [
    ("eager/two-writers-of-one-page", 352),
    ("eager/two-writers-away-from-home", 1359),
    ("eager/writers-change-places", 609),
    ("eager/one-writer-many-episodes", 94),
    ("eager/two-homes-three-nodes", 811),
    ("eager/prefetch-across-a-barrier", 2240),
    ("eager/prefetch-to-write-across-a-barrier", 466),
    ("eager/counter", 220),
    ("eager/counter-at-a-third-node", 527),
    ("eager/counter-on-three-nodes", 1166),
    ("eager/reader-and-writer", 207),
    ("eager/single-writer-and-a-late-reader", 501),
    ("eager/upgrade-meets-a-release", 1520),
    ("eager/false-sharing-under-two-locks", 439),
    ("eager/two-threads-on-a-node", 476),
    ("eager/prefetch-in-a-critical-section", 335),
    ("eager/late-traps", 265),
    ("eager/a-lock-taken-again-in-its-window", 241),
    ("eager/a-lock-that-threads-take-again-in-its-window", 966),
    ("eager/semaphore-hand-off", 99),
    ("eager/notices-in-several-frames", 744),
    ("eager/semaphore-of-two-units", 153),
    ("eager/first-touch", 384),
    ("eager/notified-by-other-means", 486),
    ("eager/release-of-one-thread-while-another-writes", 627),
    ("eager/three-writers-in-turn", 25_503),
    ("eager/two-threads-a-node-at-a-barrier", 5744),
    ("eager/posts-that-nobody-waits-for", 9625),
    ("eager/posts-and-prefetches", 10_220),
    ("eager/two-locks-on-three-nodes", 19_250),
    ("eager/two-threads-a-node-and-late-traps", 98_957),
];

pub(super) fn rows() -> Vec<Configuration> {
    numbered(cases(Consistency::EagerRelease), &STATES)
}
