//! The launcher's end of one agent: the command that reaches its host, the channel to it, and what is known of
//! the host's nodes.

use super::super::agent_pipes::AgentPipe;
use super::super::control::printable;
use super::super::hostfile::Share;
use super::super::signalfd::Inherited;
use super::super::spawn;
use super::super::watchdog::Watchdog;
use super::channel::{AgentChannel, Received, Side};
use super::messages::{AgentEvent, BANNER, Request};
use super::sweep::{Sweep, quoted};
use multigrain_types::exit_codes::PEER_LOST;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bytes that a shell may say before the agent does.
const MOST_BEFORE_BANNER: usize = 64 << 10;
/// Bytes that are read of one agent while others start.
const MOST_AHEAD: usize = 4 << 20;
/// Bytes of output of an agent that may come after it was told to hold them back: those in pipes and sockets, and its own.
const MOST_UNASKED: usize = 64 << 20;
/// Bytes of what came instead of an agent's words that are shown.
const MOST_QUOTED: usize = 200;
/// Bytes of one line of stderr that are kept.
const MOST_OF_LINE: usize = 4 << 10;
/// How long the command may take to end once its output has.
const END_WAIT: Duration = Duration::from_millis(200);

/// How the reason begins why nothing comes from an agent that has never spoken.
pub(super) const NOT_STARTED: &str = "no agent could be started";

/// One agent.
pub(super) struct AgentHandle {
    host: String,
    ranks: Range<u32>,
    child: Child,
    pidfd: OwnedFd,
    channel: AgentChannel,
    /// The event loop tells when there is room for more.
    awaits_room: bool,
    /// The same in the hands of the watchdog.
    pipe: AgentPipe,
    stderr_lines: StderrLines,
    has_banner: bool,
    /// Why nothing more comes from it.
    gone: Option<String>,
    /// Nothing of its nodes is left.
    swept: bool,
    /// What the agent said has ended, though it was not told to end.
    ended: bool,
    /// What the command that reaches the host has ended with.
    exit_code: Option<i32>,
    /// When it was asked what it has answered last, by the launcher's monotonic clock in nanoseconds.
    heard_at: u64,
    /// The command that ends what is left of its nodes if it cannot.
    sweep: Vec<String>,
    unasked: UnaskedOutput,
    /// The host's monotonic clock less ours, in nanoseconds, with how long it took to ask.
    clock: Option<(i64, u64)>,
}

/// What the command that reaches a host writes to its stderr.
struct StderrLines {
    /// None once it is closed.
    fd: Option<OwnedFd>,
    /// A line that has no end yet, and the last that has.
    partial: Vec<u8>,
    last: String,
}

