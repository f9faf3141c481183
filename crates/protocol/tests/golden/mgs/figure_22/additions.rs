//! What Figure 22 does not have.

use super::{Addition, Mark as M, addition};

pub(super) const ROWS: &[Addition] = &[
    addition(
        "any fault in Busy",
        "waits with the others",
        "Many threads of a node miss at once; the paper has them wait for the lock of the mapping.",
        M::JoinWait,
    ),
    addition(
        "prefetch in Invalid",
        "RREQ or WREQ, nobody waits",
        "A copy that the program will want soon.",
        M::Prefetch,
    ),
    addition(
        "Release in any state but Dirty",
        "nothing",
        "An invalidation or a grant took it off the queue meanwhile, or it is in single-writer mode (3.2.3).",
        M::ReleasePassed,
    ),
    addition(
        "INV in Dirty, not released",
        "REL with the number of the node's next flush, then DIFF",
        "It leaves the queue, yet the node's next release must not end before the other copies are gone.",
        M::InvalidateUnreleased,
    ),
    addition(
        "INV in Clean",
        "close, ACK",
        "Kept after a 1WINV and not written since: the home has all of it.",
        M::InvalidateClean,
    ),
    addition(
        "INV in Single, never shared",
        "close, 1WDATA",
        "The allocating node's copy has no twin: all of it goes home.",
        M::InvalidateAllocated,
    ),
    addition(
        "1WINV in Clean",
        "1WDATA",
        "Harmless, and no correct home sends it: only a REL leads to 1WINV, and only a write to REL.",
        M::SingleInvalidateClean,
    ),
    addition(
        "REL in Releasing, after its sender's answer",
        "a round of its own when this one ends",
        "Who kept its copy wrote again; its 1WDATA was sent before.",
        M::ReleaseAgain,
    ),
    addition(
        "last answer in Releasing, a diff beside a kept copy",
        "INV to who kept its copy; the round goes on",
        "A reader became a writer before its INV came: the kept copy lacks what it wrote.",
        M::KeeperOutdated,
    ),
];
