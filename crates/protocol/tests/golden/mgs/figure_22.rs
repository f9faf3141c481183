//! Figure 22 and Table 5 of the MGS paper, row by row, beside what this crate does instead.
//!
//! Nothing here runs: the engines carry the marks, and `docs/tables/mgs.md` is written from here.

mod additions;
mod client;
mod server;
mod words;

use multigrain_protocol::MgsMessage;
use multigrain_protocol::mgs::row_coverage::Mark;

/// A row of Figure 22, in the paper's symbols: `+=` and `-=` on sets, `0` for the empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The arcs of Figure 21 that it annotates.
    pub(crate) arcs: &'static [u8],
    /// Event.
    pub(crate) event: &'static str,
    /// Precondition.
    pub(crate) when: &'static str,
    /// Side effects.
    pub(crate) effects: &'static str,
    /// Out message.
    pub(crate) sends: &'static str,
    /// What became of it.
    pub(crate) ours: Ours,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
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
pub(crate) struct Addition {
    /// Our event, and the state it meets.
    pub(crate) event: &'static str,
    /// What we do.
    pub(crate) does: &'static str,
    /// Why it is needed.
    pub(crate) why: &'static str,
    /// The mark at that row.
    pub(crate) mark: Mark,
}

/// A message of Table 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The paper's name.
    pub(crate) name: &'static str,
    /// Who says it to whom.
    pub(crate) way: &'static str,
    /// The paper's description.
    pub(crate) says: &'static str,
    /// Our message, or what it is on this hardware.
    pub(crate) ours: Result<MgsMessage, &'static str>,
}

/// Figure 22.
pub(crate) const ROWS: [&[Row]; 2] = [client::ROWS, server::ROWS];

/// Rows of the engines that Figure 22 does not have.
pub(crate) const ADDITIONS: &[Addition] = additions::ROWS;

/// Table 5.
pub(crate) const MESSAGES: &[Word] = words::WORDS;

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