impl StderrLines {
    /// Reads whole lines.
    fn read(&mut self, buffer: &mut [u8]) -> Vec<String> {
        let Some(fd) = &self.fd else { return Vec::new() };
        match rustix::io::read(fd, &mut *buffer) {
            Ok(0) => self.fd = None,
            Ok(count) => self.partial.extend_from_slice(&buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.fd = None,
        }
        let whole = self.fd.is_none() || self.partial.len() > MOST_OF_LINE;
        let end = self.partial.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let end = if whole { self.partial.len() } else { end };
        let lines: Vec<u8> = self.partial.drain(..end).collect();
        let lines = String::from_utf8_lossy(&lines);
        let lines: Vec<String> =
            lines.lines().map(printable).filter(|line| !line.trim().is_empty()).collect();
        if let Some(last) = lines.last() {
            self.last.clone_from(last);
        }
        lines
    }
}

impl AgentHandle {
    /// Starts the agent of a host by this command.
    pub(super) fn start(
        share: &Share,
        command: &[String],
        watchdog: &Watchdog,
        signals: Inherited,
    ) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut process = Command::new(program);
        process.args(arguments);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn::tie_helper_to_launcher(&mut process, watchdog.registration()?, signals);
        let mut child = process.spawn()?;
        let adopted = Self::adopt(&mut child).and_then(|adopted| {
            let pipe = watchdog.speak_for_launcher(adopted.1.output())?;
            Ok((adopted, pipe))
        });
        match adopted {
            Ok(((pidfd, channel, stderr_lines), pipe)) => Ok(Self {
                pipe,
                host: share.host.clone(),
                ranks: share.ranks.clone(),
                child,
                pidfd,
                channel,
                awaits_room: false,
                stderr_lines: StderrLines {
                    fd: Some(stderr_lines),
                    partial: Vec::new(),
                    last: String::new(),
                },
                has_banner: false,
                gone: None,
                swept: false,
                ended: false,
                exit_code: None,
                heard_at: 0,
                sweep: Vec::new(),
                unasked: UnaskedOutput::default(),
                clock: None,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn adopt(child: &mut Child) -> io::Result<(OwnedFd, AgentChannel, OwnedFd)> {
        let missing = || io::Error::from_raw_os_error(libc::EBADF);
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let input = child.stdout.take().ok_or_else(missing)?;
        let output = child.stdin.take().ok_or_else(missing)?;
        let stderr_lines = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
        rustix::io::ioctl_fionbio(&stderr_lines, true)?;
        let mut channel = AgentChannel::new(Side::Launcher, input.into(), output.into())?;
        // A terminal on the way takes some bytes for its own, and is known as soon as the agent has spoken: ^S stopped that.
        channel.hold();
        Ok((pidfd, channel, stderr_lines))
    }

    /// The host, as the user wrote it.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The ranks on it.
    pub(super) fn ranks(&self) -> Range<u32> {
        self.ranks.clone()
    }

    /// The command's process id.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Nothing of its nodes is left.
    pub(super) fn set_swept(&mut self) {
        self.swept = true;
    }

    /// Whether nothing of its nodes is left, or nobody knows.
    pub(super) fn is_swept(&self) -> bool {
        self.swept || !self.is_there()
    }

    /// What to wait for its events on.
    pub(super) fn input(&self) -> BorrowedFd<'_> {
        self.channel.input()
    }

    /// What to wait for room on, if something waits for that.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        (self.channel.backlog() > 0).then(|| self.channel.output())
    }

    /// Has the event loop tell when there is room for what is to be said, while something is.
    pub(super) fn await_room(&mut self, set: &OwnedFd, data: EventData) {
        let awaits = self.is_there() && self.channel.backlog() > 0;
        if awaits != self.awaits_room {
            self.awaits_room = awaits;
            // It fails for want of memory alone: then the next beat writes.
            let _ = match awaits {
                true => epoll::add(set, self.channel.output(), data, EventFlags::OUT),
                false => epoll::delete(set, self.channel.output()),
            };
        }
    }

    /// What to wait for lines of stderr on.
    pub(super) fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.stderr_lines.fd.as_ref().map(AsFd::as_fd)
    }

    /// Whether more may still arrive from it.
    pub(super) fn is_there(&self) -> bool {
        self.gone.is_none()
    }

    /// Why nothing more comes from it, if that is so.
    pub(super) fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// What was last said on stderr of the command that reaches its host.
    pub(super) fn last_line(&self) -> &str {
        self.stderr_lines.last.trim()
    }

    /// What came first where an agent should have spoken, if anything came.
    pub(super) fn said_instead(&self) -> Option<String> {
        if self.has_banner {
            return None;
        }
        let said = self.channel.unread();
        let said = String::from_utf8_lossy(&said[..said.len().min(MOST_QUOTED)]).into_owned();
        let line = said.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(printable(line))
    }

    /// What the command that reaches its host has ended with, if it has.
    pub(super) fn exit_code(&self) -> Option<i32> {
        self.exit_code
    }

    /// Whether its agent has ever spoken, and may still listen.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_banner && self.is_there()
    }

    /// Tells the agent something; one that is gone receives nothing.
    pub(super) fn tell(&mut self, request: &Request) {
        if self.is_there() {
            self.channel.say(request);
        }
    }

    /// Writes what there is room for, and says that the launcher is there, if it is time.
    pub(super) fn beat(&mut self) {
        if self.has_spoken() && self.channel.is_beat_due() {
            self.channel.say(&Request::Heartbeat { stamp: now_ns() });
        }
        self.channel.flush();
    }

    /// How long it may say nothing.
    pub(super) fn timeout(&self) -> Duration {
        self.channel.timeout()
    }

