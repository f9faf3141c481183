//! Locks, barriers, semaphores and condition variables, alone and over shared data.

use super::row::{Configuration, row};
use crate::LockWindows;
use crate::check::program::Op::{Add, Await, Barrier, Down, Lock, Read, Signal, Unlock, Up, Write};
use crate::check::program::{Job, Op};

/// A critical section over minipage 0.
const SECTION: [Op; 4] = [Lock(0), Read(0), Write(0, 1), Unlock(0)];
/// An empty critical section.
const PASS: [Op; 2] = [Lock(0), Unlock(0)];
/// Two of them.
const PASS_TWICE: [Op; 4] = [Lock(0), Unlock(0), Lock(0), Unlock(0)];

const fn meet(local: u32, total: u32) -> Op {
    Barrier { id: 1, local, total }
}

const fn until(value: u8) -> Op {
    Await { minipage: 0, value, condition: 1, lock: 0 }
}

pub(super) fn short() -> Vec<Configuration> {
    let mut rows = locks();
    rows.extend(lock_windows());
    rows.extend(barriers());
    rows.extend(signals());
    rows
}

fn lock_windows() -> Vec<Configuration> {
    vec![
        row(
            "lock/windows-over-data",
            420,
            Job::new(2)
                .with_lock_windows(LockWindows::Soon)
                .minipage(0, 1)
                .thread(0, &SECTION.repeat(2))
                .thread(1, &SECTION.repeat(2)),
        ),
        row(
            "lock/windows-of-three-nodes",
            696,
            Job::new(3)
                .with_lock_windows(LockWindows::Soon)
                .thread(0, &PASS)
                .thread(1, &PASS_TWICE)
                .thread(2, &PASS_TWICE),
        ),
        row(
            "lock/windows-beside-hand-overs",
            336,
            Job::new(2)
                .with_lock_windows(LockWindows::Soon)
                .thread(0, &PASS_TWICE)
                .thread(0, &PASS)
                .thread(1, &PASS_TWICE),
        ),
        row(
            "lock/windows-of-threads-of-a-node",
            589,
            Job::new(1)
                .with_lock_windows(LockWindows::AtOnce)
                .minipage(0, 0)
                .thread(0, &SECTION.repeat(2))
                .thread(0, &SECTION.repeat(2))
                .thread(0, &SECTION),
        ),
        row(
            "lock/windows-of-threads-beside-a-node",
            815,
            Job::new(2)
                .with_lock_windows(LockWindows::AtOnce)
                .thread(0, &PASS_TWICE)
                .thread(0, &PASS_TWICE)
                .thread(1, &PASS_TWICE),
        ),
        row(
            "lock/windows-of-threads-meet-offers",
            4393,
            Job::new(3)
                .keeping(0)
                .with_lock_windows(LockWindows::AtOnce)
                .thread(0, &PASS)
                .thread(1, &PASS_TWICE)
                .thread(1, &PASS)
                .thread(2, &PASS),
        ),
        row(
            "lock/windows-meet-offers",
            820,
            Job::new(3)
                .keeping(0)
                .with_lock_windows(LockWindows::Soon)
                .thread(0, &PASS)
                .thread(1, &PASS_TWICE)
                .thread(2, &PASS),
        ),
    ]
}

fn locks() -> Vec<Configuration> {
    vec![
        row(
            "lock/over-data",
            89,
            Job::new(2).minipage(0, 1).thread(0, &SECTION).thread(1, &SECTION),
        ),
        row(
            "lock/three-nodes",
            540,
            Job::new(3).thread(0, &PASS).thread(1, &PASS_TWICE).thread(2, &PASS_TWICE),
        ),
        row(
            "lock/two-threads-a-node",
            655,
            Job::new(2).thread(0, &PASS).thread(0, &PASS).thread(1, &PASS_TWICE).thread(1, &PASS),
        ),
        row(
            "lock/hand-overs-have-an-end",
            4443,
            Job::new(2)
                .thread(0, &PASS.repeat(6))
                .thread(0, &PASS.repeat(6))
                .thread(1, &PASS_TWICE),
        ),
        row(
            "lock/idle-tokens-go-home",
            1009,
            Job::new(2)
                .keeping(0)
                .minipage(0, 1)
                .thread(0, &SECTION)
                .thread(1, &SECTION)
                .thread(1, &PASS_TWICE),
        ),
        row(
            "lock/offers-meet-requests",
            1865,
            Job::new(3).keeping(0).thread(0, &PASS).thread(1, &PASS_TWICE).thread(2, &PASS_TWICE),
        ),
        row(
            "lock/one-of-two-tokens-is-kept",
            240,
            Job::new(2)
                .keeping(1)
                .thread(0, &[Lock(0), Unlock(0), Lock(2), Unlock(2)])
                .thread(1, &[Lock(0), Unlock(0), Lock(2), Unlock(2), Lock(0), Unlock(0)]),
        ),
    ]
}

