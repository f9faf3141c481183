//! Rows of release consistency.

use super::row;
use crate::mutants::list::{Mutant, Row};

/// Eager, lazy, and what nodes tell each other.
pub(super) const RELEASE: [Row; 40] = {
    use Mutant as M;
    [
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
            M::ExclusiveHomeStaysWritable,
            "exclusive-home-stays-writable",
            "Lazy: after the first fetch the home still writes unnoticed.",
        ),
        row(
            M::EarlyFetchServed,
            "early-fetch-served",
            "Lazy: a fetch is served by a node that has not heard of the moves its sender knows.",
        ),
        row(
            M::WritableHomeMergedAsClosed,
            "writable-home-merged-as-closed",
            "Lazy: a diff is merged as if threads of the home could not write the page, which they can.",
        ),
        row(
            M::TrackedHomesNotScanned,
            "tracked-homes-not-scanned",
            "Lazy, homes tracked: a release does not ask what was written.",
        ),
        row(
            M::TrackedWriteNotNoticed,
            "tracked-write-not-noticed",
            "Lazy, homes tracked: what was found written is not told of.",
        ),
        row(
            M::TrackedHomeStaysWritable,
            "tracked-home-stays-writable",
            "Lazy, homes tracked: a home that moves away is still written without a trap.",
        ),
        row(
            M::PrefetchTransfersHome,
            "prefetch-transfers-home",
            "Auto: the home is handed to a node none of whose threads waits for it.",
        ),
        row(
            M::DirtyHomeTransferred,
            "dirty-home-transferred",
            "Auto: a home that has been written and not released is handed on.",
        ),
        row(M::FormerHomeStays, "former-home-stays", "Auto: who hands the home on stays a home."),
        row(
            M::ForwardedDiffDropped,
            "forwarded-diff-dropped",
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
            M::GrantWithoutNotices,
            "grant-without-notices",
            "Lazy: a lock is granted without the write notices.",
        ),
        row(
            M::TwoWritersMoveHome,
            "two-writers-move-home",
            "Lazy: a home moves to one of several writers.",
        ),
        row(
            M::ActiveNodeMigratesHome,
            "active-node-migrates-home",
            "Lazy: homes move at a barrier while other threads run.",
        ),
        row(
            M::BeginWithoutRetract,
            "begin-without-retract",
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
            M::OldPlanRepeated,
            "old-plan-repeated",
            "Lazy: moves of homes told of twice are made twice when nobody wrote in between.",
        ),
        row(
            M::NotifiedBeforeQueued,
            "notified-before-queued",
            "Lazy: notices count as told before they are on their way, and another message overtakes them.",
        ),
    ]
};
