//! The steps that send write notices left unqueued by an earlier step ([`UnqueuedNotices`]).

use multigrain_protocol::release::WriteNotices;
use multigrain_types::NodeId;

use super::action::Action;
use super::program::Job;
use super::state::{Packet, State};
use super::unqueued_notices::UnqueuedNotices;

impl State {
    /// Write notices are left over from the step at hand.
    pub(super) fn leave_over(&mut self, from: NodeId, to: NodeId, notices: WriteNotices) {
        self.unqueued.push(UnqueuedNotices {
            by: None,
            from,
            to,
            packets: vec![Packet::WriteNotices(notices)],
        });
    }

    /// The step at hand has notified a node by other means than synchronization: the word goes behind the write notices.
    pub(super) fn say(&mut self, job: &Job, (from, to): (NodeId, NodeId), word: Packet) {
        let own =
            |late: &&mut UnqueuedNotices| late.by.is_none() && (late.from, late.to) == (from, to);
        match self.unqueued.iter_mut().find(own) {
            Some(late) => late.packets.push(word),
            None => self.links[job.link(from, to)].push_back(word),
        }
    }

    /// The step is over.
    pub(super) fn stepped(&mut self, action: Action) {
        let own = self.unqueued.iter_mut().filter(|late| late.by.is_none());
        own.for_each(|late| late.by = Some(action));
    }

    /// Whether somebody has to queue what it left over before.
    pub(super) fn is_stopped(&self, action: Action) -> bool {
        self.unqueued.iter().any(|late| late.stops(action))
    }

    /// What a step left over is on its way now.
    pub(super) fn queue(&mut self, job: &Job, index: usize) {
        let late = self.unqueued.remove(index);
        self.links[job.link(late.from, late.to)].extend(late.packets);
    }
}
