//! Minipages that are opened for writes before anybody writes them: writes are found, and a minipage that was not
//! written costs no other node anything.

use multigrain_protocol::Kind;
use multigrain_types::Consistency;

use super::row::Configuration;
use super::shared_programs::{COUNT, LOOK, meet, rows as numbered};
use crate::release::program::Op::{
    Add, Down, Lock, OpenAhead, Prefetch, Read, Release, Unlock, Up, Write,
};
use crate::release::program::{Job, Op};

/// How many states the cases have, where homes stay.
const LAZY: [(&str, usize); 13] = [
    ("ahead/lazy/copy-that-is-written-or-not", 699),
    ("ahead/lazy/home-that-is-written-or-not", 1211),
    ("ahead/lazy/another-thread-writes", 6811),
    ("ahead/lazy/diffs-come-to-a-home", 2502),
    ("ahead/lazy/notices-come-to-a-copy", 23_779),
    ("ahead/lazy/before-a-barrier", 762),
    ("ahead/lazy/homes-that-move", 17_369),
    ("ahead/lazy/two-minipages-in-a-flush", 1760),
    ("ahead/lazy/late-traps", 1473),
    ("ahead/lazy/three-nodes-in-turn", 17_985),
    ("ahead/lazy/home-that-came-to-be-read", 14_817),
    ("ahead/lazy/what-was-there-before-another-wrote", 130),
    ("ahead/lazy/what-was-there-before-a-fetch", 3206),
];

/// And where they are dynamic.
const AUTO: [(&str, usize); 13] = [
    ("ahead/auto/copy-that-is-written-or-not", 628),
    ("ahead/auto/home-that-is-written-or-not", 922),
    ("ahead/auto/another-thread-writes", 8175),
    ("ahead/auto/diffs-come-to-a-home", 1987),
    ("ahead/auto/notices-come-to-a-copy", 35_200),
    ("ahead/auto/before-a-barrier", 698),
    ("ahead/auto/homes-that-move", 23_037),
    ("ahead/auto/two-minipages-in-a-flush", 1550),
    ("ahead/auto/late-traps", 1473),
    ("ahead/auto/three-nodes-in-turn", 18_815),
    ("ahead/auto/home-that-came-to-be-read", 23_217),
    ("ahead/auto/what-was-there-before-another-wrote", 104),
    ("ahead/auto/what-was-there-before-a-fetch", 4861),
];

pub(super) fn rows() -> Vec<Configuration> {
    let mut rows = numbered(all(Consistency::LazyRelease), &LAZY);
    rows.extend(numbered(all(Consistency::Auto), &AUTO));
    rows
}

const MEET: Op = meet(1, 2);
const MEET_3: Op = meet(1, 3);
/// A release that nobody waits for.
const BESIDE: [Op; 2] = [Lock(1), Unlock(1)];

fn all(c: Consistency) -> Vec<(&'static str, Job)> {
    [cases(c), written_back(c)].concat()
}

