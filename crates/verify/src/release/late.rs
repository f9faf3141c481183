//! Write notices that a step has left over: the tracker counts them as sent, and nobody has queued them yet.
//!
//! In the runtime such write notices lie with the thread that took the step until it goes on, and the other
//! threads of its node run meanwhile: what they send goes first. Only whoever took the step waits, and what
//! the program says behind the write notices waits with them. A correct node leaves none over, for write notices are
//! followed by the message they belong to or are sent alone, so this costs no state.

use core::fmt;

use multigrain_protocol::release::WriteNotices;
use multigrain_types::NodeId;

use super::program::Job;
use super::state::{Packet, State};
use super::step::Action;

/// What one step has left over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Late {
    /// The step; `None` while it is taken.
    by: Option<Action>,
    from: NodeId,
    to: NodeId,
    packets: Vec<Packet>,
}

impl Late {
    /// Whether the thread that took the step would have to take this one.
    fn stops(&self, action: Action) -> bool {
        match (self.by, action) {
            (Some(Action::Run(thread)), Action::Run(other)) => thread == other,
            // One thread of a node receives.
            (Some(Action::Deliver { to, .. }), Action::Deliver { to: other, .. }) => to == other,
            (_, Action::Run(_) | Action::Deliver { .. } | Action::Queue(_)) => false,
        }
    }
}

impl fmt::Display for Late {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} queues its write notices for {}", self.from, self.to)
    }
}

impl State {
    /// Write notices are left over from the step at hand.
    pub(super) fn leave_over(&mut self, from: NodeId, to: NodeId, notices: WriteNotices) {
        self.late.push(Late { by: None, from, to, packets: vec![Packet::WriteNotices(notices)] });
    }

    /// The step at hand has notified a node by other means than synchronization: the word goes behind the write notices.
    pub(super) fn say(&mut self, job: &Job, (from, to): (NodeId, NodeId), word: Packet) {
        let own = |late: &&mut Late| late.by.is_none() && (late.from, late.to) == (from, to);
        match self.late.iter_mut().find(own) {
            Some(late) => late.packets.push(word),
            None => self.links[job.link(from, to)].push_back(word),
        }
    }

    /// The step is over.
    pub(super) fn stepped(&mut self, action: Action) {
        let own = self.late.iter_mut().filter(|late| late.by.is_none());
        own.for_each(|late| late.by = Some(action));
    }

    /// Whether somebody has to queue what it left over before.
    pub(super) fn is_stopped(&self, action: Action) -> bool {
        self.late.iter().any(|late| late.stops(action))
    }

    /// What a step left over is on its way now.
    pub(super) fn queue(&mut self, job: &Job, index: usize) {
        let late = self.late.remove(index);
        self.links[job.link(late.from, late.to)].extend(late.packets);
    }
}
