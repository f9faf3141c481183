//! The list of mutants.

/// A seeded fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the rows of the table say what each one breaks")]
pub enum Mutant {
    // Holder.
    ReadForwardKeepsWritable,
    WriteForwardKeepsCopy,
    InvalidationKeepsCopy,
    ReadReplyWritable,
    SentBeforeProtected,
    FirstWaiterOnly,
    SpuriousFaultSleeps,
    AckDropped,
    HurryLost,
    PushKeepsWritable,
    PushTakenForReply,
    FreeLostInFetch,
    FreeForgetsAck,
    FreedReusedEarly,
    // Manager.
    AckNotListed,
    ReaderForgotten,
    FirstInvalidationSuffices,
    SupplierStaysListed,
    ServedBeforeAck,
    QueueLost,
    HurryNotSent,
    OvertakenReadForwarded,
    PushClosedByFirstAck,
    PushesPileUp,
    // Synchronization.
    LockWaitersForgotten,
    LockTokenCopied,
    HandoverSleeps,
    BarrierOpensEarly,
    PostCountsTwice,
    ConditionWithoutLock,
    BroadcastWakesOne,
    // Runtime.
    GrantedBeforeBytes,
    ProtectedLate,
    KeptAckLost,
    ParkedThreadForgotten,
    ServiceSleeps,
}

impl Mutant {
    /// Whether it lies below the protocol, where only real nodes can show it.
    #[must_use]
    pub const fn is_of_runtime(self) -> bool {
        self as usize >= Self::GrantedBeforeBytes as usize
    }
}

/// What is said about a mutant.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The mutant.
    pub mutant: Mutant,
    /// Its name, for [`super::VARIABLE`].
    pub name: &'static str,
    /// What it breaks, in a sentence.
    pub breaks: &'static str,
}

const fn row(mutant: Mutant, name: &'static str, breaks: &'static str) -> Row {
    Row { mutant, name, breaks }
}

/// Every mutant.
pub const MUTANTS: [Row; 36] = {
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
        row(M::HurryLost, "hurry-lost", "A Hurry that comes before the reply is forgotten."),
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
            M::HurryNotSent,
            "hurry-not-sent",
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
            M::KeptAckLost,
            "kept-ack-lost",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_has_a_row_in_order_and_a_name_of_its_own() {
        for (index, row) in MUTANTS.iter().enumerate() {
            assert_eq!(row.mutant as usize, index, "{}", row.name);
            assert!(MUTANTS[..index].iter().all(|other| other.name != row.name), "{}", row.name);
        }
    }
}
