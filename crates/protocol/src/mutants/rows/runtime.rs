//! Rows of what lies below the protocol.

use super::row;
use crate::mutants::list::{Mutant, Row};

/// The order of bytes, protections and wake-ups.
pub(super) const RUNTIME: [Row; 8] = {
    use Mutant as M;
    [
        row(
            M::TwinAfterOpening,
            "twin-after-opening",
            "Runtime: a twin is made after threads have written the page.",
        ),
        row(
            M::ClockMergedAtArrival,
            "clock-merged-at-arrival",
            "Runtime, --check-races: a node that serves a message knows what its sender knew.",
        ),
        row(
            M::ClockOfTheMoment,
            "clock-of-the-moment",
            "Runtime, --check-races: a message brings what its sender knows when it leaves.",
        ),
        row(
            M::GrantedBeforeBytes,
            "granted-before-bytes",
            "Runtime: threads get access to a page before its bytes are there.",
        ),
        row(
            M::ProtectedLate,
            "protected-late",
            "Runtime: page tables change some time after the page was sent.",
        ),
        row(
            M::DeferredAckLost,
            "deferred-ack-lost",
            "Runtime: an ack that is kept for company never leaves.",
        ),
        row(
            M::ParkedThreadForgotten,
            "parked-thread-forgotten",
            "Runtime: a thread that is parked is not woken.",
        ),
        row(
            M::ServiceSleeps,
            "service-sleeps",
            "Runtime: a node whose threads compute answers nobody.",
        ),
    ]
};
