//! Lazy release consistency with homes.

use multigrain_types::Consistency;

use multigrain_protocol::Kind;

use super::cases::{cases, rows as numbered};
use super::{Configuration, row};
use crate::release::program::Op::{Add, Down, Lock, Prefetch, Read, Unlock, Up, Write};
use crate::release::program::{Job, Op};

/// How many states the cases have.
const STATES: [(&str, usize); 28] = [
    ("lazy/two-writers-of-one-page", 249),
    ("lazy/two-writers-away-from-home", 949),
    ("lazy/writers-change-places", 356),
    ("lazy/one-writer-many-episodes", 65),
    ("lazy/two-homes-three-nodes", 744),
    ("lazy/prefetch-across-a-barrier", 3218),
    ("lazy/prefetch-to-write-across-a-barrier", 157),
    ("lazy/counter", 213),
    ("lazy/counter-at-a-third-node", 452),
    ("lazy/counter-on-three-nodes", 1020),
    ("lazy/reader-and-writer", 193),
    ("lazy/single-writer-and-a-late-reader", 353),
    ("lazy/upgrade-meets-a-release", 851),
    ("lazy/false-sharing-under-two-locks", 717),
    ("lazy/two-threads-on-a-node", 424),
    ("lazy/prefetch-in-a-critical-section", 207),
    ("lazy/late-traps", 259),
    ("lazy/semaphore-hand-off", 85),
    ("lazy/semaphore-of-two-units", 178),
    ("lazy/first-touch", 231),
    ("lazy/told-by-other-means", 254),
    ("lazy/release-of-one-thread-while-another-writes", 1246),
    ("lazy/three-writers-in-turn", 11_797),
    ("lazy/two-threads-a-node-at-a-barrier", 4150),
    ("lazy/posts-that-nobody-waits-for", 2741),
    ("lazy/posts-and-prefetches", 3613),
    ("lazy/two-locks-on-three-nodes", 32_432),
    ("lazy/two-threads-a-node-and-late-traps", 67_039),
];

pub(super) fn rows() -> Vec<Configuration> {
    let mut rows = numbered(cases(Consistency::LazyRelease), &STATES);
    rows.extend(moves());
    rows
}

/// A quiet barrier of three that node 0 manages.
const MEET: Op = Op::Barrier { id: 0, local: 1, total: 3, quiet: true };

/// A barrier of two, one a node, while other threads run.
const LOUD: Op = Op::Barrier { id: 0, local: 1, total: 2, quiet: false };

/// Homes that move at quiet barriers. Who allocated a minipage writes it first, or else who asks
/// for it first is its home anyway.
fn moves() -> Vec<Configuration> {
    vec![
        row(
            "lazy/diff-before-the-move",
            952,
            Job::new(3)
                .lazy(0)
                .thread(0, &[Write(0, 2, 9), MEET, MEET, Read(0, 0)])
                .thread(1, &[Write(0, 0, 1), MEET, MEET, Read(0, 1)])
                .thread(2, &[MEET, Write(0, 1, 2), MEET]),
        ),
        // Node 1 becomes the home; semaphore 4 is its business, and so it hears of what node 2
        // wrote afterwards before it hears of the barrier's end.
        row(
            "lazy/news-before-the-move-at-the-new-home",
            411,
            Job::new(3)
                .lazy(2)
                .thread(0, &[MEET])
                .thread(1, &[Write(0, 0, 1), MEET, Down(4), Read(0, 1)])
                .thread(2, &[Write(0, 2, 9), MEET, Write(0, 1, 2), Up(4, 1)]),
        ),
        // The same at the home that was.
        row(
            "lazy/news-before-the-move-at-the-old-home",
            424,
            Job::new(3)
                .lazy(1)
                .thread(0, &[MEET])
                .thread(1, &[Write(0, 2, 9), MEET, Down(4), Read(0, 1), Read(0, 0)])
                .thread(2, &[Write(0, 0, 1), MEET, Write(0, 1, 2), Up(4, 1)]),
        ),
        // Node 1 is the home since it touched the minipage first; node 2 has asked node 0 for it.
        row(
            "lazy/first-touch-and-a-prefetch-across-a-barrier",
            784,
            Job::new(3)
                .lazy(0)
                .thread(0, &[MEET])
                .thread(1, &[Write(0, 0, 1), MEET, Lock(0), Add(0, 1), Unlock(0)])
                .thread(2, &[Prefetch(0, Kind::Read), MEET, Lock(0), Add(0, 1), Unlock(0)]),
        ),
        row(
            "lazy/prefetch-across-a-move",
            4971,
            Job::new(3)
                .lazy(0)
                .thread(0, &[Write(0, 2, 9), MEET, MEET, Read(0, 1)])
                .thread(1, &[Write(0, 0, 1), MEET, Write(0, 0, 2), MEET])
                .thread(2, &[Prefetch(0, Kind::Write), MEET, Write(0, 1, 3), MEET, Read(0, 0)]),
        ),
        // Node 1 has heard of the write that moves the home before it asks the home that was, whose
        // answer may come after the move.
        row(
            "lazy/prefetch-after-the-write-that-moves-the-home",
            3250,
            Job::new(3)
                .lazy(2)
                .thread(0, &[Write(0, 0, 1), Up(4, 1), MEET, MEET, Read(0, 1)])
                .thread(1, &[Down(4), Prefetch(0, Kind::Read), MEET, Write(0, 1, 3), MEET])
                .thread(2, &[Write(0, 2, 9), MEET, MEET, Read(0, 1)]),
        ),
        // A thread of node 1 writes while the others meet: nothing may move.
        row(
            "lazy/a-thread-that-does-not-come",
            4081,
            Job::new(2)
                .lazy(0)
                .thread(0, &[Write(0, 2, 9), LOUD, Read(0, 0)])
                .thread(1, &[Write(0, 0, 1), LOUD, Lock(0), Read(0, 1), Unlock(0)])
                .thread(1, &[Lock(0), Add(0, 1), Unlock(0)]),
        ),
        row(
            "lazy/a-home-that-moves-back",
            1413,
            Job::new(3)
                .lazy(0)
                .thread(0, &[Write(0, 0, 1), MEET, Read(0, 0), MEET, Write(0, 0, 3), MEET])
                .thread(1, &[MEET, Read(0, 0), MEET, Prefetch(0, Kind::Read), MEET, Read(0, 0)])
                .thread(2, &[MEET, Write(0, 1, 2), MEET, MEET, Read(0, 0)]),
        ),
    ]
}
