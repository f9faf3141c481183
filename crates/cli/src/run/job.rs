//! A running job: one event loop, from the first output to the last process gone.
//!
//! [`super::phase`] has the table of a job's phases: what ends each of them, and how long the launcher waits. Here is
//! what it sees, and what it does. The last resort is SIGKILL ([`super::escalation`]).

use super::control::Channel;
use super::elf;
use super::escalation::{Terminated, kill_after};
use super::event_source::Source;
use super::facts::{EndedBy, Facts, NodeFacts};
use super::hosts::{Agents, Request};
use super::interrupts::Interrupts;
use super::leftovers::{self, Orphans};
use super::memory_kills::MemoryKills;
use super::output::{Format, Pipe};
use super::phase::{self, Action, Next, Output, Phase, Situation};
use super::progress::{self, Line};
use super::races::{Check, Outcome};
use super::reports::Reports;
use super::signalfd::Signals;
use super::spawn::Node;
use super::stdin::{Input, RemoteStdin, TerminalStdin};
use super::summary::{NodeReport, Report};
use super::verdict::{Decision, Verdict, judge};
use super::watchdog::Watchdog;
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
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long processes that outlive their node may go on writing after a good end.
const LINGER_WAIT: Duration = Duration::from_millis(500);
/// When the progress line appears, and how often it is drawn.
const FIRST_LINE: Duration = Duration::from_millis(300);
const LINE_PERIOD: Duration = Duration::from_millis(250);
/// Bytes read at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// What the user and the launch decided.
pub(super) struct Settings<'a> {
    pub(super) start: Instant,
    pub(super) limits: Limits,
    /// Whether it is checked for races.
    pub(super) races: Check,
    /// Whether there is a progress line.
    pub(super) line: bool,
    pub(super) tagged: bool,
    pub(super) summary: bool,
    pub(super) stats: Option<File>,
    /// What all nodes run, if that is one program of this host.
    pub(super) program: Option<PathBuf>,
    /// Before the nodes ran.
    pub(super) memory_kills: MemoryKills,
    /// A child that is not of the job.
    pub(super) watchdog: &'a mut Watchdog,
}

/// Limits of time.
pub(super) struct Limits {
    /// Of the job.
    pub(super) timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL, if the user has said it.
    pub(super) kill_after: Option<Duration>,
    /// From the end of all nodes, of which none has joined, for a process that they have left to join in their place.
    pub(super) join_wait: Duration,
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
    pub(super) interrupts: Interrupts,
    pub(super) writer: Writer,
    pub(super) input: Input,
    pub(super) nodes: Vec<Live>,
    pub(super) agents: Agents,
    pub(super) facts: Facts,
    pub(super) reports: Reports,
    pub(super) course: Course,
}

