//! Reaching the hosts of a job: starts all agents at once, by ssh, srun or the user's command, and gathers their
//! answers.

use super::super::control::printable;
use super::super::error::LaunchError;
use super::super::hostfile::Share;
use super::super::options::{PlaceArgs, Variable};
use super::super::signalfd::Signals;
use super::super::slurm::Allocation;
use super::super::watchdog::Watchdog;
use super::super::{elf, environment};
use super::agent_handle::{AgentHandle, NOT_STARTED};
use super::agents::Agents;
use super::builds;
use super::messages::AgentEvent;
use super::sweep::quoted;
use multigrain_types::exit_codes::LAUNCHER_FAILED;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What leads to a host. A connection that others might come to share would end with the job. Until the agent speaks,
/// nobody but ssh can tell a cut link from a slow shell; it counts from the login on, which may take its time too.
const SSH: [&str; 8] = [
    "ssh",
    "-T",
    "-o",
    "ControlMaster=no",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];
/// How long a host may take until its sshd has agreed on keys, before anybody logs in, if the user gives no boot time;
/// seconds.
const SSHD_WAIT: u64 = 10;
/// How long the agents may take to be there, if the user gives no boot time.
const START_WAIT: Duration = Duration::from_secs(30);
/// What ssh ends with where it does not reach the host, and a shell where it does not find the command.
const NOT_REACHED: i32 = 255;
const NOT_FOUND: i32 = 127;
/// Between two looks whether it is time for something.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What it takes to reach the hosts.
pub(in super::super) struct LaunchContext<'a> {
    pub(in super::super) place: &'a PlaceArgs,
    pub(in super::super) shares: &'a [Share],
    /// What `-x` passes to the program.
    pub(in super::super) passed: &'a [Variable],
    /// What the hosts are of, if they are allocated.
    pub(in super::super) allocation: Option<&'a Allocation>,
    pub(in super::super) began: Instant,
    /// When all has to be over.
    pub(in super::super) timeout: Option<Duration>,
    pub(in super::super) watchdog: &'a Watchdog,
    pub(in super::super) signals: &'a Signals,
}

/// What each host has answered, if it has; or why it never will.
type Answers<T> = Vec<Option<Result<T, LaunchError>>>;

