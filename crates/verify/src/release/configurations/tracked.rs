//! Lazy release consistency with tracked homes, whose writes the kernel finds.

use multigrain_types::Consistency;

use super::home_migration::moves;
use super::row::Configuration;
use super::shared_programs::{cases, rows as numbered};
use crate::release::program::Job;

/// How many states the cases have.
const STATES: [(&str, usize); 31] = [
    ("tracked/two-writers-of-one-page", 227),
    ("tracked/two-writers-away-from-home", 853),
    ("tracked/writers-change-places", 276),
    ("tracked/one-writer-many-episodes", 57),
    ("tracked/two-homes-three-nodes", 744),
    ("tracked/prefetch-across-a-barrier", 2540),
    ("tracked/prefetch-to-write-across-a-barrier", 157),
    ("tracked/counter", 197),
    ("tracked/counter-at-a-third-node", 452),
    ("tracked/counter-on-three-nodes", 1002),
    ("tracked/reader-and-writer", 185),
    ("tracked/single-writer-and-a-late-reader", 337),
    ("tracked/upgrade-meets-a-release", 809),
    ("tracked/false-sharing-under-two-locks", 540),
    ("tracked/two-threads-on-a-node", 416),
    ("tracked/prefetch-in-a-critical-section", 197),
    ("tracked/late-traps", 253),
    ("tracked/a-lock-taken-again-in-its-window", 219),
    ("tracked/a-lock-that-threads-take-again-in-its-window", 946),
    ("tracked/semaphore-hand-off", 85),
    ("tracked/notices-in-several-frames", 686),
    ("tracked/semaphore-of-two-units", 178),
    ("tracked/first-touch", 199),
    ("tracked/notified-by-other-means", 252),
    ("tracked/release-of-one-thread-while-another-writes", 911),
    ("tracked/three-writers-in-turn", 10_343),
    ("tracked/two-threads-a-node-at-a-barrier", 3594),
    ("tracked/posts-that-nobody-waits-for", 2288),
    ("tracked/posts-and-prefetches", 3285),
    ("tracked/two-locks-on-three-nodes", 28_719),
    ("tracked/two-threads-a-node-and-late-traps", 40_053),
];

/// And those whose homes move.
const MOVES: [(&str, usize); 8] = [
    ("tracked/diff-before-the-move", 910),
    ("tracked/notices-before-the-move-at-the-new-home", 363),
    ("tracked/notices-before-the-move-at-the-old-home", 365),
    ("tracked/first-touch-and-a-prefetch-across-a-barrier", 571),
    ("tracked/prefetch-across-a-move", 4465),
    ("tracked/prefetch-after-the-write-that-moves-the-home", 3202),
    ("tracked/a-thread-that-does-not-come", 2942),
    ("tracked/a-home-that-moves-back", 1413),
];

pub(super) fn rows() -> Vec<Configuration> {
    let tracking = |rows: Vec<(&'static str, Job)>| -> Vec<(&'static str, Job)> {
        rows.into_iter().map(|(name, job)| (name, job.tracking())).collect()
    };
    let mut rows = numbered(tracking(cases(Consistency::LazyRelease)), &STATES);
    rows.extend(numbered(tracking(moves(Consistency::LazyRelease)), &MOVES));
    rows
}
