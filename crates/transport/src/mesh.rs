//! The mesh: this node's links to all other nodes.
//!
//! Role: routes a send to its link, reads the links that have input, and tells the sink what
//! came. Any thread sends; one thread at a time receives (the caller sees to that).
#![expect(unsafe_code, reason = "raw payload memory is part of the interface")]

use crate::boot::{self, BootConfig, Booted};
use crate::claims::{Hushable, Receiver};
use crate::counters::{Counters, Tally};
use crate::error::{FrameError, LinkError, TransportError};
use crate::frame::{Header, LAST_KIND, MAX_PAYLOAD};
use crate::handshake::Identity;
use crate::incoming::{Desk, Incoming, Socket, Staging};
use crate::kept::Kept;
use crate::late::{self, Refusals};
use crate::outgoing::Link;
use crate::piece::Payload;
use crate::room::ANSWERS;
use crate::shim::{AtomicBool, Mutex, MutexGuard};
use crate::sink::{LostReason, Sink};
use crate::sys;
use crate::waiting::{EVENTS, LISTENER, Timeout, WAKE, Waiting};
use core::fmt;
use core::mem::MaybeUninit;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::event::epoll::{Event, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, TryLockError};
use std::time::Instant;

/// Up to so many links are tried one by one instead of asking epoll.
const FEW: usize = 3;
/// Every so many fruitless tries, epoll is asked all the same.
const TRIES: u32 = 256;
/// Reads of one link before the next one has its turn.
const TURN: usize = 16;
/// How long [`Mesh::close`] waits for peers to take what is queued.
const GRACE: Duration = Duration::from_secs(1);

/// This node's links to all other nodes.
pub struct Mesh {
    identity: Identity,
    links: Vec<Option<Link>>,
    listener: Option<OwnedFd>,
    refusals: Refusals,
    waiting: Waiting,
    /// The links are so few that each is hushed by itself while somebody polls.
    hushes: bool,
    receiving: Mutex<Receiving>,
    /// What was received; the links count what is sent.
    tally: Tally,
    /// Which links may have frames that wait for company.
    kept: Kept,
    /// Bytes of answers that may wait for a peer.
    pub(crate) allowed: AtomicUsize,
    closed: AtomicBool,
}

/// What only the receiving thread uses.
struct Receiving {
    incoming: Vec<Option<Incoming>>,
    staging: Staging,
    fruitless: u32,
    /// What was received last is followed by more at once, says its sender: what is kept waits for
    /// that, in good company.
    followed: bool,
}

impl fmt::Debug for Mesh {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, nodes) = (self.rank(), self.nodes());
        write!(out, "Mesh({rank} of {nodes}, {} links alive)", self.links_alive())
    }
}

impl Mesh {
    /// Connects this node with all others; `refused` gets one line for every stranger.
    ///
    /// # Errors
    /// [`TransportError`]: a peer cannot be reached, refuses this node, or is missing when the
    /// deadline passes.
    pub fn boot(
        config: BootConfig,
        refused: &mut dyn FnMut(String),
    ) -> Result<Mesh, TransportError> {
        Self::new(boot::boot(config, refused)?)
    }

    /// The mesh of a job of one node: no links, but [`Mesh::service_wait`] and [`Mesh::wake`].
    ///
    /// # Panics
    /// When the process has no file descriptors left.
    #[must_use]
    pub fn single() -> Mesh {
        let identity = Identity { rank: NodeId(0), nodes: 1, job: 0, secret: [0; 32], build: 0 };
        let refusals = Refusals::default();
        let alone = Booted { identity, sockets: vec![None], listener: None, refusals };
        Self::new(alone).expect("four file descriptors for the mesh of one node")
    }

    pub(crate) fn new(booted: Booted) -> Result<Mesh, TransportError> {
        let Booted { identity, sockets, listener, refusals } = booted;
        let waiting = Waiting::new()?;
        if let Some(listener) = &listener {
            waiting.watch(listener, LISTENER)?;
        }
        let mut links = Vec::with_capacity(sockets.len());
        for (peer, socket) in (0..).map(NodeId).zip(sockets) {
            if let Some(socket) = &socket {
                waiting.watch(socket, peer.0.into())?;
            }
            links.push(socket.map(|socket| Link::new(peer, socket)));
        }
        let mut all = links.iter().flatten();
        // A mark costs half as much as muting the set; another interest, nearly as much.
        let hushes =
            links.len() <= FEW + 1 && (links.len() <= 2 || all.all(|link| !link.is_unix()));
        let incoming = |link: &Option<Link>| link.as_ref().map(|link| Incoming::new(link.peer()));
        let receiving = Receiving {
            incoming: links.iter().map(incoming).collect(),
            staging: Staging::new(),
            fruitless: 0,
            followed: false,
        };
        Ok(Mesh {
            kept: Kept::new(links.len()),
            identity,
            links,
            listener,
            refusals,
            waiting,
            hushes,
            receiving: Mutex::new(receiving),
            tally: Tally::default(),
            allowed: AtomicUsize::new(ANSWERS),
            closed: AtomicBool::new(false),
        })
    }

