//! Lazy release consistency with homes.

use multigrain_types::Consistency;

use super::home_migration::moves;
use super::row::Configuration;
use super::shared_programs::{cases, rows as numbered};

/// How many states the cases have.
const STATES: [(&str, usize); 31] = [
    ("lazy/two-writers-of-one-page", 249),
    ("lazy/two-writers-away-from-home", 949),
    ("lazy/writers-change-places", 369),
    ("lazy/one-writer-many-episodes", 65),
    ("lazy/two-homes-three-nodes", 744),
    ("lazy/prefetch-across-a-barrier", 3598),
    ("lazy/prefetch-to-write-across-a-barrier", 157),
    ("lazy/counter", 213),
    ("lazy/counter-at-a-third-node", 452),
    ("lazy/counter-on-three-nodes", 1020),
    ("lazy/reader-and-writer", 193),
    ("lazy/single-writer-and-a-late-reader", 353),
    ("lazy/upgrade-meets-a-release", 851),
    ("lazy/false-sharing-under-two-locks", 702),
    ("lazy/two-threads-on-a-node", 424),
    ("lazy/prefetch-in-a-critical-section", 207),
    ("lazy/late-traps", 259),
    ("lazy/a-lock-taken-again-in-its-window", 235),
    ("lazy/a-lock-that-threads-take-again-in-its-window", 978),
    ("lazy/semaphore-hand-off", 85),
    ("lazy/notices-in-several-frames", 830),
    ("lazy/semaphore-of-two-units", 178),
    ("lazy/first-touch", 231),
    ("lazy/notified-by-other-means", 254),
    ("lazy/release-of-one-thread-while-another-writes", 1241),
    ("lazy/three-writers-in-turn", 12_555),
    ("lazy/two-threads-a-node-at-a-barrier", 4150),
    ("lazy/posts-that-nobody-waits-for", 2764),
    ("lazy/posts-and-prefetches", 3613),
    ("lazy/two-locks-on-three-nodes", 33_654),
    ("lazy/two-threads-a-node-and-late-traps", 65_653),
];

/// And those whose homes move.
const MOVES: [(&str, usize); 8] = [
    ("lazy/diff-before-the-move", 952),
    ("lazy/notices-before-the-move-at-the-new-home", 407),
    ("lazy/notices-before-the-move-at-the-old-home", 414),
    ("lazy/first-touch-and-a-prefetch-across-a-barrier", 693),
    ("lazy/prefetch-across-a-move", 5937),
    ("lazy/prefetch-after-the-write-that-moves-the-home", 3238),
    ("lazy/a-thread-that-does-not-come", 4021),
    ("lazy/a-home-that-moves-back", 1413),
];

pub(super) fn rows() -> Vec<Configuration> {
    let mut rows = numbered(cases(Consistency::LazyRelease), &STATES);
    rows.extend(numbered(moves(Consistency::LazyRelease), &MOVES));
    rows
}
