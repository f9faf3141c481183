//! Minipages of several consistencies in one program.

use multigrain_types::Consistency::{EagerRelease, LazyRelease, Sequential};

use super::row::{Configuration, row};
use super::shared_programs::{collect, meet, pass};
use crate::release::program::Op::{Add, Down, Lock, Read, Unlock, Up, Write};
use crate::release::program::{Job, Op};

/// A critical section over a minipage of each.
const ALL: [Op; 5] = [Lock(0), Add(0, 0), Add(1, 0), Add(2, 0), Unlock(0)];

pub(super) fn rows() -> Vec<Configuration> {
    let three = |nodes, eager, lazy, sequential| {
        Job::new(nodes)
            .minipage(EagerRelease, eager, eager)
            .minipage(LazyRelease, lazy, lazy)
            .minipage(Sequential, sequential, sequential)
    };
    vec![
        row("mixed/one-lock", 123, three(2, 0, 1, 0).thread(0, &ALL).thread(1, &ALL)),
        row(
            "mixed/one-lock-whose-token-goes-home",
            968,
            three(2, 0, 1, 0).keeping(0).thread(0, &ALL).thread(1, &ALL).thread(1, &ALL),
        ),
        row(
            "mixed/one-barrier",
            929,
            three(2, 1, 0, 0)
                .thread(0, &[Write(0, 0, 1), Write(1, 0, 1), meet(1, 2), Read(1, 1), Read(2, 0)])
                .thread(1, &[Write(1, 1, 2), Write(2, 0, 2), meet(1, 2), Read(0, 0), Read(1, 0)]),
        ),
        row(
            "mixed/one-collective",
            10_211,
            three(2, 1, 0, 0)
                .thread(0, &[Write(0, 0, 1), Write(1, 0, 1), collect(1, 3), Read(1, 1), Read(2, 0)])
                .thread(1, &[Write(1, 1, 2), Write(2, 0, 2), collect(2, 3), Read(0, 0)])
                .thread(1, &[Write(0, 1, 3), collect(2, 3), Read(1, 0), collect(0, 1)]),
        ),
        row(
            "mixed/collectives-one-after-the-other",
            109,
            three(2, 1, 0, 1)
                .thread(0, &[collect(0, 2), Write(0, 0, 1), collect(0, 2), Read(1, 0)])
                .thread(1, &[Write(1, 0, 2), collect(0, 2), collect(0, 2), Read(0, 0)]),
        ),
        row(
            "mixed/three-nodes",
            92_832,
            three(3, 0, 1, 2)
                .thread(
                    0,
                    &[
                        Write(0, 1, 1),
                        Lock(0),
                        Add(0, 0),
                        Add(1, 0),
                        Unlock(0),
                        meet(1, 3),
                        Read(1, 1),
                    ],
                )
                .thread(
                    1,
                    &[
                        Lock(0),
                        Add(0, 0),
                        Add(2, 0),
                        Unlock(0),
                        Write(1, 1, 1),
                        meet(1, 3),
                        Read(0, 1),
                    ],
                )
                .thread(2, &[Write(2, 1, 1), Write(1, 2, 1), meet(1, 3), Read(0, 0), Read(1, 0)]),
        ),
        row(
            "mixed/two-threads-a-node",
            3043,
            three(2, 1, 0, 0)
                .thread(0, &[Lock(0), Add(0, 0), Unlock(0), pass(2, 3), Read(1, 0)])
                .thread(0, &[Lock(1), Add(1, 0), Unlock(1), pass(2, 3), Read(0, 0)])
                .thread(
                    1,
                    &[Lock(0), Add(0, 0), Unlock(0), Lock(1), Add(1, 0), Unlock(1), pass(1, 3)],
                )
                .with_trap_gap(),
        ),
        row(
            "mixed/flag-and-data",
            70,
            three(2, 0, 0, 1)
                .thread(0, &[Add(0, 0), Add(1, 0), Up(1, 1), pass(1, 2), Read(1, 1)])
                .thread(1, &[Down(1), Read(0, 0), Read(1, 0), Add(1, 1), pass(1, 2)]),
        ),
        row(
            "mixed/a-dynamic-home",
            7895,
            three(3, 0, 1, 2)
                .auto(0)
                .thread(0, &[Lock(0), Add(3, 0), Add(0, 0), Unlock(0), meet(1, 3), Read(3, 1)])
                .thread(1, &[Lock(0), Add(3, 0), Add(1, 0), Unlock(0), meet(1, 3), Read(0, 0)])
                .thread(2, &[Write(3, 1, 7), Lock(0), Add(3, 0), Unlock(0), meet(1, 3), Add(2, 0)]),
        ),
    ]
}
