//! The agent: the one process of Multigrain on a host of a job, between the launcher and the host's nodes.
//!
//! Role: follows the launcher's requests, which arrive on its stdin, and reports on its stdout what happens to the
//! nodes. Its only decision is when to end: at the end of its stdin, after too long a silence of the launcher, or
//! at a signal. Then it kills its nodes and all they have left. If the agent itself is killed, its own watchdog
//! does that.

mod beats;
mod examine;
mod held_node;
mod input;
mod processes;
mod reachability;
mod start;

use super::super::event_source::Source;
use super::super::leftovers::Orphans;
use super::super::program;
use super::super::signalfd::Signals;
use super::super::watchdog::Ward;
use super::builds;
use super::channel::{AgentChannel, Received, Side};
use super::failure_detector::PERIOD;
use super::frame::Malformed;
use super::messages::{AgentEvent, BANNER, Request, Stream};
use beats::beside_heartbeats;
use examine::examine;
use held_node::HeldNode;
use input::StdinPipe;
use multigrain_types::exit_codes::{LAUNCHER_FAILED, PEER_LOST};
use reachability::Reachability;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use start::{Contained, LocalNodes};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bytes for the launcher at which output of the nodes is read no more.
const HIGH_BYTES: usize = 1 << 20;
/// The same of their messages, which output must not hold up; they are read again when it may be, too, or it would wait for as
/// long as they do not end.
const HIGH_CONTROL_BYTES: usize = 2 * HIGH_BYTES;
/// Bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// How long pipes may stay open in silence after everybody who wrote to them was killed.
const SILENCE_WAIT: Duration = Duration::from_millis(500);
/// First descriptor for the channel: behind the standard ones.
const ABOVE_STANDARD: i32 = 3;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody has spoken to it yet.
    Unaddressed,
    Serving,
    /// Its nodes and all they left are killed; what they wrote is being read.
    Sweeping {
        quiet_since: Instant,
    },
    Swept,
}

struct Agent {
    channel: AgentChannel,
    signals: Signals,
    epoll: OwnedFd,
    local: Option<LocalNodes>,
    held: Vec<HeldNode>,
    input: Option<StdinPipe>,
    reachability: Reachability,
    phase: Phase,
    flow: Flow,
    orphans: Orphans,
}

