//! Litmus tests: the outcomes must be those of sequential consistency, all of them.

use multigrain_protocol::Kind::{Read as ForRead, Write as ForWrite};

use super::row::{Configuration, row};
use crate::check::program::Job;
use crate::check::program::Op::{Add, Prefetch, Push, Read, Write};

pub(super) fn short() -> Vec<Configuration> {
    let two = |manager, owner| Job::new(2).minipage(manager, owner).minipage(1, 0).observed();
    let mut rows = vec![
        row(
            "litmus/store-buffering",
            321,
            two(0, 0).thread(0, &[Write(0, 1), Read(1)]).thread(1, &[Write(1, 1), Read(0)]),
        ),
        row(
            "litmus/message-passing",
            343,
            two(0, 1).thread(0, &[Write(0, 1), Write(1, 1)]).thread(1, &[Read(1), Read(0)]),
        ),
        row(
            "litmus/load-buffering",
            301,
            two(1, 1).thread(0, &[Read(0), Write(1, 1)]).thread(1, &[Read(1), Write(0, 1)]),
        ),
        row(
            "litmus/two-writes-twice",
            774,
            two(1, 0)
                .thread(0, &[Write(0, 1), Write(1, 2), Read(0)])
                .thread(1, &[Write(1, 1), Write(0, 2), Read(1)]),
        ),
        row(
            "litmus/store-buffering-with-hints",
            2447,
            two(0, 0)
                .thread(0, &[Prefetch(1, ForRead), Write(0, 1), Push(0), Read(1)])
                .thread(1, &[Prefetch(0, ForWrite), Write(1, 1), Push(1), Read(0)]),
        ),
    ];
    rows.extend(many());
    rows
}

fn many() -> Vec<Configuration> {
    vec![
        row(
            "litmus/store-buffering-of-three",
            6227,
            Job::new(3)
                .minipage(0, 0)
                .minipage(1, 1)
                .minipage(2, 2)
                .observed()
                .thread(0, &[Write(0, 1), Read(1)])
                .thread(1, &[Write(1, 1), Read(2)])
                .thread(2, &[Write(2, 1), Read(0)]),
        ),
        row(
            "litmus/write-to-read-causality",
            7318,
            Job::new(3)
                .minipage(0, 0)
                .minipage(0, 2)
                .observed()
                .thread(0, &[Write(0, 1)])
                .thread(1, &[Read(0), Write(1, 1)])
                .thread(2, &[Read(1), Read(0)]),
        ),
        row(
            "litmus/independent-reads-of-two-nodes",
            9200,
            Job::new(2)
                .minipage(0, 0)
                .minipage(1, 0)
                .observed()
                .thread(0, &[Write(0, 1)])
                .thread(1, &[Write(1, 1)])
                .thread(0, &[Read(0), Read(1)])
                .thread(1, &[Read(1), Read(0)]),
        ),
        row(
            "litmus/independent-reads-of-four-nodes",
            139_999,
            Job::new(4)
                .minipage(0, 0)
                .minipage(1, 1)
                .observed()
                .thread(0, &[Write(0, 1)])
                .thread(1, &[Write(1, 1)])
                .thread(2, &[Read(0), Read(1)])
                .thread(3, &[Read(1), Read(0)]),
        ),
        row(
            "litmus/coherence-order",
            15_487,
            Job::new(3)
                .minipage(0, 0)
                .observed()
                .thread(0, &[Write(0, 1), Write(0, 2)])
                .thread(1, &[Read(0), Read(0)])
                .thread(2, &[Read(0), Read(0)]),
        ),
        row(
            "litmus/atomic-adds",
            902,
            Job::new(3)
                .minipage(0, 0)
                .observed()
                .thread(0, &[Add(0)])
                .thread(1, &[Add(0)])
                .thread(2, &[Add(0)]),
        ),
    ]
}

pub(super) fn long() -> Vec<Configuration> {
    vec![
        row(
            "litmus/independent-reads-pushed",
            2_238_951,
            Job::new(4)
                .minipage(0, 0)
                .minipage(1, 1)
                .observed()
                .thread(0, &[Write(0, 1), Push(0)])
                .thread(1, &[Write(1, 1), Push(1)])
                .thread(2, &[Read(0), Read(1)])
                .thread(3, &[Read(1), Read(0)]),
        ),
        row(
            "litmus/independent-reads-prefetched",
            637_765,
            Job::new(4)
                .minipage(0, 0)
                .minipage(1, 1)
                .observed()
                .thread(0, &[Write(0, 1)])
                .thread(1, &[Write(1, 1)])
                .thread(2, &[Prefetch(1, ForRead), Read(0), Read(1)])
                .thread(3, &[Prefetch(0, ForRead), Read(1), Read(0)]),
        ),
    ]
}
