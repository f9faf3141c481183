//! Prefetch, push and reclaim: what a real system adds to the paper's protocol.

use multigrain_protocol::Kind::{Read as ForRead, Write as ForWrite};

use super::row::{Configuration, row};
use crate::check::program::Job;
use crate::check::program::Op::{Add, Prefetch, Push, Read, Reclaim, Write};

pub(super) fn short() -> Vec<Configuration> {
    let mut rows = prefetch_and_push();
    rows.extend(reclaim());
    rows
}

fn prefetch_and_push() -> Vec<Configuration> {
    vec![
        row(
            "prefetch/races-with-faults",
            1139,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Add(0), Add(0)])
                .thread(1, &[Prefetch(0, ForRead), Read(0), Add(0)])
                .thread(1, &[Prefetch(0, ForWrite)]),
        ),
        row(
            "prefetch/three-nodes",
            6098,
            Job::new(3)
                .minipage(0, 0)
                .thread(0, &[Add(0)])
                .thread(1, &[Prefetch(0, ForWrite), Read(0)])
                .thread(2, &[Prefetch(0, ForRead), Add(0)]),
        ),
        row(
            "push/meets-a-read",
            2544,
            Job::new(3)
                .minipage(1, 0)
                .thread(0, &[Write(0, 1), Push(0)])
                .thread(1, &[Read(0)])
                .thread(2, &[Read(0)]),
        ),
        row(
            "push/meets-writes",
            4339,
            Job::new(3)
                .minipage(0, 0)
                .thread(0, &[Push(0), Add(0)])
                .thread(1, &[Add(0)])
                .thread(2, &[Read(0)]),
        ),
        row(
            "push/by-two",
            669,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Push(0); 7])
                .thread(1, &[Read(0), Push(0), Add(0)]),
        ),
        row(
            "push/by-three",
            174_728,
            Job::new(3)
                .minipage(0, 0)
                .thread(0, &[Push(0), Add(0), Push(0), Push(0)])
                .thread(1, &[Read(0), Push(0), Push(0), Add(0)])
                .thread(2, &[Read(0), Push(0), Add(0)]),
        ),
    ]
}

fn reclaim() -> Vec<Configuration> {
    vec![
        row(
            "reclaim/meets-accesses",
            1927,
            Job::new(2)
                .minipage(1, 0)
                .thread(0, &[Reclaim(0), Write(0, 7), Read(0)])
                .thread(1, &[Read(0), Read(0)])
                .thread(1, &[Write(0, 2)]),
        ),
        row(
            "reclaim/meets-own-faults",
            1825,
            Job::new(2)
                .minipage(1, 0)
                .thread(0, &[Read(0), Reclaim(0), Write(0, 7)])
                .thread(0, &[Read(0)])
                .thread(1, &[Write(0, 2)])
                .with_trap_gap(),
        ),
        row(
            "reclaim/meets-prefetch-and-push",
            275,
            Job::new(2)
                .minipage(1, 0)
                .thread(0, &[Prefetch(0, ForRead), Reclaim(0), Write(0, 7)])
                .thread(1, &[Write(0, 2), Push(0)]),
        ),
        row(
            "reclaim/three-nodes",
            3264,
            Job::new(3)
                .minipage(1, 0)
                .thread(0, &[Reclaim(0), Write(0, 7), Push(0)])
                .thread(1, &[Read(0)])
                .thread(2, &[Write(0, 2)]),
        ),
    ]
}

pub(super) fn long() -> Vec<Configuration> {
    vec![
        row(
            "push/four-nodes-prefetch",
            1_599_578,
            Job::new(4)
                .minipage(0, 0)
                .thread(0, &[Add(0), Push(0), Add(0)])
                .thread(1, &[Prefetch(0, ForRead), Read(0), Add(0)])
                .thread(2, &[Prefetch(0, ForWrite), Read(0)])
                .thread(3, &[Add(0)]),
        ),
        row(
            "push/two-minipages",
            237_500,
            Job::new(3)
                .minipage(0, 0)
                .minipage(1, 0)
                .thread(0, &[Add(0), Push(0), Add(1), Push(1)])
                .thread(1, &[Read(1), Read(0), Add(0)])
                .thread(2, &[Read(1), Read(0), Push(1)]),
        ),
        row(
            "reclaim/under-fire",
            758_053,
            Job::new(3)
                .minipage(1, 0)
                .thread(0, &[Read(0), Reclaim(0), Write(0, 7), Push(0), Reclaim(0), Write(0, 9)])
                .thread(0, &[Prefetch(0, ForRead), Read(0)])
                .thread(1, &[Read(0), Push(0), Read(0)])
                .thread(2, &[Write(0, 2), Prefetch(0, ForRead)]),
        ),
    ]
}
