//! Boot: from addresses to one link per peer.
//!
//! Role: node i connects to every j < i and accepts every j > i, all handshakes at once in one
//! loop over an epoll set, so that a silent connection delays nobody and a thousand cost no more than those
//! that have something to say. A peer that does not listen yet, or cannot be reached yet, is tried again
//! until boot's time is over.
//!
//! Invariant: whoever is wrong yields one line and is gone; the loop goes on for the others.

mod pending;

use crate::address::Address;
use crate::credentials::Credentials;
use crate::error::TransportError;
use crate::frame_header::Header;
use crate::handshake::{self, Answer, HELLO_BYTES, Identity, Refusal};
use crate::link::{self, Backends, Link, Listener};
use crate::unauthenticated::{Refusals, is_of_one_connection, send_bytes, turn_away};
use core::mem::MaybeUninit;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use pending::{Pending, Received, Stage};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// How long an unauthenticated connection may take for its HELLO, and so much longer for each node of the
/// job: the nodes of a host compete for its processors while they start.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_FOR_EACH: Duration = Duration::from_millis(50);
/// Unauthenticated connections at once, beyond one of each node; one more drops the oldest.
const MAX_UNAUTHENTICATED: usize = 64;
/// Connections accepted in one round, so that a flood of them holds up no peer.
const AT_ONCE: usize = 16;
/// Between two tries to connect to a peer that does not listen.
const RETRY: Duration = Duration::from_millis(50);
/// Events taken from the kernel at once.
const EVENTS: usize = 64;
/// The listeners' key in the epoll set, where connections have numbers.
const LISTENER: u64 = u64::MAX;

/// What a node needs to find the others.
#[derive(Debug)]
pub struct BootConfig {
    /// This node.
    pub rank: NodeId,
    /// Where each node listens; index = rank, length = number of nodes.
    pub peers: Vec<Address>,
    /// This node's listening sockets: one for each kind of link that leads to it. Without any,
    /// `peers[rank]` is bound here when a higher rank must connect to it.
    pub listeners: Vec<OwnedFd>,
    /// The job's id.
    pub job: u128,
    /// The job's secret.
    pub secret: [u8; 32],
    /// With them, both ends of a link over TCP prove their ranks, and encrypt what they say unless the credentials are
    /// [`Credentials::in_clear`]; without, whoever knows the secret is a node.
    pub credentials: Option<Credentials>,
    /// Identifies the build of program and library; all nodes must agree.
    pub build: u64,
    /// How long boot waits for all peers.
    pub deadline: Duration,
}

/// The result of boot: a link for every rank but the own, and the listeners.
pub(crate) struct Booted {
    pub(crate) identity: Identity,
    pub(crate) links: Vec<Option<Box<dyn Link>>>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) refusals: Refusals,
}

/// What became of a pending connection after an event.
enum Turn {
    Wait,
    Joined(NodeId),
    Gone,
}

struct Boot<'a> {
    identity: Identity,
    peers: Vec<Address>,
    backends: Backends,
    end: Instant,
    links: Vec<Option<Box<dyn Link>>>,
    /// How many of them there are.
    joined: u16,
    listeners: Vec<Listener>,
    /// Connections to peers, by number.
    reaching: BTreeMap<u64, Pending>,
    /// Connections that were accepted, by number: the oldest first, and so by their time.
    accepted: BTreeMap<u64, Pending>,
    /// Peers to connect to again: when, and why it failed the last time.
    later: Vec<(Instant, NodeId, Errno)>,
    /// The pending connections, by number, and the listeners.
    set: OwnedFd,
    /// Connections that were numbered.
    numbered: u64,
    refusals: Refusals,
    refused: &'a mut dyn FnMut(String),
}

