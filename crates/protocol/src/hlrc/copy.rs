//! A node's copy of a minipage, or its home.

#[cfg(feature = "mutants")]
mod mutants;

use multigrain_types::{Access, NodeId, ThreadId};
use smallvec::SmallVec;

use super::home::Home;
use crate::coherence::{Illegal, Site};
use crate::effect::{Effect, Effects};
use crate::message::{HlrcMessage, Kind};

/// A node's state for one minipage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Copy {
    /// This node is the home.
    Home {
        /// What its threads may do.
        home: Home,
        /// Where barriers have moved the home, if that decides anything.
        moves: Moves,
    },
    /// Another node is, as far as this one knows.
    Away {
        /// The home, or a node that was it later than this one.
        home: NodeId,
        /// The copy here.
        page: Page,
        /// As above.
        moves: Moves,
        /// Diffs of this copy that nobody has acknowledged, counted where homes go from hand to
        /// hand.
        unacked: u32,
    },
}

/// How barriers have moved the home of a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Moves {
    /// How often in a row to another node than the time before.
    count: u8,
    /// Where to the last time.
    last: Option<NodeId>,
}

impl Moves {
    /// A barrier moves the home. That it comes back to who wrote it the last time says that its
    /// writers do not change.
    pub(super) fn count(&mut self, site: &Site, to: NodeId) {
        let Some(enough) = site.dynamic_after else { return };
        let again = self.last.replace(to) == Some(to);
        self.count = if again { 0 } else { self.count.saturating_add(1).min(enough) };
    }

    /// Whether the home goes from hand to hand, which it does after so many.
    pub(super) fn is_dynamic(self, dynamic_after: Option<u8>) -> bool {
        dynamic_after.is_some_and(|enough| self.count >= enough)
    }
}

/// A copy away from home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Page {
    /// Not here.
    Invalid,
    /// Wanted, and asked for when the home has all diffs of this node. What passes homes on their
    /// way may be overtaken: the diff is sent on, the fetch behind it finds the home come back.
    FetchQueued(Box<Wait>),
    /// Asked for.
    Fetching(Box<Wait>),
    /// A read copy.
    Clean,
    /// A read copy that is opened for writes when the home has all diffs of this node: two of them
    /// on their way may overtake each other.
    Upgrading(Box<Wait>),
    /// Written since the last release; there is a twin.
    Dirty,
}

/// An open request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    kind: Kind,
    waiters: SmallVec<[ThreadId; 4]>,
    /// A thread goes on when it has come, though it does not fault for it yet.
    asks: bool,
    /// A write notice came after the request: what is on its way may be too old.
    stale: bool,
    /// Where a barrier after the request moved the home; who answers may be the home that was.
    moved: Option<NodeId>,
}

impl Wait {
    fn of(kind: Kind, waiters: SmallVec<[ThreadId; 4]>) -> Self {
        Self { kind, waiters, asks: false, stale: false, moved: None }
    }
}

/// What can happen to a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the message module")]
pub enum CopyEvent {
    /// A thread of this node trapped.
    Fault {
        thread: ThreadId,
        kind: Kind,
    },
    /// A copy is wanted and nobody waits for it.
    Prefetch {
        kind: Kind,
    },
    /// The same to read, and a thread goes on when it is here.
    AwaitedPrefetch,
    /// This node's writes shall be seen; part of flush number `flush`.
    Release {
        flush: u64,
    },
    /// The world has found that threads of this node wrote it, as it does at a tracked home.
    Wrote,
    /// Acquire: another node wrote it. What was written here goes with the node's next flush.
    Notice {
        flush: u64,
    },
    /// All threads of the job are at a barrier: this is the home from now on.
    Move {
        home: NodeId,
    },
    /// `zero`: the world has just closed the minipage, for every byte of it is zero.
    /// `waits`: a thread of the requester waits for it.
    Fetch {
        requester: NodeId,
        zero: bool,
        waits: bool,
    },
    Data {
        from: NodeId,
    },
    /// Contents, and this node is the home from now on.
    HomeTransfer,
    FirstTouch,
    /// The diff is kept already.
    Diff {
        writer: NodeId,
        flush: u64,
    },
    DiffAck {
        flush: u64,
        count: u32,
    },
}

impl Copy {
    /// The allocating node's first state.
    #[must_use]
    pub fn owner() -> Self {
        Self::Home { home: Home::Fresh, moves: Moves::default() }
    }

    /// Any other node's first state.
    #[must_use]
    pub fn away(home: NodeId) -> Self {
        Self::Away { home, page: Page::Invalid, moves: Moves::default(), unacked: 0 }
    }

