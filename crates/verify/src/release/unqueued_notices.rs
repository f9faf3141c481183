//! Write notices that a step has not queued yet: the tracker counts them as sent, but no link has them.
//!
//! In the runtime such write notices lie with the thread that took the step until it goes on. The other
//! threads of its node run meanwhile, and what they send goes first. Only the thread that took the step waits,
//! and so does everything that the program does after the write notices. A correct node leaves none over, since
//! write notices are followed by the message they belong to or are sent alone; so this costs no state.

use core::fmt;

use multigrain_types::NodeId;

use super::action::Action;
use super::packet::Packet;

/// What one step has left over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnqueuedNotices {
    /// The step; `None` while it is taken.
    pub(super) by: Option<Action>,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) packets: Vec<Packet>,
}

impl UnqueuedNotices {
    /// Whether the thread that took the step would have to take this one.
    pub(super) fn stops(&self, action: Action) -> bool {
        match (self.by, action) {
            (Some(Action::Run(thread)), Action::Run(other)) => thread == other,
            // One thread of a node receives.
            (Some(Action::Deliver { to, .. }), Action::Deliver { to: other, .. }) => to == other,
            (
                _,
                Action::Run(_) | Action::Deliver { .. } | Action::EndLock(..) | Action::Queue(_),
            ) => false,
        }
    }
}

impl fmt::Display for UnqueuedNotices {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} queues its write notices for {}", self.from, self.to)
    }
}