fn cases(c: Consistency) -> Vec<(&'static str, Job)> {
    let job = |nodes| Job::new(nodes).minipage(c, 0, 0);
    let [count, look, beside] = [&COUNT[..], &LOOK[..], &BESIDE[..]];
    let ahead = &[OpenAhead(0)][..];
    let met = |before: &[Op], after: &[Op]| [before, &[MEET_3], after].concat();
    vec![
        (
            "copy-that-is-written-or-not",
            job(2)
                .thread(0, &[count, look].concat())
                .thread(1, &[look, ahead, beside, ahead, count, ahead, look].concat()),
        ),
        (
            "home-that-is-written-or-not",
            job(2)
                .thread(0, &[count, ahead, beside, ahead, count, ahead, look].concat())
                .thread(1, &[look, count].concat()),
        ),
        (
            "another-thread-writes",
            job(2)
                .thread(0, &[count, look].concat())
                .thread(1, &[&[Read(0, 3)], ahead, &[Release], ahead, look].concat())
                .thread(1, &[&[Add(0, 1)], count].concat()),
        ),
        (
            "diffs-come-to-a-home",
            job(2)
                .thread(0, &[&[Write(0, 2, 9)], look, ahead, &[Down(4)], count].concat())
                .thread(1, &[&[Write(0, 1, 7)][..], beside, count, &[Up(4, 1)], look].concat()),
        ),
        (
            "notices-come-to-a-copy",
            job(3)
                .thread(0, &[count, look].concat())
                .thread(1, &[&[Read(0, 3)], ahead, &[Down(4)], &[Read(0, 2)], count].concat())
                .thread(2, &[&[Write(0, 2, 5)][..], &[Up(4, 1)], look].concat()),
        ),
        (
            "before-a-barrier",
            job(2)
                .thread(0, &[count, ahead, &[MEET], ahead, &[MEET], look].concat())
                .thread(1, &[look, ahead, &[MEET], ahead, &[Add(0, 1), MEET], look].concat()),
        ),
        (
            "homes-that-move",
            job(3)
                .thread(0, &met(&[Write(0, 2, 9)], &[OpenAhead(0), MEET_3, Read(0, 0)]))
                .thread(1, &met(&[Write(0, 0, 1)], &[OpenAhead(0), Write(0, 1, 3), MEET_3]))
                .thread(
                    2,
                    &met(
                        &[Prefetch(0, Kind::Read), OpenAhead(0)],
                        &[OpenAhead(0), MEET_3, OpenAhead(0), Write(0, 3, 4)],
                    ),
                ),
        ),
        (
            "two-minipages-in-a-flush",
            job(2)
                .minipage(c, 1, 1)
                .thread(0, &[count, &[Read(1, 0), OpenAhead(1), OpenAhead(0)], look].concat())
                .thread(
                    1,
                    &[&[Read(0, 3), OpenAhead(0), Write(1, 1, 2), OpenAhead(1)], count].concat(),
                ),
        ),
        (
            "late-traps",
            job(2)
                .with_trap_gap()
                .thread(0, &[count, look].concat())
                .thread(1, &[&[Read(0, 3)], ahead, beside].concat())
                .thread(1, &[Add(0, 1), Add(0, 1)]),
        ),
        (
            "three-nodes-in-turn",
            job(3)
                .thread(0, &met(&[count, ahead].concat(), count))
                .thread(1, &met(&[count, ahead].concat(), look))
                .thread(2, &met(&[look, ahead].concat(), count)),
        ),
        // Where homes are dynamic, it goes from reader to reader.
        (
            "home-that-came-to-be-read",
            job(3)
                .thread(0, &[count, look].concat())
                .thread(1, &[&[Read(0, 3)], ahead, beside, ahead, look].concat())
                .thread(2, &[&[Read(0, 2)], ahead, count, ahead].concat()),
        ),
    ]
}

/// A thread of a home that was opened ahead writes back what was there before: others must receive of it if they
/// have seen or written anything else.
fn written_back(c: Consistency) -> Vec<(&'static str, Job)> {
    let job = |nodes| Job::new(nodes).minipage(c, 0, 0);
    let (beside, ahead) = (&BESIDE[..], &[OpenAhead(0)][..]);
    vec![
        // The home writes what its twin has, over what came from node 1.
        (
            "what-was-there-before-another-wrote",
            job(2)
                .thread(
                    0,
                    &[&[Write(0, 0, 1), Up(5, 1)], ahead, &[Down(4), Write(0, 0, 1), Up(7, 1)]]
                        .concat(),
                )
                .thread(1, &[Down(5), Write(0, 0, 2), Up(4, 1), Down(7), Read(0, 0)]),
        ),
        // The same, over what node 2 has fetched meanwhile.
        (
            "what-was-there-before-a-fetch",
            job(3)
                .thread(
                    0,
                    &[&[Write(0, 0, 1)], beside, ahead, &[Add(0, 0), Write(0, 0, 1), Up(7, 1)]]
                        .concat(),
                )
                .thread(1, &[Read(0, 1)])
                .thread(2, &[Read(0, 3), Down(7), Read(0, 0)]),
        ),
    ]
}
