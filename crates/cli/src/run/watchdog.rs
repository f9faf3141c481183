//! The watchdog: a small process that outlives a killed launcher and ends its job.
//!
//! PR_SET_PDEATHSIG ends the nodes when the launcher dies, but not the processes they forked. The watchdog waits
//! on a socket whose other end only the launcher holds. Each node sends its process id there before it executes
//! the program, so no node is missed. When the socket closes and the launcher has not dismissed the watchdog, the
//! watchdog kills those process groups, then all processes with the job's mark in their environment, then the
//! job's control group. A child of the launcher that has not executed the program yet holds the socket too: once
//! the launcher is dead, any process that still does is killed.
//!
//! While the launcher is stopped (SIGSTOP, a debugger), the watchdog tells the agents of other hosts that it still
//! exists, between two chunks of the launcher's own requests ([`super::agent_chunks`]). An agent may be stopped for
//! so long that its launcher takes the host for lost; its watchdog then kills it, and what it has started.
//!
//! The watchdog's process name differs from the launcher's, so that killing all launchers by name spares it. A
//! watchdog that is killed gets a successor: the launcher, or the agent, may have threads by then and must not fork
//! without exec, so it executes itself as the hidden command `watchdog`. What outlives what: ADR 34.
#![expect(unsafe_code, reason = "fork has no safe interface")]

use super::agent_chunks::HEARTBEAT;
use super::agent_pipes::{self, AgentPipe, AgentPipes};
use super::cgroup::{self, Cgroup};
use super::leftovers;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, kill_process_group,
    pidfd_open, set_parent_process_death_signal, setsid, waitpid,
};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Rounds of looking for processes with the job's id; each finds what forked during the last.
const SWEEPS: usize = 5;
/// Looks for children that a dead launcher has left before they executed the program, and the time between.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Added to the process id of a command that leads to an agent; no process id is as large.
const COMMAND: i32 = 1 << 30;
/// How long such a command may take to end what it has started, once it has SIGTERM.
const COMMAND_WAIT: Duration = Duration::from_secs(2);

/// Between two looks whether the launcher is stopped, where that matters: short beside the patience of agents.
const PULSE_PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Looks at which an agent is found stopped before it is ended: a little longer than its launcher waits for an agent
/// whose messages were not late before.
const LOOKS_AT_STOPPED: usize = 7;

/// Whose watchdog it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ward {
    /// Of a launcher, which may be stopped as long as anybody likes.
    Launcher,
    /// Of an agent, for which nobody speaks while it is stopped.
    Agent,
}

/// Successors a watchdog may have: whoever kills more of them means it, or they cannot live here.
const SUCCESSORS: usize = 16;

/// The handle of a launcher, or an agent, on its watchdog.
pub(super) struct Watchdog {
    ward: Ward,
    /// None for one that was killed and has no successor.
    pid: Option<Pid>,
    socket: OwnedFd,
    pipes: AgentPipes,
    mark: String,
    /// The directory of the job's control group.
    group: Option<PathBuf>,
    successors: usize,
}

/// What a successor is told: `multigrain watchdog`, which no user calls.
#[derive(Debug, Args)]
pub(crate) struct WatchdogArgs {
    /// It is that of an agent.
    #[arg(long)]
    agent: bool,
    /// What processes of the job carry in their environment.
    #[arg(long)]
    mark: String,
    /// The directory of its control group.
    #[arg(long)]
    group: Option<PathBuf>,
    /// The process groups of its nodes.
    nodes: Vec<i32>,
}

impl Watchdog {
    /// Forks it. To be called while the launcher has one thread and no descriptors of the job, and
    /// with signals blocked, which the watchdog inherits: it is meant to outlive them. `launcher` is the process
    /// descriptor of the caller.
    pub(super) fn start(
        ward: Ward,
        mark: &str,
        launcher: OwnedFd,
        group: Option<&Cgroup>,
    ) -> io::Result<Self> {
        // A socket, since writing to a pipe whose reader was killed would raise SIGPIPE.
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (reader, writer) = socketpair(unix, packets, SocketFlags::CLOEXEC, None)?;
        let held = format!("socket:[{}]", rustix::fs::fstat(&writer)?.st_ino);
        // SAFETY: this process has a single thread, so the child may run any code.
        match unsafe { libc::fork() } {
            0 => {
                drop(writer);
                keep_watch(ward, [reader, launcher], &held, mark, group)
            }
            pid => match Pid::from_raw(pid).filter(|_| pid > 0) {
                pid @ Some(_) => {
                    let group = group.map(|group| group.path().to_path_buf());
                    let pipes = AgentPipes::new(writer.try_clone()?);
                    let mark = mark.to_owned();
                    Ok(Self { ward, pid, socket: writer, pipes, mark, group, successors: 0 })
                }
                None => Err(io::Error::last_os_error()),
            },
        }
    }

