//! Lazy release consistency with tracked homes, whose writes the kernel finds.

use multigrain_types::Consistency;

use super::home_migration::moves;
use super::row::Configuration;
use super::shared_programs::{cases, rows as numbered};
use crate::release::program::Job;

/// How many states the cases have.
const STATES: [(&str, usize); 31] = [
    ("tracked/two-writers-of-one-page", 242),
    ("tracked/two-writers-away-from-home", 919),
    ("tracked/writers-change-places", 311),
    ("tracked/one-writer-many-episodes", 57),
    ("tracked/two-homes-three-nodes", 744),
    ("tracked/prefetch-across-a-barrier", 2540),
    ("tracked/prefetch-to-write-across-a-barrier", 162),
    ("tracked/counter", 227),
    ("tracked/counter-at-a-third-node", 452),
    ("tracked/counter-on-three-nodes", 1055),
    ("tracked/reader-and-writer", 200),
    ("tracked/single-writer-and-a-late-reader", 387),
    ("tracked/upgrade-meets-a-release", 1004),
    ("tracked/false-sharing-under-two-locks", 751),
    ("tracked/two-threads-on-a-node", 443),
    ("tracked/prefetch-in-a-critical-section", 220),
    ("tracked/late-traps", 260),
    ("tracked/a-lock-taken-again-in-its-window", 251),
    ("tracked/a-lock-that-threads-take-again-in-its-window", 1038),
    ("tracked/semaphore-hand-off", 90),
    ("tracked/notices-in-several-frames", 686),
    ("tracked/semaphore-of-two-units", 178),
    ("tracked/first-touch", 213),
    ("tracked/notified-by-other-means", 252),
    ("tracked/release-of-one-thread-while-another-writes", 911),
    ("tracked/three-writers-in-turn", 10_878),
    ("tracked/two-threads-a-node-at-a-barrier", 3808),
    ("tracked/posts-that-nobody-waits-for", 2288),
    ("tracked/posts-and-prefetches", 4003),
    ("tracked/two-locks-on-three-nodes", 40_160),
    ("tracked/two-threads-a-node-and-late-traps", 52_244),
];

/// And those whose homes move.
const MOVES: [(&str, usize); 8] = [
    ("tracked/diff-before-the-move", 964),
    ("tracked/notices-before-the-move-at-the-new-home", 373),
    ("tracked/notices-before-the-move-at-the-old-home", 371),
    ("tracked/first-touch-and-a-prefetch-across-a-barrier", 579),
    ("tracked/prefetch-across-a-move", 4860),
    ("tracked/prefetch-after-the-write-that-moves-the-home", 3727),
    ("tracked/a-thread-that-does-not-come", 3436),
    ("tracked/a-home-that-moves-back", 1527),
];

pub(super) fn rows() -> Vec<Configuration> {
    let tracking = |rows: Vec<(&'static str, Job)>| -> Vec<(&'static str, Job)> {
        rows.into_iter().map(|(name, job)| (name, job.tracking())).collect()
    };
    let mut rows = numbered(tracking(cases(Consistency::LazyRelease)), &STATES);
    rows.extend(numbered(tracking(moves(Consistency::LazyRelease)), &MOVES));
    rows
}