    /// Why it is given up, if it has said nothing for too long.
    pub(super) fn silence(&mut self) -> Option<String> {
        let silence = if self.is_there() { self.channel.silence() } else { None };
        silence.map(|time| format!("no word from its agent for {} s", time.as_secs()))
    }

    /// Whether so much has come from it that no more is to be read before some is taken.
    pub(super) fn is_full(&self) -> bool {
        self.channel.ahead() >= MOST_AHEAD
    }

    /// The same at the start, if it has spoken: before that it is what leads to its host that takes its time.
    pub(super) fn silence_at_start(&mut self) -> Option<String> {
        if self.has_banner { self.silence() } else { None }
    }

    /// The nodes of all hosts run.
    pub(super) fn start_channel(&mut self) {
        self.channel.start();
    }

    /// So many bytes of output have come, while it is to hold them back or not.
    ///
    /// # Errors
    /// It does not do that: what was under way when it was told so is less.
    pub(super) fn check_pause(&mut self, is_paused: bool, bytes: usize) -> Result<(), String> {
        self.unasked.receive(is_paused, bytes)
    }

    /// Nothing more is expected of it.
    pub(super) fn give_up(&mut self, why: &str) {
        self.gone.get_or_insert_with(|| why.to_owned());
    }

    /// When it was last known to have received what was said to it, by the launcher's monotonic clock in nanoseconds.
    pub(super) fn heard_at(&self) -> u64 {
        self.heard_at
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// Nothing more will come: why, in words.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<(), String> {
        match self.channel.read(buffer) {
            Received::Something | Received::Nothing => Ok(()),
            Received::End => {
                self.ended = true;
                Err(self.lose())
            }
        }
    }

    /// The next event that was read.
    ///
    /// # Errors
    /// It is none, or that of another build than this launcher's, which is `own`.
    pub(super) fn next(&mut self, own: &str) -> Result<Option<AgentEvent>, String> {
        if !self.has_banner && !self.find_banner(own)? {
            return Ok(None);
        }
        let malformed = |_| {
            "its agent talks nonsense: what leads there (--launcher-command, a shell's start-up file) changes what it says, or writes \
             in between"
                .to_owned()
        };
        let event = self.channel.next().map_err(malformed)?;
        if let Some(&AgentEvent::Heartbeat { stamp, now }) = event.as_ref() {
            self.adjust(stamp, now);
        }
        Ok(event)
    }

    /// Looks for the banner behind what the host's shell says; whether it is there.
    fn find_banner(&mut self, own: &str) -> Result<bool, String> {
        let inbox = self.channel.inbox();
        let said = inbox.rest();
        let found = said.windows(BANNER.len()).position(|piece| piece == BANNER.as_bytes());
        let end = found.and_then(|at| Some(at + said[at..].iter().position(|&b| b == b'\n')?));
        let (Some(at), Some(end)) = (found, end) else {
            let much = said.len() > MOST_BEFORE_BANNER;
            return if much {
                Err("its shell says much, and no agent starts".to_owned())
            } else {
                Ok(false)
            };
        };
        let build = String::from_utf8_lossy(&said[at + BANNER.len()..end]).into_owned();
        inbox.take(end + 1);
        self.has_banner = true;
        // What came before it took as long as a login does.
        self.channel.restart_timer();
        if build == own {
            self.channel.release();
            return Ok(true);
        }
        if build.trim_end() == own {
            return Err(
                "something on the way changes what it says, as a terminal does (ssh -t); leave that out".to_owned(),
            );
        }
        Err(format!(
            "its multigrain is another than this one ({} and {own}); put the same on all hosts",
            printable(&build)
        ))
    }

    /// The best of all answers about its clock is that which came soonest.
    fn adjust(&mut self, stamp: u64, now: u64) {
        self.heard_at = self.heard_at.max(stamp);
        let took = now_ns().saturating_sub(stamp);
        if self.clock.is_none_or(|(_, best)| took < best) {
            let middle = i128::from(stamp) + i128::from(took / 2);
            let ahead = i64::try_from(i128::from(now) - middle).unwrap_or(0);
            self.clock = Some((ahead, took));
        }
    }

