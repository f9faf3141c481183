//! The table of mutants.

use super::list::{Mutant, Row};

const fn row(mutant: Mutant, name: &'static str, breaks: &'static str) -> Row {
    Row { mutant, name, breaks }
}

/// Every mutant.
pub const MUTANTS: [Row; 84] = {
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
            M::AckBeforeInstruction,
            "ack-before-instruction",
            "An ack that somebody waits for leaves before the instruction that needs the minipage.",
        ),
        row(
            M::InsistenceForgotten,
            "insistence-forgotten",
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
        row(
            M::DiffForgotten,
            "diff-forgotten",
            "Eager: a written copy is invalidated and its diff is not sent.",
        ),
        row(
            M::UpgradeUnlisted,
            "upgrade-unlisted",
            "Eager: the home forgets a reader that became a writer (WNOTIFY).",
        ),
        row(
            M::ReleaseSkipsPage,
            "release-skips-page",
            "Eager: a release passes by a written page.",
        ),
        row(
            M::UnreleasedWithoutRelease,
            "unreleased-without-release",
            "Eager: a page that is invalidated before its release leaves without a REL.",
        ),
        row(
            M::SingleWriterWithoutTwin,
            "single-writer-without-twin",
            "Eager: a single writer drops its twin.",
        ),
        row(
            M::KeeperWritesOn,
            "keeper-writes-on",
            "Eager: who keeps its copy after a 1WINV may write it unseen.",
        ),
        row(
            M::OutdatedKeeperStays,
            "outdated-keeper-stays",
            "Eager: who keeps its copy after a 1WINV keeps it beside another's diff.",
        ),
        row(
            M::SingleBesideReaders,
            "single-beside-readers",
            "Eager: single-writer mode is granted while others have read copies.",
        ),
        row(
            M::EarlyReleaseAck,
            "early-release-ack",
            "Eager: a release is acknowledged before all copies are gone.",
        ),
        row(
            M::ServedInRelease,
            "served-in-release",
            "Eager: a read request is answered in the middle of a release.",
        ),
        row(
            M::SingleWriterUnasked,
            "single-writer-unasked",
            "Eager: the home answers a request though a single writer has newer contents.",
        ),
        row(
            M::LateReleaseForgotten,
            "late-release-forgotten",
            "Eager: a REL that comes after its sender's answer is forgotten.",
        ),
        row(M::DiffNotSent, "diff-not-sent", "Lazy: a release sends no diff home."),
        row(
            M::DiffNotMerged,
            "diff-not-merged",
            "Lazy: the home acknowledges a diff before it merges it.",
        ),
        row(
            M::NoticeIgnored,
            "notice-ignored",
            "Lazy: an acquire does not forget a copy that a write notice names.",
        ),
        row(
            M::NoticedDiffLost,
            "noticed-diff-lost",
            "Lazy: what was written in a copy that a notice names does not go home.",
        ),
        row(
            M::StaleReplyTaken,
            "stale-reply-taken",
            "Lazy: contents sent before a write that is known of are taken.",
        ),
        row(
            M::MovedHomeForgotten,
            "moved-home-forgotten",
            "Lazy: a move of the home is forgotten when contents come from the one that was.",
        ),
        row(
            M::AloneNotNoticed,
            "alone-not-noticed",
            "Lazy: after the first fetch the home still writes unnoticed.",
        ),
        row(
            M::EarlyFetchServed,
            "early-fetch-served",
            "Lazy: a fetch is served by a node that has not heard of the moves its sender knows.",
        ),
        row(
            M::OpenHomeBlended,
            "open-home-blended",
            "Lazy: a diff is merged as if threads of the home could not write the page, which they can.",
        ),
        row(
            M::FoundNotAsked,
            "found-not-asked",
            "Lazy, homes watched: a release does not ask what was written.",
        ),
        row(
            M::FoundNotNoticed,
            "found-not-noticed",
            "Lazy, homes watched: what was found written is not told of.",
        ),
        row(
            M::WatchedHomeStaysOpen,
            "watched-home-stays-open",
            "Lazy, homes watched: a home that moves away is still written without a trap.",
        ),
        row(
            M::PrefetchHandedHome,
            "prefetch-handed-home",
            "Auto: the home is handed to a node none of whose threads waits for it.",
        ),
        row(
            M::DirtyHomeHandedOn,
            "dirty-home-handed-on",
            "Auto: a home that has been written and not released is handed on.",
        ),
        row(M::HandedHomeStays, "handed-home-stays", "Auto: who hands the home on stays a home."),
        row(
            M::PassedDiffDropped,
            "passed-diff-dropped",
            "Auto: the home that was acknowledges a diff and does not send it on.",
        ),
        row(
            M::EarlyDiffDropped,
            "early-diff-dropped",
            "Auto: a diff that comes before the turn of homes is acknowledged and never merged.",
        ),
        row(
            M::FetchOvertakesDiff,
            "fetch-overtakes-diff",
            "Auto: a node asks for contents while its own diff is on its way to the home.",
        ),
        row(
            M::GrantBeforeAcks,
            "grant-before-acks",
            "A release leaves the node before its writes are acknowledged.",
        ),
        row(
            M::GrantWithoutNews,
            "grant-without-news",
            "Lazy: a lock is granted without the write notices.",
        ),
        row(
            M::TwoWritersMoveHome,
            "two-writers-move-home",
            "Lazy: a home moves to one of several writers.",
        ),
        row(
            M::NoisyHomeMoves,
            "noisy-home-moves",
            "Lazy: homes move at a barrier while other threads run.",
        ),
        row(
            M::BeginsUnannounced,
            "begins-unannounced",
            "Lazy: a thread begins on a node that has said nothing runs there, and the manager is not told.",
        ),
        row(M::FlushesWrap, "flushes-wrap", "The numbers of flushes have 32 bits."),
        row(M::IntervalsWrap, "intervals-wrap", "Lazy: the numbers of intervals have 32 bits."),
        row(
            M::NoticesForgottenEarly,
            "notices-forgotten-early",
            "Lazy: a barrier's manager forgets notices that not all have heard of.",
        ),
        row(
            M::OldTurnRepeated,
            "old-turn-repeated",
            "Lazy: moves of homes told of twice are made twice when nobody wrote in between.",
        ),
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