/// Connects this node with all others.
pub(crate) fn boot(
    config: BootConfig,
    refused: &mut dyn FnMut(String),
) -> Result<Booted, TransportError> {
    let (rank, count) = (config.rank, config.peers.len());
    let wrong = TransportError::Config { rank: rank.0, nodes: count };
    let Ok(nodes) = u16::try_from(count) else { return Err(wrong) };
    if rank.0 >= nodes {
        return Err(wrong);
    }
    let backends = Backends::new(config.job, config.credentials.as_ref())?;
    let mut sockets = config.listeners;
    if sockets.is_empty() && rank.0 + 1 < nodes {
        sockets.push(link::bind(&config.peers[rank.index()])?.0);
    }
    let listeners = sockets.into_iter().map(|socket| backends.listener(socket));
    let listeners = listeners.collect::<Result<Vec<_>, _>>();
    let listeners = listeners.map_err(TransportError::system("FIONBIO"))?;
    let identity =
        Identity { rank, nodes, job: config.job, secret: config.secret, build: config.build };
    let set =
        epoll::create(CreateFlags::CLOEXEC).map_err(TransportError::system("epoll_create"))?;
    for listener in &listeners {
        let key = EventData::new_u64(LISTENER);
        epoll::add(&set, listener, key, EventFlags::IN)
            .map_err(TransportError::system("epoll_ctl"))?;
    }
    let mut boot = Boot {
        identity,
        peers: config.peers,
        backends,
        end: Instant::now() + config.deadline,
        links: (0..nodes).map(|_| None).collect(),
        joined: 0,
        listeners,
        reaching: BTreeMap::new(),
        accepted: BTreeMap::new(),
        later: Vec::new(),
        set,
        numbered: 0,
        refusals: Refusals::default(),
        refused,
    };
    for peer in (0..rank.0).map(NodeId) {
        boot.reach(peer)?;
    }
    while boot.joined + 1 < nodes {
        if Instant::now() >= boot.end {
            if let Some(&(_, peer, errno)) = boot.later.first() {
                return Err(boot.unreachable(peer, errno));
            }
            let missing = boot.missing().collect();
            return Err(TransportError::Missing { missing, waited: config.deadline });
        }
        boot.round()?;
    }
    let reaching = core::mem::take(&mut boot.reaching);
    for mut late in reaching.into_values().chain(core::mem::take(&mut boot.accepted).into_values())
    {
        match late.receive(HELLO_BYTES) {
            Received::Open => boot.refuse(&late, Refusal::Complete),
            Received::Ended => boot.refuse(&late, Refusal::Cut),
        }
    }
    for link in boot.links.iter().flatten() {
        link.tune().map_err(TransportError::system("setsockopt"))?;
    }
    let Boot { identity, links, listeners, refusals, .. } = boot;
    let listeners = listeners.into_iter().map(Listener::refusing).collect::<Result<Vec<_>, _>>();
    let listeners = listeners.map_err(TransportError::system("getsockname"))?;
    Ok(Booted { identity, links, listeners, refusals })
}

