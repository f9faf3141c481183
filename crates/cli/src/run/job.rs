//! A running job: one event loop, from the first output to the last process gone.
//!
//! [`Job::next_phase`] has the phases of a job and what ends each of them. No phase depends on a node's
//! cooperation: every wait for one is bounded in time, and the last resort is SIGKILL ([`super::escalation`]). How long a
//! reader of the output is waited for is said in [`super::output_patience`].

use super::control::Channel;
use super::escalation::{Terminated, kill_after};
use super::event_source::Source;
use super::hosts::{Agents, Order as ToAgents, PATIENCE};
use super::leftovers;
use super::output::{Format, Pipe};
use super::progress::{self, Line};
use super::reports::Reports;
use super::signals::Signals;
use super::spawn::Node;
use super::stdin::{Feed, Input, Relay};
use super::summary::{NodeReport, Report};
use super::user_requests::User;
use super::verdict::{Decision, EndedBy, Facts, NodeFacts, Verdict, judge};
use super::warden::Warden;
use super::writer::{Target, Writer, write_if_possible};
use multigrain_types::exit_codes::LAUNCHER_FAILED;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use serde_json::{Map, Value};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long processes that outlive their node may go on writing after a good end.
const LINGER_WAIT: Duration = Duration::from_millis(500);
/// How long pipes may stay open in silence after everybody who wrote to them was killed.
const SILENCE_WAIT: Duration = Duration::from_millis(500);
/// How long hosts may take to say that nothing is left there.
const SWEEP_WAIT: Duration = Duration::from_secs(3);
/// When the progress line appears, and how often it is drawn.
const FIRST_LINE: Duration = Duration::from_millis(300);
const LINE_PERIOD: Duration = Duration::from_millis(250);
/// Bytes read at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// What the user and the launch decided.
pub(super) struct Settings<'a> {
    pub(super) start: Instant,
    pub(super) timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL, if the user has said it.
    pub(super) kill_after: Option<Duration>,
    /// Whether every race is a line.
    pub(super) all_races: bool,
    /// Whether there is a progress line.
    pub(super) line: bool,
    pub(super) tagged: bool,
    pub(super) summary: bool,
    pub(super) stats: Option<File>,
    /// A child that is not of the job.
    pub(super) warden: &'a mut Warden,
}

/// Where a job is. Times are since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has gone wrong.
    Running,
    /// The nodes were asked to end (SIGTERM).
    Ending { kill_at: Duration },
    /// The nodes were killed.
    Killed { until: Duration },
    /// All nodes ended well; processes they left behind may still write.
    Lingering { until: Duration },
    /// Everybody else was killed; what they wrote is being read.
    Swept { since: Duration },
    /// All is said; the writer writes the rest.
    Draining { since: Duration },
    /// The launcher may exit.
    Done,
}

/// Who holds the nodes.
pub(super) enum Nodes {
    /// The launcher.
    Here(Vec<Node>),
    /// Agents on their hosts.
    Hosts(Agents),
}

/// A node of this host: its process, and its process descriptor.
pub(super) type Process = (Pid, OwnedFd);

/// A node while the job runs; pipes are None once closed.
pub(super) struct Live {
    /// None for a node of another host.
    pub(super) process: Option<Process>,
    pub(super) control: Channel,
    pub(super) stdout: Option<Pipe>,
    pub(super) stderr: Option<Pipe>,
    pub(super) stats: Option<Map<String, Value>>,
}

/// See the module.
pub(super) struct Job<'a> {
    pub(super) settings: Settings<'a>,
    pub(super) epoll: OwnedFd,
    pub(super) user: User,
    pub(super) writer: Writer,
    pub(super) input: Input,
    pub(super) nodes: Vec<Live>,
    pub(super) agents: Agents,
    pub(super) facts: Facts,
    pub(super) reports: Reports,
    pub(super) course: Course,
}

/// Where a job is, and when it goes on by itself.
pub(super) struct Course {
    pub(super) phase: Phase,
    look_at: Option<Duration>,
    draw_at: Duration,
    reap_at: Option<Duration>,
    pub(super) verdict: Verdict,
    /// When the last node ended.
    wall: Option<Duration>,
}

impl Live {
    fn here(node: Node, format: &Format) -> io::Result<Self> {
        Ok(Self {
            process: Some((node.pid, node.pidfd)),
            control: Channel::new(node.control)?,
            stdout: Some(Pipe::new(node.stdout, format.clone())?),
            stderr: Some(Pipe::new(node.stderr, format.clone())?),
            stats: None,
        })
    }

