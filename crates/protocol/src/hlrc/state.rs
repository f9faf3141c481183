//! A node's state for one minipage: its copy, or its home.

use multigrain_types::{Access, NodeId, ThreadId};
use smallvec::SmallVec;

use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::message::Kind;

/// A node's state for one minipage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Copy {
    /// This node is the home.
    Home {
        /// What its threads may do.
        home: Home,
        /// Where barriers have migrated the home, if that decides anything.
        moves: HomeMoves,
    },
    /// Another node is, as far as this one knows.
    Away(Away),
}

/// A copy away from home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Away {
    /// The home, or a node that was it later than this one.
    pub(super) home: NodeId,
    /// The copy here.
    pub(super) page: Page,
    /// As in [`Copy::Home`].
    pub(super) moves: HomeMoves,
    /// Diffs of this copy that nobody has acknowledged, counted where homes are dynamic.
    pub(super) unacked: u32,
}

/// How barriers have migrated the home of a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct HomeMoves {
    /// How often in a row to another node than the time before.
    count: u8,
    /// Where to the last time; before the first, no node but the home and those that asked it know where the home is.
    last: Option<NodeId>,
}

/// What the home's threads may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// As [`Home::Exclusive`], and never fetched yet: the first to touch it becomes the home.
    Fresh,
    /// No other node has a copy, but for those that a notice of an earlier release names: writes need no notice.
    Exclusive,
    /// Read-only until the next write, which traps.
    Clean,
    /// As [`Home::Clean`], and no node has got it since its last release, whose notice names all copies there are: the
    /// next write makes it exclusive.
    Released,
    /// As [`Home::Clean`], but it came as a dynamic home and nobody here has written it since.
    Transferred {
        /// Migrations known of then.
        epoch: u64,
    },
    /// Written since the last release.
    Dirty,
    /// Opened for writes before anybody wrote it; there is a twin, which shows whether somebody did. The world
    /// looks before it is released, named by a notice, fetched by another node, or gets a diff.
    OpenedAhead {
        /// It was [`Home::Transferred`] before, with this epoch.
        transferred: Option<u64>,
    },
    /// In the place of [`Home::Clean`] where the world finds writes: no trap shows them.
    Tracked,
    /// As [`Home::Tracked`], and found written since the last release.
    TrackedDirty,
}

/// The contents of a copy away from home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// Not here.
    Invalid,
    /// Wanted, and fetched when the home has all diffs of this node. What former homes forward may be
    /// overtaken: the diff is forwarded, the fetch behind it meets a home that came back.
    FetchQueued(Box<OpenRequest>),
    /// Asked for.
    Fetching(Box<OpenRequest>),
    /// A read copy.
    Clean,
    /// A read copy that is opened for writes when the home has all diffs of this node: two of them
    /// on their way may overtake each other.
    Upgrading(Box<OpenRequest>),
    /// Written since the last release; there is a twin.
    Dirty,
    /// As [`Home::OpenedAhead`].
    OpenedAhead,
}

/// An open request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenRequest {
    pub(super) kind: Kind,
    pub(super) waiters: SmallVec<[ThreadId; 4]>,
    /// A thread goes on when it has come, though it does not fault for it yet.
    pub(super) awaited: bool,
    /// A write notice came after the request: what is on its way may be too old.
    pub(super) stale: bool,
    /// Where a barrier after the request migrated the home; the former home may answer.
    pub(super) moved: Option<NodeId>,
}

impl OpenRequest {
    pub(super) fn of(kind: Kind, waiters: SmallVec<[ThreadId; 4]>) -> Self {
        Self { kind, waiters, awaited: false, stale: false, moved: None }
    }

    pub(super) fn fault(kind: Kind, thread: ThreadId) -> Self {
        Self::of(kind, core::iter::once(thread).collect())
    }

    /// Whether a thread of this node stands still until it comes.
    pub(super) fn has_thread(&self) -> bool {
        self.awaited || !self.waiters.is_empty()
    }

    pub(super) fn wake(&self, out: &mut Effects) {
        out.extend(self.waiters.iter().map(|&thread| Effect::Wake { thread }));
    }
}

impl HomeMoves {
    /// A barrier migrates the home. If it comes back to its last writer, its writers do not
    /// change.
    pub(super) fn count(&mut self, context: &EngineContext, to: NodeId) {
        let again = self.last.replace(to) == Some(to);
        let Some(enough) = context.dynamic_after else { return };
        self.count = if again { 0 } else { self.count.saturating_add(1).min(enough) };
    }

    /// Whether the home is dynamic, which it is after so many.
    pub(super) fn is_dynamic(self, after: Option<u8>) -> bool {
        after.is_some_and(|enough| self.count >= enough)
    }
}