/// Serves a launcher to the end.
pub(crate) fn serve() -> ExitCode {
    match Agent::new().map(Agent::run) {
        Ok(code) => code.into(),
        Err(error) => {
            super::super::say(&format!("agent: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// What of its nodes' output goes on, and when.
struct Flow {
    /// The launcher wants none now.
    paused: bool,
    /// Whether it is waited for.
    reads: bool,
    /// Whether the nodes' messages are.
    reads_control: bool,
    /// Whether room on the channel is waited for.
    waits_for_room: bool,
}

impl Agent {
    fn new() -> io::Result<Self> {
        // If it is stopped before it has a watchdog: a link that ends is no end of a stopped process.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let signals = Signals::block()?;
        let input = fcntl_dupfd_cloexec(io::stdin(), ABOVE_STANDARD)?;
        let output = fcntl_dupfd_cloexec(io::stdout(), ABOVE_STANDARD)?;
        let mut channel = AgentChannel::new(Side::Agent, input, output)?;
        channel.say_bytes(format!("{BANNER}{}\n", builds::own()?).as_bytes());
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let listens = epoll::add(&epoll, channel.input(), Source::Typed.data(), EventFlags::IN);
        // That of /dev/null or of a file.
        if listens == Err(Errno::PERM) {
            channel.say(&AgentEvent::unaddressed());
        }
        listens?;
        epoll::add(&epoll, &signals, Source::Signals.data(), EventFlags::IN)?;
        Ok(Self {
            channel,
            signals,
            epoll,
            local: None,
            held: Vec::new(),
            input: None,
            reachability: Reachability::default(),
            phase: Phase::Unaddressed,
            flow: Flow { paused: false, reads: true, reads_control: true, waits_for_room: false },
            orphans: Orphans::default(),
        })
    }

    /// To the end; its exit code.
    fn run(mut self) -> u8 {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut events = Vec::with_capacity(256);
        let code = loop {
            if self.channel.silence().is_some() {
                break PEER_LOST;
            }
            if self.serve_once(&mut buffer, &mut events).is_break() {
                break 0;
            }
        };
        self.end();
        code
    }

    /// Waits for events and deals with them.
    fn serve_once(&mut self, buffer: &mut [u8], events: &mut Vec<epoll::Event>) -> ControlFlow<()> {
        self.reap();
        self.sweep_on();
        self.connect_on();
        self.watch();
        events.clear();
        let wait = self.reachability.poll_interval().unwrap_or(PERIOD / 2);
        let wait = Timespec::try_from(wait).ok();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return ControlFlow::Break(()),
        }
        let sources = events.iter().filter_map(|event| Source::of(event.data));
        for source in sources.collect::<Vec<_>>() {
            let turn = match source {
                Source::Typed => self.on_channel(buffer),
                Source::Writer => {
                    self.channel.flush();
                    ControlFlow::Continue(())
                }
                Source::Signals => self.on_signals(),
                Source::Relay => {
                    self.on_room();
                    ControlFlow::Continue(())
                }
                Source::Exit(index) => {
                    self.on_exit(index, buffer);
                    ControlFlow::Continue(())
                }
                Source::Control(index) => {
                    self.on_control(index, buffer);
                    ControlFlow::Continue(())
                }
                Source::Out(index) => self.on_output(index, Stream::Out, buffer),
                Source::Err(index) => self.on_output(index, Stream::Err, buffer),
                Source::Agent(_) | Source::AgentStderr(_) | Source::AgentRoom(_) => {
                    ControlFlow::Continue(())
                }
            };
            if turn.is_break() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Waits for what there is a use for: output while it can be passed on, room while some is needed.
    fn watch(&mut self) {
        let backlog = self.channel.backlog();
        let reads = !self.flow.paused && backlog < HIGH_BYTES;
        if reads != self.flow.reads {
            self.flow.reads = reads;
            for (index, node) in self.held.iter().enumerate() {
                node.watch_output(&self.epoll, index, reads);
            }
        }
        let high = if self.flow.reads_control { HIGH_CONTROL_BYTES } else { HIGH_BYTES };
        let reads = backlog < high;
        if reads != self.flow.reads_control {
            self.flow.reads_control = reads;
            for (index, node) in self.held.iter().enumerate() {
                node.watch_control(&self.epoll, index, reads);
            }
        }
        if (backlog > 0) != self.flow.waits_for_room {
            self.flow.waits_for_room = backlog > 0;
            let output = self.channel.output();
            // Neither call can fail except when out of memory.
            let _ = match self.flow.waits_for_room {
                true => epoll::add(&self.epoll, output, Source::Writer.data(), EventFlags::OUT),
                false => epoll::delete(&self.epoll, output),
            };
        }
    }

    fn on_channel(&mut self, buffer: &mut [u8]) -> ControlFlow<()> {
        match self.channel.read(buffer) {
            Received::End => {
                if self.phase == Phase::Unaddressed {
                    self.channel.say(&AgentEvent::unaddressed());
                }
                return ControlFlow::Break(());
            }
            Received::Nothing => return ControlFlow::Continue(()),
            Received::Something if self.phase == Phase::Unaddressed => self.phase = Phase::Serving,
            Received::Something => {}
        }
        loop {
            match self.channel.next() {
                Ok(Some(Request::Leave)) => return ControlFlow::Break(()),
                Err(Malformed) => {
                    let why = "its agent cannot read what this launcher says: bytes were changed on the way".to_owned();
                    self.channel.say(&AgentEvent::Failed { code: LAUNCHER_FAILED, why });
                    return ControlFlow::Break(());
                }
                Ok(Some(request)) => self.serve_request(request),
                Ok(None) => return ControlFlow::Continue(()),
            }
        }
    }

    fn serve_request(&mut self, request: Request) {
        match request {
            Request::Examine(examination) => {
                let examined = beside_heartbeats(&mut self.channel, || examine(&examination));
                match examined {
                    Ok(examined) => self.channel.say(&AgentEvent::Examined(examined)),
                    Err(why) => {
                        self.channel.say(&AgentEvent::Failed { code: LAUNCHER_FAILED, why })
                    }
                }
            }
            Request::Listen { at, ports, hosts } => {
                self.channel
                    .say(&AgentEvent::Listening(self.reachability.listen(at, ports, hosts)));
            }
            Request::Connect { to } => self.reachability.connect(&to),
            Request::Prepare(job) => {
                let contained = Contained::new(job);
                let found = contained.and_then(|contained| {
                    beside_heartbeats(&mut self.channel, || contained.look())
                });
                self.local = self.answer(found).map(|(local, found)| {
                    self.channel.say(&AgentEvent::Prepared(found));
                    local
                });
            }
            Request::Bind { transport, unix, tcp, ports } => {
                let bound =
                    self.local.as_mut().map(|local| local.bind(transport, unix, tcp, ports));
                if let Some((near, far)) = bound.and_then(|bound| self.answer(bound)) {
                    self.channel.say(&AgentEvent::Bound { near, far });
                }
            }
            Request::Start { peers, secret, credentials } => {
                self.start(&peers, secret, credentials);
            }
            Request::Signal(number) => {
                let signal = Signal::from_named_raw(number);
                signal.iter().for_each(|&signal| self.part().signal_all(signal));
            }
            Request::AwaitSuccessor { rank, pid } => {
                let joins = self.held.iter_mut().find(|node| node.rank() == rank);
                joins.into_iter().for_each(|node| node.await_successor(pid));
                self.tell_successors();
            }
            Request::Ask { rank, question } => {
                let asked = self.held.iter().find(|node| node.rank() == rank);
                asked.iter().for_each(|node| node.ask(question));
            }
            Request::Input(bytes) => {
                self.input.iter_mut().for_each(|input| input.push(&bytes));
                self.on_room();
            }
            Request::EndOfInput => {
                self.input.iter_mut().for_each(StdinPipe::end);
                self.on_room();
            }
            Request::Pause(paused) => self.flow.paused = paused,
            Request::Heartbeat { stamp } => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
                let now = Duration::try_from(now).unwrap_or_default().as_nanos();
                let now = u64::try_from(now).unwrap_or(u64::MAX);
                self.channel.say(&AgentEvent::Heartbeat { stamp, now });
            }
            Request::Sweep => self.sweep(),
            // Dealt with where it is read.
            Request::Leave => {}
        }
    }

    /// What was asked for, or the launcher is told why it cannot be had.
    fn answer<T>(&mut self, result: Result<T, (u8, String)>) -> Option<T> {
        let failed = |(code, why)| self.channel.say(&AgentEvent::Failed { code, why });
        result.map_err(failed).ok()
    }

    fn start(&mut self, peers: &[String], secret: String, credentials: Vec<String>) {
        let Some(local) = &mut self.local else { return };
        let start = || local.start(peers, (secret, credentials), &self.signals);
        let started = beside_heartbeats(&mut self.channel, start);
        let Some(nodes) = self.answer(started) else { return };
        let mut pids = Vec::new();
        for (index, mut node) in nodes.into_iter().enumerate() {
            let rank = node.rank;
            pids.push(node.pid.as_raw_nonzero().get());
            if let Some(stdin) = node.stdin.take() {
                self.input = StdinPipe::new(stdin).ok();
            }
            let held = HeldNode::new(node).and_then(|node| {
                node.watch(&self.epoll, index)?;
                Ok(node)
            });
            match held {
                Ok(node) => self.held.push(node),
                Err(error) => {
                    let why = format!("node {rank}: {error}");
                    return self.channel.say(&AgentEvent::Failed { code: LAUNCHER_FAILED, why });
                }
            }
        }
        self.channel.start();
        self.channel.say(&AgentEvent::Started { pids });
    }

    fn connect_on(&mut self) {
        if let Some(answers) = self.reachability.results() {
            self.channel.say(&AgentEvent::Connected(answers));
        }
    }

    fn on_signals(&mut self) -> ControlFlow<()> {
        let mut turn = ControlFlow::Continue(());
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::CHILD => {
                    self.keep_watchdog();
                    self.tell_successors();
                    self.orphans.reap_later();
                }
                Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT => {
                    turn = ControlFlow::Break(())
                }
                _ => {}
            }
        }
        turn
    }

    fn on_room(&mut self) {
        let Some(input) = &mut self.input else { return };
        let taken = input.write(&self.epoll);
        if taken > 0 {
            self.channel.say(&AgentEvent::Taken { bytes: taken });
        }
        if input.is_over() {
            self.input = None;
        }
    }

    fn on_control(&mut self, index: usize, buffer: &mut [u8]) {
        if self.channel.backlog() < HIGH_CONTROL_BYTES {
            self.held[index].tell_control(&mut self.channel, buffer);
        }
    }

    fn on_output(&mut self, index: usize, stream: Stream, buffer: &mut [u8]) -> ControlFlow<()> {
        if self.channel.backlog() < HIGH_BYTES {
            self.held[index].tell_output(stream, &mut self.channel, buffer);
        }
        if let Phase::Sweeping { quiet_since } = &mut self.phase {
            *quiet_since = Instant::now();
        }
        ControlFlow::Continue(())
    }

    fn on_exit(&mut self, index: usize, buffer: &mut [u8]) {
        let reads = self.flow.reads;
        let memory_kills = || self.local.as_ref().and_then(LocalNodes::memory_kills);
        self.held[index].tell_end(&self.epoll, &mut self.channel, buffer, reads, memory_kills);
        self.tell_successors();
    }

    fn sweep(&mut self) {
        if self.phase == Phase::Serving {
            self.kill_all();
            self.phase = Phase::Sweeping { quiet_since: Instant::now() };
        }
    }

    /// Ends the sweep when all is read, or nothing more comes.
    fn sweep_on(&mut self) {
        let Phase::Sweeping { quiet_since } = self.phase else { return };
        let silent = self.held.iter().all(HeldNode::is_silent);
        if silent || (self.flow.reads && quiet_since.elapsed() >= SILENCE_WAIT) {
            for node in &mut self.held {
                node.close(&mut self.channel);
            }
            self.channel.say(&AgentEvent::Swept);
            self.phase = Phase::Swept;
        }
    }

    fn end(mut self) {
        self.part().kill_all();
        for node in &self.held {
            let _ = waitpid(Some(node.pid()), WaitOptions::NOHANG);
        }
        self.channel.flush();
        self.local.into_iter().for_each(LocalNodes::leave);
    }
}
