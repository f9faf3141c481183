//! Lazy release consistency with homes.

use multigrain_types::Consistency;

use super::home_migration::moves;
use super::row::{Configuration, row};
use super::shared_programs::{cases, rows as numbered};
use crate::release::program::Job;
use crate::release::program::Op::{Down, Read, Up, Write};

/// How many states the cases have.
const STATES: [(&str, usize); 31] = [
    ("lazy/two-writers-of-one-page", 268),
    ("lazy/two-writers-away-from-home", 1027),
    ("lazy/writers-change-places", 422),
    ("lazy/one-writer-many-episodes", 65),
    ("lazy/two-homes-three-nodes", 744),
    ("lazy/prefetch-across-a-barrier", 3598),
    ("lazy/prefetch-to-write-across-a-barrier", 162),
    ("lazy/counter", 259),
    ("lazy/counter-at-a-third-node", 452),
    ("lazy/counter-on-three-nodes", 1091),
    ("lazy/reader-and-writer", 208),
    ("lazy/single-writer-and-a-late-reader", 403),
    ("lazy/upgrade-meets-a-release", 1046),
    ("lazy/false-sharing-under-two-locks", 1024),
    ("lazy/two-threads-on-a-node", 459),
    ("lazy/prefetch-in-a-critical-section", 240),
    ("lazy/late-traps", 272),
    ("lazy/a-lock-taken-again-in-its-window", 283),
    ("lazy/a-lock-that-threads-take-again-in-its-window", 1102),
    ("lazy/semaphore-hand-off", 90),
    ("lazy/notices-in-several-frames", 830),
    ("lazy/semaphore-of-two-units", 178),
    ("lazy/first-touch", 249),
    ("lazy/notified-by-other-means", 254),
    ("lazy/release-of-one-thread-while-another-writes", 1241),
    ("lazy/three-writers-in-turn", 13_186),
    ("lazy/two-threads-a-node-at-a-barrier", 4412),
    ("lazy/posts-that-nobody-waits-for", 2764),
    ("lazy/posts-and-prefetches", 4647),
    ("lazy/two-locks-on-three-nodes", 48_878),
    ("lazy/two-threads-a-node-and-late-traps", 90_470),
];

/// And those whose homes move.
const MOVES: [(&str, usize); 8] = [
    ("lazy/diff-before-the-move", 1006),
    ("lazy/notices-before-the-move-at-the-new-home", 417),
    ("lazy/notices-before-the-move-at-the-old-home", 420),
    ("lazy/first-touch-and-a-prefetch-across-a-barrier", 705),
    ("lazy/prefetch-across-a-move", 6332),
    ("lazy/prefetch-after-the-write-that-moves-the-home", 3771),
    ("lazy/a-thread-that-does-not-come", 4822),
    ("lazy/a-home-that-moves-back", 1527),
];

pub(super) fn rows() -> Vec<Configuration> {
    let mut rows = numbered(cases(Consistency::LazyRelease), &STATES);
    rows.extend(numbered(moves(Consistency::LazyRelease), &MOVES));
    rows.push(row(
        "lazy/told-when-the-home-has-it",
        2236,
        // The home has the second post before it has acknowledged the first write; node 2 has that then, and may ask
        // for the page before the second write is there.
        Job::new(3)
            .lazy(0)
            .thread(0, &[Write(0, 2, 9)])
            .thread(1, &[Write(0, 0, 1), Up(5, 1), Write(0, 1, 2), Up(3, 1)])
            .thread(2, &[Down(5), Read(0, 0), Down(3), Read(0, 1)]),
    ));
    rows
}
