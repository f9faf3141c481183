//! Local client and remote client: a node's own copy of a minipage (MGS Figure 22, arcs 1 to 27).

use multigrain_types::{Access, NodeId, ThreadId};
use smallvec::SmallVec;

use crate::context::{EngineContext, Illegal};
use crate::effect::{AckFrom, Effect, Effects};
use crate::message::{Kind, MgsMessage};
use crate::mgs::row_coverage::mark;
use crate::mutant_macro::mutant;

/// A node's state for one minipage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Client {
    page: Page,
    /// Flushes whose REL for this minipage has no RACK yet, oldest first.
    releasing: SmallVec<[u64; 1]>,
}

/// The paper's `pagestate` and TLB state in one, for all threads share a page table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
enum Page {
    /// `TLB_INV`: not here.
    #[default]
    Invalid,
    /// `BUSY`: asked for. These threads wait.
    Busy(Box<OpenRequest>),
    /// `TLB_READ`, pagestate READ.
    Read,
    /// `TLB_READ`, pagestate WRITE: written here before, the home is up to date since a 1WINV. The
    /// next write asks nobody.
    Clean,
    /// `TLB_WRITE`: in the delayed update queue, or its REL is on its way. Off the home it has a
    /// twin.
    Dirty,
    /// Single-writer mode (3.2.3): releases pass it by.
    Single(Since),
}

/// Where the contents are that a single writer's changes are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Since {
    /// In a twin, or at hand: this is the home.
    Twin,
    /// Nowhere: this node has had the only copy since it allocated it.
    Allocated,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OpenRequest {
    kind: Kind,
    waiters: SmallVec<[ThreadId; 4]>,
}

/// What can happen to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the paper's messages, and the fields of inputs")]
pub enum ClientEvent {
    /// A thread of this node trapped: RTLBFault or WTLBFault.
    Fault { thread: ThreadId, kind: Kind },
    /// A copy is wanted and nobody waits for it.
    Prefetch { kind: Kind },
    /// Release: this node's writes shall be seen; part of flush number `flush`.
    Release { flush: u64 },
    /// RDAT.
    ReadData,
    /// WDAT.
    WriteData,
    /// RACK.
    ReleaseAck,
    /// INV. What was written and not released goes with flush number `flush`, the node's next.
    Invalidate { flush: u64 },
    /// 1WINV.
    SingleWriterInvalidate,
    /// 1WGR.
    SingleWriterGrant,
}

impl Client {
    /// The allocating node's first state: the only copy, in single-writer mode.
    #[must_use]
    pub fn owner() -> Self {
        Self { page: Page::Single(Since::Allocated), releasing: SmallVec::new() }
    }

