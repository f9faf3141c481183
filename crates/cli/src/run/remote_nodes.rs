//! What the event loop does for nodes on other hosts, which it reaches through their agents.

use super::control::{Message, printable};
use super::event_source::Source;
use super::facts::{End, Status};
use super::hosts::{AgentEvent, Stream};
use super::job::Job;
use rustix::event::epoll;
use std::io;

impl Job<'_> {
    /// What agents have said before the event loop began.
    pub(super) fn begin_elsewhere(&mut self) {
        for host in 0..self.agents.hosts() {
            self.receive(host);
        }
        self.pass_input_when_ready(&mut vec![0; super::job::BUFFER_BYTES]);
    }

    /// Tells agents that the launcher is there, and notices that one is not.
    pub(super) fn exchange_heartbeats(&mut self) {
        if self.agents.is_empty() {
            return;
        }
        if self.writer.is_full() {
            self.agents.pause(true);
        }
        for (host, why) in self.agents.beat(&self.epoll) {
            self.lose(host, &why);
        }
    }

    pub(super) fn on_agent(&mut self, host: usize, buffer: &mut [u8]) {
        let read = self.agents.read(host, buffer);
        self.receive(host);
        if let Err(why) = read {
            self.lose(host, &why);
        }
        self.pass_input_when_ready(buffer);
    }

    pub(super) fn on_agent_stderr(&mut self, host: usize, buffer: &mut [u8]) {
        for line in self.agents.read_stderr(host, buffer) {
            let line = format!("{}: {line}", self.agents.host(host));
            self.reports.agent_stderr(host, line, self.now());
        }
    }

    /// All that an agent has said and that is here as a whole.
    fn receive(&mut self, host: usize) {
        loop {
            let received = match self.agents.next(host) {
                Ok(None) => return,
                Ok(Some(event)) => self.on_event(host, event),
                Err(why) => Err(why),
            };
            if let Err(why) = received {
                return self.lose(host, &why);
            }
        }
    }

    /// One event of an agent. It speaks for its own nodes only.
    fn on_event(&mut self, host: usize, event: AgentEvent) -> Result<(), String> {
        let ranks = self.agents.ranks(host);
        let own = |rank: u32| {
            let rank = usize::try_from(rank).ok().filter(|rank| ranks.contains(rank));
            rank.ok_or_else(|| "its agent speaks for nodes of another host".to_owned())
        };
        match event {
            AgentEvent::Output { rank, stream, bytes } => {
                self.agents.check_pause(host, bytes.len())?;
                self.write_remote(own(rank)?, stream, &bytes);
            }
            AgentEvent::EndOfOutput { rank, stream } => self.end_remote(own(rank)?, stream),
            AgentEvent::Control { rank, bytes } => {
                let rank = own(rank)?;
                for mut message in self.nodes[rank].control.feed(&bytes) {
                    if let Message::Lost { at: Some(at), .. } = &mut message {
                        *at = self.agents.by_our_clock(host, *at);
                    }
                    self.on_message(rank, message);
                }
            }
            AgentEvent::Ended { rank, status, memory_kills } => {
                let rank = own(rank)?;
                self.facts.nodes[rank].memory_kills = memory_kills.map(|file| printable(&file));
                self.has_ended(rank, status);
            }
            AgentEvent::SuccessorEnded { rank, status, memory_kills } => {
                let kills = memory_kills.map(|file| printable(&file));
                self.successor_has_ended(own(rank)?, status, kills);
            }
            AgentEvent::Taken { bytes } => {
                own(0)?;
                self.input.remote.iter_mut().for_each(|stdin| stdin.has_taken(bytes))
            }
            AgentEvent::Swept => self.agents.set_swept(host),
            // What the agent had to tell before is here.
            AgentEvent::Heartbeat { .. } => {
                let heard = self.now().saturating_sub(self.agents.heard_before(host));
                for rank in ranks {
                    self.facts.heard.insert(rank, heard);
                }
            }
            AgentEvent::Busy => {}
            AgentEvent::Failed { why, .. } => return Err(printable(&why)),
            AgentEvent::Examined(_)
            | AgentEvent::Listening(_)
            | AgentEvent::Connected(_)
            | AgentEvent::Prepared(_)
            | AgentEvent::Bound { .. }
            | AgentEvent::Started { .. } => {
                return Err("its agent answers what was not asked".to_owned());
            }
        }
        Ok(())
    }

    /// A host is lost, and its nodes with it.
    fn lose(&mut self, host: usize, why: &str) {
        if !self.agents.give_up(host, &self.epoll, why) {
            return;
        }
        self.reports.withdraw(host);
        for rank in self.agents.ranks(host) {
            self.end_remote(rank, Stream::Out);
            self.end_remote(rank, Stream::Err);
            let forwarded = self.facts.forwarded;
            let node = &mut self.facts.nodes[rank];
            if let Some(end) = node.end.filter(|_| node.may_go_with_host(forwarded)) {
                node.fatal = Some(why.to_owned());
                node.end = Some(End { status: Status::Lost, ..end });
            }
            if node.has_successor() {
                // Whatever it was, it is lost.
                node.end = None;
                node.closed = true;
            }
            if self.facts.nodes[rank].end.is_none() {
                let said = self.facts.nodes[rank].fatal.take();
                let said = said.map(|said| format!("; it had said: {said}")).unwrap_or_default();
                self.facts.nodes[rank].fatal = Some(format!("{why}{said}"));
                self.has_ended(rank, Status::Lost);
            }
        }
    }

    /// The launcher's stdin has something for node 0.
    pub(super) fn pass_input_on(&mut self, buffer: &mut [u8]) {
        let Some(stdin) = &mut self.input.remote else { return };
        let Some(bytes) = stdin.read(buffer) else { return };
        let over = bytes.is_empty();
        let wait = stdin.has_room() && !over;
        if stdin.is_watched && !wait {
            stdin.is_watched = false;
            let _ = epoll::delete(&self.epoll, io::stdin());
        }
        if over {
            self.input.remote = None;
        }
        self.agents.give_input(bytes);
    }

    /// Reads the launcher's stdin as long as node 0's agent has room, or has the event loop tell when it can.
    fn pass_input_when_ready(&mut self, buffer: &mut [u8]) {
        while let Some(stdin) = &mut self.input.remote {
            if stdin.is_watched || !stdin.has_room() {
                return;
            }
            stdin.is_watched = true;
            if self.register(io::stdin(), Source::Typed).is_ok() {
                return;
            }
            // A file: always ready.
            self.input.remote.iter_mut().for_each(|stdin| stdin.is_watched = false);
            self.pass_input_on(buffer);
        }
    }
}