    fn elsewhere(format: &Format) -> Self {
        let pipe = || Some(Pipe::of_agent(format.clone()));
        let control = Channel::default();
        Self { process: None, control, stdout: pipe(), stderr: pipe(), stats: None }
    }
}

impl<'a> Job<'a> {
    /// A job of nodes that were just started.
    pub(super) fn new(settings: Settings<'a>, signals: Signals, nodes: Nodes) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let writer = Writer::start(settings.line.then(Line::new))?;
        let mut relay = None;
        let (live, agents) = match nodes {
            Nodes::Here(nodes) => {
                let all = nodes.len();
                let live = nodes.into_iter().enumerate().map(|(rank, mut node)| {
                    if let Some(pipe) = node.stdin.take() {
                        relay = Some(Relay::new(pipe)?);
                    }
                    Live::here(node, &Format::of(settings.tagged, all, rank))
                });
                (live.collect::<io::Result<Vec<_>>>()?, Agents::default())
            }
            Nodes::Hosts(agents) => {
                let nodes = agents.nodes();
                let of = |rank| Live::elsewhere(&Format::of(settings.tagged, nodes.len(), rank));
                ((0..nodes.len()).map(of).collect(), agents)
            }
        };
        let facts = match agents.is_empty() {
            true => live.iter().map(NodeFacts::of).collect(),
            false => agents.nodes().into_iter().map(NodeFacts::elsewhere).collect(),
        };
        let feed = agents.take_input().then(Feed::new);
        let mut job = Self {
            reports: Reports::new(live.len(), settings.all_races),
            settings,
            epoll,
            user: User::new(signals),
            writer,
            input: Input { relay, feed },
            nodes: live,
            agents,
            facts: Facts { nodes: facts, ..Facts::default() },
            course: Course {
                phase: Phase::Running,
                look_at: None,
                draw_at: FIRST_LINE,
                reap_at: None,
                verdict: Verdict { code: 0, line: None },
                wall: None,
            },
        };
        job.register_all()?;
        job.begin_elsewhere();
        Ok(job)
    }

    fn register_all(&self) -> io::Result<()> {
        self.agents.register(&self.epoll)?;
        self.register(&self.user, Source::Signals)?;
        self.register(&self.writer, Source::Writer)?;
        if self.input.relay.is_some() {
            self.register(io::stdin(), Source::Typed)?;
        }
        for (rank, live) in self.nodes.iter().enumerate() {
            let Some((_, pidfd)) = &live.process else { continue };
            self.register(pidfd, Source::Exit(rank))?;
            let pipe = |pipe| Option::as_ref(pipe).and_then(Pipe::descriptor);
            for (fd, source) in [
                (live.control.descriptor(), Source::Control(rank)),
                (pipe(&live.stdout), Source::Out(rank)),
                (pipe(&live.stderr), Source::Err(rank)),
            ] {
                fd.map_or(Ok(()), |fd| self.register(fd, source))?;
            }
        }
        Ok(())
    }