    /// The access this node's threads have.
    #[must_use]
    pub fn access(&self) -> Access {
        match self {
            Self::Home {
                home:
                    Home::Fresh | Home::Exclusive | Home::Dirty | Home::Tracked | Home::TrackedDirty,
                ..
            }
            | Self::Away { page: Page::Dirty, .. } => Access::ReadWrite,
            Self::Home { home: Home::Clean | Home::Transferred { .. }, .. }
            | Self::Away { page: Page::Clean | Page::Upgrading(_), .. } => Access::ReadOnly,
            Self::Away {
                page: Page::Invalid | Page::FetchQueued(_) | Page::Fetching(_), ..
            } => Access::NoAccess,
        }
    }

    /// The home as this node knows it; `None` if it is the home.
    #[must_use]
    pub fn home(&self) -> Option<NodeId> {
        match self {
            Self::Home { .. } => None,
            Self::Away { home, .. } => Some(*home),
        }
    }

    /// Whether its home goes from hand to hand, as it does after so many moves: then not all nodes
    /// know who it is.
    #[must_use]
    pub fn dynamic_after(&self, after: Option<u8>) -> bool {
        match self {
            Self::Home { moves, .. } | Self::Away { moves, .. } => moves.is_dynamic(after),
        }
    }

    /// Whether it may still be transferred to the first node that asks for it.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        matches!(self, Self::Home { home: Home::Fresh, .. })
    }

    /// Whether this is the home and no other node ever had a copy.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        matches!(self, Self::Home { home: Home::Fresh | Home::Exclusive, .. })
    }

    /// Whether contents may arrive: they have been asked for.
    #[must_use]
    pub fn may_receive(&self) -> bool {
        matches!(self, Self::Away { page: Page::Fetching(_), .. })
    }

    /// Whether no request is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !matches!(
            self,
            Self::Away { page: Page::FetchQueued(_) | Page::Fetching(_) | Page::Upgrading(_), .. }
        )
    }

    /// One step at a node that knows of `epoch` moves; effects are appended to `out`.
    ///
    /// # Errors
    /// [`Illegal`] when no correct peer can have sent this event in this state.
    pub fn handle(
        &mut self,
        site: &Site,
        epoch: u64,
        event: &CopyEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        match self {
            Self::Home { home, moves } => {
                if let Some(next) = home.handle(site, epoch, moves, event, out)? {
                    *self = next;
                }
                Ok(())
            }
            Self::Away { .. } => self.handle_away(site, epoch, event, out),
        }
    }

    #[expect(clippy::too_many_lines, reason = "a transition table, one row per arc")]
    fn handle_away(
        &mut self,
        site: &Site,
        epoch: u64,
        event: &CopyEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        use CopyEvent as E;
        use Page::{Clean, Dirty, FetchQueued, Fetching, Invalid, Upgrading};

        let Self::Away { home, page, moves, unacked } = self else { return Err(self.illegal()) };
        let (minipage, at) = (site.minipage, *home);
        match (event, &mut *page) {
            (E::Fault { thread, kind }, Invalid) => {
                let waiters = [*thread].into_iter().collect();
                *page = ask(site, at, epoch, *unacked, Wait::of(*kind, waiters), out);
            }
            (E::Fault { thread, kind: Kind::Write }, Clean) if *unacked > 0 => {
                let waiters = [*thread].into_iter().collect();
                *page = Upgrading(Box::new(Wait::of(Kind::Write, waiters)));
            }
            (E::Fault { thread, kind: Kind::Write }, Upgrading(wait)) => wait.waiters.push(*thread),
            (E::Fault { thread, kind }, FetchQueued(wait) | Fetching(wait)) => {
                wait.kind = wait.kind.max(*kind);
                wait.waiters.push(*thread);
            }
            // The first write since the last release.
            (E::Fault { thread, kind: Kind::Write }, Clean) => {
                open(site, [*thread].into_iter().collect(), out);
                *page = Dirty;
            }
            // Spurious: the access is there already, only the page tables lag.
            (E::Fault { thread, kind: Kind::Read }, Clean | Upgrading(_))
            | (E::Fault { thread, .. }, Dirty) => {
                out.push(Effect::Reprotect { minipage, access: self.access() });
                out.push(Effect::Wake { thread: *thread });
            }
            (E::Prefetch { kind }, Invalid) => {
                *page = ask(site, at, epoch, *unacked, Wait::of(*kind, SmallVec::new()), out);
            }
            (E::AwaitedPrefetch, Invalid) => {
                let wait = Wait { asks: true, ..Wait::of(Kind::Read, SmallVec::new()) };
                *page = ask(site, at, epoch, *unacked, wait, out);
            }
            (
                E::Prefetch { .. } | E::AwaitedPrefetch,
                FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty,
            ) => {}

            // Asked for in vain: what came was sent before writes that this node knows of.
            (E::Data { .. }, Fetching(wait)) if wait.stale => {
                let (kind, waiters) = (wait.kind, core::mem::take(&mut wait.waiters));
                *page = if waiters.is_empty() {
                    Invalid
                } else {
                    ask(site, at, epoch, *unacked, Wait::of(kind, waiters), out)
                };
            }
            (E::Data { from }, Fetching(wait)) => {
                // It may have come from who touched it first, by way of who allocated it: a home
                // that no barrier tells of.
                *home = wait.moved.unwrap_or(*from);
                // What nobody waits for is opened for reads: it may come while all threads are at a
                // barrier, where homes move only if nothing is written. To write it asks nobody.
                let write = wait.kind == Kind::Write && !wait.waiters.is_empty();
                let next = if write { Dirty } else { Clean };
                if next == Dirty {
                    out.push(Effect::Dirty { minipage });
                    out.push(Effect::MakeTwin { minipage });
                }
                let access = if next == Dirty { Access::ReadWrite } else { Access::ReadOnly };
                out.push(Effect::Install { minipage, access });
                out.extend(wait.waiters.iter().map(|&thread| Effect::Wake { thread }));
                *page = next;
            }
            // First touch: this node is the home.
            (E::FirstTouch, Fetching(wait)) => {
                out.push(Effect::InstallZero { minipage, access: Access::ReadWrite });
                out.extend(wait.waiters.iter().map(|&thread| Effect::Wake { thread }));
                *self = Self::Home { home: Home::Exclusive, moves: *moves };
            }
            // The home comes to its next writer. It is current, whatever notice came meanwhile: the
            // writes that a notice names are acknowledged by a home, and this node was none yet.
            (E::HomeTransfer, Fetching(wait))
                if site.dynamic_after.is_some() && wait.moved.is_none() =>
            {
                let transferred = Home::Transferred { epoch };
                let next = if wait.kind == Kind::Write { Home::Dirty } else { transferred };
                let mut access = Access::ReadOnly;
                if next == Home::Dirty {
                    out.push(Effect::Dirty { minipage });
                    access = Access::ReadWrite;
                }
                out.push(Effect::Install { minipage, access });
                out.extend(wait.waiters.iter().map(|&thread| Effect::Wake { thread }));
                *self = Self::Home { home: next, moves: *moves };
            }

            // Release: what was written goes home.
            (E::Release { flush }, Dirty) => {
                let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                out.push(Effect::Protect { minipage, from, to });
                flush_home(site, at, epoch, *flush, unacked, out);
                *page = Clean;
            }
            (E::Release { .. }, Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_)) => {}
            // TrackedDirty before the home moved: its release has been.
            (E::Wrote, Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty) => {}
            (
                E::DiffAck { flush, count },
                Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty,
            ) if site.dynamic_after.is_none() || *unacked >= *count => {
                *unacked = unacked.saturating_sub(*count);
                out.push(Effect::Acked { flush: *flush, count: *count });
                if *unacked == 0 {
                    match page {
                        FetchQueued(wait) => {
                            let (kind, asks) = (wait.kind, wait.asks);
                            let waiters = core::mem::take(&mut wait.waiters);
                            let wait = Wait { asks, ..Wait::of(kind, waiters) };
                            *page = ask(site, at, epoch, 0, wait, out);
                        }
                        Upgrading(wait) => {
                            let waiters = core::mem::take(&mut wait.waiters);
                            open(site, waiters, out);
                            *page = Dirty;
                        }
                        Invalid | Fetching(_) | Clean | Dirty => {}
                    }
                }
            }
            // Acquire: forget what is old; what was written here beside it goes home first.
            (E::Notice { .. }, Invalid | FetchQueued(_)) => {}
            (E::Notice { .. }, Fetching(wait)) => wait.stale = true,
            (E::Notice { .. }, Clean) => {
                let (from, to) = (Access::ReadOnly, Access::NoAccess);
                out.push(Effect::Protect { minipage, from, to });
                *page = Invalid;
            }
            (E::Notice { .. }, Upgrading(wait)) => {
                let (from, to) = (Access::ReadOnly, Access::NoAccess);
                out.push(Effect::Protect { minipage, from, to });
                let waiters = core::mem::take(&mut wait.waiters);
                *page = FetchQueued(Box::new(Wait::of(Kind::Write, waiters)));
            }
            (E::Notice { flush }, Dirty) => {
                let (from, to) = (Access::ReadWrite, Access::NoAccess);
                out.push(Effect::Protect { minipage, from, to });
                flush_home(site, at, epoch, *flush, unacked, out);
                out.push(Effect::Clean { minipage });
                *page = Invalid;
            }

            // The only writer since the last barrier has what the home has.
            (E::Move { home: to }, Clean) if *to == site.me => {
                moves.count(site, *to);
                let home = Home::shared(site, Access::ReadOnly, out);
                *self = Self::Home { home, moves: *moves };
            }
            (E::Move { home: to }, Invalid | Clean | Fetching(_)) if *to != site.me => {
                moves.count(site, *to);
                *home = *to;
                if let Fetching(wait) = page {
                    wait.moved = Some(*to);
                }
            }

            // Somebody has not heard of a move, of a hand-over, or of who touched it first. Every
            // node that was the home knows one that was it later, so this has an end.
            (
                E::Fetch { requester, waits, .. },
                Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty,
            ) if *requester != site.me && at != *requester => {
                let message = HlrcMessage::Fetch { requester: *requester, epoch, waits: *waits };
                send(site, at, message, out);
            }
            (
                E::Diff { writer, flush },
                Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty,
            ) if site.dynamic_after.is_some() && *writer != site.me && at != *writer => {
                let body = HlrcMessage::Diff { writer: *writer, flush: *flush, epoch };
                out.push(Effect::ForwardDiff { to: at, message: body.about(minipage) });
            }

            // What no correct peer sends: contents nobody asked for, a diff to who is not the home,
            // a fetch of one's own, a move while somebody writes or owes a diff, an acknowledgement
            // of none.
            (
                E::Data { .. } | E::FirstTouch,
                Invalid | FetchQueued(_) | Clean | Upgrading(_) | Dirty,
            )
            | (
                E::HomeTransfer
                | E::Fetch { .. }
                | E::Diff { .. }
                | E::DiffAck { .. }
                | E::Move { .. },
                Invalid | FetchQueued(_) | Fetching(_) | Clean | Upgrading(_) | Dirty,
            ) => {
                return Err(self.illegal());
            }
        }
        Ok(())
    }

    fn illegal(&self) -> Illegal {
        Illegal { role: "copy", state: format!("{self:?}") }
    }
}