    /// A time of the host's monotonic clock, by ours.
    pub(super) fn by_our_clock(&self, at: Duration) -> Duration {
        let ahead = self.clock.map_or(0, |(ahead, _)| ahead);
        let size = Duration::from_nanos(ahead.unsigned_abs());
        if ahead < 0 { at.saturating_add(size) } else { at.saturating_sub(size) }
    }

    /// Reads what the command and the host's shell write to stderr: whole lines.
    pub(super) fn read_stderr(&mut self, buffer: &mut [u8]) -> Vec<String> {
        self.stderr_lines.read(buffer)
    }

    /// Its output has ended: why, as far as the command tells.
    fn lose(&mut self) -> String {
        if let Ok(limit) = Timespec::try_from(END_WAIT) {
            let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&limit));
        }
        let mut buffer = [0; 4 << 10];
        for _ in 0..16 {
            let before = self.stderr_lines.fd.is_some();
            let lines = self.read_stderr(&mut buffer);
            if !before || lines.is_empty() {
                break;
            }
        }
        let what = if self.has_banner { "its agent has ended" } else { NOT_STARTED };
        let status = self.child.try_wait().ok().flatten();
        self.exit_code = status.and_then(|status| status.code());
        if self.has_banner && self.exit_code == Some(i32::from(PEER_LOST)) {
            return "its agent had no word from this launcher for too long".to_owned();
        }
        let how = status.map(|status| format!(" ({status})")).unwrap_or_default();
        let said = self.said_instead().map(|line| format!(", but '{line}' was said"));
        let said = said.unwrap_or_default();
        match self.last_line() {
            "" => format!("{what}{how}{said}"),
            line => format!("{what}{how}{said}: {line}"),
        }
    }

    /// From now on something may be left of it, which this command ends.
    pub(super) fn sweep_by(&mut self, command: Vec<String>) {
        self.sweep = command;
    }

    /// It ends a control group, too, of this directory.
    pub(super) fn sweep_group(&mut self, group: &str) {
        if let Some(command) = self.sweep.last_mut() {
            *command += &format!(" --group {}", quoted(Path::new(group)));
        }
    }

    /// Ends what is left of an agent that was killed, perhaps with its watchdog; not that of one that is silent, whose host
    /// does not answer.
    pub(super) fn sweep(&mut self) -> Option<Sweep> {
        let left = self.has_banner && self.ended && !self.swept;
        left.then(|| Sweep::start(&self.sweep)).flatten()
    }

    /// Closes the channel; the command of an agent that has not spoken is told to end: where that starts the agent this
    /// very moment, killing it would leave one that nobody speaks to (`srun`).
    pub(super) fn hang_up(self) -> EndingCommand {
        if !self.has_spoken() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        }
        drop((self.pipe, self.channel));
        EndingCommand { child: self.child, pidfd: self.pidfd }
    }
}

/// The command that reaches a host, which has nothing more to do.
pub(super) struct EndingCommand {
    child: Child,
    pidfd: OwnedFd,
}

impl EndingCommand {
    /// Waits no longer than so long for its end, and kills it.
    pub(super) fn end(mut self, limit: Duration) {
        if let Ok(limit) = Timespec::try_from(limit) {
            let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&limit));
        }
        // Not reaped yet, so its group cannot be somebody else's.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Bytes of output that have come since an agent was told to hold them back.
#[derive(Debug, Default)]
struct UnaskedOutput(usize);

impl UnaskedOutput {
    fn receive(&mut self, is_paused: bool, bytes: usize) -> Result<(), String> {
        self.0 = if is_paused { self.0.saturating_add(bytes) } else { 0 };
        match self.0 > MOST_UNASKED {
            true => Err("its agent does not hold output back as it was told to".to_owned()),
            false => Ok(()),
        }
    }
}

/// The monotonic clock, in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::try_from(now).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_does_not_hold_output_back_is_lost_once_that_is_certain() {
        let mut unasked = UnaskedOutput::default();
        let most = MOST_UNASKED;
        assert!(unasked.receive(false, 2 * most).is_ok(), "it was to go on");
        assert!(unasked.receive(true, most).is_ok(), "that was under way");
        assert!(unasked.receive(false, most).is_ok());
        assert!(unasked.receive(true, most).is_ok(), "and again");
        assert!(unasked.receive(true, 1).unwrap_err().contains("does not hold output back"));
    }
}
