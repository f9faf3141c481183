//! The mesh: this node's links to all other nodes.
//!
//! Role: owns the peers and what is common to them. `send` routes frames to outboxes, `receive` reads the
//! links that have input and tells the sink what came, `backlog` says how much waits;
//! `atomic_peer_set` keeps which peers are to be flushed. Any thread
//! sends; one thread at a time receives (the caller sees to that).

mod atomic_peer_set;
mod backlog;
mod on_demand_links;
mod receive;
mod send;

use crate::counters::{Counters, Tally};
use crate::error::TransportError;
use crate::first_links::{self, BootConfig, Booted, Others};
use crate::handshake::Identity;
use crate::link::{self, Link, Listener};
use crate::peer::Peer;
use crate::readiness::{LISTENER, Waiting};
use crate::shim::{self, AtomicBool, Mutex};
use crate::suppression::Receiver;
use crate::timeout::Timeout;
use crate::unauthenticated::Refusals;
use atomic_peer_set::AtomicPeerSet;
use core::fmt;
use core::time::Duration;
use multigrain_types::NodeId;
pub use on_demand_links::LinkEvent;
use on_demand_links::OnDemandLinks;
use receive::Receiving;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Up to so many links are tried one by one instead of asking epoll, and may suppress wake-ups, for each
/// takes a system call.
const FEW_LINKS: usize = 3;
/// How long [`Mesh::close`] waits for peers to take what is queued.
const GRACE: Duration = Duration::from_secs(1);
/// Answers that may wait for a peer when nothing else was said, in bytes: those to all its threads
/// are far less.
const ALLOWED_ANSWERS: usize = 64 << 20;

/// This node's links to all other nodes.
pub struct Mesh {
    identity: Identity,
    /// By rank; none for this node.
    peers: Vec<Option<Peer>>,
    refusing: Refusing,
    /// Those that are made when first used.
    links: OnDemandLinks,
    waiting: Waiting,
    receiving: Mutex<Receiving>,
    /// What was received; the peers count what is sent to them.
    tally: Tally,
    /// Those that may have deferred frames.
    deferred: AtomicPeerSet,
    /// Bytes of answers that may wait for a peer.
    allowed_answers: AtomicUsize,
    closed: AtomicBool,
}

/// Where whoever connects is refused.
struct Refusing {
    listeners: Vec<Listener>,
    refusals: Refusals,
}

impl fmt::Debug for Mesh {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, nodes) = (self.rank(), self.nodes());
        write!(out, "Mesh({rank} of {nodes}, {} links alive)", self.links_alive())
    }
}

impl Mesh {
    /// Connects this node with all others; `refused` gets one line for every unauthenticated connection
    /// that was turned away.
    ///
    /// # Errors
    /// [`TransportError`]: a peer cannot be reached, refuses this node, or is missing when the
    /// deadline passes.
    pub fn boot(
        config: BootConfig,
        refused: &mut dyn FnMut(String),
    ) -> Result<Mesh, TransportError> {
        Self::new(first_links::boot(config, refused)?)
    }

    /// The mesh of a job of one node: no links, but [`Mesh::service_wait`] and [`Mesh::wake`].
    ///
    /// # Panics
    /// When the process has no file descriptors left.
    #[must_use]
    pub fn single() -> Mesh {
        let identity = Identity { rank: NodeId(0), nodes: 1, job: 0, secret: [0; 32], build: 0 };
        let (links, others) = (vec![None], Others::none());
        let alone = Booted { identity, links, others, part: None };
        Self::new(alone).expect("four file descriptors for the mesh of one node")
    }

    pub(crate) fn new(booted: Booted) -> Result<Mesh, TransportError> {
        let Booted { identity, links, others, part } = booted;
        let (listeners, refusals, rendezvous) = match others {
            Others::Refused(listeners, refusals) => (listeners, refusals, None),
            Others::ByRendezvous(rendezvous) => (Vec::new(), Refusals::default(), Some(rendezvous)),
        };
        let waiting = Waiting::new()?;
        for listener in &listeners {
            waiting.watch(listener, LISTENER)?;
        }
        let mut peers = Vec::with_capacity(links.len());
        for (node, link) in (0..).map(NodeId).zip(links) {
            let peer = (node != identity.rank).then(|| Peer::new(node, part));
            if let (Some(peer), Some(link)) = (&peer, link) {
                peer.join(link, &waiting)?;
            }
            peers.push(peer);
        }
        let nodes = peers.len();
        Ok(Mesh {
            deferred: AtomicPeerSet::new(peers.len()),
            receiving: Mutex::new(Receiving::new(&peers)),
            identity,
            peers,
            refusing: Refusing { listeners, refusals },
            links: OnDemandLinks::new(rendezvous, nodes),
            waiting,
            tally: Tally::default(),
            allowed_answers: AtomicUsize::new(ALLOWED_ANSWERS),
            closed: AtomicBool::new(false),
        })
    }

