//! All agents of a job, as the launcher's event loop sees them; none in a job on this host alone.

use super::super::event_source::Source;
use super::channel::{PATIENCE, PERIOD};
use super::contact::Contact;
use super::messages::{Order, Word};
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
    pub(super) contacts: Vec<Contact>,
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
        let (contacts, pids, addresses) = (Vec::new(), Vec::new(), Vec::new());
        Self { contacts, own, pids, addresses, input, paused: false }
    }

    /// Whether the job is on this host alone.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.contacts.is_empty()
    }

    /// Nodes of the job: by rank, the process id and the host of each.
    pub(in super::super) fn nodes(&self) -> Vec<(i32, String)> {
        let of = |contact: &Contact| vec![contact.host().to_owned(); contact.ranks().len()];
        self.pids.iter().copied().zip(self.contacts.iter().flat_map(of)).collect()
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
        for (host, contact) in self.contacts.iter().enumerate() {
            epoll::add(set, contact.input(), Source::Agent(host).data(), EventFlags::IN)?;
            if let Some(complaints) = contact.complaints() {
                epoll::add(set, complaints, Source::Complaint(host).data(), EventFlags::IN)?;
            }
        }
        Ok(())
    }

    /// Children of the launcher that are not left over.
    pub(in super::super) fn commands(&self) -> impl Iterator<Item = Pid> {
        self.contacts.iter().map(Contact::pid)
    }

    /// The name of a host.
    pub(in super::super) fn host(&self, host: usize) -> &str {
        self.contacts[host].host()
    }

    /// The ranks on a host.
    pub(in super::super) fn ranks(&self, host: usize) -> std::ops::Range<usize> {
        let ranks = self.contacts[host].ranks();
        // Ranks are 1024 at most.
        ranks.start as usize..ranks.end as usize
    }

    /// Tells all.
    pub(in super::super) fn tell_all(&mut self, order: &Order) {
        self.contacts.iter_mut().for_each(|contact| contact.tell(order));
    }

    /// Asks what the threads of a node wait for.
    pub(in super::super) fn ask(&mut self, rank: usize, question: u64) {
        let Ok(rank) = u32::try_from(rank) else { return };
        let of = self.contacts.iter_mut().find(|contact| contact.ranks().contains(&rank));
        of.into_iter().for_each(|contact| contact.tell(&Order::Ask { rank, question }));
    }

    /// Input for node 0, or its end.
    pub(in super::super) fn give_input(&mut self, bytes: Vec<u8>) {
        let order = if bytes.is_empty() { Order::EndOfInput } else { Order::Input(bytes) };
        self.contacts.iter_mut().take(1).for_each(|contact| contact.tell(&order));
    }

    /// Whether output is to be held back.
    pub(in super::super) fn pause(&mut self, paused: bool) {
        if paused != self.paused {
            self.paused = paused;
            self.tell_all(&Order::Pause(paused));
        }
    }

    /// Whether it is.
    pub(in super::super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// The launcher is about to be stopped: what it has told is to be on its way.
    pub(in super::super) fn flush(&mut self) {
        let start = Instant::now();
        let waits = |contact: &Contact| contact.is_there() && contact.output().is_some();
        while self.contacts.iter().any(waits) && start.elapsed() < TELL_WAIT {
            self.contacts.iter_mut().for_each(Contact::beat);
            std::thread::yield_now();
        }
    }

    /// Reads what a host says.
    ///
    /// # Errors
    /// Nothing more comes from it: why, in words.
    pub(in super::super) fn read(&mut self, host: usize, buffer: &mut [u8]) -> Result<(), String> {
        self.contacts[host].read(buffer)
    }

    /// The next word of a host.
    ///
    /// # Errors
    /// It is none.
    pub(in super::super) fn next(&mut self, host: usize) -> Result<Option<Word>, String> {
        self.contacts[host].next(&self.own)
    }

    /// What is complained about at a host.
    pub(in super::super) fn complaints(&mut self, host: usize, buffer: &mut [u8]) -> Vec<String> {
        // At their end, the closed descriptor leaves the set by itself.
        self.contacts[host].read_complaints(buffer)
    }

    /// How many there are.
    pub(in super::super) fn hosts(&self) -> usize {
        self.contacts.len()
    }

    /// A time by a host's monotonic clock, by ours.
    pub(in super::super) fn by_our_clock(&self, host: usize, at: Duration) -> Duration {
        self.contacts[host].by_our_clock(at)
    }

    /// Nothing of this host's nodes is left.
    pub(in super::super) fn is_swept(&mut self, host: usize) {
        self.contacts[host].has_swept();
    }

    /// Whether nothing is left on any host that can be asked.
    pub(in super::super) fn are_swept(&self) -> bool {
        self.contacts.iter().all(Contact::is_swept)
    }

    /// A host is lost; false if that is known.
    pub(in super::super) fn give_up(&mut self, host: usize, set: &OwnedFd, why: &str) -> bool {
        let contact = &mut self.contacts[host];
        let new = contact.is_there();
        if new {
            contact.give_up(why);
            let _ = epoll::delete(set, contact.input());
        }
        new
    }

    /// Says that the launcher is there; the hosts that have said nothing for too long, and why that is so.
    pub(in super::super) fn beat(&mut self) -> Vec<(usize, String)> {
        self.contacts.iter_mut().for_each(Contact::beat);
        let silent = |(host, contact): (usize, &mut Contact)| contact.is_silent().then_some(host);
        let silent = self.contacts.iter_mut().enumerate().filter_map(silent);
        silent.map(|host| (host, silence())).collect()
    }

    /// How long to wait for the next beat.
    pub(in super::super) fn period(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(PERIOD / 2)
    }
}

/// Why a silent agent is given up.
pub(super) fn silence() -> String {
    format!("no word from its agent for {} s", PATIENCE.as_secs())
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.tell_all(&Order::End);
        self.contacts.iter_mut().for_each(Contact::beat);
        let start = Instant::now();
        let sweeps: Vec<Sweep> = self.contacts.iter_mut().filter_map(Contact::sweep).collect();
        for contact in std::mem::take(&mut self.contacts) {
            let limit = if contact.is_greeted() { END_WAIT } else { Duration::ZERO };
            contact.end(limit.saturating_sub(start.elapsed()));
        }
        for sweep in sweeps {
            sweep.end(END_WAIT.saturating_sub(start.elapsed()));
        }
    }
}
