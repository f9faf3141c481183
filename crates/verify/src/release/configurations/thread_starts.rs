//! Threads that begin, end and are joined at any moment: at a node whose threads all wait at a barrier
//! already, under a lock, one by the other. Barriers to which threads come one by one, while others wait for their
//! end. And numbers that pass the end of 32 bits.

use multigrain_types::Consistency;
use multigrain_types::Consistency::{Auto, EagerRelease, LazyRelease, Sequential};

use super::row::{Configuration, row};
use super::shared_programs::meet;
use crate::release::program::Op::{
    Add, Barrier, Down, Join, Lock, Notify, Read, Release, Start, Unlock, Up, Write,
};
use crate::release::program::{Job, Op, SERVED};

/// A barrier of two nodes that node 0 manages.
const MEET_AT_0: Op = Barrier { id: 0, local: 1, total: 2, quiescent: true };

/// The same, to which each thread comes alone.
const COUNTED: Op = Barrier { id: 0, local: 0, total: 2, quiescent: true };

/// The same of three, managed by node 2.
const COUNTED_AT_2: Op = Barrier { id: 5, local: 0, total: 3, quiescent: true };

/// One of four, managed by node 2: two threads of node 0 come together, those of others alone.
const TOGETHER_AT_2: Op = Barrier { id: 5, local: 2, total: 4, quiescent: true };
const MEET_AT_2: Op = Barrier { id: 5, local: 1, total: 4, quiescent: true };

/// Where flushes, intervals and migrations are counted on from: 32 bits end while they run.
const NEAR_THE_END: u64 = u32::MAX as u64 - 1;

pub(super) fn rows() -> Vec<Configuration> {
    let mut rows = Vec::new();
    for (consistency, states) in STATES {
        let jobs = [jobs(consistency), quiescent_jobs(consistency)].concat();
        assert_eq!(jobs.len(), states.len(), "every job has its number");
        rows.extend(
            jobs.into_iter().zip(states).map(|(job, (name, states))| row(name, states, job)),
        );
    }
    rows
}