impl Home {
    /// A home of which another node has a copy; its threads had this access.
    pub(super) fn shared(context: &EngineContext, from: Access, out: &mut Effects) -> Self {
        let minipage = context.minipage;
        if context.tracked {
            out.push(Effect::Track { minipage, from });
            return Self::Tracked;
        }
        if from == Access::ReadWrite {
            out.push(Effect::Protect { minipage, from, to: Access::ReadOnly });
        }
        Self::Clean
    }

    pub(super) fn illegal(self) -> Illegal {
        Illegal { role: "home", state: format!("{self:?}") }
    }
}

impl Away {
    /// A copy of a minipage whose home has just left this node.
    pub(super) fn left(home: NodeId, page: Page, moves: HomeMoves) -> Self {
        Self { home, page, moves, unacked: 0 }
    }

    pub(super) fn access(&self) -> Access {
        match self.page {
            Page::Dirty | Page::OpenedAhead => Access::ReadWrite,
            Page::Clean | Page::Upgrading(_) => Access::ReadOnly,
            Page::Invalid | Page::FetchQueued(_) | Page::Fetching(_) => Access::NoAccess,
        }
    }

    /// Opens a read copy for writes; a twin shows later what was written.
    pub(super) fn open(
        &mut self,
        context: &EngineContext,
        waiters: &[ThreadId],
        out: &mut Effects,
    ) {
        open_with_twin(context, out);
        out.extend(waiters.iter().map(|&thread| Effect::Wake { thread }));
        self.page = Page::Dirty;
    }

    pub(super) fn illegal(&self) -> Illegal {
        Illegal { role: "copy", state: format!("{self:?}") }
    }
}

/// Opens a read copy, or a clean home, for writes, with a twin.
pub(super) fn open_with_twin(context: &EngineContext, out: &mut Effects) {
    let minipage = context.minipage;
    out.push(Effect::Dirty { minipage });
    out.push(Effect::MakeTwin { minipage });
    let (from, to) = (Access::ReadOnly, Access::ReadWrite);
    out.push(Effect::Protect { minipage, from, to });
}

impl Copy {
    /// The allocating node's first state.
    #[must_use]
    pub fn owner() -> Self {
        Self::Home { home: Home::Fresh, moves: HomeMoves::default() }
    }

    /// Any other node's first state.
    #[must_use]
    pub fn away(home: NodeId) -> Self {
        Self::Away(Away::left(home, Page::Invalid, HomeMoves::default()))
    }

    /// The access this node's threads have.
    #[must_use]
    pub fn access(&self) -> Access {
        match self {
            Self::Home {
                home: Home::Clean | Home::Released | Home::Transferred { .. }, ..
            } => Access::ReadOnly,
            Self::Home {
                home:
                    Home::Fresh
                    | Home::Exclusive
                    | Home::Dirty
                    | Home::OpenedAhead { .. }
                    | Home::Tracked
                    | Home::TrackedDirty,
                ..
            } => Access::ReadWrite,
            Self::Away(away) => away.access(),
        }
    }

    /// The home as this node knows it; `None` if it is the home.
    #[must_use]
    pub fn home(&self) -> Option<NodeId> {
        match self {
            Self::Home { .. } => None,
            Self::Away(away) => Some(away.home),
        }
    }

    /// Whether this node can tell which node the home is: it is that, or a barrier has migrated it, and it is not dynamic,
    /// as it is after so many migrations.
    #[must_use]
    pub fn is_home_known(&self, after: Option<u8>) -> bool {
        match self {
            Self::Home { moves, .. } => !moves.is_dynamic(after),
            Self::Away(Away { moves, .. }) => moves.last.is_some() && !moves.is_dynamic(after),
        }
    }

    /// Whether a barrier has migrated the home, once at least.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        let (Self::Home { moves, .. } | Self::Away(Away { moves, .. })) = self;
        moves.last.is_some()
    }

    /// Whether the first node that asks for it may still become the home.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        matches!(self, Self::Home { home: Home::Fresh, .. })
    }

    /// Whether this is the home, and writes need no notice.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        matches!(self, Self::Home { home: Home::Fresh | Home::Exclusive, .. })
    }

    /// Whether it was opened for writes before anybody wrote it, and whether somebody did is to be found out.
    #[must_use]
    pub fn is_opened_ahead(&self) -> bool {
        matches!(
            self,
            Self::Home { home: Home::OpenedAhead { .. }, .. }
                | Self::Away(Away { page: Page::OpenedAhead, .. })
        )
    }

    /// Whether contents may arrive: they have been asked for.
    #[must_use]
    pub fn may_receive(&self) -> bool {
        matches!(self, Self::Away(Away { page: Page::Fetching(_), .. }))
    }

    /// Whether no request is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Home { .. } => true,
            Self::Away(away) => match away.page {
                Page::FetchQueued(_) | Page::Fetching(_) | Page::Upgrading(_) => false,
                Page::Invalid | Page::Clean | Page::Dirty | Page::OpenedAhead => true,
            },
        }
    }
}
