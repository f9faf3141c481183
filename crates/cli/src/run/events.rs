//! How a job reacts to each event: a message, output, the end of a process; to a signal: [`super::node_signals`].

use super::control::{Message, Received, ask};
use super::deadlock::Next;
use super::event_source::Source;
use super::facts::{End, EndedBy, Init, Loss, NodeFacts, Status, Succession};
use super::job::{Job, Live};
use super::leftovers;
use super::output::{Pipe, Pumped};
use super::refused_connections::Caller;
use super::stdin::Waiting;
use super::writer::Target;
use multigrain_types::deadlock::Report;
use rustix::event::epoll::{self, EventFlags};
use rustix::process::Pid;
use std::io;
use std::time::Duration;

/// Buffers read of a dead node's output before its end is judged, so that its last words come
/// before the verdict.
const LAST_WORDS: usize = 16;

impl NodeFacts {
    /// Of a node that was just started here.
    pub(super) fn of(live: &Live) -> Self {
        let pid = live.process.as_ref().map_or(0, |(pid, _)| pid.as_raw_nonzero().get());
        Self { pid, ..Self::default() }
    }

    /// Of a node on another host.
    pub(super) fn elsewhere((pid, host): (i32, String)) -> Self {
        Self { pid, host: Some(host), ..Self::default() }
    }
}

