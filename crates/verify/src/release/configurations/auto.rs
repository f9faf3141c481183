//! Lazy release consistency with dynamic homes.

use multigrain_protocol::Kind;
use multigrain_types::Consistency;

use super::home_migration::moves;
use super::row::{Configuration, row};
use super::shared_programs::{COUNT, LOOK, cases, meet, rows as numbered};
use crate::release::program::Op::{
    Add, AwaitedPrefetch, Down, Lock, OpenAhead, Prefetch, Read, Unlock, Up, Write,
};
use crate::release::program::{Job, Op};

/// How many states the cases have.
const STATES: [(&str, usize); 31] = [
    ("auto/two-writers-of-one-page", 253),
    ("auto/two-writers-away-from-home", 1180),
    ("auto/writers-change-places", 412),
    ("auto/one-writer-many-episodes", 72),
    ("auto/two-homes-three-nodes", 1139),
    ("auto/prefetch-across-a-barrier", 3733),
    ("auto/prefetch-to-write-across-a-barrier", 142),
    ("auto/counter", 216),
    ("auto/counter-at-a-third-node", 448),
    ("auto/counter-on-three-nodes", 994),
    ("auto/reader-and-writer", 197),
    ("auto/single-writer-and-a-late-reader", 381),
    ("auto/upgrade-meets-a-release", 908),
    ("auto/false-sharing-under-two-locks", 680),
    ("auto/two-threads-on-a-node", 431),
    ("auto/prefetch-in-a-critical-section", 210),
    ("auto/late-traps", 259),
    ("auto/a-lock-taken-again-in-its-window", 238),
    ("auto/a-lock-that-threads-take-again-in-its-window", 978),
    ("auto/semaphore-hand-off", 85),
    ("auto/notices-in-several-frames", 890),
    ("auto/semaphore-of-two-units", 202),
    ("auto/first-touch", 228),
    ("auto/notified-by-other-means", 294),
    ("auto/release-of-one-thread-while-another-writes", 1187),
    ("auto/three-writers-in-turn", 22_383),
    ("auto/two-threads-a-node-at-a-barrier", 3606),
    ("auto/posts-that-nobody-waits-for", 2421),
    ("auto/posts-and-prefetches", 5230),
    ("auto/two-locks-on-three-nodes", 54_246),
    ("auto/two-threads-a-node-and-late-traps", 57_048),
];

/// Homes that move at barriers, and are dynamic at once.
const MOVES_0: [(&str, usize); 8] = [
    ("auto/after-0/diff-before-the-move", 912),
    ("auto/after-0/notices-before-the-move-at-the-new-home", 384),
    ("auto/after-0/notices-before-the-move-at-the-old-home", 386),
    ("auto/after-0/first-touch-and-a-prefetch-across-a-barrier", 603),
    ("auto/after-0/prefetch-across-a-move", 6892),
    ("auto/after-0/prefetch-after-the-write-that-moves-the-home", 3095),
    ("auto/after-0/a-thread-that-does-not-come", 4347),
    ("auto/after-0/a-home-that-moves-back", 1812),
];

/// Homes that move at barriers, and are dynamic after one move.
const MOVES_1: [(&str, usize); 8] = [
    ("auto/after-1/diff-before-the-move", 981),
    ("auto/after-1/notices-before-the-move-at-the-new-home", 412),
    ("auto/after-1/notices-before-the-move-at-the-old-home", 414),
    ("auto/after-1/first-touch-and-a-prefetch-across-a-barrier", 699),
    ("auto/after-1/prefetch-across-a-move", 6373),
    ("auto/after-1/prefetch-after-the-write-that-moves-the-home", 3788),
    ("auto/after-1/a-thread-that-does-not-come", 4328),
    ("auto/after-1/a-home-that-moves-back", 1719),
];