    /// From now on a receiver that sleeps wakes, with nothing, when a peer has taken what was sent
    /// to it. Over Unix sockets only: a TCP socket does not say so.
    ///
    /// # Errors
    /// [`TransportError`]: no descriptor is left.
    pub fn heed_taken(&self) -> Result<(), TransportError> {
        let tells = self.links().filter(|link| link.is_unix());
        self.waiting.heed_taken(tells.map(Link::socket))
    }

    /// Number of nodes of the job, this one included.
    pub fn nodes(&self) -> u16 {
        self.identity.nodes
    }

    /// This node.
    pub fn rank(&self) -> NodeId {
        self.identity.rank
    }

    /// Number of peers that neither left nor died.
    pub fn links_alive(&self) -> usize {
        self.links().filter(|link| link.is_alive()).count()
    }

    /// What went over the links so far.
    pub fn counters(&self) -> Counters {
        self.links().fold(self.tally.read(), |all, link| all.plus(&link.tally().read()))
    }

    pub(crate) fn link(&self, to: NodeId) -> Option<&Link> {
        self.links.get(to.index())?.as_ref()
    }

    pub(crate) fn flush(&self, link: &Link) {
        link.flush(&self.waiting);
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().flatten()
    }

    /// The links that are hushed by themselves.
    fn hushable(&self) -> impl Iterator<Item = Few<'_>> + Clone {
        let links: &[Option<Link>] = if self.hushes { &self.links } else { &[] };
        links.iter().flatten().map(|link| Few { link, waiting: &self.waiting })
    }

    /// Sends a frame; any thread may. `from` and `payload` of the header are filled in here.
    /// Never waits: what the socket does not take is queued, and sent by whoever receives.
    ///
    /// # Errors
    /// [`LinkError`]: the peer is gone or no peer, or the header's kind is not 1 to
    /// [`LAST_KIND`]. Nothing was sent then, or the peer does not live to see it.
    ///
    /// # Safety
    /// [`Payload::Memory`] must be readable, and must not change, until the peer has answered in
    /// a way that shows it got the frame, or the link is lost and its loss was reported.
    pub unsafe fn send(
        &self,
        to: NodeId,
        header: Header,
        payload: Payload<'_>,
    ) -> Result<(), LinkError> {
        let (link, header) = self.addressed(to, header)?;
        let bytes = payload.span().len() as u64;
        if bytes > MAX_PAYLOAD {
            let error = FrameError::Long { kind: header.kind, payload: bytes };
            return Err(LinkError::Frame { to, error });
        }
        let header = Header { payload: bytes, ..header };
        // SAFETY: the caller's promise is the one asked for.
        unsafe { link.send(&header, payload, &self.waiting) }
    }

    /// [`Mesh::send`] of bytes that are copied if they must wait, and so without a promise.
    ///
    /// # Errors
    /// As [`Mesh::send`].
    pub fn send_bytes(&self, to: NodeId, header: Header, bytes: &[u8]) -> Result<(), LinkError> {
        // SAFETY: there is no raw memory in this payload.
        unsafe { self.send(to, header, Payload::Bytes(bytes)) }
    }

    /// [`Mesh::send`] of a frame without payload that may go before what is kept: it passes those
    /// kept last that `passes` says it of, in the same message.
    ///
    /// # Errors
    /// As [`Mesh::send`].
    pub fn send_past(
        &self,
        to: NodeId,
        header: Header,
        passes: impl Fn(&Header) -> bool,
    ) -> Result<(), LinkError> {
        let (link, header) = self.addressed(to, header)?;
        link.send_past(&header, passes, &self.waiting)
    }

    /// A frame without payload that nobody waits for: it goes with the next frame to that peer,
    /// at [`Mesh::send_lazy`], or when something has been received, whichever is first. Order is
    /// kept.
    ///
    /// # Errors
    /// As [`Mesh::send`].
    pub fn keep(&self, to: NodeId, header: Header) -> Result<(), LinkError> {
        let (link, header) = self.addressed(to, header)?;
        link.keep(&header, &self.waiting)?;
        self.kept.mark(to.index());
        Ok(())
    }

    /// [`Mesh::keep`] of a frame with the payload that `fill` appends to what it is given; returns
    /// the payload's length in bytes. What is kept so, and what then goes to that peer with it, is
    /// one message: up to 64 KiB of frames, and a last one, which [`Mesh::send`] may add.
    ///
    /// # Errors
    /// As [`Mesh::send`]; `fill` may have been called or not then.
    pub fn keep_with(
        &self,
        to: NodeId,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<u64, LinkError> {
        let (link, header) = self.addressed(to, header)?;
        let bytes = link.keep_with(header, fill, &self.waiting)?;
        self.kept.mark(to.index());
        Ok(bytes)
    }

    /// [`Mesh::keep_with`] of a frame without payload, unless the frame kept last for that peer can
    /// stand for both: `join` gets that one's header, and says what it becomes.
    ///
    /// # Errors
    /// As [`Mesh::send`].
    pub fn keep_or_join(
        &self,
        to: NodeId,
        header: Header,
        join: impl FnOnce(&Header) -> Option<Header>,
    ) -> Result<(), LinkError> {
        let (link, header) = self.addressed(to, header)?;
        link.keep_or_join(header, join, &self.waiting)?;
        self.kept.mark(to.index());
        Ok(())
    }

    /// The link to a peer, and the header as it goes there, without a payload so far.
    fn addressed(&self, to: NodeId, header: Header) -> Result<(&Link, Header), LinkError> {
        let Some(Some(link)) = self.links.get(to.index()) else {
            return Err(LinkError::NoLink { to });
        };
        if header.kind == 0 || header.kind > LAST_KIND {
            return Err(LinkError::Frame { to, error: FrameError::Kind { kind: header.kind } });
        }
        Ok((link, Header { from: self.rank().0, payload: 0, ..header }))
    }

    /// Sends what [`Mesh::keep`] kept.
    pub fn send_lazy(&self) {
        self.kept.take(|place| {
            if let Some(Some(link)) = self.links.get(place) {
                link.send_lazy(&self.waiting);
            }
        });
    }

    /// Delivers everything that is readable now to `sink`, after waiting for something if there
    /// is nothing; returns the number of messages. It may be 0 before the time is over: after
    /// [`Mesh::wake`], a signal, a piece of a frame, a stranger, or a lost link. Queues are
    /// flushed on the way. One thread at a time; the sink may not call it.
    pub fn receive(&self, sink: &mut dyn Sink, wait: Timeout) -> usize {
        let mut receiving = self.receiving();
        if self.closed.load(Ordering::Acquire) {
            return 0;
        }
        let Receiving { incoming, staging, fruitless, followed } = &mut *receiving;
        if wait != Timeout::Now {
            self.waiting.will_sleep(self.hushable());
            if !*followed {
                // Nobody may sleep on what another node could come to wait for.
                self.send_lazy();
            }
        }
        let mut desk = Desk { staging, sink, frames: 0, followed: 0, bytes: 0 };
        let few = self.links.len() <= FEW + 1 && wait == Timeout::Now;
        if few && *fruitless < TRIES && !self.waiting.must_look_around() {
            for (link, incoming) in self.links.iter().zip(incoming) {
                if let Some(link) = link {
                    self.serve(link, incoming, EventFlags::IN, &mut desk);
                }
            }
        } else {
            self.serve_ready(incoming, wait, &mut desk);
            *fruitless = 0;
        }
        *fruitless = if desk.frames == 0 { *fruitless + 1 } else { 0 };
        if desk.frames > 0 {
            *followed = desk.frames == desk.followed;
        }
        if desk.frames > desk.followed {
            self.send_lazy();
        }
        if desk.bytes > 0 {
            self.tally.received(desk.frames as u64, desk.bytes as u64);
        }
        desk.frames
    }

    fn receiving(&self) -> MutexGuard<'_, Receiving> {
        match self.receiving.try_lock() {
            Ok(receiving) => receiving,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                debug_assert!(false, "two threads receive at once");
                self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Waits on the inner epoll and serves what it names.
    fn serve_ready(&self, incoming: &mut [Option<Incoming>], wait: Timeout, desk: &mut Desk<'_>) {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        for event in self.waiting.wait(&mut room, wait) {
            let (key, flags) = (event.data.u64(), event.flags);
            match key {
                WAKE => self.waiting.woken(),
                LISTENER => self.refuse_strangers(desk.sink),
                rank => {
                    let rank = usize::try_from(rank).unwrap_or(usize::MAX);
                    if let Some(Some(link)) = self.links.get(rank) {
                        self.serve(link, &mut incoming[rank], flags, desk);
                    }
                }
            }
        }
    }

    /// Flushes and reads one link.
    fn serve(
        &self,
        link: &Link,
        incoming: &mut Option<Incoming>,
        flags: EventFlags,
        desk: &mut Desk<'_>,
    ) {
        if link.has_backlog() {
            link.flush(&self.waiting);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let Some(parser) = incoming else { return };
        link.load().serve(true);
        let done = read(link, parser, desk, self.allowed.load(Ordering::Relaxed));
        link.load().serve(false);
        if let Err(reason) = done {
            *incoming = None;
            link.end(&reason, &self.waiting);
            desk.sink.lost(link.peer(), reason);
        }
    }

    fn refuse_strangers(&self, sink: &mut dyn Sink) {
        let Some(listener) = &self.listener else { return };
        let refused = &mut |line| sink.refused(line);
        if let Err(errno) = late::refuse_waiting(listener, &self.identity, &self.refusals, refused)
        {
            self.waiting.rewatch(listener, LISTENER, EventFlags::IN, EventFlags::empty());
            sink.refused(format!("listens to strangers no more: accept: {errno}"));
        }
    }

    /// An application thread begins to receive: arrivals do not wake the service thread.
    pub fn claim(&self, receiver: Receiver) {
        self.waiting.claim(receiver, self.hushable());
    }

    /// It receives no more: what is readable wakes the service thread.
    ///
    /// # Panics
    /// Without a claim before it.
    pub fn release(&self) {
        self.waiting.release(self.hushable());
    }

    /// The service thread's sleep: true when there is something to receive that nobody claimed, or so
    /// much at once that it woke the thread all the same; false when the time is over, after [`Mesh::wake`], or after a signal.
    pub fn service_wait(&self, timeout: Timeout) -> bool {
        self.waiting.service_wait(timeout, self.hushable())
    }

    /// Ends the current or next sleep of the service thread and of a receiving thread.
    pub fn wake(&self) {
        self.waiting.wake();
    }

    /// Says goodbye to all peers: they see [`LostReason::Left`]. Nothing can be sent after it;
    /// receiving goes on until the peers have left, too.
    pub fn leave(&self) {
        for link in self.links() {
            link.leave(self.rank(), &self.waiting);
        }
    }

    /// Ends all links, after waiting up to a second for peers to take what is queued. Without
    /// [`Mesh::leave`] before it, the peers see [`LostReason::Died`]. After it, receiving
    /// delivers nothing. Payload memory given to [`Mesh::send`] is free again.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let end = Instant::now() + GRACE;
        for link in self.links() {
            while link.has_backlog() && Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                let timeout = Timespec::try_from(left).ok();
                let socket = link.socket();
                let _ = poll(&mut [PollFd::new(&socket, PollFlags::OUT)], timeout.as_ref());
                link.flush(&self.waiting);
            }
            link.close(&self.waiting);
        }
        self.waiting.wake();
    }
}

/// One of few links.
#[derive(Clone, Copy)]
struct Few<'a> {
    link: &'a Link,
    waiting: &'a Waiting,
}

impl Hushable for Few<'_> {
    fn hush(&self) -> Result<(), Errno> {
        self.link.hush(self.waiting)
    }

    fn unhush(&self) {
        self.link.unhush(self.waiting);
    }
}

/// Reads a link until its socket is empty or its turn is over.
fn read(
    link: &Link,
    parser: &mut Incoming,
    desk: &mut Desk<'_>,
    allowed: usize,
) -> Result<(), LostReason> {
    for _ in 0..TURN {
        // SAFETY: the parser names its own header, the staging buffer, and places that the sink
        // vouches for.
        let receive = |spans: &mut [_]| unsafe { sys::receive(link.socket(), spans) };
        let socket = parser.pump(receive, desk)?;
        link.load().check(allowed)?;
        if socket == Socket::Drained {
            return Ok(());
        }
    }
    Ok(())
}