/// Opens a read copy for writes, which are told from a twin.
fn open(site: &Site, waiters: SmallVec<[ThreadId; 4]>, out: &mut Effects) {
    let minipage = site.minipage;
    out.push(Effect::Dirty { minipage });
    out.push(Effect::MakeTwin { minipage });
    let (from, to) = (Access::ReadOnly, Access::ReadWrite);
    out.push(Effect::Protect { minipage, from, to });
    out.extend(waiters.into_iter().map(|thread| Effect::Wake { thread }));
}

/// Asks the home for the minipage, when it has the diffs that it is owed.
fn ask(site: &Site, home: NodeId, epoch: u64, unacked: u32, wait: Wait, out: &mut Effects) -> Page {
    if unacked > 0 {
        return Page::FetchQueued(Box::new(wait));
    }
    let waits = wait.asks || !wait.waiters.is_empty();
    send(site, home, HlrcMessage::Fetch { requester: site.me, epoch, waits }, out);
    Page::Fetching(Box::new(wait))
}

/// Sends what was written here to the home; no thread may write it any more.
fn flush_home(
    site: &Site,
    home: NodeId,
    epoch: u64,
    flush: u64,
    unacked: &mut u32,
    out: &mut Effects,
) {
    let minipage = site.minipage;
    out.push(Effect::Flushed { minipage, flush, awaited: true, notice: true });
    send(site, home, HlrcMessage::Diff { writer: site.me, flush, epoch }, out);
    out.push(Effect::DropTwin { minipage });
    *unacked += u32::from(site.dynamic_after.is_some());
}

pub(super) fn send(site: &Site, to: NodeId, body: HlrcMessage, out: &mut Effects) {
    out.push(Effect::Send { to, message: body.about(site.minipage) });
}

/// Tells a node that its diff is here; with the others of its flush.
pub(super) fn acknowledge(site: &Site, to: NodeId, flush: u64, out: &mut Effects) {
    let message = HlrcMessage::DiffAck { flush, count: 1 }.about(site.minipage);
    out.push(Effect::SendDeferred { to, message });
}
