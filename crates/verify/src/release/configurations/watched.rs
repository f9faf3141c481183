//! Lazy release consistency where the kernel finds what homes write.

use multigrain_types::Consistency;

use super::Configuration;
use super::cases::{cases, rows as numbered};
use super::moves::moves;
use crate::release::program::Job;

/// How many states the cases have.
const STATES: [(&str, usize); 28] = [
    ("watched/two-writers-of-one-page", 227),
    ("watched/two-writers-away-from-home", 853),
    ("watched/writers-change-places", 276),
    ("watched/one-writer-many-episodes", 57),
    ("watched/two-homes-three-nodes", 744),
    ("watched/prefetch-across-a-barrier", 2540),
    ("watched/prefetch-to-write-across-a-barrier", 157),
    ("watched/counter", 197),
    ("watched/counter-at-a-third-node", 452),
    ("watched/counter-on-three-nodes", 1002),
    ("watched/reader-and-writer", 185),
    ("watched/single-writer-and-a-late-reader", 337),
    ("watched/upgrade-meets-a-release", 809),
    ("watched/false-sharing-under-two-locks", 540),
    ("watched/two-threads-on-a-node", 416),
    ("watched/prefetch-in-a-critical-section", 197),
    ("watched/late-traps", 253),
    ("watched/semaphore-hand-off", 85),
    ("watched/semaphore-of-two-units", 178),
    ("watched/first-touch", 199),
    ("watched/told-by-other-means", 252),
    ("watched/release-of-one-thread-while-another-writes", 911),
    ("watched/three-writers-in-turn", 10_343),
    ("watched/two-threads-a-node-at-a-barrier", 3594),
    ("watched/posts-that-nobody-waits-for", 2288),
    ("watched/posts-and-prefetches", 3285),
    ("watched/two-locks-on-three-nodes", 28_719),
    ("watched/two-threads-a-node-and-late-traps", 40_053),
];

/// And those whose homes move.
const MOVES: [(&str, usize); 8] = [
    ("watched/diff-before-the-move", 910),
    ("watched/news-before-the-move-at-the-new-home", 375),
    ("watched/news-before-the-move-at-the-old-home", 364),
    ("watched/first-touch-and-a-prefetch-across-a-barrier", 690),
    ("watched/prefetch-across-a-move", 4465),
    ("watched/prefetch-after-the-write-that-moves-the-home", 3202),
    ("watched/a-thread-that-does-not-come", 2942),
    ("watched/a-home-that-moves-back", 1413),
];

pub(super) fn rows() -> Vec<Configuration> {
    let watching = |rows: Vec<(&'static str, Job)>| -> Vec<(&'static str, Job)> {
        rows.into_iter().map(|(name, job)| (name, job.watching())).collect()
    };
    let mut rows = numbered(watching(cases(Consistency::LazyRelease)), &STATES);
    rows.extend(numbered(watching(moves(Consistency::LazyRelease)), &MOVES));
    rows
}