    /// A descriptor for one node to write its process id to ([`register`]); close-on-exec.
    pub(super) fn registration(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Has it say on this pipe to an agent that the launcher is there, while that is stopped.
    pub(super) fn speak_for_launcher(&self, pipe: BorrowedFd<'_>) -> io::Result<AgentPipe> {
        self.pipes.open(pipe)
    }

    /// Puts another one in its place if it has been killed; where there can be none, a line that says so.
    pub(super) fn keep(&mut self, nodes: &[Pid]) -> Option<String> {
        let error = self.replace(nodes).err()?;
        let ward = match self.ward {
            Ward::Launcher => "launcher",
            Ward::Agent => "agent",
        };
        Some(format!(
            "the watchdog was killed, and there is no other ({error}): if the {ward} is killed, too, what nodes have \
             forked stays"
        ))
    }

    fn replace(&mut self, nodes: &[Pid]) -> io::Result<()> {
        let lives = |pid| !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_)));
        if self.pid.is_none_or(lives) {
            return Ok(());
        }
        self.pid = None;
        if self.successors == SUCCESSORS {
            return Err(io::Error::other(format!("{SUCCESSORS} in its place were killed as well")));
        }
        self.successors += 1;
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (reader, writer) = socketpair(unix, packets, SocketFlags::CLOEXEC, None)?;
        let launcher = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["watchdog", "--mark", &self.mark]);
        command.args((self.ward == Ward::Agent).then_some("--agent"));
        command.args(self.group.iter().flat_map(|group| ["--group".as_ref(), group.as_os_str()]));
        command.args(nodes.iter().map(|node| node.as_raw_nonzero().to_string()));
        // What is written to a process descriptor goes nowhere.
        command.stdin(reader).stdout(launcher.try_clone()?).stderr(launcher);
        self.pid = Some(Pid::from_child(&command.spawn()?));
        self.socket = writer;
        self.pipes.hand_over(self.socket.try_clone()?);
        Ok(())
    }

    /// The job is over and swept: the watchdog goes without doing anything.
    pub(super) fn dismiss(self) {
        if let Some(pid) = self.pid {
            // That of an unreaped child of ours, so it cannot be somebody else's. One that may not be killed goes when its
            // socket closes.
            if kill_process(pid, Signal::KILL).is_ok() {
                let _ = waitpid(Some(pid), WaitOptions::empty());
            }
        }
    }

    /// Kills what is in the job's control group, which the launcher is not.
    pub(super) fn kill_group(&self) {
        self.group.iter().for_each(|group| cgroup::kill(group));
    }

    /// Its process id, if it lives.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.pid
    }
}

/// Tells the watchdog of this process, from between fork and exec: async-signal-safe.
pub(super) fn register(socket: impl AsFd) -> io::Result<()> {
    tell(socket, rustix::process::getpid().as_raw_nonzero().get())
}

/// The same of a command that leads to an agent, which is asked to end before it is killed.
pub(super) fn register_command(socket: impl AsFd) -> io::Result<()> {
    tell(socket, rustix::process::getpid().as_raw_nonzero().get() | COMMAND)
}

