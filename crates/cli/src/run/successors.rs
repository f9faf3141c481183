//! Nodes that are another process than that which was started: one that it has started in turn (fork, daemon), and that is
//! an orphan once the first has ended. The launcher, and an agent, is a child subreaper, so how an orphan ends is to be had.

use super::facts::{End, Status};
use super::job::Job;

impl Job<'_> {
    /// Looks which successors on this host have ended.
    pub(super) fn look_at_successors(&mut self) {
        for rank in 0..self.nodes.len() {
            let node = &self.facts.nodes[rank];
            if node.host.is_none()
                && let Some(pid) = node.may_be_successor()
                && let Some(status) = self.course.orphans.end_of(pid)
            {
                let kills = status.is_sigkill().then(|| self.settings.memory_kills.file());
                self.successor_has_ended(rank, status, kills.flatten());
            }
            self.succeed(rank);
        }
    }

    /// Reaps what has ended of what nodes have left, and looks at it before.
    pub(super) fn reap_orphans(&mut self) {
        self.look_at_successors();
        let known = self.own_children();
        self.course.orphans.reap_but(&known);
    }

    /// The end of a process that is the node, or would have been.
    pub(super) fn successor_has_ended(
        &mut self,
        rank: usize,
        status: Status,
        memory_kills: Option<String>,
    ) {
        self.facts.successor_ends.entry(rank).or_insert((status, memory_kills));
        self.succeed(rank);
    }

    /// The successor is the process of the node once it is one, and its end known.
    fn succeed(&mut self, rank: usize) {
        let (Some(pid), Some((status, memory_kills))) =
            (self.facts.nodes[rank].successor(), self.facts.successor_ends.get(&rank).cloned())
        else {
            return;
        };
        let (at, order) = (self.now(), self.facts.next_order());
        let node = &mut self.facts.nodes[rank];
        node.pid = pid;
        node.end = Some(End { at, order, status });
        node.memory_kills = memory_kills;
    }

    /// A node that may be a successor joins: its agent is to say how it ends.
    pub(super) fn await_successor(&mut self, rank: usize, pid: i32) {
        let node = &self.facts.nodes[rank];
        if node.host.is_some() && pid != node.pid {
            self.agents.await_successor(rank, pid);
        }
    }
}
