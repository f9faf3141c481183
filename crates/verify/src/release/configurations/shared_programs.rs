//! Programs that run under both protocols of release consistency.

use crate::LockWindows;
use multigrain_protocol::Kind;
use multigrain_types::Consistency;

use super::row::Configuration;
use crate::release::program::Op::{
    Add, Barrier, Down, Lock, Notify, Prefetch, Read, Receive, Release, Unlock, Up, Write,
};
use crate::release::program::{Job, Op};

/// A critical section that counts in word 0 of minipage 0.
pub(super) const COUNT: [Op; 3] = [Lock(0), Add(0, 0), Unlock(0)];
/// A critical section that looks at it.
pub(super) const LOOK: [Op; 3] = [Lock(0), Read(0, 0), Unlock(0)];

/// A barrier that finds the whole job quiescent if all come to it that way.
pub(super) const fn meet(local: u32, total: u32) -> Op {
    Barrier { id: 1, local, total, quiescent: true }
}

/// A barrier beside which other threads might run.
pub(super) const fn pass(local: u32, total: u32) -> Op {
    Barrier { id: 1, local, total, quiescent: false }
}

/// A collective operation, which is a barrier.
pub(super) const fn collect(local: u32, total: u32) -> Op {
    Barrier { id: 2, local, total, quiescent: local > 0 }
}

/// The same of three nodes with a thread each.
const MEET_3: Op = meet(1, 3);

