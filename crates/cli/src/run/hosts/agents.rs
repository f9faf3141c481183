//! All agents of a job, as the launcher's event loop sees them; none in a job on this host alone.

use super::super::event_source::Source;
use super::agent_handle::{AgentHandle, now_ns};
use super::failure_detector::PERIOD;
use super::messages::{AgentEvent, Request};
use super::sweep::Sweep;
use rustix::event::epoll::{self, EventFlags};
use rustix::process::Pid;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long agents may take to go.
const END_WAIT: Duration = Duration::from_secs(2);
/// How long a stopping launcher tries to tell the agents.
const TELL_WAIT: Duration = Duration::from_millis(200);

/// The agents; when this is dropped, they are told to go, and waited for, though not for long.
#[derive(Default)]
pub(in super::super) struct Agents {
    pub(super) handles: Vec<AgentHandle>,
    /// This launcher's build, which is theirs.
    pub(super) own: String,
    /// Process ids of the nodes, by rank.
    pub(super) pids: Vec<i32>,
    /// Addresses of the hosts' nodes, where they have some.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether node 0 gets input.
    pub(super) input: bool,
    paused: bool,
}

impl Agents {
    /// Nobody yet.
    pub(super) fn new(own: String, input: bool) -> Self {
        let (handles, pids, addresses) = (Vec::new(), Vec::new(), Vec::new());
        Self { handles, own, pids, addresses, input, paused: false }
    }

    /// Whether the job is on this host alone.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Nodes of the job: by rank, the process id and the host of each.
    pub(in super::super) fn nodes(&self) -> Vec<(i32, String)> {
        let of = |handle: &AgentHandle| vec![handle.host().to_owned(); handle.ranks().len()];
        self.pids.iter().copied().zip(self.handles.iter().flat_map(of)).collect()
    }

