//! The processes of the host as its agent has them: their signals, the ends of those that nodes have left, and the end of all.

use super::super::super::leftovers;
use super::super::super::watchdog::Watchdog;
use super::Agent;
use super::beats::beside_heartbeats;
use super::held_node::HeldNode;
use super::start::LocalNodes;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Write};
use std::time::Instant;

impl Agent {
    /// Puts another watchdog in the place of one that was killed.
    pub(super) fn keep_watchdog(&mut self) {
        // They are not reaped before the end, so their process groups cannot be somebody else's.
        let nodes: Vec<Pid> = self.held.iter().map(HeldNode::pid).collect();
        let line = self.local.as_mut().and_then(|local| local.watchdog_mut().keep(&nodes));
        if let Some(line) = line {
            // At once, and without this program's name: the launcher's line has that, and the host's.
            let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
        }
    }

    pub(super) fn reap(&mut self) {
        if self.orphans.are_due() {
            self.tell_successors();
            let known = self.part().known();
            beside_heartbeats(&mut self.channel, || self.orphans.reap_but(&known));
        }
    }

    /// They are reaped a while after their ends.
    pub(super) fn tell_successors(&mut self) {
        let memory_kills = || self.local.as_ref().and_then(LocalNodes::memory_kills);
        for node in &mut self.held {
            node.tell_successor(&mut self.channel, &self.orphans, memory_kills);
        }
    }

    /// Kills all nodes, and whom they have left, by which /proc is read whole.
    pub(super) fn kill_all(&mut self) {
        let part = Part { held: &self.held, local: self.local.as_ref() };
        beside_heartbeats(&mut self.channel, || part.kill_all());
    }

    pub(super) fn part(&self) -> Part<'_> {
        Part { held: &self.held, local: self.local.as_ref() }
    }
}

/// The processes of the job on this host.
pub(super) struct Part<'a> {
    held: &'a [HeldNode],
    local: Option<&'a LocalNodes>,
}

impl Part<'_> {
    pub(super) fn signal_all(&self, signal: Signal) {
        self.held.iter().for_each(|node| node.signal(signal));
        if self.held.iter().any(HeldNode::has_successor) {
            leftovers::signal_but(&self.known(), signal);
        }
    }

    /// Children that are not left over.
    fn known(&self) -> Vec<Pid> {
        let watchdog = self.local.map(LocalNodes::watchdog).into_iter().filter_map(Watchdog::pid);
        self.held.iter().map(HeldNode::pid).chain(watchdog).collect()
    }

    /// Kills all nodes, and whom they have left.
    pub(super) fn kill_all(&self) {
        self.signal_all(Signal::KILL);
        self.local.iter().for_each(|local| local.watchdog().kill_group());
        // What a node has forked becomes this process's own child once the node is dead.
        let deadline = Instant::now() + leftovers::KILL_WAIT;
        self.held.iter().for_each(|node| leftovers::wait_for_end(node.pid(), deadline));
        leftovers::kill_but(&self.known(), deadline.saturating_duration_since(Instant::now()));
        // What is not, as one needs longer to die, has the mark.
        for pid in self.local.iter().flat_map(|local| leftovers::marked(&local.mark())) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