    /// The access this node's threads have.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.page {
            Page::Invalid | Page::Busy(_) => Access::NoAccess,
            Page::Read | Page::Clean => Access::ReadOnly,
            Page::Dirty | Page::Single(_) => Access::ReadWrite,
        }
    }

    /// Whether contents may arrive: they have been asked for.
    #[must_use]
    pub fn may_receive(&self) -> bool {
        matches!(self.page, Page::Busy(_))
    }

    /// Whether nothing is on its way for this node.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.releasing.is_empty() && !matches!(self.page, Page::Busy(_))
    }

    /// Whether releases pass this node's copy by (3.2.3).
    #[must_use]
    pub fn is_single_writer(&self) -> bool {
        matches!(self.page, Page::Single(_))
    }

    /// One step; effects are appended to `out`.
    ///
    /// # Errors
    /// [`Illegal`] when no correct peer can have sent this event in this state.
    #[expect(clippy::too_many_lines, reason = "Figure 22, one row per arc")]
    pub fn handle(
        &mut self,
        context: &EngineContext,
        event: &ClientEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        use ClientEvent as E;
        use Page::{Busy, Clean, Dirty, Invalid, Read, Single};

        match (event, &mut self.page) {
            // Arc 1, RTLBFault, pagestate != INV, and arc 3/4, WTLBFault, pagestate == WRITE: with
            // one page table a mapping that is here is here for all; only the tables lag.
            (E::Fault { thread, kind: Kind::Read }, Read | Clean)
            | (E::Fault { thread, .. }, Dirty | Single(_)) => {
                mark!(SpuriousFault);
                out.push(Effect::Reprotect { minipage: context.minipage, access: self.access() });
                out.push(Effect::Wake { thread: *thread });
            }
            // Arcs 3 and 4, WTLBFault, pagestate == WRITE: the first write since a 1WINV.
            (E::Fault { thread, kind: Kind::Write }, Clean) => {
                mark!(WriteClean);
                self.dirty(context, Access::ReadOnly, out);
                out.push(Effect::Wake { thread: *thread });
            }
            // Arcs 2, 15 and 8, WTLBFault, pagestate == READ: UPGRADE, make twin, UP_ACK; WNOTIFY.
            (E::Fault { thread, kind: Kind::Write }, Read) => {
                mark!(Upgrade);
                self.dirty(context, Access::ReadOnly, out);
                send(context, context.manager, MgsMessage::WriteNotify, out);
                out.push(Effect::Wake { thread: *thread });
            }
            // Arc 5, RTLBFault or WTLBFault, pagestate == INV: RREQ or WREQ to the home.
            (E::Fault { thread, kind }, Invalid) => {
                mark!(AskRead, or AskWrite if *kind == Kind::Write);
                self.request(context, *kind, Some(*thread), out);
            }
            // Another thread of this node waits already (the paper's lock of the mapping).
            (E::Fault { thread, .. }, Busy(wait)) => {
                mark!(JoinWait);
                wait.waiters.push(*thread);
            }

            (E::Prefetch { kind }, Invalid) => {
                mark!(Prefetch);
                self.request(context, *kind, None, out);
            }
            (E::Prefetch { .. }, Busy(_) | Read | Clean | Dirty | Single(_)) => {}

            // Arc 6, RDAT: map page, pagestate = READ.
            (E::ReadData, Busy(wait)) if wait.kind == Kind::Read => {
                mark!(ReadData);
                self.open(context, Access::ReadOnly, out);
            }
            // Arc 7, WDAT: map page, pagestate = WRITE, DUQ += addr. The twin is made of what came.
            (E::WriteData, Busy(wait)) if wait.kind == Kind::Write => {
                mark!(WriteData);
                self.open(context, Access::ReadWrite, out);
            }

            // Release, arcs 8 to 10: REL for the head of the queue; the node's tracker takes them
            // all at once and waits for every RACK.
            (E::Release { flush }, Dirty) => {
                mutant!("release-skips-page" => {
                    return Ok(());
                });
                mark!(Release);
                self.flush(context, *flush, out);
            }
            // Arcs 12 and 13: an invalidation or a grant took it off the queue meanwhile.
            (E::Release { .. }, Invalid | Busy(_) | Read | Clean | Single(_)) => {
                mark!(ReleasePassed);
            }
            // Arcs 9 and 10, RACK.
            (E::ReleaseAck, Invalid | Busy(_) | Read | Clean | Dirty | Single(_))
                if !self.releasing.is_empty() =>
            {
                mark!(ReleaseAck);
                let (flush, by) = (self.releasing.remove(0), AckFrom::Any);
                out.push(Effect::Acked { flush, count: 1, by });
            }

            // Arcs 16 and 18, INV, pagestate == READ: free page, ACK. (PINV is the protection.)
            (E::Invalidate { .. }, Read) => {
                mark!(InvalidateRead);
                self.close(context, out);
                send(context, context.manager, MgsMessage::Ack, out);
            }
            // Arcs 19 and 21, INV, pagestate == WRITE: nothing has changed since a 1WINV.
            (E::Invalidate { .. }, Clean) => {
                mark!(InvalidateClean);
                self.close(context, out);
                send(context, context.manager, MgsMessage::Ack, out);
            }
            // Arcs 19 and 21, INV, pagestate == WRITE: make diff, free page, DIFF.
            (E::Invalidate { .. }, Single(Since::Twin)) => {
                mark!(InvalidateSingle);
                self.give_up(context, out);
            }
            (E::Invalidate { flush }, Dirty) => {
                mark!(InvalidateWritten, or InvalidateUnreleased if self.releasing.is_empty());
                // Not released yet, and no longer in the queue: this node's next release must not
                // end before the other copies are gone. The paper's table has no such row.
                let unreleased = self.releasing.is_empty();
                if mutant!("unreleased-without-release": false, else unreleased) {
                    self.flush(context, *flush, out);
                }
                self.give_up(context, out);
            }
            // The same for a copy that never had a twin: all of it, as after a 1WINV.
            (E::Invalidate { .. }, Single(Since::Allocated)) => {
                mark!(InvalidateAllocated);
                self.close(context, out);
                send(context, context.manager, MgsMessage::SingleWriterData, out);
            }
            // Arcs 22 to 24, 1WINV: clean page, 1WDATA. The page stays, pagestate WRITE, but no
            // thread may write it unseen (PINV).
            (E::SingleWriterInvalidate, Dirty) => {
                mark!(SingleInvalidate);
                out.push(Effect::Clean { minipage: context.minipage });
                let (from, to) = (Access::ReadWrite, Access::ReadOnly);
                out.push(Effect::Protect { minipage: context.minipage, from, to });
                mutant!("keeper-writes-on" => { out.pop(); });
                if context.me != context.manager {
                    out.push(Effect::DropTwin { minipage: context.minipage });
                }
                self.page = Clean;
                send(context, context.manager, MgsMessage::SingleWriterData, out);
            }
            (E::SingleWriterInvalidate, Clean) => {
                mark!(SingleInvalidateClean);
                send(context, context.manager, MgsMessage::SingleWriterData, out);
            }
            // Arcs 25 to 27, 1WGR: P2INV takes it off the queue, ACK1W. The twin is kept: it is
            // what the home has.
            (E::SingleWriterGrant, Dirty) => {
                mark!(SingleGrant);
                out.push(Effect::Clean { minipage: context.minipage });
                self.page = Single(Since::Twin);
                send(context, context.manager, MgsMessage::SingleWriterAck, out);
                mutant!("single-writer-without-twin" => {
                    if context.me != context.manager {
                        out.push(Effect::DropTwin { minipage: context.minipage });
                    }
                });
            }

            // What no correct home sends: data nobody asked for, an RACK without a REL, an
            // invalidation or a grant for a copy that is not here or not written.
            (
                E::ReadData | E::WriteData | E::ReleaseAck,
                Invalid | Busy(_) | Read | Clean | Dirty | Single(_),
            )
            | (E::Invalidate { .. }, Invalid | Busy(_))
            | (E::SingleWriterInvalidate, Invalid | Busy(_) | Read | Single(_))
            | (E::SingleWriterGrant, Invalid | Busy(_) | Read | Clean | Single(_)) => {
                return Err(Illegal { role: "client", state: format!("{self:?}") });
            }
        }
        Ok(())
    }

    fn request(
        &mut self,
        context: &EngineContext,
        kind: Kind,
        thread: Option<ThreadId>,
        out: &mut Effects,
    ) {
        let waiters = thread.into_iter().collect();
        self.page = Page::Busy(Box::new(OpenRequest { kind, waiters }));
        let message = match kind {
            Kind::Read => MgsMessage::ReadRequest,
            Kind::Write => MgsMessage::WriteRequest,
        };
        send(context, context.manager, message, out);
    }

    /// A copy here becomes writable, and its writes are remembered.
    fn dirty(&mut self, context: &EngineContext, from: Access, out: &mut Effects) {
        let minipage = context.minipage;
        // First the queue and the twin, then the door: from here on threads write unseen.
        out.push(Effect::Dirty { minipage });
        if context.me != context.manager {
            out.push(Effect::MakeTwin { minipage });
        }
        out.push(Effect::Protect { minipage, from, to: Access::ReadWrite });
        self.page = Page::Dirty;
    }

    fn open(&mut self, context: &EngineContext, access: Access, out: &mut Effects) {
        let minipage = context.minipage;
        let Page::Busy(wait) = core::mem::take(&mut self.page) else {
            unreachable!("only a busy client is answered");
        };
        let at_home = context.me == context.manager;
        if access == Access::ReadWrite {
            out.push(Effect::Dirty { minipage });
            if !at_home {
                out.push(Effect::MakeTwin { minipage });
            }
        }
        if at_home {
            out.push(Effect::Protect { minipage, from: Access::NoAccess, to: access });
        } else {
            out.push(Effect::Install { minipage, access });
        }
        self.page = if access == Access::ReadWrite { Page::Dirty } else { Page::Read };
        out.extend(wait.waiters.iter().map(|&thread| Effect::Wake { thread }));
    }

    fn flush(&mut self, context: &EngineContext, flush: u64, out: &mut Effects) {
        self.releasing.push(flush);
        let minipage = context.minipage;
        out.push(Effect::Flushed { minipage, flush, awaited: Some(AckFrom::Any), notice: false });
        send(context, context.manager, MgsMessage::Release, out);
    }

    /// Arcs 19 and 21: make diff, free page, DIFF; arc 12, DUQ -= addr. On the home the changes are
    /// in place.
    fn give_up(&mut self, context: &EngineContext, out: &mut Effects) {
        out.push(Effect::Clean { minipage: context.minipage });
        self.close(context, out);
        if context.me == context.manager {
            send(context, context.manager, MgsMessage::Ack, out);
        } else {
            let diff = mutant!("diff-forgotten": MgsMessage::Ack, else MgsMessage::Diff);
            send(context, context.manager, diff, out);
            out.push(Effect::DropTwin { minipage: context.minipage });
        }
    }

    fn close(&mut self, context: &EngineContext, out: &mut Effects) {
        let from = self.access();
        out.push(Effect::Protect { minipage: context.minipage, from, to: Access::NoAccess });
        self.page = Page::Invalid;
    }
}

fn send(context: &EngineContext, to: NodeId, body: MgsMessage, out: &mut Effects) {
    out.push(Effect::Send { to, message: body.about(context.minipage) });
}