/// Rows of a table: the cases by name, with their numbers of states.
pub(super) fn rows(
    cases: Vec<(&'static str, Job)>,
    table: &[(&'static str, usize)],
) -> Vec<Configuration> {
    assert_eq!(cases.len(), table.len(), "every case has its number");
    let rows = cases.into_iter().zip(table);
    rows.map(|((case, job), &(name, states))| {
        assert!(name.ends_with(case), "{name} is not {case}");
        Configuration { name, states, job }
    })
    .collect()
}

/// The cases, with minipages of one protocol.
pub(super) fn cases(consistency: Consistency) -> Vec<(&'static str, Job)> {
    let job = |nodes| Job::new(nodes);
    let mut cases = barriers(consistency, job);
    cases.extend(locks(consistency, job));
    cases.extend(lock_windows(consistency, job));
    cases.extend(others(consistency, job));
    cases.extend(large(consistency, job));
    cases
}

/// More threads and longer programs.
fn large(c: Consistency, job: fn(u16) -> Job) -> Vec<(&'static str, Job)> {
    let [meet, pass] = [meet(2, 4), pass(2, 4)];
    vec![
        (
            "three-writers-in-turn",
            job(3)
                .minipage(c, 0, 1)
                .thread(
                    0,
                    &[
                        Write(0, 0, 1),
                        MEET_3,
                        Read(0, 2),
                        MEET_3,
                        Write(0, 1, 4),
                        MEET_3,
                        Read(0, 0),
                    ],
                )
                .thread(
                    1,
                    &[
                        Write(0, 1, 2),
                        MEET_3,
                        Read(0, 0),
                        MEET_3,
                        Write(0, 2, 5),
                        MEET_3,
                        Read(0, 1),
                    ],
                )
                .thread(
                    2,
                    &[
                        Write(0, 2, 3),
                        MEET_3,
                        Read(0, 1),
                        MEET_3,
                        Write(0, 0, 6),
                        MEET_3,
                        Read(0, 2),
                    ],
                ),
        ),
        (
            "two-threads-a-node-at-a-barrier",
            job(2)
                .minipage(c, 1, 0)
                .thread(0, &[Write(0, 0, 1), meet, Read(0, 2), pass, Write(0, 3, 5)])
                .thread(0, &[Write(0, 1, 2), meet, Read(0, 3), pass])
                .thread(1, &[Write(0, 2, 3), meet, Read(0, 0), pass, Read(0, 1)])
                .thread(1, &[Write(0, 3, 4), meet, Read(0, 1), pass]),
        ),
        (
            "posts-that-nobody-waits-for",
            job(3)
                .minipage(c, 0, 0)
                .thread(0, &[Down(3), Down(3), Down(3), Read(0, 0), Read(0, 1), Read(0, 2)])
                .thread(1, &[Write(0, 0, 1), Up(3, 1), Write(0, 2, 1), Up(3, 1)])
                .thread(2, &[Read(0, 3), Write(0, 1, 1), Up(3, 1)]),
        ),
        (
            "posts-and-prefetches",
            job(3)
                .minipage(c, 2, 0)
                .thread(0, &[Add(0, 0), Up(3, 1), Prefetch(0, Kind::Read), Down(5), Add(0, 0)])
                .thread(1, &[Prefetch(0, Kind::Write), Down(3), Add(0, 0), Up(4, 1), Add(0, 1)])
                .thread(2, &[Read(0, 3), Down(4), Add(0, 0), Up(5, 1), Read(0, 2)]),
        ),
        (
            "two-locks-on-three-nodes",
            job(3)
                .minipage(c, 0, 2)
                .thread(0, &[Lock(0), Add(0, 0), Unlock(0), Lock(1), Read(0, 1), Unlock(1)])
                .thread(1, &[Lock(1), Add(0, 1), Unlock(1), Lock(0), Add(0, 0), Unlock(0)])
                .thread(2, &[Read(0, 3), Lock(1), Add(0, 1), Unlock(1), Prefetch(0, Kind::Write)]),
        ),
        (
            "two-threads-a-node-and-late-traps",
            job(2)
                .minipage(c, 0, 0)
                .thread(0, &[Lock(0), Add(0, 0), Unlock(0), Read(0, 3)])
                .thread(0, &[Lock(1), Add(0, 1), Unlock(1), Write(0, 2, 1)])
                .thread(1, &[Lock(0), Add(0, 0), Unlock(0), Lock(1), Add(0, 1), Unlock(1)])
                .thread(1, &[Lock(1), Read(0, 1), Unlock(1)])
                .with_trap_gap(),
        ),
    ]
}

fn barriers(c: Consistency, job: fn(u16) -> Job) -> Vec<(&'static str, Job)> {
    vec![
        (
            "two-writers-of-one-page",
            job(2)
                .minipage(c, 0, 0)
                .thread(0, &[Write(0, 0, 1), meet(1, 2), Read(0, 1), meet(1, 2), Write(0, 0, 3)])
                .thread(1, &[Write(0, 1, 2), meet(1, 2), Read(0, 0), meet(1, 2), Read(0, 1)]),
        ),
        (
            "two-writers-away-from-home",
            job(3)
                .minipage(c, 0, 0)
                .thread(0, &[pass(1, 3), Read(0, 1)])
                .thread(1, &[Write(0, 0, 1), pass(1, 3), Read(0, 1)])
                .thread(2, &[Write(0, 1, 2), pass(1, 3), Read(0, 0)]),
        ),
        (
            "writers-change-places",
            job(2)
                .minipage(c, 1, 0)
                .thread(0, &[Write(0, 0, 1), pass(1, 2), Write(0, 1, 2), pass(1, 2), Read(0, 0)])
                .thread(1, &[Write(0, 1, 3), pass(1, 2), Write(0, 0, 4), pass(1, 2), Read(0, 1)]),
        ),
        (
            "one-writer-many-episodes",
            job(2)
                .minipage(c, 0, 0)
                .thread(0, &[meet(1, 2), Read(0, 0), meet(1, 2), meet(1, 2), Read(0, 0)])
                .thread(1, &[Write(0, 0, 1), meet(1, 2), meet(1, 2), Write(0, 0, 2), meet(1, 2)]),
        ),
        (
            "two-homes-three-nodes",
            job(3)
                .minipage(c, 0, 0)
                .minipage(c, 1, 1)
                .thread(0, &[Write(1, 0, 1), meet(1, 3), Read(0, 0)])
                .thread(1, &[Write(0, 0, 2), meet(1, 3), Read(1, 0)])
                .thread(2, &[meet(1, 3), Read(0, 0), Read(1, 0)]),
        ),
        (
            "prefetch-across-a-barrier",
            job(3)
                .minipage(c, 0, 0)
                .thread(0, &[Read(0, 1), meet(1, 3)])
                .thread(1, &[Write(0, 0, 1), meet(1, 3), Write(0, 0, 2), meet(1, 2)])
                .thread(2, &[Prefetch(0, Kind::Read), meet(1, 3), meet(1, 2), Read(0, 0)]),
        ),
        (
            "prefetch-to-write-across-a-barrier",
            job(2)
                .minipage(c, 0, 0)
                .thread(0, &[Write(0, 0, 1), meet(1, 2), Read(0, 0), meet(1, 2), Read(0, 1)])
                .thread(1, &[Prefetch(0, Kind::Write), meet(1, 2), Write(0, 1, 2), meet(1, 2)]),
        ),
    ]
}

fn lock_windows(c: Consistency, job: fn(u16) -> Job) -> Vec<(&'static str, Job)> {
    vec![
        (
            "a-lock-taken-again-in-its-window",
            job(2)
                .with_lock_windows(LockWindows::Soon)
                .minipage(c, 0, 0)
                .thread(0, &COUNT.repeat(2))
                .thread(1, &COUNT.repeat(2)),
        ),
        (
            "a-lock-that-threads-take-again-in-its-window",
            job(2)
                .with_lock_windows(LockWindows::AtOnce)
                .minipage(c, 0, 0)
                .thread(0, &COUNT.repeat(2))
                .thread(0, &COUNT.repeat(2))
                .thread(1, &COUNT),
        ),
    ]
}

fn locks(c: Consistency, job: fn(u16) -> Job) -> Vec<(&'static str, Job)> {
    let twice = COUNT.repeat(2);
    vec![
        ("counter", job(2).minipage(c, 0, 0).thread(0, &twice).thread(1, &twice)),
        (
            "counter-at-a-third-node",
            job(3).minipage(c, 2, 2).thread(0, &COUNT).thread(1, &COUNT).thread(2, &LOOK),
        ),
        (
            "counter-on-three-nodes",
            job(3).minipage(c, 1, 0).thread(0, &COUNT).thread(1, &COUNT).thread(2, &twice),
        ),
        (
            "reader-and-writer",
            job(2).minipage(c, 0, 1).thread(0, &LOOK.repeat(2)).thread(
                1,
                &[Lock(0), Write(0, 0, 1), Unlock(0), Lock(0), Write(0, 0, 2), Unlock(0)],
            ),
        ),
        (
            "single-writer-and-a-late-reader",
            job(3)
                .minipage(c, 0, 0)
                .thread(
                    1,
                    &[Lock(0), Write(0, 0, 1), Unlock(0), Lock(1), Write(0, 1, 1), Unlock(1)],
                )
                .thread(2, &[Lock(0), Read(0, 0), Unlock(0), Lock(1), Read(0, 1), Unlock(1)]),
        ),
        (
            "upgrade-meets-a-release",
            job(3)
                .minipage(c, 0, 0)
                .thread(
                    1,
                    &[Lock(0), Read(0, 0), Add(0, 0), Unlock(0), Lock(1), Read(0, 1), Unlock(1)],
                )
                .thread(
                    2,
                    &[Lock(1), Read(0, 1), Add(0, 1), Unlock(1), Lock(0), Read(0, 0), Unlock(0)],
                ),
        ),
        (
            "false-sharing-under-two-locks",
            job(2)
                .minipage(c, 0, 0)
                .thread(0, &[Lock(0), Add(0, 0), Unlock(0), Lock(1), Add(0, 1), Unlock(1)])
                .thread(1, &[Lock(1), Add(0, 1), Unlock(1), Lock(0), Add(0, 0), Unlock(0)]),
        ),
        (
            "two-threads-on-a-node",
            job(2)
                .minipage(c, 0, 0)
                .thread(0, &COUNT)
                .thread(1, &COUNT)
                .thread(1, &[Lock(0), Add(0, 0), Unlock(0), Lock(0), Read(0, 0), Unlock(0)]),
        ),
        (
            "prefetch-in-a-critical-section",
            job(2)
                .minipage(c, 0, 0)
                .thread(
                    0,
                    &[
                        Lock(0),
                        Add(0, 0),
                        Unlock(0),
                        Prefetch(0, Kind::Read),
                        Lock(0),
                        Read(0, 0),
                        Unlock(0),
                    ],
                )
                .thread(1, &[Prefetch(0, Kind::Write), Lock(0), Add(0, 0), Unlock(0)]),
        ),
        (
            "late-traps",
            job(2)
                .minipage(c, 0, 1)
                .thread(0, &COUNT)
                .thread(0, &COUNT)
                .thread(1, &COUNT)
                .with_trap_gap(),
        ),
    ]
}

fn others(c: Consistency, job: fn(u16) -> Job) -> Vec<(&'static str, Job)> {
    vec![
        (
            "semaphore-hand-off",
            job(3)
                .minipage(c, 0, 0)
                .thread(0, &[Write(0, 0, 1), Up(1, 1), Down(3), Read(0, 0)])
                .thread(1, &[Down(1), Add(0, 0), Up(2, 1)])
                .thread(2, &[Down(2), Add(0, 0), Up(3, 1)]),
        ),
        (
            "notices-in-several-frames",
            job(4)
                .with_notices_in_a_frame(1)
                .minipage(c, 0, 0)
                .minipage(c, 0, 0)
                .thread(
                    0,
                    &[
                        [Write(0, 0, 1), Write(1, 0, 1), Up(3, 1), Down(0)].as_slice(),
                        &[Write(0, 0, 2), Up(3, 1), Down(4)],
                        &[Write(0, 0, 3), Write(1, 0, 3), Up(1, 1)],
                    ]
                    .concat(),
                )
                .thread(1, &[Down(1), Up(2, 1)])
                .thread(2, &[Down(2), Down(2), Up(7, 1)])
                .thread(
                    3,
                    &[
                        [Down(3), Read(0, 0), Read(1, 0), Up(0, 1), Down(3), Read(0, 0)].as_slice(),
                        &[Up(4, 1), Up(2, 1), Down(7), Read(0, 0)],
                    ]
                    .concat(),
                ),
        ),
        (
            "semaphore-of-two-units",
            job(3)
                .minipage(c, 1, 0)
                .thread(0, &[Write(0, 0, 1), Write(0, 1, 1), Up(1, 2)])
                .thread(1, &[Down(1), Read(0, 0), Add(0, 1)])
                .thread(2, &[Down(1), Read(0, 0)]),
        ),
        (
            "first-touch",
            job(3)
                .minipage(c, 0, 0)
                .thread(1, &[Write(0, 0, 1), meet(1, 2), Read(0, 1)])
                .thread(2, &[Write(0, 1, 2), meet(1, 2), Read(0, 0)]),
        ),
        (
            "notified-by-other-means",
            job(3)
                .minipage(c, 0, 0)
                .thread(0, &[Read(0, 0), Write(0, 1, 1), Release, Notify(1, 7)])
                .thread(1, &[Receive(7), Read(0, 1), Add(0, 1), Release, Notify(2, 8)])
                .thread(2, &[Read(0, 2), Receive(8), Add(0, 1)]),
        ),
        (
            "release-of-one-thread-while-another-writes",
            job(2)
                .minipage(c, 0, 0)
                .thread(0, &[Read(0, 0), Lock(0), Read(0, 1), Unlock(0)])
                .thread(1, &[Write(0, 2, 1), Write(0, 2, 2)])
                .thread(1, &[Lock(0), Write(0, 1, 1), Unlock(0)]),
        ),
    ]
}