impl LaunchContext<'_> {
    /// Nodes of the job.
    pub(in super::super) fn nodes(&self) -> u32 {
        self.shares.last().map_or(0, |share| share.ranks.end)
    }

    /// Starts the agents. `input`: node 0 is to get some.
    pub(super) fn agents(&self, input: bool) -> Result<Agents, LaunchError> {
        let refused = |what: &str| {
            let what = what.to_owned();
            move |error| LaunchError::system(what, self.nodes(), error)
        };
        let own = builds::own().map_err(refused("this program"))?;
        let path = std::env::current_exe().map_err(refused("this program's path"))?;
        let agent = format!("exec {} agent", quoted(&path));
        let mut agents = Agents::new(own, input);
        for share in self.shares {
            let (command, name) = self.command(&share.host, &agent);
            let started = AgentHandle::start(share, &command, self.watchdog, self.signals.before());
            let at = |error| LaunchError::of_host(&share.host, 125, not_started(&name, &error));
            agents.handles.push(started.map_err(at)?);
        }
        Ok(agents)
    }

    /// What ends the processes of an agent that cannot: nodes, and what these have started, carry `mark`. Under Slurm,
    /// which does that itself, nothing.
    pub(super) fn sweep(&self, host: &str, mark: &str) -> Vec<String> {
        match (&self.place.launcher_command, self.allocation, std::env::current_exe()) {
            (None, Some(_), _) | (_, _, Err(_)) => Vec::new(),
            (_, _, Ok(path)) => {
                let path = quoted(&path);
                self.command(
                    host,
                    &format!("exec < /dev/null {path} watchdog --agent --mark {mark}"),
                )
                .0
            }
        }
    }

    /// The command that runs the agent on a host, and what it is called.
    fn command(&self, host: &str, agent: &str) -> (Vec<String>, String) {
        let way: Vec<String> = match (&self.place.launcher_command, self.allocation) {
            (Some(command), _) => {
                // Looked at where the options are read.
                let way = shlex::split(command).unwrap_or_default().into_iter();
                let words = way.chain([host, agent].map(str::to_owned)).collect();
                return (words, format!("--launcher-command {command}"));
            }
            (None, Some(allocation)) => {
                return (allocation.command(host, agent), "srun".to_owned());
            }
            (None, None) => {
                let limit = self.place.boot_timeout.map(|time| time.as_secs().max(1));
                let limit = format!("ConnectTimeout={}", limit.unwrap_or(SSHD_WAIT));
                SSH.map(str::to_owned).into_iter().chain(["-o".to_owned(), limit]).collect()
            }
        };
        let name = way.join(" ");
        (way.into_iter().chain([host, agent].map(str::to_owned)).collect(), name)
    }

    /// Waits for one answer of each agent.
    ///
    /// # Errors
    /// One says that it cannot, or is lost or late; or the user wants out.
    pub(super) fn gather<T>(
        &self,
        agents: &mut Agents,
        pick: impl Fn(AgentEvent) -> Option<T>,
    ) -> Result<Vec<T>, LaunchError> {
        let has_failed = |answer: &Option<Result<T, LaunchError>>| matches!(answer, Some(Err(_)));
        let mut answers = self.receive(agents, pick, |answers| answers.iter().any(has_failed))?;
        for (answer, handle) in answers.iter_mut().zip(&agents.handles) {
            let Some(Err(LaunchError::Host { why, .. })) = answer else { continue };
            if why.starts_with(NOT_STARTED) {
                *why += &format!("; {}", self.advice(handle));
            }
            *why = why.replace(elf::LOAD_ADVICE, environment::load_advice(self.passed));
        }
        answers.into_iter().flatten().collect()
    }

    /// What to do where no agent could be started.
    pub(super) fn advice(&self, handle: &AgentHandle) -> String {
        let host = handle.host();
        let path = std::env::current_exe().unwrap_or_default();
        let path = path.display();
        let install = || format!("install this build there, at the same path: {path}");
        // A shell says what it does not find; another program may end with this code as well.
        let lacks_us = handle.exit_code() == Some(NOT_FOUND)
            && handle.last_line().contains(&*path.to_string());
        match (&self.place.launcher_command, self.allocation, handle.exit_code()) {
            _ if lacks_us => install(),
            (Some(command), ..) => {
                format!("see what '{command} {host} true' says{}", slots_hint(host))
            }
            (None, Some(_), _) => {
                "see that the allocation lasts (squeue), and that 'srun --overlap true' works in it"
                    .to_owned()
            }
            (None, None, Some(NOT_REACHED)) => {
                let hint = slots_hint(host);
                format!("see that 'ssh {host} true' works, without a password{hint}")
            }
            (None, None, Some(NOT_FOUND)) => install(),
            (None, None, _) => format!("see what 'ssh {host} {path} --version' says"),
        }
    }

    /// Waits for what each agent has to say, be it that it cannot, or that it is lost or late.
    ///
    /// # Errors
    /// The user wants out.
    pub(super) fn gather_each<T>(
        &self,
        agents: &mut Agents,
        pick: impl Fn(AgentEvent) -> Option<T>,
    ) -> Result<Vec<Result<T, LaunchError>>, LaunchError> {
        let answers = self.receive(agents, pick, |_| false)?;
        Ok(answers.into_iter().flatten().collect())
    }

    fn receive<T>(
        &self,
        agents: &mut Agents,
        pick: impl Fn(AgentEvent) -> Option<T>,
        is_enough: impl Fn(&Answers<T>) -> bool,
    ) -> Result<Answers<T>, LaunchError> {
        // Nothing comes from those that are gone.
        let gone = |handle: &AgentHandle| {
            let why = handle.gone()?.to_owned();
            Some(Err(LaunchError::of_host(handle.host(), LAUNCHER_FAILED, why)))
        };
        let mut answers: Answers<T> = agents.handles.iter().map(gone).collect();
        let mut buffer = vec![0; 64 << 10];
        while answers.iter().any(Option::is_none) && !is_enough(&answers) {
            self.check()?;
            wait(&agents.handles, self.signals);
            let own = agents.own.clone();
            for (handle, answer) in agents.handles.iter_mut().zip(&mut answers) {
                handle.beat();
                let _ = handle.read_stderr(&mut buffer);
                if !handle.is_there() {
                    continue;
                }
                // What comes after the answer stays in the channel: its nodes may run while others start.
                let is_full = answer.is_some() && handle.is_full();
                let read = if is_full { Ok(()) } else { handle.read(&mut buffer) };
                if answer.is_none() {
                    *answer = received(handle, &own, &pick).transpose();
                }
                // One that has answered may be lost as well, while others have not.
                let silence = if is_full { None } else { handle.silence_at_start() };
                let gone = read.err().or(silence);
                if let (Some(Ok(_)), Some(why)) = (&answer, &gone) {
                    *answer = Some(Err(LaunchError::of_host(handle.host(), 125, why.clone())));
                }
                if answer.is_none() {
                    let lost = gone.map(|why| LaunchError::of_host(handle.host(), 125, why));
                    *answer = lost.or_else(|| self.late(handle)).map(Err);
                }
                if let Some(Err(error)) = answer {
                    handle.give_up(&error.to_string());
                }
            }
        }
        Ok(answers)
    }

    /// Whether the user wants out.
    fn check(&self) -> Result<(), LaunchError> {
        while let Some(signal) = self.signals.next() {
            if [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal) {
                return Err(LaunchError::Interrupted(signal.as_raw()));
            }
        }
        match self.timeout.filter(|&limit| self.began.elapsed() >= limit) {
            Some(limit) => Err(LaunchError::TimeOut(limit)),
            None => Ok(()),
        }
    }

    /// Why an agent that has not answered is given up, if its time is over.
    fn late(&self, handle: &AgentHandle) -> Option<LaunchError> {
        let limit = self.place.boot_timeout.unwrap_or(START_WAIT);
        let said = handle.said_instead().map(|line| format!(" but '{line}'")).unwrap_or_default();
        let why = format!(
            "no answer in {} s{said}; try to log in there, or give it longer with --boot-timeout",
            limit.as_secs_f64()
        );
        let is_over = self.began.elapsed() >= limit;
        is_over.then(|| LaunchError::of_host(handle.host(), 125, why))
    }
}

