//! Threads that try, threads that wait for a while, and read-write locks. A withdrawal may come at any time.

use crate::LockWindows;
use multigrain_protocol::Kind;

use super::row::{Configuration, row};
use crate::check::program::Op::{
    Attempt, Await, Down, Hold, LetGo, Lock, Read, Signal, TimedAwait, Unlock, Up, Write,
};
use crate::check::program::{Job, Op, Wanted};

const PASS: [Op; 2] = [Lock(0), Unlock(0)];
const PASS_TWICE: [Op; 4] = [Lock(0), Unlock(0), Lock(0), Unlock(0)];
const SECTION: [Op; 4] = [Lock(0), Read(0), Write(0, 1), Unlock(0)];
const TRY: [Op; 2] = [attempt(Wanted::Lock(0), false, 1), Unlock(0)];
const TRY_SECTION: [Op; 4] = [attempt(Wanted::Lock(0), false, 3), Read(0), Write(0, 2), Unlock(0)];
const WAIT_A_WHILE: [Op; 2] = [attempt(Wanted::Lock(0), true, 1), Unlock(0)];
const READ: [Op; 3] = [Hold(0, Kind::Read), Read(0), LetGo(0)];
const WRITE: [Op; 3] = [Hold(0, Kind::Write), Write(0, 1), LetGo(0)];

const fn attempt(what: Wanted, timed: bool, skip: u8) -> Op {
    Attempt { what, timed, skip }
}

const fn until(value: u8, timed: bool) -> Op {
    match timed {
        true => TimedAwait { minipage: 0, value, condition: 1, lock: 0 },
        false => Await { minipage: 0, value, condition: 1, lock: 0 },
    }
}

pub(super) fn windows() -> Vec<Configuration> {
    vec![
        row(
            "try/windows-give-way",
            420,
            Job::new(2)
                .with_lock_windows(LockWindows::Soon)
                .thread(0, &TRY.repeat(2))
                .thread(1, &[PASS, TRY, PASS].concat()),
        ),
        row(
            "try/windows-of-threads-give-way",
            4806,
            Job::new(2)
                .with_lock_windows(LockWindows::AtOnce)
                .thread(0, &TRY.repeat(2))
                .thread(1, &[PASS, TRY, PASS].concat())
                .thread(1, &PASS_TWICE),
        ),
        row(
            "timed/windows-of-threads-give-way",
            7455,
            Job::new(2)
                .with_lock_windows(LockWindows::AtOnce)
                .thread(0, &PASS_TWICE)
                .thread(0, &WAIT_A_WHILE.repeat(2))
                .thread(1, &[WAIT_A_WHILE, TRY].concat()),
        ),
    ]
}

pub(super) fn short() -> Vec<Configuration> {
    vec![
        row(
            "try/over-data",
            97,
            Job::new(2).minipage(0, 1).thread(0, &TRY_SECTION).thread(1, &SECTION),
        ),
        row(
            "try/free-tokens-are-had-wherever-they-are",
            976,
            Job::new(3)
                .keeping(0)
                .thread(1, &[PASS, TRY].concat())
                .thread(2, &[TRY, PASS].concat()),
        ),
        row(
            "try/in-a-line-of-nodes",
            2958,
            Job::new(3).thread(0, &TRY.repeat(2)).thread(1, &TRY.repeat(2)).thread(2, &PASS),
        ),
        row(
            "try/beside-who-waits",
            1615,
            Job::new(2).thread(0, &TRY).thread(0, &PASS).thread(1, &PASS).thread(1, &TRY.repeat(2)),
        ),
        row(
            "timed/locks",
            9678,
            Job::new(3)
                .thread(0, &PASS)
                .thread(1, &WAIT_A_WHILE.repeat(2))
                .thread(2, &[WAIT_A_WHILE, TRY].concat()),
        ),
        row(
            "timed/semaphore-units-are-not-lost",
            625,
            Job::new(3)
                .thread(0, &[Up(1, 1), Up(1, 1)])
                .thread(1, &[attempt(Wanted::Unit(1), true, 1), Up(1, 1)])
                .thread(2, &[attempt(Wanted::Unit(1), false, 1), Up(1, 1), Down(1)])
                .thread(1, &[Down(1)]),
        ),
        row(
            "timed/signals-are-not-lost",
            2383,
            Job::new(3)
                .minipage(0, 0)
                .thread(0, &[Lock(0), until(1, false), Write(0, 2), Unlock(0), Signal(1, false)])
                .thread(1, &[Lock(0), until(2, true), Unlock(0)])
                .thread(2, &[Lock(0), Write(0, 1), Signal(1, true), Unlock(0)]),
        ),
        row(
            "read-write/over-data",
            372,
            Job::new(2).minipage(0, 1).thread(0, &READ).thread(0, &WRITE).thread(1, &READ),
        ),
        row(
            "read-write/tries",
            1233,
            Job::new(3)
                .minipage(0, 1)
                .thread(
                    0,
                    &[attempt(Wanted::Hold(0, Kind::Write), false, 2), Write(0, 2), LetGo(0)],
                )
                .thread(1, &READ)
                .thread(2, &[attempt(Wanted::Hold(0, Kind::Read), false, 2), Read(0), LetGo(0)]),
        ),
        row(
            "timed/locks-of-two-threads-a-node",
            24_599,
            Job::new(3)
                .thread(0, &WAIT_A_WHILE)
                .thread(0, &PASS)
                .thread(1, &WAIT_A_WHILE)
                .thread(1, &TRY)
                .thread(2, &PASS),
        ),
        row(
            "timed/one-signal-for-two",
            21_255,
            Job::new(3)
                .minipage(0, 0)
                .thread(0, &[Lock(0), until(1, false), Unlock(0)])
                .thread(1, &[Lock(0), until(1, true), Unlock(0), Signal(1, false)])
                .thread(1, &[Lock(0), until(1, true), Unlock(0), Signal(1, false)])
                .thread(2, &[Lock(0), Write(0, 1), Unlock(0), Signal(1, false)]),
        ),
    ]
}