/// Homes that move at barriers, and are dynamic after two.
const MOVES_2: [(&str, usize); 8] = [
    ("auto/after-2/diff-before-the-move", 1038),
    ("auto/after-2/notices-before-the-move-at-the-new-home", 417),
    ("auto/after-2/notices-before-the-move-at-the-old-home", 420),
    ("auto/after-2/first-touch-and-a-prefetch-across-a-barrier", 705),
    ("auto/after-2/prefetch-across-a-move", 6332),
    ("auto/after-2/prefetch-after-the-write-that-moves-the-home", 3803),
    ("auto/after-2/a-thread-that-does-not-come", 4328),
    ("auto/after-2/a-home-that-moves-back", 1559),
];

pub(super) fn rows() -> Vec<Configuration> {
    let mut rows = numbered(cases(Consistency::Auto), &STATES);
    for (after, table) in (0..).zip([&MOVES_0, &MOVES_1, &MOVES_2]) {
        let moves = moves(Consistency::Auto).into_iter();
        rows.extend(numbered(
            moves.map(|(name, job)| (name, job.dynamic_after(after))).collect(),
            table,
        ));
    }
    rows.extend(transfers());
    rows.extend(asks());
    rows.extend(overtaken());
    rows
}

/// A quiescent barrier of three that node 1 manages.
const MEET: Op = meet(1, 3);

/// Critical sections that others do not mind, for they are about word 1.
const BESIDE: [Op; 3] = [Lock(1), Add(0, 1), Unlock(1)];

/// Homes on their way.
fn transfers() -> Vec<Configuration> {
    let [count, look, beside] = [&COUNT[..], &LOOK[..], &BESIDE[..]];
    let met = |before: &[Op], after: &[Op]| [before, &[MEET], after].concat();
    let four = |before: &[Op], after: &[Op]| [before, &[meet(1, 4)], after].concat();
    vec![
        row(
            "auto/three-in-turn-and-a-barrier",
            5410,
            Job::new(3)
                .auto(0)
                .thread(0, &met(count, count))
                .thread(1, &met(count, count))
                .thread(2, &met(count, look)),
        ),
        row(
            "auto/four-in-turn-and-a-barrier",
            3949,
            Job::new(4)
                .auto(0)
                .thread(0, &four(count, look))
                .thread(1, &four(&[], count))
                .thread(2, &four(count, &[]))
                .thread(3, &four(&[], look)),
        ),
        row(
            "auto/three-in-turn-after-two-moves",
            3761,
            Job::new(3)
                .auto(0)
                .dynamic_after(2)
                .thread(0, &[Write(0, 2, 9), MEET, MEET, Lock(0), Add(0, 0), Unlock(0)])
                .thread(1, &[MEET, Write(0, 0, 1), MEET, Lock(0), Add(0, 0), Unlock(0)])
                .thread(2, &[Write(0, 0, 2), MEET, MEET, Lock(0), Add(0, 0), Unlock(0)]),
        ),
        row(
            "auto/a-dirty-copy-while-the-home-goes-on",
            44_816,
            Job::new(3)
                .auto(0)
                .thread(0, &[count, count].concat())
                .thread(1, &[count, look].concat())
                .thread(2, &[beside, look, beside].concat()),
        ),
        // The home goes from node 0 to node 1 and back, for node 0 reads word 2; node 2 sends its
        // diff to node 0 before it asks it for the minipage.
        row(
            "auto/a-home-that-comes-back-overtakes-no-diff",
            5684,
            Job::new(3)
                .auto(0)
                .thread(0, &[Lock(0), Add(0, 0), Unlock(0), Lock(0), Unlock(0), Read(0, 2)])
                .thread(1, &COUNT)
                .thread(2, &[Write(0, 1, 7), Lock(0), Read(0, 0), Unlock(0), Read(0, 1)]),
        ),
        row(
            "auto/home-transfer-past-a-notice",
            24_157,
            Job::new(3)
                .auto(0)
                .thread(0, count)
                .thread(1, &[Read(0, 2), Write(0, 3, 4)])
                .thread(1, look)
                .thread(2, &[count, look].concat()),
        ),
        row(
            "auto/a-prefetch-before-a-barrier-while-the-home-goes-on",
            7170,
            Job::new(3)
                .auto(0)
                .thread(0, &met(count, look))
                .thread(1, &met(&[Prefetch(0, Kind::Write)], count))
                .thread(2, &met(&[count, &[Prefetch(0, Kind::Read)]].concat(), count)),
        ),
        row(
            "auto/first-touch-then-dynamic-home",
            609,
            Job::new(3)
                .auto(0)
                .thread(0, &met(&[], count))
                .thread(1, &met(&[Write(0, 0, 1)], count))
                .thread(2, &met(&[], count)),
        ),
        row(
            "auto/two-threads-on-a-node-that-is-sent-the-home",
            3639,
            Job::new(2)
                .auto(0)
                .thread(0, &[count, &[meet(1, 3)], look].concat())
                .thread(1, &[count, &[meet(2, 3)], look].concat())
                .thread(1, &[beside, &[meet(2, 3)], beside].concat()),
        ),
    ]
}