fn tell(socket: impl AsFd, number: i32) -> io::Result<()> {
    // Four bytes are sent whole or not at all.
    match send(socket, &number.to_ne_bytes(), SendFlags::NOSIGNAL) {
        // A watchdog that somebody killed is of no use to this node, and no harm.
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn keep_watch(ward: Ward, ends: [OwnedFd; 2], held: &str, mark: &str, group: Option<&Cgroup>) -> ! {
    become_watchdog();
    let groups = match seclude(ends) {
        Ok(()) => read_groups(ward, held),
        Err(_) => Groups::default(),
    };
    end(&groups, mark, group)
}

/// The successor of a watchdog: a program of its own, whose descriptors 0 and 1 are the socket and the launcher.
pub(crate) fn succeed(args: &WatchdogArgs) -> ! {
    become_watchdog();
    // Its nodes have all executed their program, so nobody holds the launcher's end.
    let ward = if args.agent { Ward::Agent } else { Ward::Launcher };
    let _ = read_groups(ward, "");
    let nodes = args.nodes.iter().filter_map(|&node| Pid::from_raw(node)).collect();
    end(
        &Groups { nodes, commands: Vec::new() },
        &args.mark,
        args.group.as_deref().map(Cgroup::at).as_ref(),
    )
}

fn become_watchdog() {
    // A watchdog that somebody stopped goes on when it is needed.
    let _ = set_parent_process_death_signal(Some(Signal::CONT));
    let _ = setsid();
    let _ = rustix::thread::set_name(c"mg-watchdog");
    let _ = std::env::set_current_dir("/");
}

/// The launcher is gone: ends its job.
fn end(groups: &Groups, mark: &str, group: Option<&Cgroup>) -> ! {
    let deadline = Instant::now() + COMMAND_WAIT;
    for (of, signal) in [(&groups.nodes, Signal::KILL), (&groups.commands, Signal::TERM)] {
        for &group in of {
            let _ = kill_process_group(group, signal);
        }
    }
    for _ in 0..SWEEPS {
        let found = leftovers::marked(mark);
        for &pid in &found {
            let _ = kill_process(pid, Signal::KILL);
        }
        if found.is_empty() {
            break;
        }
    }
    if let Some(group) = group {
        group.kill();
        group.remove();
    }
    for &command in &groups.commands {
        leftovers::wait_for_end(command, deadline);
        let _ = kill_process_group(command, Signal::KILL);
    }
    std::process::exit(0)
}

/// Makes the socket descriptor 0 and the launcher's process descriptor 1 and 2, and closes all others, so that the
/// watchdog keeps nothing open.
fn seclude([reader, launcher]: [OwnedFd; 2]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(&reader)?;
    rustix::stdio::dup2_stdout(&launcher)?;
    // What is written there goes nowhere; /dev/null may be missing.
    rustix::stdio::dup2_stderr(&launcher)?;
    drop((reader, launcher));
    // SAFETY: the watchdog never returns to code that owns a descriptor above 2.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    Ok(())
}

/// The process groups that a launcher leaves.
#[derive(Default)]
struct Groups {
    nodes: Vec<Pid>,
    /// Of commands that lead to agents.
    commands: Vec<Pid>,
}

/// Reads process ids until the launcher is gone, and nobody holds its end of the socket any more.
fn read_groups(ward: Ward, held: &str) -> Groups {
    let mut groups = Groups::default();
    let mut pipes = BTreeMap::new();
    let (mut looks, mut stopped) = (0, 0);
    loop {
        match wait(ward == Ward::Agent || !pipes.is_empty()) {
            Wake::Socket => match agent_pipes::receive(io::stdin(), &mut pipes) {
                Ok(Some(number)) if number >= COMMAND => {
                    groups.commands.extend(Pid::from_raw(number - COMMAND));
                }
                Ok(Some(number)) if number > 0 => groups.nodes.extend(Pid::from_raw(number)),
                // Of a pipe.
                Ok(Some(_)) => {}
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return groups,
            },
            Wake::Pulse if ward == Ward::Agent => {
                stopped = if stopped_launcher().is_some() { stopped + 1 } else { 0 };
                if stopped == LOOKS_AT_STOPPED {
                    stopped_launcher().into_iter().for_each(|agent| {
                        let _ = kill_process(agent, Signal::KILL);
                    });
                }
            }
            Wake::Pulse if stopped_launcher().is_some() => {
                pipes.retain(|_, pipe| rustix::io::write(pipe, &HEARTBEAT) != Err(Errno::PIPE));
            }
            Wake::Pulse => {}
            Wake::Orphaned if looks == LOOKS => return groups,
            Wake::Orphaned => {
                looks += 1;
                for pid in leftovers::holding(held) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }
}

/// The launcher, or the agent, if it is stopped: by a signal or by a debugger.
fn stopped_launcher() -> Option<Pid> {
    let launcher = getppid().filter(|_| leftovers::sees_processes())?;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", launcher.as_raw_nonzero()));
    // The name, in parentheses, may hold anything.
    let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
    matches!(state, Some('T' | 't')).then_some(launcher)
}

/// Why the watchdog wakes.
enum Wake {
    /// It is time to look at the launcher.
    Pulse,
    /// There is something to read, if only its end.
    Socket,
    /// The launcher is dead, and there is nothing to read.
    Orphaned,
}

fn wait(has_pipes: bool) -> Wake {
    let (socket, launcher) = (io::stdin(), io::stdout());
    let read = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut ends = [read(socket.as_fd()), read(launcher.as_fd())];
    let period = has_pipes.then_some(&PULSE_PERIOD);
    loop {
        match poll(&mut ends, period) {
            Ok(0) => return Wake::Pulse,
            Ok(_) => break,
            Err(_) => {}
        }
    }
    if !ends[0].revents().is_empty() {
        return Wake::Socket;
    }
    // Those that were killed at the last look are about to be gone.
    match poll(&mut ends[..1], Some(&BETWEEN_LOOKS)) {
        Ok(1) => Wake::Socket,
        Ok(_) | Err(_) => Wake::Orphaned,
    }
}
