//! Locks: one token per lock, a queue of nodes in the order in which their requests came, and a
//! hand-over among threads of one node before the token travels.
//!
//! The manager knows only the last node in line (as in a queue lock): a request makes it tell that
//! node whom to pass the token to. A node keeps a token nobody asks for, so taking it again is
//! free. Once a successor is known, at most [`LOCAL_HANDOVERS`] local hand-overs come before it, or [`RETURNS`] of threads that
//! are likely to take the lock again at once: a node of several such threads has a turn as long as a node of one.
//!
//! A node with more idle tokens than it keeps offers some to their managers. An offer moves nothing:
//! the manager gets in line as if a thread of its own had asked, unless somebody else is in line by
//! then, and the token comes as tokens do. So nobody has to know of tokens that are on their way back.
//!
//! A thread that *tries* goes into line like any other. The node before it says whether the lock is taken
//! (`Busy`); if so the thread is refused, and its node keeps its place: the token comes in its turn, and
//! is passed on or kept. So a free lock is always had, wherever its token is or goes, and no token is lost.
//! A node in line that waits for nobody does not know: it asks the one before it (`Probe`). A thread whose
//! time is over becomes one that tries.
//!
//! A *window* keeps the lock free here for a short time after an unlock, though a successor waits (MIRAGE+ 2.1: a
//! time window, of a lock). The runtime asks for one ([`SyncInput::UnlockToReacquire`]) if the thread is likely to
//! take the lock again soon. If it does, no message is needed. If it is likely to be back at once, sooner than another thread
//! of this node would run, such threads wait for the window as well. The window ends, and the next in line has the lock:
//!
//! - when the runtime's clock says so ([`SyncInput::LockWindowOver`]);
//! - when the lock was taken [`RETURNS`] times since a successor is known, or [`LOCAL_RETURNS`] times by one thread;
//! - when the successor asks whether it has to wait (`Probe`), for a thread of it that tries, or when a waiting thread's
//!   time is over.
//!
//! So nobody waits longer than one window for a thread that does not come back.
//!
//! [`SyncInput::UnlockToReacquire`]: super::SyncInput::UnlockToReacquire
//! [`SyncInput::LockWindowOver`]: super::SyncInput::LockWindowOver

use std::collections::VecDeque;

use multigrain_types::sync_id::IdName;
use multigrain_types::{NodeId, ThreadId};

use super::context::{SyncContext, SyncState};
use super::input::SyncError;
use crate::effect::{Effect, Effects};
use crate::message::LockMessage;
use crate::mutant_macro::mutant;

/// Local hand-overs allowed while another node waits for the token, of threads that need not come back.
pub const LOCAL_HANDOVERS: u8 = 8;

/// Times that a lock is taken again in its window while others wait for it, local hand-overs included where another
/// node does.
pub const RETURNS: u8 = 32;

/// The same while only threads of this node wait.
pub const LOCAL_RETURNS: u8 = 16;

/// Whether a thread that unlocks is likely to take the lock again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
    Unlikely,
    Soon,
    /// Sooner than another thread of this node would run that is woken now.
    AtOnce,
}

/// One lock as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Manager: the last node in line for the token.
    tail: NodeId,
    token: Token,
    waiting: VecDeque<Waiter>,
    successor: Option<NodeId>,
    /// Whether the successor is to be told that the lock is taken.
    tell: bool,
    /// How often the lock has gone to a thread of this node, or was kept for one, while another waited for it: since
    /// the successor is known, or without one since a waiting thread got it.
    handovers: u8,
}

/// A thread that waits for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    thread: ThreadId,
    limit: WaitLimit,
}

/// How long a thread waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WaitLimit {
    /// Until it has the lock.
    Endless,
    /// The same, unless it is withdrawn.
    Limited,
    /// Until it is known whether the lock is taken.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    Elsewhere,
    Asked(Predecessor),
    Free,
    /// Free, and offered to the manager.
    Offered,
    /// Free, and kept for a window though a successor waits.
    Kept,
    Owned(ThreadId),
    /// Of a thread that has ended: nobody's, and taken.
    Abandoned,
}

