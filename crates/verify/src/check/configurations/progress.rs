//! Progress of single accesses: bounds on their faults, one and two minipages at a time, while
//! others take them away as often as they can (ADR 17).

use super::row::{Configuration, row};
use crate::check::program::Job;
use crate::check::program::Op::{Add, AddBoth, Read, Write};

pub(super) fn short() -> Vec<Configuration> {
    let mut rows = one_minipage();
    rows.extend(two_minipages());
    rows.extend(windows());
    rows
}

/// The same with windows, which keep what was granted for any time, or for none.
fn windows() -> Vec<Configuration> {
    vec![
        row(
            "progress/windows-of-two-nodes",
            1150,
            Job::new(2)
                .minipage(0, 1)
                .thread(0, &[Add(0), Write(0, 7)])
                .thread(1, &[Write(0, 1); 3])
                .with_windows(),
        ),
        row(
            "progress/windows-of-three-nodes",
            31_871,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Add(0)])
                .thread(1, &[Write(0, 1); 2])
                .thread(2, &[Read(0), Write(0, 2)])
                .with_windows(),
        ),
        row(
            "progress/windows-of-readers",
            32_084,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Read(0)])
                .thread(1, &[Write(0, 1); 2])
                .thread(2, &[Read(0); 2])
                .with_windows(),
        ),
        row(
            "progress/windows-of-threads",
            12_430,
            Job::new(2)
                .minipage(0, 1)
                .thread(0, &[Read(0), Add(0)])
                .thread(0, &[Add(0)])
                .thread(1, &[Write(0, 1); 2])
                .with_windows(),
        ),
        row(
            "progress/readers-that-have-a-copy",
            268_191,
            Job::new(3)
                .minipage(0, 1)
                .thread(1, &[Read(0)])
                .thread(1, &[Write(0, 5)])
                .thread(2, &[Write(0, 1), Write(0, 2), Read(0)])
                .thread(0, &[Read(0)])
                .with_trap_gap()
                .with_progress(),
        ),
        row(
            "progress/asked-windows-of-three-nodes",
            30_304,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Add(0)])
                .thread(1, &[Write(0, 1); 2])
                .thread(2, &[Read(0), Write(0, 2)])
                .with_asked_windows(),
        ),
        row(
            "progress/asked-windows-of-threads",
            11_317,
            Job::new(2)
                .minipage(0, 1)
                .thread(0, &[Read(0), Add(0)])
                .thread(0, &[Add(0)])
                .thread(1, &[Write(0, 1); 2])
                .with_asked_windows(),
        ),
        row(
            "progress/asked-windows-across-two",
            4492,
            Job::new(2)
                .minipage(0, 1)
                .minipage(0, 1)
                .thread(0, &[AddBoth(0, 1)])
                .thread(1, &[Add(1), Write(0, 1)])
                .with_asked_windows(),
        ),
        row(
            "progress/windows-across-two",
            2988,
            Job::new(2)
                .minipage(0, 1)
                .minipage(0, 1)
                .thread(0, &[AddBoth(0, 1)])
                .thread(1, &[Add(1), Write(0, 1)])
                .with_windows(),
        ),
    ]
}

fn one_minipage() -> Vec<Configuration> {
    vec![
        row(
            "progress/the-manager-against-one",
            518,
            Job::new(2)
                .minipage(0, 1)
                .thread(0, &[Add(0)])
                .thread(1, &[Write(0, 1); 5])
                .with_progress(),
        ),
        row(
            "progress/one-against-the-manager",
            533,
            Job::new(2)
                .minipage(0, 1)
                .thread(0, &[Write(0, 1); 5])
                .thread(1, &[Add(0)])
                .with_progress(),
        ),
        row(
            "progress/the-manager-against-two",
            24_901,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Add(0)])
                .thread(1, &[Write(0, 1); 3])
                .thread(2, &[Write(0, 2); 2])
                .with_progress(),
        ),
        row(
            "progress/a-reader-among-writers",
            19_661,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Write(0, 1); 2])
                .thread(1, &[Read(0)])
                .thread(2, &[Write(0, 2); 2])
                .with_progress(),
        ),
        row(
            "progress/threads-of-one-node",
            5030,
            Job::new(2)
                .minipage(0, 1)
                .thread(0, &[Add(0)])
                .thread(0, &[Read(0)])
                .thread(1, &[Write(0, 1); 3])
                .with_progress(),
        ),
        row(
            "progress/traps-of-threads",
            9192,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Write(0, 1); 3])
                .thread(1, &[Add(0)])
                .thread(1, &[Read(0)])
                .with_trap_gap()
                .with_progress(),
        ),
        row(
            "progress/upgrades",
            7551,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Read(0), Write(0, 1), Read(0), Write(0, 2)])
                .thread(1, &[Read(0), Add(0)])
                .thread(1, &[Read(0)])
                .with_progress(),
        ),
    ]
}

fn two_minipages() -> Vec<Configuration> {
    vec![
        row(
            "progress/both-against-each",
            3721,
            Job::new(2)
                .minipage(0, 0)
                .minipage(1, 1)
                .thread(0, &[AddBoth(0, 1)])
                .thread(1, &[Write(0, 1), Write(1, 1), Write(0, 2), Write(1, 2)])
                .with_progress(),
        ),
        row(
            "progress/both-against-two",
            51_204,
            Job::new(3)
                .minipage(0, 1)
                .minipage(1, 2)
                .thread(0, &[AddBoth(0, 1)])
                .thread(1, &[Write(0, 1), Write(0, 2)])
                .thread(2, &[Write(1, 1), Write(1, 2)])
                .with_progress(),
        ),
        row(
            "progress/both-crosswise",
            1768,
            Job::new(2)
                .minipage(0, 0)
                .minipage(0, 1)
                .thread(0, &[AddBoth(0, 1)])
                .thread(1, &[AddBoth(1, 0)])
                .with_progress(),
        ),
    ]
}

pub(super) fn long() -> Vec<Configuration> {
    vec![
        row(
            "progress/four-nodes",
            193_588,
            Job::new(4)
                .minipage(0, 1)
                .thread(0, &[Add(0)])
                .thread(1, &[Write(0, 1); 2])
                .thread(2, &[Read(0)])
                .thread(3, &[Write(0, 2)])
                .with_progress(),
        ),
        row(
            "progress/both-against-writers",
            95_907,
            Job::new(3)
                .minipage(0, 0)
                .minipage(0, 1)
                .thread(0, &[AddBoth(0, 1)])
                .thread(1, &[Write(0, 1); 3])
                .thread(2, &[Write(1, 1); 3])
                .with_progress(),
        ),
        row(
            "progress/both-in-a-ring",
            200_538,
            Job::new(3)
                .minipage(0, 0)
                .minipage(1, 1)
                .minipage(2, 2)
                .thread(0, &[AddBoth(0, 1)])
                .thread(1, &[AddBoth(1, 2)])
                .thread(2, &[AddBoth(2, 0)])
                .with_progress(),
        ),
    ]
}