    /// From now on a receiver that sleeps wakes, with nothing, when a peer has taken what was sent to it
    /// (ADR 8). Only where links say so: TCP does not.
    ///
    /// # Errors
    /// [`TransportError`]: no descriptor is left.
    pub fn wake_when_taken(&self) -> Result<(), TransportError> {
        let links = self.peers().filter_map(Peer::link).filter(|link| link.tells_taken());
        self.waiting.wake_when_taken(links.map(|link| link.readiness()))
    }

    /// Notices hosts that are cut off: to be called a few times a second.
    pub fn look_after_links(&self) {
        let alive = self.peers().filter(|peer| peer.is_alive());
        alive.filter_map(Peer::link).for_each(Link::look_after);
    }

    /// Number of nodes of the job, this one included.
    pub fn nodes(&self) -> u16 {
        self.identity.nodes
    }

    /// This node.
    pub fn rank(&self) -> NodeId {
        self.identity.rank
    }

    /// Number of links to peers that neither left nor died.
    pub fn links_alive(&self) -> usize {
        self.peers().filter(|peer| peer.has_link() && peer.is_alive()).count()
    }

    /// Whether a peer has not been told goodbye yet, after [`Mesh::leave`]: what was queued before it goes first.
    pub fn says_goodbye(&self) -> bool {
        self.peers().any(Peer::is_leaving)
    }

    /// What went over the links so far.
    pub fn counters(&self) -> Counters {
        self.peers().fold(self.tally.read(), |all, peer| all.plus(&peer.tally().read()))
    }

    /// The file descriptors that this mesh keeps open as long as it lives, and those of connections that were no links yet
    /// when it was made; but for those of links that are still to be made ([`LinkEvent::Made`]).
    #[must_use]
    pub fn descriptors(&self) -> Vec<RawFd> {
        let links = self.peers().filter_map(Peer::link).flat_map(link::descriptors);
        let listeners = self.refusing.listeners.iter().map(|listener| listener.as_fd().as_raw_fd());
        let own = listeners.chain(self.waiting.descriptors()).chain(self.links.descriptors());
        links.chain(own).collect()
    }

    fn peer(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(node.index())?.as_ref()
    }

    fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten()
    }

    /// The links that may suppress wake-ups by themselves.
    fn suppressing_links(&self) -> impl Iterator<Item = &dyn Link> + Clone {
        let few = self.peers.len() <= FEW_LINKS + 1;
        let peers: &[Option<Peer>] = if few { &self.peers } else { &[] };
        peers.iter().flatten().filter_map(Peer::link)
    }

    /// An application thread begins to receive: arrivals do not wake the service thread.
    pub fn suppress_wakeups(&self, receiver: Receiver) {
        self.waiting.suppress(receiver, self.suppressing_links());
    }

    /// It receives no more: what is readable wakes the service thread.
    ///
    /// # Panics
    /// Without [`Mesh::suppress_wakeups`] before it.
    pub fn resume_wakeups(&self) {
        self.waiting.resume(self.suppressing_links());
    }

    /// The service thread's sleep: true when there is something to receive and nobody suppresses
    /// wake-ups, or so much at once that it woke the thread all the same; false when the time is over, after [`Mesh::wake`], or after a signal.
    pub fn service_wait(&self, timeout: Timeout) -> bool {
        self.waiting.service_wait(timeout, self.suppressing_links())
    }

    /// Ends the current or next sleep of the service thread and of a receiving thread.
    pub fn wake(&self) {
        self.waiting.wake();
    }

    /// Says goodbye to all peers: they see [`crate::LostReason::Left`]. Nothing can be sent after it;
    /// receiving goes on until the peers have left, too.
    pub fn leave(&self) {
        if let Some(rendezvous) = self.make_no_more_links() {
            rendezvous.leave();
        }
        for peer in self.peers() {
            peer.leave(self.rank(), &self.waiting);
        }
    }

    /// Ends all links, after waiting up to a second for peers to take what is queued. Without
    /// [`Mesh::leave`] before it, the peers see [`crate::LostReason::Died`]. After it, receiving
    /// delivers nothing. Payload memory given to [`Mesh::send`] is free again.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        drop(self.make_no_more_links());
        let end = Instant::now() + GRACE;
        for peer in self.peers() {
            while let Some(link) = peer.link()
                && peer.has_backlog()
                && Instant::now() < end
            {
                let left = end.saturating_duration_since(Instant::now());
                let timeout = Timespec::try_from(left).ok();
                let readiness = link.readiness();
                let _ = poll(&mut [PollFd::new(&readiness, PollFlags::OUT)], timeout.as_ref());
                peer.flush(&self.waiting);
            }
            peer.close(&self.waiting);
        }
        self.waiting.wake();
    }
}
