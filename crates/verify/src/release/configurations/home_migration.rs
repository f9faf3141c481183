//! Programs whose homes move at barriers.

use multigrain_protocol::Kind;
use multigrain_types::Consistency;

use crate::release::program::Op::{Add, Down, Lock, Prefetch, Read, Unlock, Up, Write};
use crate::release::program::{Job, Op};

/// A quiescent barrier of three that node 0 manages.
const MEET: Op = Op::Barrier { id: 0, local: 1, total: 3, quiescent: true };

/// A barrier of two, one a node, while other threads run.
const ACTIVE: Op = Op::Barrier { id: 0, local: 1, total: 2, quiescent: false };

/// Homes that move at quiescent barriers. Who allocated a minipage writes it first, or else who asks
/// for it first is its home anyway.
pub(super) fn moves(c: Consistency) -> Vec<(&'static str, Job)> {
    vec![
        (
            "diff-before-the-move",
            Job::new(3)
                .minipage(c, 0, 0)
                .thread(0, &[Write(0, 2, 9), MEET, MEET, Read(0, 0)])
                .thread(1, &[Write(0, 0, 1), MEET, MEET, Read(0, 1)])
                .thread(2, &[MEET, Write(0, 1, 2), MEET]),
        ),
        // Node 1 becomes the home; semaphore 4 is its business, and so it receives what node 2
        // wrote afterwards before it receives the barrier's end.
        (
            "notices-before-the-move-at-the-new-home",
            Job::new(3)
                .minipage(c, 2, 2)
                .thread(0, &[MEET])
                .thread(1, &[Write(0, 0, 1), MEET, Down(4), Read(0, 1)])
                .thread(2, &[Write(0, 2, 9), MEET, Write(0, 1, 2), Up(4, 1)]),
        ),
        // The same at the former home.
        (
            "notices-before-the-move-at-the-old-home",
            Job::new(3)
                .minipage(c, 1, 1)
                .thread(0, &[MEET])
                .thread(1, &[Write(0, 2, 9), MEET, Down(4), Read(0, 1), Read(0, 0)])
                .thread(2, &[Write(0, 0, 1), MEET, Write(0, 1, 2), Up(4, 1)]),
        ),
        // Node 1 is the home since it touched the minipage first; node 2 has asked node 0 for it.
        (
            "first-touch-and-a-prefetch-across-a-barrier",
            Job::new(3)
                .minipage(c, 0, 0)
                .thread(0, &[MEET])
                .thread(1, &[Write(0, 0, 1), MEET, Lock(0), Add(0, 1), Unlock(0)])
                .thread(2, &[Prefetch(0, Kind::Read), MEET, Lock(0), Add(0, 1), Unlock(0)]),
        ),
        (
            "prefetch-across-a-move",
            Job::new(3)
                .minipage(c, 0, 0)
                .thread(0, &[Write(0, 2, 9), MEET, MEET, Read(0, 1)])
                .thread(1, &[Write(0, 0, 1), MEET, Write(0, 0, 2), MEET])
                .thread(2, &[Prefetch(0, Kind::Write), MEET, Write(0, 1, 3), MEET, Read(0, 0)]),
        ),
        // Node 1 has received the write that moves the home before it asks the former home, whose
        // answer may come after the move.
        (
            "prefetch-after-the-write-that-moves-the-home",
            Job::new(3)
                .minipage(c, 2, 2)
                .thread(0, &[Write(0, 0, 1), Up(4, 1), MEET, MEET, Read(0, 1)])
                .thread(1, &[Down(4), Prefetch(0, Kind::Read), MEET, Write(0, 1, 3), MEET])
                .thread(2, &[Write(0, 2, 9), MEET, MEET, Read(0, 1)]),
        ),
        // A thread of node 1 writes while the others meet: nothing may move.
        (
            "a-thread-that-does-not-come",
            Job::new(2)
                .minipage(c, 0, 0)
                .thread(0, &[Write(0, 2, 9), ACTIVE, Read(0, 0)])
                .thread(1, &[Write(0, 0, 1), ACTIVE, Lock(0), Read(0, 1), Unlock(0)])
                .thread(1, &[Lock(0), Add(0, 1), Unlock(0)]),
        ),
        (
            "a-home-that-moves-back",
            Job::new(3)
                .minipage(c, 0, 0)
                .thread(0, &[Write(0, 0, 1), MEET, Read(0, 0), MEET, Write(0, 0, 3), MEET])
                .thread(1, &[MEET, Read(0, 0), MEET, Prefetch(0, Kind::Read), MEET, Read(0, 0)])
                .thread(2, &[MEET, Write(0, 1, 2), MEET, MEET, Read(0, 0)]),
        ),
    ]
}
