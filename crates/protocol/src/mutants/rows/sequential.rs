//! Rows of sequential consistency and of synchronization.

use super::row;
use crate::mutants::list::{Mutant, Row};

/// Holder, manager, synchronization.
pub(super) const SEQUENTIAL: [Row; 37] = {
    use Mutant as M;
    [
        row(
            M::ReadForwardKeepsWritable,
            "read-forward-keeps-writable",
            "A holder that supplies a reader may still write.",
        ),
        row(
            M::WriteForwardKeepsCopy,
            "write-forward-keeps-copy",
            "A holder that supplies a writer keeps its own copy accessible.",
        ),
        row(
            M::InvalidationKeepsCopy,
            "invalidation-keeps-copy",
            "A holder answers an invalidation and keeps its copy accessible.",
        ),
        row(
            M::ReadReplyWritable,
            "read-reply-writable",
            "A read copy is installed writable: two writers.",
        ),
        row(
            M::SentBeforeProtected,
            "sent-before-protected",
            "A page is sent before its protection is lowered.",
        ),
        row(
            M::FirstWaiterOnly,
            "first-waiter-only",
            "A reply wakes the first of a node's waiting threads alone.",
        ),
        row(
            M::SpuriousFaultSleeps,
            "spurious-fault-sleeps",
            "A thread that traps on a minipage that is there already is not woken.",
        ),
        row(M::AckDropped, "ack-dropped", "The ack that closes a transaction is never sent."),
        row(M::AckNowLost, "ack-now-lost", "A AckNow that comes before the reply is forgotten."),
        row(
            M::PushKeepsWritable,
            "push-keeps-writable",
            "A holder that pushes copies may still write.",
        ),
        row(
            M::PushTakenForReply,
            "push-taken-for-reply",
            "A pushed copy is taken for the reply to an open request.",
        ),
        row(
            M::FreeLostInFetch,
            "free-lost-in-fetch",
            "A free that comes while the minipage is fetched is lost.",
        ),
        row(
            M::FreeForgetsAck,
            "free-forgets-ack",
            "A free that comes with a grant still open drops its ack.",
        ),
        row(
            M::FreedReusedEarly,
            "freed-reused-early",
            "A freed minipage is used again while other nodes have copies.",
        ),
        row(
            M::AckBeforeInstruction,
            "ack-before-instruction",
            "An ack that somebody waits for leaves before the instruction that needs the minipage.",
        ),
        row(
            M::PinnedRetryForgotten,
            "pinned-retry-forgotten",
            "An instruction that lost a minipage is as likely to lose it again.",
        ),
        row(
            M::SecondMinipageDropsFirst,
            "second-minipage-drops-first",
            "An instruction that needs a second minipage gives up the first.",
        ),
        row(
            M::HeldAgainstOrder,
            "held-against-order",
            "An instruction holds a minipage while it waits for one below it.",
        ),
        row(
            M::AckNotListed,
            "ack-not-listed",
            "The manager does not enter who acknowledged in the copyset.",
        ),
        row(
            M::ReaderForgotten,
            "reader-forgotten",
            "The manager forgets to invalidate one of several readers.",
        ),
        row(
            M::FirstInvalidationSuffices,
            "first-invalidation-suffices",
            "The first invalidation reply lets the write be supplied.",
        ),
        row(
            M::SupplierStaysListed,
            "supplier-stays-listed",
            "The supplier of a write stays in the copyset.",
        ),
        row(
            M::ServedBeforeAck,
            "served-before-ack",
            "A request is served before the ack of the one before it.",
        ),
        row(M::QueueLost, "queue-lost", "Closing a transaction loses the queue of requests."),
        row(
            M::AckNowNotSent,
            "ack-now-not-sent",
            "The manager does not say that somebody waits for an ack.",
        ),
        row(
            M::OvertakenReadForwarded,
            "overtaken-read-forwarded",
            "A read request that a pushed copy overtook is forwarded all the same.",
        ),
        row(
            M::PushClosedByFirstAck,
            "push-closed-by-first-ack",
            "The first ack of a push closes its transaction.",
        ),
        row(M::PushesPileUp, "pushes-pile-up", "Pushes of one node queue up without end."),
        row(
            M::ReadersClosedByFirstAck,
            "readers-closed-by-first-ack",
            "The first ack of readers that are served together closes their transaction.",
        ),
        row(
            M::TurnsNotCounted,
            "turns-not-counted",
            "Grants do not say for how many turns of others their nodes have waited.",
        ),
        row(
            M::LockWaitersForgotten,
            "lock-waiters-forgotten",
            "A node that passes a lock on forgets its own waiting threads.",
        ),
        row(
            M::LockTokenCopied,
            "lock-token-copied",
            "A lock is granted to the next node while its holder keeps it.",
        ),
        row(
            M::HandoverSleeps,
            "handover-sleeps",
            "A lock handed to a thread of the same node does not wake it.",
        ),
        row(M::BarrierOpensEarly, "barrier-opens-early", "A barrier opens one thread too early."),
        row(M::PostCountsTwice, "post-counts-twice", "A semaphore counts every post twice."),
        row(
            M::ConditionWithoutLock,
            "condition-without-lock",
            "A thread woken from a condition does not take its lock again.",
        ),
        row(
            M::BroadcastWakesOne,
            "broadcast-wakes-one",
            "A broadcast to a condition wakes one thread alone.",
        ),
    ]
};