fn barriers() -> Vec<Configuration> {
    vec![
        row(
            "barrier/over-data",
            73,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Write(0, 1), meet(1, 2), Read(0), meet(1, 2)])
                .thread(1, &[meet(1, 2), Read(0), meet(1, 2), Write(0, 2)]),
        ),
        row(
            "barrier/threads-together",
            75,
            Job::new(2)
                .thread(0, &[meet(2, 4), meet(2, 4)])
                .thread(0, &[meet(2, 4), meet(2, 4)])
                .thread(1, &[meet(0, 4), meet(2, 4)])
                .thread(1, &[meet(0, 4), meet(2, 4)]),
        ),
        row(
            "barrier/of-three-nodes",
            30_285,
            Job::new(3)
                .minipage(0, 0)
                .minipage(1, 2)
                .thread(0, &[Write(0, 1), meet(0, 4), Read(1), meet(0, 4), Write(0, 2)])
                .thread(0, &[Read(0), meet(0, 4), Read(1), meet(0, 4)])
                .thread(1, &[Add(1), meet(1, 4), Read(0), meet(1, 4), Read(0)])
                .thread(2, &[meet(1, 4), Read(0), meet(1, 4), Add(1)]),
        ),
    ]
}

fn signals() -> Vec<Configuration> {
    vec![
        row(
            "semaphore/producer-consumers",
            335,
            Job::new(3)
                .thread(0, &[Up(1, 1), Up(1, 2)])
                .thread(1, &[Down(1), Up(2, 1)])
                .thread(2, &[Down(1), Down(2)])
                .thread(2, &[Down(1)]),
        ),
        row(
            "condition/hand-over",
            90,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Lock(0), until(1), Unlock(0)])
                .thread(1, &[Lock(0), Write(0, 1), Signal(1, false), Unlock(0)]),
        ),
        row(
            "condition/broadcast",
            1474,
            Job::new(3)
                .minipage(2, 2)
                .thread(0, &[Lock(0), until(1), Unlock(0)])
                .thread(1, &[Lock(0), until(1), Unlock(0)])
                .thread(2, &[Lock(0), Write(0, 1), Unlock(0), Signal(1, true)]),
        ),
        row(
            "condition/in-turn",
            5410,
            Job::new(3)
                .minipage(0, 0)
                .thread(0, &[Lock(0), until(1), Write(0, 2), Signal(1, true), Unlock(0)])
                .thread(1, &[Lock(0), until(2), Write(0, 3), Unlock(0), Signal(1, true)])
                .thread(
                    2,
                    &[
                        Lock(0),
                        Write(0, 1),
                        Unlock(0),
                        Signal(1, true),
                        Lock(0),
                        until(3),
                        Unlock(0),
                    ],
                ),
        ),
        row(
            "condition/in-turn-and-no-token-kept",
            2307,
            Job::new(3)
                .keeping(0)
                .minipage(0, 0)
                .thread(0, &[Lock(0), until(1), Write(0, 2), Signal(1, true), Unlock(0)])
                .thread(1, &[Lock(0), until(2), Unlock(0)])
                .thread(2, &[Lock(0), Write(0, 1), Unlock(0), Signal(1, true)]),
        ),
    ]
}

pub(super) fn long() -> Vec<Configuration> {
    vec![
        row(
            "lock/five-threads-over-data",
            37_551,
            Job::new(3)
                .minipage(1, 1)
                .thread(0, &SECTION)
                .thread(0, &SECTION)
                .thread(1, &SECTION)
                .thread(2, &SECTION)
                .thread(2, &SECTION),
        ),
        row(
            "lock/four-nodes",
            52_813,
            Job::new(4)
                .thread(0, &PASS_TWICE)
                .thread(1, &PASS_TWICE)
                .thread(2, &PASS)
                .thread(2, &PASS)
                .thread(3, &PASS_TWICE),
        ),
        row(
            "condition/two-threads-a-node",
            1989,
            Job::new(2)
                .minipage(0, 0)
                .thread(0, &[Lock(0), until(1), Unlock(0)])
                .thread(0, &[Lock(0), Write(0, 1), Signal(1, true), Unlock(0)])
                .thread(1, &[Lock(0), until(1), Unlock(0)])
                .thread(1, &[Lock(0), until(1), Unlock(0)]),
        ),
    ]
}
