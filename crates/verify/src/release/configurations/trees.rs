//! Barriers of all threads that go by a tree: what is written, moves, begins and is collected on several levels.

use multigrain_types::Consistency;
use multigrain_types::Consistency::{Auto, EagerRelease, LazyRelease, Sequential};

use super::row::{Configuration, row};
use crate::release::program::Op::{Barrier, Join, Read, Start, Write};
use crate::release::program::{Job, Op};

/// A barrier of three nodes with one thread each.
const MEET: Op = Barrier { id: 1, local: 1, total: 3, quiescent: true };
/// A barrier of four.
const MEET_FOUR: Op = Barrier { id: 1, local: 1, total: 4, quiescent: true };
/// A barrier of three, beside which other threads might run.
const ACTIVE: Op = Barrier { id: 1, local: 1, total: 3, quiescent: false };
/// The same, at which all sum up something.
const COLLECT: Op = Barrier { id: 2, local: 1, total: 3, quiescent: true };

pub(super) fn rows() -> Vec<Configuration> {
    let mut rows = Vec::new();
    for (consistency, states) in STATES {
        let jobs = jobs(consistency);
        assert_eq!(jobs.len(), states.len(), "every job has its number");
        rows.extend(
            jobs.into_iter().zip(states).map(|(job, (name, states))| row(name, states, job)),
        );
    }
    rows
}

type Rows = [(&'static str, usize); 8];

/// How many states the jobs have.
const STATES: [(Consistency, Rows); 4] = [
    (
        Sequential,
        [
            ("trees/sequential/what-was-written-is-seen", 6474),
            ("trees/sequential/homes-move", 3390),
            ("trees/sequential/threads-that-run-on", 452),
            ("trees/sequential/collected", 290),
            ("trees/sequential/a-thread-begins-at-the-bottom", 569),
            ("trees/sequential/a-thread-begins-in-the-middle", 2086),
            ("trees/sequential/two-below-one", 708),
            ("trees/sequential/a-thread-begins-before-its-node-goes-on", 2030),
        ],
    ),
    (
        EagerRelease,
        [
            ("trees/eager/what-was-written-is-seen", 7731),
            ("trees/eager/homes-move", 1342),
            ("trees/eager/threads-that-run-on", 528),
            ("trees/eager/collected", 171),
            ("trees/eager/a-thread-begins-at-the-bottom", 715),
            ("trees/eager/a-thread-begins-in-the-middle", 1506),
            ("trees/eager/two-below-one", 405),
            ("trees/eager/a-thread-begins-before-its-node-goes-on", 1050),
        ],
    ),
    (
        LazyRelease,
        [
            ("trees/lazy/what-was-written-is-seen", 7623),
            ("trees/lazy/homes-move", 1219),
            ("trees/lazy/threads-that-run-on", 499),
            ("trees/lazy/collected", 131),
            ("trees/lazy/a-thread-begins-at-the-bottom", 406),
            ("trees/lazy/a-thread-begins-in-the-middle", 1042),
            ("trees/lazy/two-below-one", 375),
            ("trees/lazy/a-thread-begins-before-its-node-goes-on", 965),
        ],
    ),
    (
        Auto,
        [
            ("trees/auto/what-was-written-is-seen", 13_526),
            ("trees/auto/homes-move", 1559),
            ("trees/auto/threads-that-run-on", 445),
            ("trees/auto/collected", 131),
            ("trees/auto/a-thread-begins-at-the-bottom", 406),
            ("trees/auto/a-thread-begins-in-the-middle", 1122),
            ("trees/auto/two-below-one", 371),
            ("trees/auto/a-thread-begins-before-its-node-goes-on", 943),
        ],
    ),
];

/// Three nodes in a row: node 2 is below node 1, which is below node 0.
fn chain() -> Job {
    Job::new(3).with_fan(1)
}

fn jobs(c: Consistency) -> Vec<Job> {
    vec![
        // Everybody reads what the others have written.
        chain()
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 0, 1), MEET, Read(0, 2), MEET])
            .thread(1, &[Write(0, 1, 2), MEET, Read(0, 0), MEET])
            .thread(2, &[Write(0, 2, 3), MEET, Read(0, 1), MEET]),
        // One writer at a time: homes move down the tree, and up again.
        chain()
            .minipage(c, 0, 0)
            .thread(0, &[Write(0, 0, 1), MEET, MEET, Read(0, 1), MEET])
            .thread(1, &[MEET, MEET, Write(0, 0, 3), MEET])
            .thread(2, &[MEET, Write(0, 1, 2), MEET, MEET, Read(0, 0)]),
        // Node 1 has threads that run on.
        chain()
            .minipage(c, 1, 1)
            .thread(0, &[ACTIVE, Read(0, 0)])
            .thread(1, &[Write(0, 0, 1), ACTIVE, Read(0, 1)])
            .thread(2, &[Write(0, 1, 2), ACTIVE]),
        // What everybody brings comes to all, and what was written before with it.
        chain()
            .minipage(c, 0, 0)
            .thread(0, &[COLLECT, Read(0, 0), COLLECT])
            .thread(1, &[COLLECT, COLLECT])
            .thread(2, &[Write(0, 0, 1), COLLECT, COLLECT]),
        // A thread begins on the lowest node, which waits already, and what takes that back goes all the way.
        chain()
            .minipage(c, 0, 0)
            .thread(0, &[Start(3), MEET, Join(3), Read(0, 1)])
            .thread(1, &[MEET])
            .thread(2, &[MEET])
            .started_thread(2, &[Write(0, 1, 2)]),
        // The same on the node in the middle, which may have told the one above or not.
        chain()
            .minipage(c, 0, 0)
            .thread(0, &[MEET, Read(0, 0)])
            .thread(1, &[Write(0, 0, 1), MEET])
            .thread(2, &[Start(3), MEET, Join(3), Read(0, 1)])
            .started_thread(1, &[Write(0, 1, 2)]),
        // Two nodes below one: what one of them has received the other has not.
        Job::new(3)
            .with_fan(2)
            .minipage(c, 0, 0)
            .thread(0, &[MEET])
            .thread(1, &[Write(0, 1, 2), MEET])
            .thread(2, &[Read(0, 2), MEET, Read(0, 1)]),
        // Node 0, the first to go on, has a thread begin on node 2, which so learns of a write after the barrier
        // before it goes on itself, and has to let node 3 go on. Of what was written before the barrier, by a home
        // without copies, nobody has to be told: no plan came down the tree.
        Job::new(4)
            .with_fan(1)
            .minipage(c, 1, 1)
            .thread(0, &[Read(0, 0), MEET_FOUR, Write(0, 0, 1), Start(4)])
            .thread(1, &[MEET_FOUR])
            .thread(2, &[MEET_FOUR])
            .thread(3, &[Write(0, 1, 2), MEET_FOUR])
            .started_thread(2, &[Read(0, 0)]),
    ]
}
