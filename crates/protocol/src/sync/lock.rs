//! Locks: one token per lock, a queue of nodes in the order in which their requests came, and a
//! hand-over among threads of one node before the token travels.
//!
//! The manager knows only the last node in line (as in a queue lock): a request makes it tell that
//! node whom to pass the token to. A node keeps a token nobody asks for, so taking it again is
//! free. Once a successor is known, at most [`LOCAL_HANDOVERS`] local hand-overs come before it.
//!
//! A node with more idle tokens than it keeps offers some to their managers. An offer moves nothing:
//! the manager gets in line as if a thread of its own had asked, unless somebody else is in line by
//! then, and the token comes as tokens do. So nobody has to know of tokens that are on their way back.

use std::collections::VecDeque;

use multigrain_types::{NodeId, ThreadId};

use super::input::SyncError;
use super::site::{SyncSite, SyncState};
use crate::bend::mutant;
use crate::effect::{Effect, Effects};
use crate::message::LockMessage;

/// Local hand-overs allowed while another node waits for the token.
pub const LOCAL_HANDOVERS: u8 = 8;

/// One lock as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Manager: the last node in line for the token.
    tail: NodeId,
    token: Token,
    waiting: VecDeque<ThreadId>,
    successor: Option<NodeId>,
    handovers: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Token {
    Elsewhere,
    Asked,
    Free,
    /// Free, and offered to the manager.
    Offered,
    Owned(ThreadId),
}

impl SyncState for Lock {
    /// The first state: the token lies free at the manager.
    fn new(site: &SyncSite) -> Self {
        let token = if site.is_manager() { Token::Free } else { Token::Elsewhere };
        Self { tail: site.manager, token, waiting: VecDeque::new(), successor: None, handovers: 0 }
    }

    /// At the manager the last in line, elsewhere this node.
    fn user(&self, site: &SyncSite) -> Option<NodeId> {
        Some(if site.is_manager() { self.tail } else { site.me })
    }

    fn is_idle(&self, site: &SyncSite) -> bool {
        self.token == Token::Free && !site.is_manager()
    }
}

impl Lock {
    /// The thread of this node that holds the lock.
    #[must_use]
    pub fn owner(&self) -> Option<ThreadId> {
        match self.token {
            Token::Owned(thread) => Some(thread),
            Token::Elsewhere | Token::Asked | Token::Free | Token::Offered => None,
        }
    }

    /// Whether no thread of this node holds it or waits for it, and no node waits for this one.
    pub(super) fn is_unused(&self) -> bool {
        matches!(self.token, Token::Elsewhere | Token::Free | Token::Offered)
            && self.waiting.is_empty()
            && self.successor.is_none()
    }

    pub(super) fn acquire(
        &mut self,
        site: &SyncSite,
        thread: ThreadId,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        match self.token {
            Token::Free | Token::Offered => self.give(thread, out),
            Token::Owned(owner) if owner == thread => {
                return Err(SyncError::Misuse(format!(
                    "lock {} is held by this thread already",
                    site.id
                )));
            }
            Token::Owned(_) | Token::Asked => self.waiting.push_back(thread),
            Token::Elsewhere => {
                self.waiting.push_back(thread);
                self.token = Token::Asked;
                site.send(site.manager, LockMessage::Request.about(site.id), out);
            }
        }
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        site: &SyncSite,
        thread: ThreadId,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if self.owner() != Some(thread) {
            return Err(SyncError::Misuse(format!(
                "unlock of lock {}, which this thread does not hold",
                site.id
            )));
        }
        let local_first = self.successor.is_none() || self.handovers < LOCAL_HANDOVERS;
        match self.waiting.pop_front() {
            Some(next) if local_first => {
                self.handovers += u8::from(self.successor.is_some());
                self.give(next, out);
            }
            Some(next) => {
                self.waiting.push_front(next);
                self.pass_on(site, out);
            }
            None => {
                self.token = Token::Free;
                self.pass_on(site, out);
            }
        }
        Ok(())
    }

    /// Lets the manager have an idle token.
    pub(super) fn offer(&mut self, site: &SyncSite, out: &mut Effects) {
        self.token = Token::Offered;
        site.send(site.manager, LockMessage::Offer.about(site.id), out);
    }

    pub(super) fn receive(
        &mut self,
        site: &SyncSite,
        from: NodeId,
        message: LockMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let illegal =
            |state: &Self| Err(SyncError::Illegal(format!("{message:?} meets {state:?}")));
        match message {
            LockMessage::Request if site.is_manager() && self.tail != from => {
                let last = core::mem::replace(&mut self.tail, from);
                site.send(last, LockMessage::Recall { to: from }.about(site.id), out);
                Ok(())
            }
            LockMessage::Recall { to } if from == site.manager && self.successor.is_none() => {
                mutant!("lock-token-copied" => {
                    site.send(to, LockMessage::Grant.about(site.id), out);
                });
                match self.token {
                    Token::Free | Token::Offered => {
                        self.successor = Some(to);
                        self.pass_on(site, out);
                    }
                    Token::Owned(_) | Token::Asked => self.successor = Some(to),
                    Token::Elsewhere => return illegal(self),
                }
                Ok(())
            }
            LockMessage::Grant if self.token == Token::Asked => match self.waiting.pop_front() {
                Some(thread) => {
                    self.give(thread, out);
                    Ok(())
                }
                // It was offered.
                None if site.is_manager() => {
                    self.token = Token::Free;
                    self.pass_on(site, out);
                    Ok(())
                }
                None => illegal(self),
            },
            // Somebody else is in line: a recall is on its way already.
            LockMessage::Offer if site.is_manager() && self.tail != from => Ok(()),
            LockMessage::Offer if site.is_manager() && self.token == Token::Elsewhere => {
                (self.tail, self.token) = (site.me, Token::Asked);
                site.send(from, LockMessage::Recall { to: site.me }.about(site.id), out);
                Ok(())
            }
            LockMessage::Request
            | LockMessage::Recall { .. }
            | LockMessage::Grant
            | LockMessage::Offer => illegal(self),
        }
    }

    fn give(&mut self, thread: ThreadId, out: &mut Effects) {
        self.token = Token::Owned(thread);
        out.push(Effect::Wake { thread });
    }

    /// Sends the token to the successor, if one is known, and gets in line again for those left.
    fn pass_on(&mut self, site: &SyncSite, out: &mut Effects) {
        let Some(to) = self.successor.take() else { return };
        self.handovers = 0;
        self.token = Token::Elsewhere;
        site.send(to, LockMessage::Grant.about(site.id), out);
        if !self.waiting.is_empty() {
            self.token = Token::Asked;
            site.send(site.manager, LockMessage::Request.about(site.id), out);
        }
    }
}