    /// Reports `source` while `fd` is readable.
    pub(super) fn register(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, source.data(), EventFlags::IN)?)
    }

    /// Processes without a parent are reaped in a while.
    pub(super) fn reap_later(&mut self) {
        let at = self.now() + leftovers::REAP_WAIT;
        self.course.reap_at.get_or_insert(at);
    }

    /// Since the start of the job.
    pub(super) fn now(&self) -> Duration {
        self.settings.start.elapsed()
    }

    /// To the end; returns the exit code.
    pub(super) fn run(mut self) -> u8 {
        let mut buffer = vec![0_u8; BUFFER_BYTES];
        let mut events = Vec::with_capacity(256);
        loop {
            self.advance();
            if self.course.phase == Phase::Done {
                break;
            }
            events.clear();
            let wait = self.deadline().map(|at| at.saturating_sub(self.now()));
            let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, wait.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Cannot happen with a valid epoll descriptor; the warden cleans up after us.
                Err(error) => panic!("epoll_wait: {error}"),
            }
            for source in events.iter().filter_map(|event| Source::of(event.data)) {
                self.handle(source, &mut buffer);
            }
        }
        for (pid, _) in self.nodes.iter().filter_map(|live| live.process.as_ref()) {
            let _ = waitpid(Some(*pid), WaitOptions::NOHANG);
        }
        match self.writer.stdout_error() {
            None | Some(Errno::PIPE) => self.course.verdict.code,
            Some(error) => {
                let why = match error {
                    Errno::BADF => "is closed".to_owned(),
                    error => format!("gave: {}", io::Error::from(error)),
                };
                write_if_possible(&format!("output was lost, stdout {why}"));
                LAUNCHER_FAILED
            }
        }
    }

    /// Does all that is due.
    fn advance(&mut self) {
        let now = self.now();
        if self.course.reap_at.is_some_and(|at| now >= at) {
            self.course.reap_at = None;
            leftovers::reap_but(&self.own_children());
        }
        self.reports.due(now).iter().for_each(|line| self.writer.say(line));
        self.look_elsewhere();
        self.draw(now);
        while let Some(next) = self.next_phase(now) {
            self.course.phase = next;
        }
    }

    /// The table of phases: when each of them ends, what is done then, and which follows.
    fn next_phase(&mut self, now: Duration) -> Option<Phase> {
        let all_ended = self.facts.nodes.iter().all(|node| node.end.is_some());
        let silent = self.nodes.iter().all(|live| live.stdout.is_none() && live.stderr.is_none());
        self.writer.look(now);
        let patient = self.is_patient(now);
        match self.course.phase {
            Phase::Running => self.look(now),
            Phase::Ending { .. } | Phase::Killed { .. } if all_ended => Some(self.sweep(now)),
            Phase::Ending { kill_at } if now >= kill_at || self.user.hurries() => {
                self.signal_nodes(Signal::KILL);
                let far = if self.agents.is_empty() { Duration::ZERO } else { PATIENCE };
                Some(Phase::Killed { until: now + leftovers::kill_wait(self.nodes.len()) + far })
            }
            Phase::Killed { until } if now >= until => {
                self.writer.say("some nodes cannot be killed; they are left behind");
                Some(self.sweep(now))
            }
            Phase::Lingering { until } => {
                let over = now >= until && !self.is_held_back();
                (silent || over || !patient).then(|| self.sweep(now))
            }
            Phase::Swept { since } => {
                let quiet = now >= since.max(self.writer.last()) + SILENCE_WAIT;
                let over = quiet && (!self.is_held_back() || !patient);
                let swept = self.agents.are_swept() || (over && now >= since + SWEEP_WAIT);
                ((swept && (silent || over)) || self.user.hurries()).then(|| self.close(now))
            }
            Phase::Draining { since } => {
                let over = !patient && now >= since + self.drain_wait();
                if over && !self.writer.is_finished() {
                    if self.give_up_at().is_some_and(|at| now >= at) {
                        write_if_possible("output was lost: nobody reads it");
                    }
                    self.course.verdict.line.iter().for_each(|line| write_if_possible(line));
                }
                (over || self.writer.is_finished()).then_some(Phase::Done)
            }
            Phase::Ending { .. } | Phase::Killed { .. } | Phase::Done => None,
        }
    }

    /// When [`Self::advance`] has to be called again, if no event comes.
    fn deadline(&self) -> Option<Duration> {
        let patient = self.is_patient(self.now());
        let give_up_at = self.give_up_at().filter(|_| patient);
        let phase = match self.course.phase {
            Phase::Running => {
                let ends = self.course.look_at.into_iter().chain(self.settings.timeout);
                ends.chain(self.user.kill_at()).min()
            }
            Phase::Ending { kill_at: until } | Phase::Killed { until } => Some(until),
            Phase::Lingering { until } if !self.is_held_back() => Some(until),
            Phase::Swept { since } if !self.is_held_back() || !patient => {
                Some(since.max(self.writer.last()) + SILENCE_WAIT)
            }
            Phase::Draining { since } if !patient => Some(since + self.drain_wait()),
            Phase::Lingering { .. }
            | Phase::Swept { .. }
            | Phase::Draining { .. }
            | Phase::Done => None,
        };
        let line = self.line_wanted().then_some(self.course.draw_at);
        let beat = self.agents.period().map(|period| self.now() + period);
        let own = self.course.reap_at.into_iter().chain(self.reports.next()).chain(beat);
        phase.into_iter().chain(own).chain(line).chain(give_up_at).min()
    }

    /// Running: asks for the verdict.
    fn look(&mut self, now: Duration) -> Option<Phase> {
        if let Some(limit) = self.settings.timeout.filter(|&limit| now >= limit) {
            if self.facts.ended_by.is_none() {
                self.facts.waiting = self.reports.deadlock.waiting();
            }
            self.facts.ended_by.get_or_insert(EndedBy::Timeout(limit));
        }
        let killed = self.user.kill_at().is_some_and(|at| now >= at);
        if killed {
            self.facts.ended_by.get_or_insert(EndedBy::Signal(Signal::TERM.as_raw()));
        }
        let verdict = match judge(&self.facts, now) {
            Decision::Running => {
                self.course.look_at = None;
                return None;
            }
            Decision::Wait(until) => {
                self.course.look_at = Some(until);
                return None;
            }
            Decision::Over(verdict) => verdict,
        };
        let good = verdict.code == 0 || self.facts.ended_well();
        let unsaid = self.reports.end(!good);
        let lines = unsaid.iter().chain(&verdict.line);
        lines.for_each(|line| self.writer.say(line));
        self.course.verdict = verdict;
        if good {
            self.course.wall = Some(now);
            return Some(Phase::Lingering { until: now + LINGER_WAIT });
        }
        self.signal_nodes(Signal::TERM);
        let patience = kill_after(Terminated::ByLauncher, self.settings.kill_after);
        let wait = if killed { Duration::ZERO } else { patience };
        Some(Phase::Ending { kill_at: now + wait })
    }

    /// All nodes have ended: nobody else of the job stays.
    fn sweep(&mut self, now: Duration) -> Phase {
        self.course.wall.get_or_insert(now);
        // The nodes are not reaped yet, so their process groups cannot be somebody else's.
        self.signal_nodes(Signal::KILL);
        self.agents.tell_all(&ToAgents::Sweep);
        if !leftovers::sees_processes() {
            self.settings.warden.kill_group();
        }
        leftovers::kill_but(&self.own_children(), leftovers::KILL_WAIT);
        Phase::Swept { since: now }
    }

    /// Everything was read: the last words.
    fn close(&mut self, now: Duration) -> Phase {
        for live in &mut self.nodes {
            let ends = [(Target::Out, live.stdout.take()), (Target::Err, live.stderr.take())];
            for (target, pipe) in ends {
                self.writer.push(target, pipe.map(|mut pipe| pipe.finish()).unwrap_or_default());
            }
        }
        let report = self.report(now);
        if self.settings.summary && self.facts.ended_by != Some(EndedBy::Unread) {
            self.writer.push(Target::Err, report.text().into_bytes());
        }
        if let Some(Err(error)) = self.settings.stats.take().map(|file| report.write(file)) {
            self.writer.say(&format!(
                "the file of --stats could not be written: {error}; make room, or name another file"
            ));
            if self.course.verdict.code == 0 {
                self.course.verdict.code = LAUNCHER_FAILED;
            }
        }
        self.writer.close();
        Phase::Draining { since: now }
    }

    fn report(&mut self, now: Duration) -> Report {
        let node = |(live, facts): (&mut Live, &NodeFacts)| NodeReport {
            pid: facts.pid,
            host: facts.host.clone(),
            status: facts.end.map(|end| end.status),
            joined: facts.joins(),
            stats: live.stats.take(),
        };
        Report {
            wall: self.course.wall.unwrap_or(now),
            code: self.course.verdict.code,
            why: self.course.verdict.line.clone(),
            nodes: self.nodes.iter_mut().zip(&self.facts.nodes).map(node).collect(),
        }
    }

    fn own_children(&self) -> Vec<Pid> {
        let nodes = self.nodes.iter().filter_map(|live| live.process.as_ref()).map(|(pid, _)| *pid);
        nodes.chain(self.settings.warden.pid()).chain(self.agents.commands()).collect()
    }

    /// A single untagged node may have written half a line, a prompt for one: there the line
    /// appears only if the application asks for it.
    fn line_wanted(&self) -> bool {
        let alone = self.nodes.len() == 1 && !self.settings.tagged;
        self.settings.line
            && self.course.phase == Phase::Running
            && (!alone || self.reports.count().is_some())
    }

    fn draw(&mut self, now: Duration) {
        if self.line_wanted() && now >= self.course.draw_at {
            let ready = self.facts.nodes.iter().filter(|node| node.is_ready()).count();
            self.writer.show(progress::text(ready, self.nodes.len(), self.reports.count()));
            self.course.draw_at = now + LINE_PERIOD;
        }
    }
}