/// What a node in line knows of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Predecessor {
    /// Nothing. It tells this node that the lock is taken, or the token comes, or some thread waits
    /// for the lock without end.
    Unknown,
    Behind(NodeId),
    /// It has been asked whether the lock is taken.
    Probed(NodeId),
}

impl SyncState for Lock {
    /// The first state: the token lies free at the manager.
    fn new(context: &SyncContext) -> Self {
        let token = if context.is_manager() { Token::Free } else { Token::Elsewhere };
        let waiting = VecDeque::new();
        Self { tail: context.manager, token, waiting, successor: None, tell: false, handovers: 0 }
    }

    /// At the manager the last in line, elsewhere this node.
    fn user(&self, context: &SyncContext) -> Option<NodeId> {
        Some(if context.is_manager() { self.tail } else { context.me })
    }

    fn is_idle(&self, context: &SyncContext) -> bool {
        self.token == Token::Free && !context.is_manager()
    }
}

impl Lock {
    /// Threads of this node that wait for it until they have it, first come first.
    pub(super) fn waiters(&self) -> impl Iterator<Item = ThreadId> + '_ {
        let endless = self.waiting.iter().filter(|waiter| waiter.limit == WaitLimit::Endless);
        endless.map(|waiter| waiter.thread)
    }

    /// The thread of this node that holds the lock.
    #[must_use]
    pub fn owner(&self) -> Option<ThreadId> {
        match self.token {
            Token::Owned(thread) => Some(thread),
            Token::Elsewhere
            | Token::Asked(_)
            | Token::Free
            | Token::Offered
            | Token::Kept
            | Token::Abandoned => None,
        }
    }

    /// Whether the token is free, and stays here for a window though another node waits for it.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.token == Token::Kept
    }

    /// Whether no thread of this node holds it or waits for it, and no node waits for this one.
    pub(super) fn is_unused(&self) -> bool {
        matches!(self.token, Token::Elsewhere | Token::Free | Token::Offered)
            && self.waiting.is_empty()
            && self.successor.is_none()
    }

    pub(super) fn acquire(
        &mut self,
        context: &SyncContext,
        thread: ThreadId,
        limit: WaitLimit,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let tries = limit == WaitLimit::None;
        match self.token {
            Token::Free | Token::Offered | Token::Kept => self.give(context, thread, out),
            Token::Owned(_) | Token::Abandoned if tries => refuse(thread, out),
            Token::Owned(owner) if owner == thread => {
                return Err(SyncError::Misuse(format!(
                    "lock {} is held by this thread already",
                    IdName(context.id)
                )));
            }
            Token::Owned(_) | Token::Abandoned => {
                self.waiting.push_back(Waiter { thread, limit });
            }
            // The token is theirs when it comes.
            Token::Asked(_) if tries && self.is_wanted() => refuse(thread, out),
            Token::Asked(_) => {
                self.waiting.push_back(Waiter { thread, limit });
                if tries {
                    self.probe(context, out);
                }
            }
            Token::Elsewhere => {
                self.waiting.push_back(Waiter { thread, limit });
                self.ask(context, out);
            }
        }
        Ok(())
    }

    /// The thread waits no longer, unless the lock is free: it tries from now on.
    pub(super) fn withdraw(&mut self, context: &SyncContext, thread: ThreadId, out: &mut Effects) {
        // A free lock is had.
        self.end_window(context, out);
        let Some(place) = self.waiting.iter().position(|waiter| waiter.thread == thread) else {
            return;
        };
        self.waiting[place].limit = WaitLimit::None;
        if !matches!(self.token, Token::Asked(_)) || self.is_wanted() {
            self.waiting.remove(place);
            refuse(thread, out);
        } else {
            self.probe(context, out);
        }
    }

    /// The thread has ended: if it holds the lock, nobody else ever will.
    pub(super) fn abandon(&mut self, thread: ThreadId) {
        if self.owner() == Some(thread) {
            self.token = Token::Abandoned;
        }
    }

    pub(super) fn release(
        &mut self,
        context: &SyncContext,
        (thread, returns): (ThreadId, Returns),
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if self.owner() != Some(thread) {
            return Err(SyncError::Misuse(format!(
                "unlock of lock {}, which this thread does not hold",
                IdName(context.id)
            )));
        }
        let keeps = match returns {
            Returns::Unlikely => false,
            Returns::Soon => self.successor.is_some() && self.waiting.is_empty(),
            Returns::AtOnce => self.successor.is_some() || !self.waiting.is_empty(),
        };
        let most = if self.successor.is_some() { RETURNS } else { LOCAL_RETURNS };
        if keeps && self.handovers < most {
            self.handovers += 1;
            self.token = Token::Kept;
            return Ok(());
        }
        let most = if returns == Returns::Unlikely { LOCAL_HANDOVERS } else { RETURNS };
        self.hand_over(context, most, out);
        Ok(())
    }

    /// The lock goes to the next thread of this node, or to the next node if `most` threads had it before.
    fn hand_over(&mut self, context: &SyncContext, most: u8, out: &mut Effects) {
        let local_first = self.successor.is_none() || self.handovers < most;
        match self.waiting.pop_front() {
            Some(next) if local_first => {
                self.handovers = if self.successor.is_some() { self.handovers + 1 } else { 0 };
                self.give(context, next.thread, out);
            }
            Some(next) => {
                self.waiting.push_front(next);
                self.pass_on(context, out);
            }
            None => self.free(context, out),
        }
    }

    /// The window of a token that is kept is over.
    pub(super) fn end_window(&mut self, context: &SyncContext, out: &mut Effects) {
        mutant!("kept-token-stays" => {
            return;
        });
        if self.token == Token::Kept {
            self.hand_over(context, LOCAL_HANDOVERS, out);
        }
    }

    /// Nobody here wants the token.
    fn free(&mut self, context: &SyncContext, out: &mut Effects) {
        self.token = Token::Free;
        self.pass_on(context, out);
    }

    /// Lets the manager have an idle token.
    pub(super) fn offer(&mut self, context: &SyncContext, out: &mut Effects) {
        self.token = Token::Offered;
        context.send(context.manager, LockMessage::Offer.about(context.id), out);
    }

    pub(super) fn receive(
        &mut self,
        context: &SyncContext,
        from: NodeId,
        message: LockMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let illegal =
            |state: &Self| Err(SyncError::Illegal(format!("{message:?} meets {state:?}")));
        match message {
            LockMessage::Request { tell } if context.is_manager() && self.tail != from => {
                let last = core::mem::replace(&mut self.tail, from);
                context.send(last, LockMessage::Recall { to: from, tell }.about(context.id), out);
                Ok(())
            }
            LockMessage::Recall { to, tell }
                if from == context.manager && self.successor.is_none() =>
            {
                mutant!("lock-token-copied" => {
                    context.send(to, LockMessage::Grant.about(context.id), out);
                });
                if self.token == Token::Elsewhere {
                    return illegal(self);
                }
                (self.successor, self.handovers) = (Some(to), 0);
                match self.token {
                    Token::Free | Token::Offered => self.pass_on(context, out),
                    Token::Kept => self.give_way(tell, context, out),
                    Token::Owned(_) | Token::Abandoned | Token::Asked(_) | Token::Elsewhere => {
                        self.answer(tell, context, out);
                    }
                }
                Ok(())
            }
            LockMessage::Grant if matches!(self.token, Token::Asked(_)) => {
                match self.waiting.pop_front() {
                    Some(next) => {
                        self.give(context, next.thread, out);
                        self.refuse_tries(out);
                    }
                    // It was offered, or who wanted it has been refused.
                    None => self.free(context, out),
                }
                Ok(())
            }
            LockMessage::Busy if matches!(self.token, Token::Asked(_)) => {
                self.token = Token::Asked(Predecessor::Behind(from));
                self.refuse_tries(out);
                self.tell_successor(context, out);
                Ok(())
            }
            LockMessage::Probe if self.token == Token::Kept && self.successor == Some(from) => {
                self.give_way(true, context, out);
                Ok(())
            }
            // If it is not the next in line, the token is on its way to it.
            LockMessage::Probe => {
                self.answer(self.successor == Some(from), context, out);
                Ok(())
            }
            // Somebody else is in line: a recall is on its way already.
            LockMessage::Offer if context.is_manager() && self.tail != from => Ok(()),
            LockMessage::Offer if context.is_manager() && self.token == Token::Elsewhere => {
                (self.tail, self.token) = (context.me, Token::Asked(Predecessor::Behind(from)));
                let recall = LockMessage::Recall { to: context.me, tell: false };
                context.send(from, recall.about(context.id), out);
                Ok(())
            }
            LockMessage::Request { .. }
            | LockMessage::Recall { .. }
            | LockMessage::Grant
            | LockMessage::Busy
            | LockMessage::Offer => illegal(self),
        }
    }

    fn give(&mut self, context: &SyncContext, thread: ThreadId, out: &mut Effects) {
        self.token = Token::Owned(thread);
        out.push(Effect::Wake { thread });
        self.tell_successor(context, out);
    }

    /// Whether a thread of this node waits that is not content to learn that the lock is taken.
    fn is_wanted(&self) -> bool {
        self.waiting.iter().any(|waiter| waiter.limit != WaitLimit::None)
    }

    /// Gets in line.
    fn ask(&mut self, context: &SyncContext, out: &mut Effects) {
        self.token = Token::Asked(Predecessor::Unknown);
        let tell = self.waiting.iter().any(|waiter| waiter.limit != WaitLimit::Endless);
        context.send(context.manager, LockMessage::Request { tell }.about(context.id), out);
    }

    /// Asks the node before this one whether the lock is taken, unless the answer is on its way.
    fn probe(&mut self, context: &SyncContext, out: &mut Effects) {
        if let Token::Asked(Predecessor::Behind(before)) = self.token {
            self.token = Token::Asked(Predecessor::Probed(before));
            context.send(before, LockMessage::Probe.about(context.id), out);
        }
    }

    /// The successor is to be told whether the lock is taken, perhaps: now, or when it is known.
    fn answer(&mut self, tell: bool, context: &SyncContext, out: &mut Effects) {
        self.tell |= tell;
        if matches!(self.token, Token::Asked(_)) && !self.is_wanted() {
            if self.tell {
                self.probe(context, out);
            }
        } else {
            self.tell_successor(context, out);
        }
    }

    /// The token is kept. A free lock is had by who asks for it: if the successor asks, it or who waited before it gets the
    /// lock now.
    fn give_way(&mut self, asks: bool, context: &SyncContext, out: &mut Effects) {
        self.tell |= asks;
        if asks {
            self.end_window(context, out);
        }
    }

    fn tell_successor(&mut self, context: &SyncContext, out: &mut Effects) {
        if core::mem::take(&mut self.tell)
            && let Some(to) = self.successor
        {
            context.send(to, LockMessage::Busy.about(context.id), out);
        }
    }

    /// The lock is taken.
    fn refuse_tries(&mut self, out: &mut Effects) {
        self.waiting.retain(|&Waiter { thread, limit }| {
            let waits = limit != WaitLimit::None;
            if !waits {
                refuse(thread, out);
            }
            waits
        });
    }

    /// Sends the token to the successor, if one is known, and gets in line again for those left.
    fn pass_on(&mut self, context: &SyncContext, out: &mut Effects) {
        let Some(to) = self.successor.take() else { return };
        (self.handovers, self.tell) = (0, false);
        self.token = Token::Elsewhere;
        context.send(to, LockMessage::Grant.about(context.id), out);
        if !self.waiting.is_empty() {
            self.ask(context, out);
        }
    }
}

fn refuse(thread: ThreadId, out: &mut Effects) {
    out.extend([Effect::Refuse { thread }, Effect::Wake { thread }]);
}
