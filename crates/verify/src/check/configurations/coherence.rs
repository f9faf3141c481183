//! Millipage 3.3 and Figure 3: misses, upgrades, competing requests.

use super::row::{Configuration, row};
use crate::check::program::Job;
use crate::check::program::Op::{Add, Read, Write};

pub(super) fn short() -> Vec<Configuration> {
    let mut rows = flat();
    rows.extend(trees());
    rows
}

/// Invalidations by a tree: a chain, and one that branches.
fn trees() -> Vec<Configuration> {
    vec![
        row(
            "coherence/invalidations-in-a-chain",
            41_304,
            Job::new(4)
                .minipage(0, 0)
                .thread(0, &[Write(0, 1)])
                .thread(1, &[Read(0)])
                .thread(2, &[Read(0)])
                .thread(3, &[Read(0)])
                .with_fan(1),
        ),
        row(
            "coherence/upgrade-by-a-chain",
            11_309,
            Job::new(4)
                .minipage(0, 0)
                .thread(1, &[Read(0), Read(0)])
                .thread(2, &[Read(0)])
                .thread(3, &[Read(0), Add(0)])
                .with_fan(1),
        ),
        row(
            "coherence/invalidations-by-two",
            30_908,
            Job::new(4)
                .minipage(0, 0)
                .thread(0, &[Write(0, 1)])
                .thread(1, &[Read(0)])
                .thread(2, &[Read(0)])
                .thread(3, &[Read(0)])
                .with_fan(2),
        ),
    ]
}

fn flat() -> Vec<Configuration> {
    vec![
        row(
            "coherence/two-writers",
            208,
            Job::new(2).minipage(0, 0).thread(0, &[Add(0), Add(0)]).thread(1, &[Add(0), Add(0)]),
        ),
        row(
            "coherence/remote-manager",
            328,
            Job::new(3).minipage(0, 1).thread(1, &[Write(0, 1)]).thread(2, &[Add(0), Read(0)]),
        ),
        row(
            "coherence/three-writers",
            865,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Add(0)])
                .thread(1, &[Add(0)])
                .thread(2, &[Add(0)]),
        ),
        row(
            "coherence/readers-and-a-writer",
            4510,
            Job::new(3)
                .minipage(0, 0)
                .thread(0, &[Write(0, 1), Write(0, 2)])
                .thread(1, &[Read(0), Read(0)])
                .thread(2, &[Read(0)]),
        ),
        row(
            "coherence/upgrades",
            833,
            Job::new(3)
                .minipage(0, 0)
                .thread(1, &[Read(0), Write(0, 1)])
                .thread(2, &[Read(0), Write(0, 2)]),
        ),
        row(
            "coherence/two-threads-a-node",
            799,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Write(0, 1)])
                .thread(1, &[Read(0)])
                .thread(1, &[Write(0, 2)])
                .with_trap_gap(),
        ),
        row(
            "coherence/three-threads-a-node",
            3930,
            Job::new(2)
                .minipage(1, 0)
                .thread(0, &[Add(0)])
                .thread(1, &[Read(0)])
                .thread(1, &[Write(0, 9), Read(0)])
                .thread(1, &[Read(0)]),
        ),
        row(
            "coherence/traps-on-three-nodes",
            38_904,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Read(0), Add(0)])
                .thread(1, &[Add(0)])
                .thread(2, &[Add(0)])
                .thread(2, &[Read(0)])
                .with_trap_gap(),
        ),
        row(
            "coherence/four-nodes",
            126_142,
            Job::new(4)
                .minipage(0, 1)
                .thread(0, &[Read(0), Read(0)])
                .thread(1, &[Read(0)])
                .thread(2, &[Add(0), Read(0)])
                .thread(3, &[Add(0)]),
        ),
        row(
            "coherence/two-minipages",
            331,
            Job::new(2)
                .minipage(0, 1)
                .minipage(1, 0)
                .thread(0, &[Add(0), Add(1)])
                .thread(1, &[Add(1), Add(0)]),
        ),
        row(
            "coherence/three-minipages",
            6227,
            Job::new(3)
                .minipage(0, 0)
                .minipage(1, 1)
                .minipage(2, 2)
                .thread(0, &[Add(0), Read(1)])
                .thread(1, &[Add(1), Read(2)])
                .thread(2, &[Add(2), Add(0)]),
        ),
    ]
}

pub(super) fn long() -> Vec<Configuration> {
    vec![
        row(
            "coherence/four-writers",
            858_353,
            Job::new(4)
                .minipage(0, 1)
                .thread(0, &[Read(0), Add(0), Read(0)])
                .thread(1, &[Add(0), Read(0)])
                .thread(2, &[Add(0), Add(0)])
                .thread(3, &[Read(0), Add(0)]),
        ),
        row(
            "coherence/two-threads-on-three-nodes",
            748_212,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Add(0), Read(0)])
                .thread(0, &[Read(0)])
                .thread(1, &[Add(0)])
                .thread(1, &[Read(0)])
                .thread(2, &[Add(0)])
                .thread(2, &[Read(0), Add(0)]),
        ),
        row(
            "coherence/traps-of-five-threads",
            583_111,
            Job::new(3)
                .minipage(0, 1)
                .thread(0, &[Read(0), Add(0)])
                .thread(0, &[Read(0)])
                .thread(1, &[Add(0)])
                .thread(2, &[Add(0)])
                .thread(2, &[Read(0), Add(0)])
                .with_trap_gap(),
        ),
        row(
            "coherence/three-minipages-in-turn",
            550_264,
            Job::new(3)
                .minipage(0, 0)
                .minipage(1, 1)
                .minipage(2, 2)
                .thread(0, &[Add(0), Add(1), Read(2)])
                .thread(1, &[Add(1), Add(2), Read(0)])
                .thread(2, &[Add(2), Add(0), Read(1)]),
        ),
        row(
            "coherence/four-nodes-two-minipages",
            2_747_972,
            Job::new(4)
                .minipage(0, 1)
                .minipage(3, 3)
                .thread(0, &[Read(0), Add(1)])
                .thread(1, &[Add(0), Read(1)])
                .thread(2, &[Add(0), Add(1)])
                .thread(3, &[Read(0), Add(1)]),
        ),
    ]
}
