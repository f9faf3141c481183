//! What a mutant is.

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
    AckNowLost,
    PushKeepsWritable,
    PushTakenForReply,
    FreeLostInFetch,
    FreeForgetsAck,
    FreedReusedEarly,
    AckBeforeInstruction,
    PinnedRetryForgotten,
    SecondMinipageDropsFirst,
    HeldAgainstOrder,
    // Manager.
    AckNotListed,
    ReaderForgotten,
    FirstInvalidationSuffices,
    SupplierStaysListed,
    ServedBeforeAck,
    QueueLost,
    AckNowNotSent,
    OvertakenReadForwarded,
    PushClosedByFirstAck,
    PushesPileUp,
    ReadersClosedByFirstAck,
    TurnsNotCounted,
    // Synchronization.
    LockWaitersForgotten,
    LockTokenCopied,
    HandoverSleeps,
    BarrierOpensEarly,
    PostCountsTwice,
    ConditionWithoutLock,
    BroadcastWakesOne,
    // Eager release consistency: client.
    DiffForgotten,
    UpgradeUnlisted,
    ReleaseSkipsPage,
    UnreleasedWithoutRelease,
    SingleWriterWithoutTwin,
    KeeperWritesOn,
    // Its server.
    OutdatedKeeperStays,
    SingleBesideReaders,
    EarlyReleaseAck,
    ServedInRelease,
    SingleWriterUnasked,
    LateReleaseForgotten,
    // Lazy release consistency: copies and homes.
    DiffNotSent,
    DiffNotMerged,
    NoticeIgnored,
    NoticedDiffLost,
    StaleReplyTaken,
    MovedHomeForgotten,
    ExclusiveHomeStaysWritable,
    EarlyFetchServed,
    WritableHomeMergedAsClosed,
    TrackedHomesNotScanned,
    TrackedWriteNotNoticed,
    TrackedHomeStaysWritable,
    // And homes that go from hand to hand.
    PrefetchTransfersHome,
    DirtyHomeTransferred,
    FormerHomeStays,
    ForwardedDiffDropped,
    EarlyDiffDropped,
    FetchOvertakesDiff,
    // What nodes tell each other.
    GrantBeforeAcks,
    GrantWithoutNotices,
    TwoWritersMoveHome,
    ActiveNodeMigratesHome,
    BeginWithoutRetract,
    FlushesWrap,
    IntervalsWrap,
    NoticesForgottenEarly,
    OldPlanRepeated,
    NotifiedBeforeQueued,
    // Runtime.
    TwinAfterOpening,
    ClockMergedAtArrival,
    ClockOfTheMoment,
    GrantedBeforeBytes,
    ProtectedLate,
    DeferredAckLost,
    ParkedThreadForgotten,
    ServiceSleeps,
    // Orders that weak memory allows.
    KeptMarkOverwritten,
    RoleFreedUnfenced,
    ParkedUnfenced,
    NudgeNotPassedOn,
    // Bounds of what a program or a peer can fill.
    PostsWithoutRoom,
    HintsWithoutRoom,
    HeldWithoutEnd,
    AskedTwice,
    NamesWithoutEnd,
    EarlyWithoutEnd,
    AnswersWithoutEnd,
}

impl Mutant {
    /// Whether it lies below the protocol, where only real nodes can show it.
    #[must_use]
    pub const fn is_of_runtime(self) -> bool {
        self as usize >= Self::TwinAfterOpening as usize
    }

    /// Whether it is a flag in the wrong order or a queue without a bound, which tools of their own look
    /// for.
    #[must_use]
    pub const fn is_of_queues(self) -> bool {
        self as usize >= Self::KeptMarkOverwritten as usize
    }

    /// Whether only release consistent memory shows it.
    #[must_use]
    pub const fn is_of_release(self) -> bool {
        let place = self as usize;
        Self::DiffForgotten as usize <= place && place <= Self::ClockOfTheMoment as usize
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

#[cfg(test)]
mod tests {
    use crate::mutants::MUTANTS;

    #[test]
    fn every_mutant_has_a_row_in_order_and_a_name_of_its_own() {
        for (index, row) in MUTANTS.iter().enumerate() {
            assert_eq!(row.mutant as usize, index, "{}", row.name);
            assert!(MUTANTS[..index].iter().all(|other| other.name != row.name), "{}", row.name);
        }
    }
}