impl Boot<'_> {
    fn missing(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.identity.rank;
        let there = move |node: &NodeId| *node == own || self.links[node.index()].is_some();
        (0..self.identity.nodes).map(NodeId).filter(move |node| !there(node))
    }

    /// Begins to connect to a peer, now or later.
    fn reach(&mut self, peer: NodeId) -> Result<(), TransportError> {
        let patience = self.end.saturating_duration_since(Instant::now());
        // A patience of zero would mean for ever.
        let patience = patience.max(Duration::from_millis(1));
        match self.backends.connect(&self.peers[peer.index()], patience) {
            Ok(link) => self.keep(Pending::new(link, Stage::Connecting { peer })),
            Err(errno) => self.reach_later(peer, errno),
        }
    }

    fn reach_later(&mut self, peer: NodeId, errno: Errno) -> Result<(), TransportError> {
        if !may_change(errno) {
            return Err(self.unreachable(peer, errno));
        }
        self.later.push((Instant::now() + RETRY, peer, errno));
        Ok(())
    }

    fn unreachable(&self, peer: NodeId, errno: Errno) -> TransportError {
        TransportError::Connect { peer, address: self.peers[peer.index()].clone(), errno }
    }

    fn reach_again(&mut self) -> Result<(), TransportError> {
        let now = Instant::now();
        let due = |&(at, ..): &(Instant, NodeId, Errno)| at <= now;
        let due: Vec<_> = self.later.extract_if(.., |one| due(one)).collect();
        due.into_iter().try_for_each(|(_, peer, _)| self.reach(peer))
    }

    /// Waits for one round of events and deals with them.
    fn round(&mut self) -> Result<(), TransportError> {
        self.reach_again()?;
        let again = self.later.iter().map(|(at, ..)| *at);
        let silent = self.accepted.values().next().and_then(Pending::until);
        let wake = again.chain(silent).fold(self.end, Instant::min);
        for key in self.wait(wake)? {
            let one = self.reaching.remove(&key).or_else(|| self.accepted.remove(&key));
            let Some(mut one) = one else { continue };
            let turn = self.advance(&mut one)?;
            self.settle(one, turn)?;
        }
        self.end_silent();
        self.accept()
    }

    /// Refuses those whose time is over.
    fn end_silent(&mut self) {
        let now = Instant::now();
        while let Some(oldest) = self.accepted.first_entry()
            && oldest.get().until().is_some_and(|until| until <= now)
        {
            let one = oldest.remove();
            self.refuse(&one, Refusal::Silence);
        }
    }

    fn settle(&mut self, one: Pending, turn: Turn) -> Result<(), TransportError> {
        match turn {
            Turn::Wait => self.keep(one)?,
            Turn::Joined(peer) => {
                if one.watched.is_some() {
                    epoll::delete(&self.set, one.link.readiness())
                        .map_err(TransportError::system("epoll_ctl"))?;
                }
                self.links[peer.index()] = Some(one.link);
                self.joined += 1;
            }
            // A closed one leaves the set by itself.
            Turn::Gone => {}
        }
        Ok(())
    }

    /// Keeps a connection that has to wait, and watches it for what it waits for.
    fn keep(&mut self, mut one: Pending) -> Result<(), TransportError> {
        let interest = one.interest();
        let (key, done) = match one.watched {
            Some((key, watched)) if watched == interest => (key, Ok(())),
            Some((key, _)) => {
                let data = EventData::new_u64(key);
                (key, epoll::modify(&self.set, one.link.readiness(), data, interest))
            }
            None => {
                self.numbered += 1;
                let data = EventData::new_u64(self.numbered);
                (self.numbered, epoll::add(&self.set, one.link.readiness(), data, interest))
            }
        };
        one.watched = Some((key, interest));
        let all = if one.until().is_some() { &mut self.accepted } else { &mut self.reaching };
        all.insert(key, one);
        done.map_err(TransportError::system("epoll_ctl"))
    }

    /// The keys of what is ready; returns at `wake` at the latest.
    fn wait(&self, wake: Instant) -> Result<BTreeSet<u64>, TransportError> {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let left = wake.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        let timeout = Timespec::try_from(left).ok();
        match epoll::wait(&self.set, &mut room, timeout.as_ref()) {
            Ok((events, _)) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(BTreeSet::new()),
            Err(errno) => Err(TransportError::System { call: "epoll_wait", errno }),
        }
    }

    fn accept(&mut self) -> Result<(), TransportError> {
        for index in 0..self.listeners.len() {
            self.accept_from(index)?;
        }
        Ok(())
    }

    fn accept_from(&mut self, listener: usize) -> Result<(), TransportError> {
        for _ in 0..AT_ONCE {
            let link = match self.listeners[listener].accept() {
                Ok(link) => link,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) if is_of_one_connection(errno) => continue,
                Err(errno) => return Err(TransportError::System { call: "accept", errno }),
            };
            let patience = PATIENCE + PATIENCE_FOR_EACH * self.identity.nodes.into();
            let mut one = Pending::new(link, Stage::Accepted { until: Instant::now() + patience });
            if let Poll::Ready(Err(why)) = one.link.authenticate() {
                self.refuse(&one, why);
                continue;
            }
            self.make_room();
            let turn = self.advance(&mut one)?;
            self.settle(one, turn)?;
        }
        Ok(())
    }

    fn make_room(&mut self) {
        let most = MAX_UNAUTHENTICATED + usize::from(self.identity.nodes);
        if self.accepted.len() >= most
            && let Some((_, oldest)) = self.accepted.pop_first()
        {
            self.refuse(&oldest, Refusal::TooMany);
        }
    }

    fn advance(&mut self, one: &mut Pending) -> Result<Turn, TransportError> {
        match one.stage {
            Stage::Accepted { .. } => Ok(self.judge(one)),
            Stage::Connecting { peer } => self.begin(one, peer),
            Stage::Authenticating { peer } => self.ask(one, peer),
            Stage::Asked { peer } => self.receive_answer(one, peer),
        }
    }

    fn judge(&mut self, one: &mut Pending) -> Turn {
        match one.link.authenticate() {
            Poll::Pending => return Turn::Wait,
            Poll::Ready(Err(why)) => {
                self.refuse(one, why);
                return Turn::Gone;
            }
            Poll::Ready(Ok(())) => {}
        }
        let got = one.receive(HELLO_BYTES);
        let taken = |rank: NodeId| self.links[rank.index()].is_some();
        let verdict = handshake::judge(
            &one.said[..one.have],
            &self.identity.over(one.link.proves_rank()),
            taken,
        );
        let verdict = verdict
            .and_then(|peer| peer.map(|peer| one.link.may_be(peer).map(|()| peer)).transpose());
        let why = match (verdict, got) {
            (Ok(Some(peer)), _) => {
                let answer = handshake::welcome(&self.identity);
                if send_bytes(&*one.link, &answer) {
                    return Turn::Joined(peer);
                }
                Refusal::Cut
            }
            (Ok(None), Received::Open) => return Turn::Wait,
            (Ok(None), Received::Ended) => Refusal::Cut,
            (Err(why), _) => why,
        };
        self.refuse(one, why);
        Turn::Gone
    }

    fn begin(&mut self, one: &mut Pending, peer: NodeId) -> Result<Turn, TransportError> {
        if let Err(errno) = one.link.connected() {
            self.reach_later(peer, errno)?;
            return Ok(Turn::Gone);
        }
        one.stage = Stage::Authenticating { peer };
        self.ask(one, peer)
    }

    fn ask(&mut self, one: &mut Pending, peer: NodeId) -> Result<Turn, TransportError> {
        let proven = match one.link.authenticate() {
            Poll::Pending => return Ok(Turn::Wait),
            // Others pushed us out before it knew who we are, or it is gone.
            Poll::Ready(Err(Refusal::Cut)) => {
                self.reach_later(peer, Errno::CONNREFUSED)?;
                return Ok(Turn::Gone);
            }
            Poll::Ready(proven) => proven.and_then(|()| one.link.may_be(peer)),
        };
        proven.map_err(|reason| TransportError::Untrusted { peer, reason })?;
        // If it hung up already, its answer says why.
        send_bytes(&*one.link, &handshake::hello(&self.identity.over(one.link.proves_rank())));
        one.stage = Stage::Asked { peer };
        Ok(Turn::Wait)
    }

    fn receive_answer(&mut self, one: &mut Pending, peer: NodeId) -> Result<Turn, TransportError> {
        // Not a byte more than the answer: the peer's first frame may be right behind it.
        let got = one.receive(Header::BYTES);
        if let Some(said) = one.said.first_chunk().filter(|_| one.have == Header::BYTES) {
            return match handshake::answer(said, &self.identity, peer) {
                Answer::Welcome => Ok(Turn::Joined(peer)),
                // Others pushed us out before it received our HELLO.
                Answer::Refused(Refusal::TooMany) => {
                    self.reach(peer)?;
                    Ok(Turn::Gone)
                }
                Answer::Refused(reason) => Err(TransportError::Refused { peer, reason }),
                Answer::Nonsense(why) => Err(TransportError::Handshake { peer, why }),
            };
        }
        match got {
            Received::Open => Ok(Turn::Wait),
            Received::Ended => {
                if let Poll::Ready(Err(reason)) = one.link.authenticate() {
                    return Err(TransportError::Untrusted { peer, reason });
                }
                let why = "it closed the connection".to_owned();
                Err(TransportError::Handshake { peer, why })
            }
        }
    }

    fn refuse(&mut self, one: &Pending, why: Refusal) {
        let line = turn_away(&*one.link, self.identity.rank, why, &self.refusals);
        if let Some(line) = line {
            (self.refused)(line);
        }
    }
}

/// Whether connecting may succeed later: the peer does not listen yet, or the way to it is not up yet.
fn may_change(errno: Errno) -> bool {
    let passing = [Errno::CONNREFUSED, Errno::NOENT, Errno::HOSTUNREACH, Errno::NETUNREACH];
    passing.contains(&errno) || errno == Errno::TIMEDOUT
}
