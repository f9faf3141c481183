//! The state of a holder, and helpers of its rows.

use multigrain_types::{Access, NodeId, ThreadId};
use smallvec::SmallVec;

use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::message::{Kind, PageMessage, Turns};
use crate::mutant_macro::mutant;
use crate::nodeset::NodeSet;

/// A node's state for one minipage; 32 bytes while nothing is being fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    pub(super) access: Access,
    pub(super) phase: Phase,
    /// An invalidation that was passed on, until all have answered.
    pub(super) passed_on: Option<Box<PassedOn>>,
}

/// An invalidation of a tree that this node has passed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PassedOn {
    /// Who is answered.
    pub(super) above: NodeId,
    /// Who has not answered.
    pub(super) awaited: NodeSet,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    Fetching(Box<Open>),
    Granted(Box<Open>),
}

/// Whether another node waits for the ack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AckTiming {
    Deferred,
    /// Somebody waits, or did so when an instruction lost the minipage.
    Now,
}

/// A transaction of this node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Open {
    pub(super) want: Want,
    /// While fetching, threads that wait for the reply; then the pins: threads that have not used the grant yet.
    pub(super) threads: Threads,
    /// Threads that want to write what was requested for reading: the next transaction is theirs.
    pub(super) writers: Threads,
    /// The minipage was freed while this request was open.
    pub(super) reclaim_next: bool,
    pub(super) ack: AckTiming,
    /// Grants to others that were waited for.
    pub(super) turns: Turns,
}

pub(super) type Threads = SmallVec<[ThreadId; 4]>;

/// What an open request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// A read copy.
    Read,
    /// The writable copy.
    Write,
    /// The writable copy, whatever its contents: the minipage was freed.
    Reclaim,
}

impl Holder {
    /// The allocating node's first state: the writable copy.
    #[must_use]
    pub fn owner() -> Self {
        Self { access: Access::ReadWrite, ..Self::default() }
    }

    /// The access this node's threads have.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether a page may arrive: it is not accessible here and one has been asked for, or pushed.
    #[must_use]
    pub fn may_receive(&self) -> bool {
        self.access == Access::NoAccess && !matches!(self.phase, Phase::Granted(_))
    }

    /// Whether a request of this node is open.
    #[must_use]
    pub fn is_fetching(&self) -> bool {
        matches!(self.phase, Phase::Fetching(_))
    }

    /// Whether nothing is open at all.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.passed_on.is_none()
    }

    pub(super) fn illegal(&self) -> Illegal {
        Illegal { role: "holder", state: format!("{self:?}") }
    }

    pub(super) fn send(context: &EngineContext, to: NodeId, body: PageMessage, out: &mut Effects) {
        out.push(Effect::Send { to, message: body.about(context.minipage) });
    }

    pub(super) fn request(
        &mut self,
        context: &EngineContext,
        want: Want,
        threads: Threads,
        ack: AckTiming,
        out: &mut Effects,
    ) {
        let message = match want {
            Want::Read => PageMessage::Request { kind: Kind::Read },
            Want::Write => PageMessage::Request { kind: Kind::Write },
            Want::Reclaim => PageMessage::ReclaimRequest,
        };
        let writers = Threads::new();
        let open = Open { want, threads, writers, reclaim_next: false, ack, turns: Turns::NONE };
        self.phase = Phase::Fetching(Box::new(open));
        Self::send(context, context.manager, message, out);
    }

    pub(super) fn spurious(&self, context: &EngineContext, thread: ThreadId, out: &mut Effects) {
        self.reprotect(context, out);
        out.push(Effect::Wake { thread });
    }

    /// It trapped with enough access: only the page tables lag.
    pub(super) fn reprotect(&self, context: &EngineContext, out: &mut Effects) {
        out.push(Effect::Reprotect { minipage: context.minipage, access: self.access });
    }

    pub(super) fn protect(&mut self, context: &EngineContext, to: Access, out: &mut Effects) {
        out.push(Effect::Protect { minipage: context.minipage, from: self.access, to });
        self.access = to;
    }

    pub(super) fn downgrade(&mut self, context: &EngineContext, out: &mut Effects) {
        if self.access == Access::ReadWrite {
            self.protect(context, Access::ReadOnly, out);
        }
    }

    pub(super) fn install(&mut self, context: &EngineContext, access: Access, out: &mut Effects) {
        out.push(Effect::Install { minipage: context.minipage, access });
        self.access = access;
    }

    pub(super) fn acknowledge(
        &mut self,
        context: &EngineContext,
        (ack, turn_us): (AckTiming, u32),
        out: &mut Effects,
    ) {
        self.phase = Phase::Idle;
        let turn_us = mutant!("turn-not-told": 0, else turn_us);
        let (to, message) = (context.manager, PageMessage::Ack { turn_us }.about(context.minipage));
        out.push(match ack {
            AckTiming::Now => Effect::Send { to, message },
            // It goes with the next message.
            AckTiming::Deferred => Effect::SendDeferred { to, message },
        });
    }

    pub(super) fn reclaim_when_idle(
        &mut self,
        context: &EngineContext,
        writers: Threads,
        out: &mut Effects,
    ) {
        if self.access == Access::ReadWrite {
            out.push(Effect::Reclaimed { minipage: context.minipage });
        } else {
            self.request(context, Want::Reclaim, writers, AckTiming::Deferred, out);
        }
    }
}

impl Open {
    /// A thread waits too. What is asked for to read is too little for a writer.
    pub(super) fn join(&mut self, thread: ThreadId, kind: Kind) {
        if (kind, self.want) == (Kind::Write, Want::Read) {
            self.writers.push(thread);
        } else {
            self.threads.push(thread);
        }
    }
}

impl Want {
    pub(super) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
        }
    }
}

pub(super) fn waiter(thread: ThreadId) -> Threads {
    core::iter::once(thread).collect()
}