impl Job<'_> {
    /// One event of the event loop.
    pub(super) fn handle(&mut self, source: Source, buffer: &mut [u8]) {
        match source {
            Source::Signals => {
                while let Some(signal) = self.interrupts.next_signal() {
                    self.on_signal(signal);
                }
            }
            Source::Writer => self.on_writer(),
            Source::Typed => self.on_typed(buffer),
            Source::Relay => self.on_room(),
            Source::Exit(rank) => self.on_exit(rank, buffer),
            Source::Control(rank) => {
                self.on_control(rank, buffer);
            }
            Source::Out(_) | Source::Err(_) => {
                self.on_output(source, buffer);
            }
            Source::Agent(host) => self.on_agent(host, buffer),
            Source::AgentStderr(host) => self.on_agent_stderr(host, buffer),
            // What is due is written after each event.
            Source::AgentRoom(_) => {}
        }
    }

    fn on_writer(&mut self) {
        self.writer.acknowledge();
        if self.writer.stdout_error().is_some() {
            self.facts.ended_by.get_or_insert(EndedBy::Unread);
        }
        if self.writer.is_full() {
            return;
        }
        self.agents.pause(false);
        for source in self.writer.release() {
            let pipe = match source {
                Source::Out(rank) => self.nodes[rank].stdout.as_ref(),
                Source::Err(rank) => self.nodes[rank].stderr.as_ref(),
                Source::Signals
                | Source::Writer
                | Source::Typed
                | Source::Relay
                | Source::Exit(_)
                | Source::Control(_)
                | Source::Agent(_)
                | Source::AgentStderr(_)
                | Source::AgentRoom(_) => None,
            };
            // Registering what was registered before cannot fail but for want of memory.
            let fd = pipe.and_then(Pipe::descriptor);
            let _ = fd.map(|fd| self.register(fd, source));
        }
    }

    /// Reads one buffer of a node's output; false when there is nothing more for now.
    fn on_output(&mut self, source: Source, buffer: &mut [u8]) -> bool {
        if self.writer.holds_back(source) {
            return false;
        }
        let full = self.writer.is_full();
        let (target, slot) = match source {
            Source::Out(rank) => (Target::Out, &mut self.nodes[rank].stdout),
            Source::Err(rank) => (Target::Err, &mut self.nodes[rank].stderr),
            Source::Signals
            | Source::Writer
            | Source::Typed
            | Source::Relay
            | Source::Exit(_)
            | Source::Control(_)
            | Source::Agent(_)
            | Source::AgentStderr(_)
            | Source::AgentRoom(_) => return false,
        };
        let Some(pipe) = slot else { return false };
        if full {
            let _ = pipe.descriptor().map(|fd| epoll::delete(&self.epoll, fd));
            self.writer.hold_back(source);
            return false;
        }
        let (bytes, more) = match pipe.pump(buffer) {
            Pumped::Some(bytes) => (bytes, true),
            Pumped::Blocked => return false,
            Pumped::End(rest) => {
                *slot = None;
                (rest, false)
            }
        };
        self.writer.push(target, bytes);
        self.writer.came(self.now());
        more
    }

    fn on_control(&mut self, rank: usize, buffer: &mut [u8]) -> Received {
        let (messages, received) = self.nodes[rank].control.receive(buffer);
        for message in messages {
            self.on_message(rank, message);
        }
        if received == Received::End
            && let Some(control) = self.nodes[rank].control.descriptor()
        {
            let _ = epoll::delete(&self.epoll, control);
            self.on_message(rank, Message::Closed);
            // It may have joined and ended before either was read.
            self.look_at_successors();
        }
        received
    }

    pub(super) fn on_message(&mut self, rank: usize, message: Message) {
        let (now, order) = (self.now(), self.facts.next_order());
        let facts = &mut self.facts.nodes[rank];
        let lives_on = matches!(facts.succession(), Succession::Lives(_));
        match message {
            Message::Joining { pid } => {
                facts.init = Init::Begun { by: pid };
                self.await_successor(rank, pid);
            }
            Message::Ready => {
                facts.init = Init::Done { by: facts.joined_by().unwrap_or(facts.pid) }
            }
            Message::Left => facts.left = true,
            Message::Closed => {
                // A node that is not the process that was started: that may be all that is seen of its end.
                if let Some(end) = facts.end.as_mut().filter(|_| lives_on) {
                    (end.at, end.order) = (now, order);
                }
                facts.closed = true;
            }
            Message::Progress(count) => self.reports.receive_count(count),
            Message::Refused(text) => {
                let nodes = &self.facts.nodes;
                let is_node = |caller| match caller {
                    Caller::Process(pid) => nodes.iter().any(|node| node.is_process(pid)),
                    Caller::At(address) => self.agents.meet_at(address),
                };
                let line = self.reports.refused.receive(rank, text, now, is_node);
                line.iter().for_each(|line| self.writer.say(line));
            }
            Message::Note(text) => {
                self.reports.races.hear(&text);
                self.writer.say(&text);
            }
            Message::Race { object, text } => {
                self.facts.races += 1;
                let line = self.reports.races.receive(object, text);
                line.iter().for_each(|line| self.writer.say(line));
            }
            Message::Lost { rank: peer, at, text } => {
                let (at, rank) = (at.unwrap_or(Duration::MAX), usize::from(peer));
                facts.lost.get_or_insert(Loss { at, rank, text });
            }
            Message::Crash { signal, text } => facts.crash = Some((signal, text)),
            Message::Waits(report) => {
                if let Ok(report) = serde_json::from_str(&report) {
                    self.on_waits(rank, report);
                }
            }
            Message::Blocked(text) => self.reports.receive_blocked(text),
            Message::Deadlock(text) => {
                self.facts.deadlock.get_or_insert(text);
            }
            Message::Fatal(text) => {
                facts.fatal.get_or_insert(text);
            }
            Message::NotJoined(text) => {
                self.facts.join_errors.entry(rank).or_insert(text);
            }
            Message::Stats(stats) => self.nodes[rank].stats = serde_json::from_str(&stats).ok(),
        }
    }

    fn on_waits(&mut self, rank: usize, report: Report) {
        match self.reports.deadlock.receive(rank, report) {
            Next::Wait => {}
            Next::Ask(question) => {
                let listens = |(rank, _): &(usize, &Live)| self.reports.deadlock.has_spoken(*rank);
                for (rank, live) in self.nodes.iter().enumerate().filter(listens) {
                    match live.control.descriptor() {
                        Some(control) => ask(control, question),
                        None => self.agents.ask(rank, question),
                    }
                }
            }
            Next::Deadlock(text) => {
                self.facts.deadlock.get_or_insert(text);
            }
        }
    }

    fn on_exit(&mut self, rank: usize, buffer: &mut [u8]) {
        while self.on_control(rank, buffer) == Received::Some {}
        for source in [Source::Out(rank), Source::Err(rank)] {
            for _ in 0..LAST_WORDS {
                if !self.on_output(source, buffer) {
                    break;
                }
            }
        }
        let Some((_, pidfd)) = &self.nodes[rank].process else { return };
        let Some((status, unknown)) = leftovers::end_by_pidfd(pidfd) else { return };
        let fatal = &mut self.facts.nodes[rank].fatal;
        *fatal = fatal.take().or(unknown);
        let _ = epoll::delete(&self.epoll, pidfd);
        if status.is_sigkill() {
            self.facts.nodes[rank].memory_kills = self.settings.memory_kills.file();
        }
        self.has_ended(rank, status);
    }

    pub(super) fn has_ended(&mut self, rank: usize, status: Status) {
        let order = self.facts.next_order();
        let at = self.now();
        self.facts.nodes[rank].end.get_or_insert(End { at, order, status });
        self.look_at_successors();
    }

    pub(super) fn keep_watchdog(&mut self) {
        let here = self.nodes.iter().filter_map(|live| live.process.as_ref());
        let nodes: Vec<Pid> = here.map(|(pid, _)| *pid).collect();
        let line = self.settings.watchdog.keep(&nodes);
        line.iter().for_each(|line| self.writer.say(line));
    }

    fn on_typed(&mut self, buffer: &mut [u8]) {
        if self.input.remote.is_some() {
            return self.pass_input_on(buffer);
        }
        let waiting = self.input.terminal.as_mut().map(|terminal| terminal.read(buffer));
        match waiting {
            Some(Waiting::Input) => {}
            Some(Waiting::Room) => {
                let _ = epoll::delete(&self.epoll, io::stdin());
                if let Some(terminal) = &self.input.terminal {
                    let data = Source::Relay.data();
                    let _ = epoll::add(&self.epoll, terminal, data, EventFlags::OUT);
                }
            }
            Some(Waiting::Nothing) | None => {
                let _ = epoll::delete(&self.epoll, io::stdin());
                self.input.terminal = None;
            }
        }
    }

    fn on_room(&mut self) {
        match self.input.terminal.as_mut().map(super::stdin::TerminalStdin::write) {
            Some(Waiting::Room) => {}
            Some(Waiting::Input) => {
                if let Some(terminal) = &self.input.terminal {
                    let _ = epoll::delete(&self.epoll, terminal);
                }
                let _ = self.register(io::stdin(), Source::Typed);
            }
            Some(Waiting::Nothing) | None => self.input.terminal = None,
        }
    }
}