type Rows = [(&'static str, usize); 15];

/// How many states the jobs have.
const STATES: [(Consistency, Rows); 4] = [
    (
        Sequential,
        [
            ("starts/sequential/at-an-arrived-node", 473),
            ("starts/sequential/at-an-arrived-manager", 449),
            ("starts/sequential/runs-on-across-the-barrier", 533),
            ("starts/sequential/starts-another", 4710),
            ("starts/sequential/under-a-lock", 353),
            ("starts/sequential/on-its-own-node", 72),
            ("starts/sequential/numbers-near-the-end", 3346),
            ("starts/sequential/numbers-near-the-end-at-barriers", 356),
            ("starts/sequential/two-that-end-at-once", 6896),
            ("starts/sequential/whoever-joins-keeps-no-home", 239),
            ("starts/sequential/joined-at-an-arrived-node", 7676),
            ("starts/sequential/joined-behind-a-move", 479),
            ("starts/sequential/served-behind-a-move", 324),
            ("starts/sequential/threads-of-two-episodes", 668),
            ("starts/sequential/let-go-before-the-answer", 41_191),
        ],
    ),
    (
        EagerRelease,
        [
            ("starts/eager/at-an-arrived-node", 646),
            ("starts/eager/at-an-arrived-manager", 583),
            ("starts/eager/runs-on-across-the-barrier", 826),
            ("starts/eager/starts-another", 5239),
            ("starts/eager/under-a-lock", 322),
            ("starts/eager/on-its-own-node", 72),
            ("starts/eager/numbers-near-the-end", 3160),
            ("starts/eager/numbers-near-the-end-at-barriers", 880),
            ("starts/eager/two-that-end-at-once", 10_403),
            ("starts/eager/whoever-joins-keeps-no-home", 244),
            ("starts/eager/joined-at-an-arrived-node", 34_222),
            ("starts/eager/joined-behind-a-move", 454),
            ("starts/eager/served-behind-a-move", 503),
            ("starts/eager/threads-of-two-episodes", 975),
            ("starts/eager/let-go-before-the-answer", 50_668),
        ],
    ),
    (
        LazyRelease,
        [
            ("starts/lazy/at-an-arrived-node", 3577),
            ("starts/lazy/at-an-arrived-manager", 5322),
            ("starts/lazy/runs-on-across-the-barrier", 2785),
            ("starts/lazy/starts-another", 17_300),
            ("starts/lazy/under-a-lock", 394),
            ("starts/lazy/on-its-own-node", 72),
            ("starts/lazy/numbers-near-the-end", 3701),
            ("starts/lazy/numbers-near-the-end-at-barriers", 466),
            ("starts/lazy/two-that-end-at-once", 14_846),
            ("starts/lazy/whoever-joins-keeps-no-home", 306),
            ("starts/lazy/joined-at-an-arrived-node", 47_277),
            ("starts/lazy/joined-behind-a-move", 585),
            ("starts/lazy/served-behind-a-move", 502),
            ("starts/lazy/threads-of-two-episodes", 494),
            ("starts/lazy/let-go-before-the-answer", 47_185),
        ],
    ),
    (
        Auto,
        [
            ("starts/auto/at-an-arrived-node", 1581),
            ("starts/auto/at-an-arrived-manager", 1090),
            ("starts/auto/runs-on-across-the-barrier", 1444),
            ("starts/auto/starts-another", 14_284),
            ("starts/auto/under-a-lock", 374),
            ("starts/auto/on-its-own-node", 72),
            ("starts/auto/numbers-near-the-end", 2897),
            ("starts/auto/numbers-near-the-end-at-barriers", 425),
            ("starts/auto/two-that-end-at-once", 8677),
            ("starts/auto/whoever-joins-keeps-no-home", 273),
            ("starts/auto/joined-at-an-arrived-node", 40_289),
            ("starts/auto/joined-behind-a-move", 585),
            ("starts/auto/served-behind-a-move", 466),
            ("starts/auto/threads-of-two-episodes", 494),
            ("starts/auto/let-go-before-the-answer", 47_161),
        ],
    ),
];

fn jobs(c: Consistency) -> Vec<Job> {
    let (count, other) = ([Lock(0), Add(0, 0), Unlock(0)], [Lock(1), Add(1, 0), Unlock(1)]);
    let at_barriers = [
        &[Write(0, 0, 1), MEET_AT_0, Read(0, 1), MEET_AT_0, Write(0, 0, 3), MEET_AT_0, Read(0, 1)]
            [..],
        &[Write(0, 1, 2), MEET_AT_0, Read(0, 0), MEET_AT_0, Write(0, 1, 4), MEET_AT_0, Read(0, 0)],
    ];
    vec![
        // Node 1 writes, has a thread write on node 0, whose only thread waits already, and comes.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 3, 7), meet(1, 2), Read(0, 0)])
            .thread(1, &[Write(0, 0, 1), Start(2), Down(9), meet(1, 2), Join(2), Read(0, 1)])
            .started_thread(0, &[Write(0, 1, 2), Up(9, 1)]),
        // The same, and the barrier's manager is where the thread begins.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 3, 7), MEET_AT_0, Read(0, 0)])
            .thread(1, &[Write(0, 0, 1), Start(2), Down(9), MEET_AT_0, Join(2), Read(0, 1)])
            .started_thread(0, &[Write(0, 1, 2), Up(9, 1), Write(0, 2, 4)]),
        // It goes on writing while all others are at the barrier.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 3, 7), meet(1, 2), Read(0, 0)])
            .thread(1, &[Write(0, 0, 1), Start(2), meet(1, 2), Join(2), Read(0, 1)])
            .started_thread(0, &[Write(0, 1, 2), Add(0, 1)]),
        // It starts one on the third node, which is there already as well.
        Job::new(3)
            .minipage(c, 1, 1)
            .thread(0, &[meet(1, 3)])
            .thread(1, &[Write(0, 0, 1), Start(3), meet(1, 3), Join(3), Read(0, 2)])
            .thread(2, &[meet(1, 3)])
            .started_thread(0, &[Start(4), Join(4), Add(0, 2)])
            .started_thread(2, &[Write(0, 2, 5)]),
        // Its starter has the lock that it wants.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(0, &count)
            .thread(1, &[Lock(0), Add(0, 0), Start(2), Unlock(0), Join(2), Read(0, 1)])
            .started_thread(0, &[Lock(0), Add(0, 0), Unlock(0), Write(0, 1, 1)]),
        Job::new(2)
            .minipage(c, 1, 0)
            .thread(0, &[Write(0, 0, 1), Start(2), Write(0, 1, 1), Join(2), Read(0, 2), MEET_AT_0])
            .thread(1, &[MEET_AT_0, Read(0, 2)])
            .started_thread(0, &[Read(0, 0), Write(0, 2, 1)]),
        // Flushes of two threads of a node overlap.
        Job::new(2)
            .minipage(c, 0, 0)
            .minipage(c, 0, 0)
            .thread(0, &[&count[..], &other].concat())
            .thread(1, &[&count[..], &count].concat())
            .thread(1, &other)
            .counting_from(NEAR_THE_END),
        Job::new(2)
            .minipage(c, 1, 0)
            .thread(0, at_barriers[0])
            .thread(1, at_barriers[1])
            .counting_from(NEAR_THE_END),
        // Of two threads that notify a node, one may find nothing left to send: the other has sent all.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(1, &[Read(0, 1), Start(3), Join(3), Read(0, 1)])
            .thread(1, &[Start(4), Join(4)])
            .thread(0, &[Write(0, 3, 7)])
            .started_thread(0, &[Write(0, 1, 1)])
            .started_thread(0, &[]),
    ]
}

/// Threads that begin, or go on, at nodes that have declared that all of theirs wait.
fn quiescent_jobs(c: Consistency) -> Vec<Job> {
    vec![
        // One thread starts all that work, and joins them: homes move meanwhile.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 2, 9), Start(1), Start(2), Join(1), Join(2), Read(0, 0)])
            .started_thread(0, &[COUNTED, COUNTED, Read(0, 0)])
            .started_thread(1, &[Write(0, 0, 1), COUNTED, Write(0, 1, 2), COUNTED]),
        // What it waits for ends while all others are at the barrier: it writes on.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(0, &[Start(3), Join(3), Write(0, 2, 5)])
            .thread(0, &[Write(0, 3, 7), COUNTED, Read(0, 3)])
            .thread(1, &[Write(0, 0, 1), COUNTED, Write(0, 0, 2)])
            .started_thread(1, &[Write(0, 1, 1)]),
        // What it waits for has left the barrier, behind which the home is elsewhere, before its own node has: node 2
        // manages that.
        Job::new(3)
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 2, 9), Start(3), Join(3), Read(0, 1)])
            .thread(0, &[COUNTED_AT_2])
            .thread(2, &[COUNTED_AT_2])
            .started_thread(1, &[Write(0, 0, 1), COUNTED_AT_2, Write(0, 1, 2)]),
        // Node 1 has left the barrier, and frees behind it what node 0 has allocated, whose threads have not.
        Job::new(3)
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 2, 9), COUNTED_AT_2, Down(4), Read(0, 1)])
            .thread(
                1,
                &[
                    Write(0, 0, 1),
                    COUNTED_AT_2,
                    Write(0, 1, 2),
                    Release,
                    Notify(0, SERVED),
                    Up(4, 1),
                ],
            )
            .thread(2, &[COUNTED_AT_2]),
        // Of node 1 both threads wait, one of them in the episode before, which has ended.
        Job::new(2)
            .minipage(c, 0, 0)
            .thread(0, &[Start(3), COUNTED])
            .thread(1, &[Write(0, 0, 1), COUNTED, Write(0, 0, 2)])
            .thread(1, &[COUNTED])
            .started_thread(0, &[COUNTED]),
        // A thread of node 0 goes on when node 2 has decided the barrier. Until node 0 has the answer, one of its other
        // threads has come to the next episode, and one gets the lock under which node 1 has written.
        Job::new(3)
            .minipage(c, 1, 1)
            .thread(0, &[Start(5), Join(5)])
            .thread(0, &[TOGETHER_AT_2, TOGETHER_AT_2])
            .thread(0, &[TOGETHER_AT_2, Read(0, 1), Lock(0), Read(0, 0), Unlock(0), TOGETHER_AT_2])
            .thread(1, &[Write(0, 0, 1), MEET_AT_2, Lock(0), Write(0, 0, 2), Unlock(0), MEET_AT_2])
            .thread(2, &[MEET_AT_2, MEET_AT_2])
            .started_thread(1, &[]),
    ]
}