/// What may have been meant by an IPv6 address whose last group may be a number of slots.
fn slots_hint(host: &str) -> String {
    let (user, address) = host.rsplit_once('@').map_or(("", host), |(user, rest)| (user, rest));
    let at = if user.is_empty() { "" } else { "@" };
    let meant = address.rsplit_once(':').filter(|(address, slots)| {
        address.parse::<Ipv6Addr>().is_ok() && slots.parse::<u32>().is_ok_and(|slots| slots > 0)
    });
    let hint = |(address, slots)| {
        format!(", or write [{user}{at}{address}]:{slots} if {slots} slots at {address} are meant")
    };
    meant.map(hint).unwrap_or_default()
}

/// The answer of an agent, if it is there.
fn received<T>(
    handle: &mut AgentHandle,
    own: &str,
    pick: impl Fn(AgentEvent) -> Option<T>,
) -> Result<Option<T>, LaunchError> {
    let host = handle.host().to_owned();
    let at = |code, why| LaunchError::of_host(&host, code, why);
    while let Some(event) = handle.next(own).map_err(|why| at(125, why))? {
        if let AgentEvent::Failed { code, why } = event {
            let code = if code == 0 { LAUNCHER_FAILED } else { code };
            return Err(at(code, printable(&why)));
        }
        if !matches!(event, AgentEvent::Heartbeat { .. } | AgentEvent::Busy) {
            let wrong = || at(125, "its agent answers what was not asked".to_owned());
            return pick(event).map(Some).ok_or_else(wrong);
        }
    }
    Ok(None)
}

/// Waits until something arrives, or a while.
fn wait(handles: &[AgentHandle], signals: &Signals) {
    let signals = signals.as_fd();
    let mut set = vec![PollFd::from_borrowed_fd(signals, PollFlags::IN)];
    for handle in handles.iter().filter(|handle| handle.is_there()) {
        let input = (!handle.is_full()).then(|| handle.input());
        set.extend(input.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let stderr_lines = handle.stderr();
        set.extend(stderr_lines.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        set.extend(handle.output().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
    }
    let _ = poll(&mut set, Some(&POLL_INTERVAL));
}

/// Why what leads to the hosts cannot be started.
fn not_started(name: &str, error: &io::Error) -> String {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let why =
        if is_missing { "no such program on this host".to_owned() } else { error.to_string() };
    let what_to_do = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of this shell (ulimit -n)",
        Some(libc::EAGAIN | libc::ENOMEM) => {
            "no process can be started here: see ulimit -u and free memory"
        }
        _ => "--launcher-command names a program of this host that leads to the others",
    };
    format!("{name}: {why}; {what_to_do}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_may_have_swallowed_slots_is_asked_about() {
        let hint = slots_hint("fd77::2:2");
        assert_eq!(hint, ", or write [fd77::2]:2 if 2 slots at fd77::2 are meant");
        assert!(slots_hint("me@fd77::2:16").contains("[me@fd77::2]:16 if 16 slots at fd77::2 "));
        for plain in ["fd77::2", "fd77::2:ab", "10.0.0.1", "node1", "fd77::2:0"] {
            assert_eq!(slots_hint(plain), "", "{plain}");
        }
    }

    #[test]
    fn what_to_do_is_about_the_cause() {
        let said = |errno| not_started("ssh", &io::Error::from_raw_os_error(errno));
        assert!(said(libc::EMFILE).ends_with("(ulimit -n)"));
        assert!(said(libc::EAGAIN).contains("ulimit -u"));
        assert!(said(libc::ENOENT).contains("no such program on this host; --launcher-command"));
    }
}