/// Where a job is, and when it goes on by itself. Times are since its start.
pub(super) struct Course {
    phase: Phase,
    /// When the phase may end though no event comes.
    wake_at: Option<Duration>,
    judge_at: Option<Duration>,
    draw_at: Duration,
    pub(super) orphans: Orphans,
    verdict: Verdict,
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
        let mut terminal = None;
        let (live, agents) = match nodes {
            Nodes::Here(nodes) => {
                let all = nodes.len();
                let live = nodes.into_iter().enumerate().map(|(rank, mut node)| {
                    if let Some(pipe) = node.stdin.take() {
                        terminal = Some(TerminalStdin::new(pipe)?);
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
        let join_wait = settings.limits.join_wait;
        let remote = agents.take_input().then(RemoteStdin::new);
        let mut job = Self {
            reports: Reports::new(live.len(), settings.races),
            settings,
            epoll,
            interrupts: Interrupts::new(signals),
            writer,
            input: Input { terminal, remote },
            nodes: live,
            agents,
            facts: Facts { nodes: facts, join_wait, ..Facts::default() },
            course: Course {
                phase: Phase::Running,
                wake_at: None,
                judge_at: None,
                draw_at: FIRST_LINE,
                orphans: Orphans::default(),
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
        self.register(&self.interrupts, Source::Signals)?;
        self.register(&self.writer, Source::Writer)?;
        if self.input.terminal.is_some() {
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

    /// Since the start of the job.
    pub(super) fn now(&self) -> Duration {
        self.settings.start.elapsed()
    }

    /// To the end; returns the exit code.
    pub(super) fn run(mut self) -> u8 {
        let mut buffer = vec![0_u8; BUFFER_BYTES];
        let mut events = Vec::with_capacity(256);
        // Whoever killed it before the event loop was not noticed.
        self.keep_watchdog();
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
                // Cannot happen with a valid epoll descriptor; the watchdog cleans up after us.
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
        if self.course.orphans.are_due() {
            self.reap_orphans();
        }
        self.reports.due(now).iter().for_each(|line| self.writer.say(line));
        self.exchange_heartbeats();
        self.draw(now);
        loop {
            if self.course.phase == Phase::Running {
                self.judge(now);
            }
            match phase::next(self.course.phase, &self.situation(now)) {
                Next::Do(action) => self.course.phase = self.carry_out(action, now),
                Next::Wait(until) => {
                    self.course.wake_at = until;
                    break;
                }
            }
        }
    }

    /// What the table of phases needs to know.
    fn situation(&mut self, now: Duration) -> Situation {
        let user = [Signal::USR1, Signal::USR2].map(Signal::as_raw);
        let signalled = self.facts.forwarded.is_some_and(|signal| !user.contains(&signal));
        let limits = self.course.judge_at.into_iter().chain(self.settings.limits.timeout);
        Situation {
            now,
            judge_at: limits.chain(self.interrupts.kill_at()).min(),
            all_ended: self.facts.all_over(),
            output: Output {
                silent: self
                    .nodes
                    .iter()
                    .all(|live| live.stdout.is_none() && live.stderr.is_none()),
                held_back: self.writer.is_held_back() || self.agents.is_paused(),
                node_wrote_at: self.writer.last(),
                read_at: self.writer.look(now),
                written: self.writer.is_finished(),
            },
            hosts_swept: self.agents.are_swept(),
            ended: self.facts.ended_by.is_some(),
            failed: signalled || self.course.verdict.code != 0,
            ends_at_once: self.interrupts.ends_at_once(),
        }
    }

    /// Does what is due; the phase that follows.
    fn carry_out(&mut self, action: Action, now: Duration) -> Phase {
        match action {
            Action::Kill => {
                self.signal_nodes(Signal::KILL);
                let elsewhere = self.agents.timeout();
                Phase::Killed { until: now + leftovers::kill_wait(self.nodes.len()) + elsewhere }
            }
            Action::Sweep { alive } => {
                if alive {
                    self.writer.say(&leftovers::left_behind(&self.facts.nodes));
                }
                self.sweep(now)
            }
            Action::Close => self.close(now),
            Action::Exit { unwritten, unread } => {
                if unread {
                    write_if_possible("output was lost: nobody reads it");
                }
                let unsaid = self.course.verdict.line.iter().filter(|_| unwritten);
                unsaid.for_each(|line| write_if_possible(line));
                Phase::Done
            }
        }
    }

    /// When [`Self::advance`] has to be called again, if no event comes.
    fn deadline(&self) -> Option<Duration> {
        let line = self.line_wanted().then_some(self.course.draw_at);
        let beat = self.agents.period().map(|period| self.now() + period);
        let reap_at = self.course.orphans.reap_at();
        let reap_at = reap_at.map(|at| at.saturating_duration_since(self.settings.start));
        let own = reap_at.into_iter().chain(self.reports.next()).chain(beat);
        self.course.wake_at.into_iter().chain(own).chain(line).min()
    }

    /// Running: asks for the verdict, which ends that phase.
    fn judge(&mut self, now: Duration) {
        if let Some(limit) = self.settings.limits.timeout.filter(|&limit| now >= limit) {
            if self.facts.ended_by.is_none() {
                self.facts.waiting = self.reports.waiting();
            }
            self.facts.ended_by.get_or_insert(EndedBy::Timeout(limit));
        }
        let killed = self.interrupts.kill_at().is_some_and(|at| now >= at);
        if killed {
            self.facts.ended_by.get_or_insert(EndedBy::Signal(Signal::TERM.as_raw()));
        }
        let decision = judge(&self.facts, now);
        self.course.judge_at = match decision {
            Decision::Wait(until) => Some(until),
            Decision::Running | Decision::Over(_) => None,
        };
        let Decision::Over(verdict) = decision else { return };
        let good = verdict.code == 0 || self.facts.ended_well();
        let mut lines = self.reports.end(!good, Outcome::of(&self.facts.nodes, good));
        lines.extend(self.facts.unsaid_join_errors(verdict.line.as_deref()));
        lines.iter().chain(&verdict.line).for_each(|line| self.writer.say(line));
        self.course.verdict = verdict;
        if good {
            self.course.wall = Some(now);
            self.course.phase = Phase::Lingering { until: now + LINGER_WAIT };
            return;
        }
        self.signal_nodes(Signal::TERM);
        let patience = kill_after(Terminated::ByLauncher, self.settings.limits.kill_after);
        let wait = if killed { Duration::ZERO } else { patience };
        self.course.phase = Phase::Ending { kill_at: now + wait };
    }

    /// All nodes have ended: nobody else of the job stays.
    fn sweep(&mut self, now: Duration) -> Phase {
        self.course.wall.get_or_insert(now);
        // The nodes are not reaped yet, so their process groups cannot be somebody else's.
        self.signal_nodes(Signal::KILL);
        self.agents.tell_all(&Request::Sweep);
        if !leftovers::sees_processes() {
            self.settings.watchdog.kill_group();
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
        let is_apart = self.settings.summary && self.facts.nodes.iter().all(|node| !node.joins());
        let apart = self.settings.program.as_deref().filter(|program| {
            let listed = || elf::listed_libraries(program, &[]).ok().flatten();
            is_apart && self.facts.nodes.len() > 1 && elf::is_without_us(program, listed().as_ref())
        });
        Report {
            apart: apart.map(|program| program.display().to_string()),
            wall: self.course.wall.unwrap_or(now),
            code: self.course.verdict.code,
            why: self.course.verdict.line.clone(),
            nodes: self.nodes.iter_mut().zip(&self.facts.nodes).map(node).collect(),
        }
    }

    pub(super) fn own_children(&self) -> Vec<Pid> {
        let nodes = self.nodes.iter().filter_map(|live| live.process.as_ref()).map(|(pid, _)| *pid);
        nodes.chain(self.settings.watchdog.pid()).chain(self.agents.commands()).collect()
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
