//! Nodes that are another process than that which was started: one that it has started in turn (fork, daemon), and that is
//! an orphan once the first has ended. The launcher, and an agent, is a child subreaper, so how an orphan ends is to be had.

use super::facts::{End, Status};
use super::job::Job;
use super::leftovers::end_of;

impl Job<'_> {
    /// Looks which successors on this host have ended. They are reaped a while after that.
    pub(super) fn look_at_successors(&mut self) {
        for rank in 0..self.nodes.len() {
            let node = &self.facts.nodes[rank];
            if node.host.is_none()
                && let Some(status) = node.successor().and_then(end_of)
            {
                self.successor_has_ended(rank, status);
            }
        }
    }

    /// The end of a node that is a successor: it is the process of the node from now on.
    pub(super) fn successor_has_ended(&mut self, rank: usize, status: Status) {
        let (at, order) = (self.now(), self.facts.next_order());
        let node = &mut self.facts.nodes[rank];
        if let Some(pid) = node.successor() {
            node.pid = pid;
            node.end = Some(End { at, order, status });
        }
    }

    /// A node that may be a successor joins: its agent is to say how it ends.
    pub(super) fn await_successor(&mut self, rank: usize, pid: i32) {
        let node = &self.facts.nodes[rank];
        if node.host.is_some() && pid != node.pid {
            self.agents.await_successor(rank, pid);
        }
    }
}