    /// Whether nodes of another host may be at this address.
    pub(in super::super) fn meet_at(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Whether node 0 gets input.
    pub(in super::super) fn take_input(&self) -> bool {
        self.input
    }

    /// Reports what they say.
    pub(in super::super) fn register(&self, set: &OwnedFd) -> io::Result<()> {
        for (host, handle) in self.handles.iter().enumerate() {
            epoll::add(set, handle.input(), Source::Agent(host).data(), EventFlags::IN)?;
            if let Some(stderr_lines) = handle.stderr() {
                epoll::add(set, stderr_lines, Source::AgentStderr(host).data(), EventFlags::IN)?;
            }
        }
        Ok(())
    }

    /// Children of the launcher that are not left over.
    pub(in super::super) fn commands(&self) -> impl Iterator<Item = Pid> {
        self.handles.iter().map(AgentHandle::pid)
    }

    /// So many bytes of output have come from a host.
    ///
    /// # Errors
    /// It was told to hold them back, and does not.
    pub(in super::super) fn check_pause(
        &mut self,
        host: usize,
        bytes: usize,
    ) -> Result<(), String> {
        self.handles[host].check_pause(self.paused, bytes)
    }

    /// The name of a host.
    pub(in super::super) fn host(&self, host: usize) -> &str {
        self.handles[host].host()
    }

    /// The ranks on a host.
    pub(in super::super) fn ranks(&self, host: usize) -> std::ops::Range<usize> {
        let ranks = self.handles[host].ranks();
        // Ranks are 1024 at most.
        ranks.start as usize..ranks.end as usize
    }

    /// Tells all.
    pub(in super::super) fn tell_all(&mut self, request: &Request) {
        self.handles.iter_mut().for_each(|handle| handle.tell(request));
    }

    /// Asks what the threads of a node wait for.
    pub(in super::super) fn ask(&mut self, rank: usize, question: u64) {
        self.tell_agent_of(rank, |rank| Request::Ask { rank, question });
    }

    /// Asks how this process ends, which may be the node in place of one that ends before it.
    pub(in super::super) fn await_successor(&mut self, rank: usize, pid: i32) {
        self.tell_agent_of(rank, |rank| Request::AwaitSuccessor { rank, pid });
    }

    fn tell_agent_of(&mut self, rank: usize, request: impl FnOnce(u32) -> Request) {
        let Ok(rank) = u32::try_from(rank) else { return };
        if let Some(handle) = self.handles.iter_mut().find(|one| one.ranks().contains(&rank)) {
            handle.tell(&request(rank));
        }
    }

    /// Input for node 0, or its end.
    pub(in super::super) fn give_input(&mut self, bytes: Vec<u8>) {
        let request = if bytes.is_empty() { Request::EndOfInput } else { Request::Input(bytes) };
        self.handles.iter_mut().take(1).for_each(|handle| handle.tell(&request));
    }

    /// Whether output is to be held back.
    pub(in super::super) fn pause(&mut self, paused: bool) {
        if paused != self.paused {
            self.paused = paused;
            self.tell_all(&Request::Pause(paused));
        }
    }

    /// Whether it is.
    pub(in super::super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// The launcher is about to be stopped: what it has told is to be on its way.
    pub(in super::super) fn flush(&mut self) {
        let start = Instant::now();
        let waits = |handle: &AgentHandle| handle.is_there() && handle.output().is_some();
        while self.handles.iter().any(waits) && start.elapsed() < TELL_WAIT {
            self.handles.iter_mut().for_each(AgentHandle::beat);
            std::thread::yield_now();
        }
    }

    /// Reads what a host says.
    ///
    /// # Errors
    /// Nothing more comes from it: why, in words.
    pub(in super::super) fn read(&mut self, host: usize, buffer: &mut [u8]) -> Result<(), String> {
        self.handles[host].read(buffer)
    }

    /// The next event of a host.
    ///
    /// # Errors
    /// It is none.
    pub(in super::super) fn next(&mut self, host: usize) -> Result<Option<AgentEvent>, String> {
        self.handles[host].next(&self.own)
    }

    /// What the command that leads to a host, and the shell there, write to stderr.
    pub(in super::super) fn read_stderr(&mut self, host: usize, buffer: &mut [u8]) -> Vec<String> {
        // At their end, the closed descriptor leaves the set by itself.
        self.handles[host].read_stderr(buffer)
    }

    /// How long ago a host was asked what it answered last.
    pub(in super::super) fn heard_before(&self, host: usize) -> Duration {
        Duration::from_nanos(now_ns().saturating_sub(self.handles[host].heard_at()))
    }

    /// How many there are.
    pub(in super::super) fn hosts(&self) -> usize {
        self.handles.len()
    }

    /// A time by a host's monotonic clock, by ours.
    pub(in super::super) fn by_our_clock(&self, host: usize, at: Duration) -> Duration {
        self.handles[host].by_our_clock(at)
    }

    /// Nothing of this host's nodes is left.
    pub(in super::super) fn set_swept(&mut self, host: usize) {
        self.handles[host].set_swept();
    }

    /// Whether nothing is left on any host that can be asked.
    pub(in super::super) fn are_swept(&self) -> bool {
        self.handles.iter().all(AgentHandle::is_swept)
    }

    /// A host is lost; false if that is known.
    pub(in super::super) fn give_up(&mut self, host: usize, set: &OwnedFd, why: &str) -> bool {
        let handle = &mut self.handles[host];
        let new = handle.is_there();
        if new {
            handle.give_up(why);
            let _ = epoll::delete(set, handle.input());
        }
        new
    }

    /// Says that the launcher is there; the hosts that have said nothing for too long, and why that is so.
    pub(in super::super) fn beat(&mut self, set: &OwnedFd) -> Vec<(usize, String)> {
        for (host, handle) in self.handles.iter_mut().enumerate() {
            handle.beat();
            handle.await_room(set, Source::AgentRoom(host).data());
        }
        let hosts = self.handles.iter_mut().enumerate();
        hosts.filter_map(|(host, handle)| Some((host, handle.silence()?))).collect()
    }

    /// How long a host that is there may say nothing.
    pub(in super::super) fn timeout(&self) -> Duration {
        let there = self.handles.iter().filter(|handle| handle.is_there());
        there.map(AgentHandle::timeout).max().unwrap_or_default()
    }

    /// How long to wait for the next beat.
    pub(in super::super) fn period(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(PERIOD / 2)
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.tell_all(&Request::Leave);
        self.handles.iter_mut().for_each(AgentHandle::beat);
        let start = Instant::now();
        let sweeps: Vec<Sweep> = self.handles.iter_mut().filter_map(AgentHandle::sweep).collect();
        let handles = std::mem::take(&mut self.handles).into_iter();
        for command in handles.map(AgentHandle::hang_up).collect::<Vec<_>>() {
            command.end(END_WAIT.saturating_sub(start.elapsed()));
        }
        for sweep in sweeps {
            sweep.end(END_WAIT.saturating_sub(start.elapsed()));
        }
    }
}
