//! Rows of flags and queues.

use super::row;
use crate::mutants::list::{Mutant, Row};

/// What weak memory allows, and what has a bound.
pub(super) const QUEUES: [Row; 12] = {
    use Mutant as M;
    [
        row(
            M::DeferredMarkOverwritten,
            "deferred-mark-overwritten",
            "Transport: who flushes deferred frames loads the marks and stores zero, instead of a swap.",
        ),
        row(
            M::RoleFreedUnfenced,
            "role-freed-unfenced",
            "Runtime: no fence between freeing the receiver's role and the look for parked threads.",
        ),
        row(
            M::ParkedUnfenced,
            "parked-unfenced",
            "Runtime: no fence between the word that a thread parks and its look at the receiver's role.",
        ),
        row(
            M::NudgeNotPassedOn,
            "nudge-not-passed-on",
            "Runtime: a thread that was nudged and is woken then does not pass the nudge on.",
        ),
        row(
            M::PostsWithoutRoom,
            "posts-without-room",
            "Runtime: who posts does not wait for room, however much waits for the peer.",
        ),
        row(
            M::HintsWithoutRoom,
            "hints-without-room",
            "Runtime: who prefetches or pushes does not wait for room.",
        ),
        row(
            M::HeldWithoutEnd,
            "held-without-end",
            "Runtime: who posts behind a flush that does not end goes on without end.",
        ),
        row(
            M::AskedTwice,
            "asked-twice",
            "Runtime: a peer's thread may ask again before it has its answer.",
        ),
        row(
            M::NamesWithoutEnd,
            "names-without-end",
            "Runtime: a job may publish names without end.",
        ),
        row(
            M::EarlyWithoutEnd,
            "early-without-end",
            "Lazy: what a peer sends too early is kept without end.",
        ),
        row(
            M::MovesWithoutEnd,
            "moves-without-end",
            "Lazy: a peer may move the home of one minipage without end before a barrier opens.",
        ),
        row(
            M::AnswersWithoutEnd,
            "answers-without-end",
            "Transport: a peer may ask without end and never read the answers.",
        ),
    ]
};
