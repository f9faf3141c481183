//! Figure 22 and Table 5 of the MGS paper, row by row, beside what this crate does instead.
//!
//! Role: the account of the paper's table. Nothing here runs; the engines carry the marks, and
//! `docs/tables/mgs.md` is generated from here by the golden tests.

mod additions;
mod client;
mod server;
mod words;

use crate::message::MgsMessage;

/// A row of the engines that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the rows say what each one is")]
pub enum Mark {
    // Client, faults.
    SpuriousFault,
    WriteClean,
    Upgrade,
    AskRead,
    AskWrite,
    JoinWait,
    Prefetch,
    ReadData,
    WriteData,
    // Client, releases.
    Release,
    ReleasePassed,
    ReleaseAck,
    // Client, invalidations.
    InvalidateRead,
    InvalidateClean,
    InvalidateSingle,
    InvalidateWritten,
    InvalidateUnreleased,
    InvalidateAllocated,
    SingleInvalidate,
    SingleInvalidateClean,
    SingleGrant,
    // Server, copies.
    ServeRead,
    ServeWrite,
    WriteNotify,
    // Server, releases.
    ReleaseAll,
    ReleaseReaders,
    ReleaseKeeper,
    ReleaseSingle,
    QueueRead,
    QueueWrite,
    QueueRelease,
    ReleaseAgain,
    LateNotify,
    CountAck,
    CountDiff,
    CountData,
    LastAck,
    LastDiff,
    LastData,
    KeeperOutdated,
    // Server, single writer.
    SingleAckBusy,
    SingleAck,
    ThirdRead,
    ThirdWrite,
}

impl Mark {
    /// All of them.
    pub const ALL: &[Self] = {
        use Mark as M;
        &[
            M::SpuriousFault,
            M::WriteClean,
            M::Upgrade,
            M::AskRead,
            M::AskWrite,
            M::JoinWait,
            M::Prefetch,
            M::ReadData,
            M::WriteData,
            M::Release,
            M::ReleasePassed,
            M::ReleaseAck,
            M::InvalidateRead,
            M::InvalidateClean,
            M::InvalidateSingle,
            M::InvalidateWritten,
            M::InvalidateUnreleased,
            M::InvalidateAllocated,
            M::SingleInvalidate,
            M::SingleInvalidateClean,
            M::SingleGrant,
            M::ServeRead,
            M::ServeWrite,
            M::WriteNotify,
            M::ReleaseAll,
            M::ReleaseReaders,
            M::ReleaseKeeper,
            M::ReleaseSingle,
            M::QueueRead,
            M::QueueWrite,
            M::QueueRelease,
            M::ReleaseAgain,
            M::LateNotify,
            M::CountAck,
            M::CountDiff,
            M::CountData,
            M::LastAck,
            M::LastDiff,
            M::LastData,
            M::KeeperOutdated,
            M::SingleAckBusy,
            M::SingleAck,
            M::ThirdRead,
            M::ThirdWrite,
        ]
    };
}

/// A row of Figure 22, in the paper's symbols: `+=` and `-=` on sets, `0` for the empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The arcs of Figure 21 that it annotates.
    pub arcs: &'static [u8],
    /// Event.
    pub event: &'static str,
    /// Precondition.
    pub when: &'static str,
    /// Side effects.
    pub effects: &'static str,
    /// Out message.
    pub sends: &'static str,
    /// What became of it.
    pub ours: Ours,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ours {
    /// An engine has it.
    Runs {
        /// Our event, and the state it meets.
        event: &'static str,
        /// What we do.
        does: &'static str,
        /// The mark at that row.
        mark: Mark,
    },
    /// This hardware does not need it.
    Spared {
        /// Why.
        why: &'static str,
    },
}

/// A row that the paper's table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Our event, and the state it meets.
    pub event: &'static str,
    /// What we do.
    pub does: &'static str,
    /// Why it is needed.
    pub why: &'static str,
    /// The mark at that row.
    pub mark: Mark,
}

/// A message of Table 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The paper's name.
    pub name: &'static str,
    /// Who says it to whom.
    pub way: &'static str,
    /// The paper's description.
    pub says: &'static str,
    /// Our message, or what it is on this hardware.
    pub ours: Result<MgsMessage, &'static str>,
}

/// Figure 22.
pub const ROWS: [&[Row]; 2] = [client::ROWS, server::ROWS];

/// Rows of the engines that Figure 22 does not have.
pub const ADDITIONS: &[Addition] = additions::ROWS;

/// Table 5.
pub const MESSAGES: &[Word] = words::WORDS;

const fn row(
    arcs: &'static [u8],
    [event, when, effects, sends]: [&'static str; 4],
    ours: Ours,
) -> Row {
    Row { arcs, event, when, effects, sends, ours }
}

const fn runs(event: &'static str, does: &'static str, mark: Mark) -> Ours {
    Ours::Runs { event, does, mark }
}

const fn spared(why: &'static str) -> Ours {
    Ours::Spared { why }
}

const fn addition(
    event: &'static str,
    does: &'static str,
    why: &'static str,
    mark: Mark,
) -> Addition {
    Addition { event, does, why, mark }
}

const fn word(
    name: &'static str,
    way: &'static str,
    says: &'static str,
    ours: Result<MgsMessage, &'static str>,
) -> Word {
    Word { name, way, says, ours }
}
