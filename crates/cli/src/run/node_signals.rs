//! Signals to the nodes of a job: those that the launcher gets are passed on to the process groups of all nodes, on this
//! host and by the agents on others, and so is what ends a job.
//!
//! Role: who signals what, at once. How long after SIGTERM comes SIGKILL is in [`super::escalation`]; how the launcher
//! reads its own signals in [`super::signalfd`]; processes that left their group in [`super::leftovers`].

use super::escalation::{Terminated, kill_after};
use super::facts::{EndedBy, NodeFacts};
use super::hosts::Request;
use super::job::Job;
use super::leftovers;
use rustix::process::{Signal, getpid, kill_process, kill_process_group};

impl Job<'_> {
    pub(super) fn on_signal(&mut self, signal: Signal) {
        let now = self.now();
        if signal == Signal::CHILD {
            self.keep_watchdog();
            self.look_at_successors();
            self.course.orphans.reap_later();
        } else if signal == Signal::TSTP {
            self.stop();
        } else {
            let all_over = self.facts.all_over();
            let again = signal == Signal::INT && self.interrupts.is_second(now);
            if again {
                self.facts.ended_by.get_or_insert(EndedBy::Signal(signal.as_raw()));
            }
            if again || (all_over && signal != Signal::USR1 && signal != Signal::USR2) {
                self.interrupts.end_at_once();
            }
            if signal == Signal::TERM {
                let patience = kill_after(Terminated::ByUser, self.settings.limits.kill_after);
                self.interrupts.terminates(now + patience);
            }
            self.facts.forwarded = Some(signal.as_raw());
            self.signal_nodes(if again { Signal::KILL } else { signal });
            if signal != Signal::USR1 && signal != Signal::USR2 {
                // A node that is stopped takes no signal.
                self.signal_nodes(Signal::CONT);
            }
        }
    }

    /// Sends a signal to the process groups of all nodes, and to those in sessions of their own that are nodes now.
    pub(super) fn signal_nodes(&mut self, signal: Signal) {
        for (pid, _) in self.nodes.iter().filter_map(|live| live.process.as_ref()) {
            let _ = kill_process_group(*pid, signal);
        }
        if self.facts.nodes.iter().any(NodeFacts::has_successor) {
            leftovers::signal_but(&self.own_children(), signal);
        }
        self.agents.tell_all(&Request::Signal(signal.as_raw()));
    }

    /// Ctrl-Z stops the nodes with the launcher, and `fg` wakes them with it.
    fn stop(&mut self) {
        self.signal_nodes(Signal::STOP);
        self.agents.flush();
        let _ = kill_process(getpid(), Signal::STOP);
        self.signal_nodes(Signal::CONT);
    }
}