/// A home that goes round while a writer with an old idea of it sends two diffs: the second may find
/// a shorter way. The random simulator found it once in 314,000 programs.
fn overtaken() -> Vec<Configuration> {
    let again = |asks: &[Op]| {
        [
            &[Down(11), Read(0, 3), Up(14, 1), Write(0, 1, 5), Up(20, 1)],
            asks,
            &[Write(0, 1, 6), Up(21, 1)],
        ]
        .concat()
    };
    let job = |writer: &[Op]| {
        Job::new(4)
            .auto(0)
            .thread(
                0,
                &[
                    Write(0, 2, 7),
                    Up(16, 1),
                    Down(13),
                    Add(0, 0),
                    Up(15, 1),
                    Down(20),
                    Down(21),
                    Read(0, 1),
                ],
            )
            .thread(
                1,
                &[
                    Down(10),
                    Read(0, 3),
                    Up(11, 1),
                    Down(14),
                    Add(0, 0),
                    Up(12, 1),
                    Down(15),
                    Read(0, 0),
                ],
            )
            .thread(2, &[Down(16), Read(0, 3), Up(10, 1), Down(12), Add(0, 0), Up(13, 1)])
            .thread(3, writer)
    };
    vec![
        row("auto/a-diff-that-no-later-one-overtakes", 57_665, job(&again(&[]))),
        row("auto/a-diff-that-none-opened-ahead-overtakes", 74_282, job(&again(&[OpenAhead(0)]))),
    ]
}

/// Threads that ask for what they will read.
fn asks() -> Vec<Configuration> {
    let count: &[Op] = &COUNT;
    let both = [AwaitedPrefetch(0), AwaitedPrefetch(1), Read(0, 0), Read(1, 0)];
    let beside_both = [AwaitedPrefetch(0), AwaitedPrefetch(1), Read(0, 3), Read(1, 3)];
    let met = |before: &[Op], after: &[Op]| [before, &[meet(1, 3)], after].concat();
    vec![
        // Asked for together, transferred one by one, and all read before the barrier.
        row(
            "auto/awaited-prefetches-are-sent-the-home",
            10_499,
            Job::new(3)
                .auto(0)
                .auto(0)
                .thread(0, &met(&[Write(0, 0, 1), Write(1, 0, 1)], &both))
                .thread(1, &met(&[], &both))
                .thread(2, &met(&beside_both, &[Write(0, 1, 2), AwaitedPrefetch(1), Read(1, 0)])),
        ),
        row(
            "auto/asks-under-a-lock",
            2903,
            Job::new(3)
                .auto(0)
                .thread(0, count)
                .thread(1, &[&[Lock(0), AwaitedPrefetch(0), Read(0, 0), Unlock(0)], count].concat())
                .thread(2, &[count, &[Lock(0), AwaitedPrefetch(0), Add(0, 0), Unlock(0)]].concat()),
        ),
    ]
}
