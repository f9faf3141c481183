//! The outgoing half of a link.
//!
//! Role: one sendmsg straight from the caller's memory; what the socket does not take waits in a
//! queue, the payload still by reference. Nobody ever sleeps to send: whoever receives flushes
//! the queues, so two nodes that send big payloads to each other both go on receiving.
//!
//! Invariants: frames leave in the order of the calls (one lock per link, and nothing passes a
//! queue that is not empty, or the bundle behind it). Output is watched for exactly while there is
//! a queue.
#![expect(unsafe_code, reason = "payloads are sent from raw memory")]

use crate::bundle::{Bundle, MAX_JOINING, MORE};
use crate::counters::Tally;
use crate::error::LinkError;
use crate::frame::{BYE, Header};
use crate::piece::{Head, LAZY, Payload};
use crate::queue::{AT_ONCE, Queue, Sent};
use crate::room::Load;
use crate::shim::{self, AtomicBool, Mutex, MutexGuard};
use crate::sink::LostReason;
use crate::sys::{self, Span, lock};
use crate::waiting::Waiting;
use multigrain_types::NodeId;
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, shutdown, sockopt};
use std::sync::atomic::Ordering;

/// A payload up to so many bytes is cheaper copied next to its header than gathered.
const SMALL: usize = 96;
/// Below so many bytes a hushed TCP link is not readable: more than most pages with their headers, and
/// so little that the kernel does not think the receive buffer too small for it.
const MARK: i32 = 16 << 10;

/// How far this node is with a link's outgoing half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// BYE is in the queue; nothing may follow it.
    Leaving,
    /// Nothing can be sent any more.
    Shut,
}

#[derive(Debug)]
struct Outgoing {
    queue: Queue,
    phase: Phase,
    /// Frames without payload that wait for company; only while `queue` and `bundle` are empty.
    lazy: Head,
    /// Frames that wait for company, and travel as one message; behind all else.
    bundle: Bundle,
    /// Bytes of its members that are answers.
    bundled_answers: usize,
    /// What the inner epoll watches this socket for.
    watched: EventFlags,
    /// It does not watch for input, but for the end alone.
    hushed: bool,
}

/// One peer's socket and what is to be sent to it.
#[derive(Debug)]
pub(crate) struct Link {
    peer: NodeId,
    socket: OwnedFd,
    /// Its `poll` knows no low-water mark.
    unix: bool,
    outgoing: Mutex<Outgoing>,
    /// What was sent.
    tally: Tally,
    /// What is in the queue.
    load: Load,
    /// There is a queue; a glance that spares the lock.
    backlog: AtomicBool,
    /// The incoming half has ended.
    lost: AtomicBool,
}

impl Link {
    /// The link of a socket that is watched for input already.
    pub(crate) fn new(peer: NodeId, socket: OwnedFd) -> Self {
        let outgoing = Outgoing {
            queue: Queue::new(),
            phase: Phase::Open,
            lazy: Head::EMPTY,
            bundle: Bundle::default(),
            bundled_answers: 0,
            watched: EventFlags::IN,
            hushed: false,
        };
        Self {
            peer,
            unix: sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX),
            socket,
            outgoing: Mutex::new(outgoing),
            tally: Tally::default(),
            load: Load::default(),
            backlog: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        }
    }

    pub(crate) fn peer(&self) -> NodeId {
        self.peer
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn is_unix(&self) -> bool {
        self.unix
    }

    /// From now on arrivals call nobody: up to a mark they do not make a TCP socket readable, and a
    /// Unix socket is not watched for them.
    pub(crate) fn hush(&self, waiting: &Waiting) -> Result<(), Errno> {
        if self.unix {
            self.watch_input(false, waiting);
            return Ok(());
        }
        sys::set_low_water(self.socket(), MARK)
    }

    /// Takes that back; what has come calls at once.
    pub(crate) fn unhush(&self, waiting: &Waiting) {
        if self.unix {
            return self.watch_input(true, waiting);
        }
        let done = sys::set_low_water(self.socket(), 1);
        assert!(done.is_ok(), "SO_RCVLOWAT of our own socket: {done:?}");
    }

    fn watch_input(&self, watch: bool, waiting: &Waiting) {
        let mut outgoing = lock(&self.outgoing);
        outgoing.hushed = !watch;
        self.rewatch(&mut outgoing, waiting);
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// What this thread sends now is to the peer.
    fn sent(&self) -> Sent {
        if self.load.answers_now() { Sent::Answer } else { Sent::Unasked }
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Relaxed)
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    fn open(&self) -> Result<MutexGuard<'_, Outgoing>, LinkError> {
        let outgoing = lock(&self.outgoing);
        if outgoing.phase != Phase::Open || self.lost.load(Ordering::Relaxed) {
            return Err(LinkError::Gone { to: self.peer });
        }
        Ok(outgoing)
    }

    /// Sends a frame, or queues what is left of it. Where a bundle waits, a frame that is not long
    /// goes as its last member.
    ///
    /// # Safety
    /// A [`Payload::Memory`] is readable and stays unchanged until the link has sent it.
    pub(crate) unsafe fn send(
        &self,
        header: &Header,
        payload: Payload<'_>,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        let mut outgoing = self.open()?;
        let span = payload.span();
        if !outgoing.bundle.is_empty() && span.len() <= MAX_JOINING {
            // SAFETY: the payload is readable, and not in the bundle.
            let fill = |out: &mut Vec<u8>| unsafe { sys::append(span, out) };
            self.add(&mut outgoing, *header, fill, waiting)?;
            return self.push_bundle(&mut outgoing, 0, waiting);
        }
        self.push(&mut outgoing, &header.encode(), payload, waiting)?;
        self.tally.sent(Header::BYTES + span.len());
        Ok(())
    }

    /// [`Link::send`] of a frame without payload, before those kept last that `passes` says it of.
    pub(crate) fn send_past(
        &self,
        header: &Header,
        passes: impl Fn(&Header) -> bool,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        let mut outgoing = self.open()?;
        if !outgoing.bundle.is_empty() || !outgoing.queue.is_empty() {
            drop(outgoing);
            // SAFETY: there is no payload.
            return unsafe { self.send(header, Payload::None, waiting) };
        }
        outgoing.lazy.push_past(&header.encode(), passes);
        self.push_head(&mut outgoing, Payload::None, waiting)?;
        self.tally.sent(Header::BYTES);
        Ok(())
    }

    /// Keeps a frame until the next send, or until [`Link::send_lazy`].
    pub(crate) fn keep(&self, header: &Header, waiting: &Waiting) -> Result<(), LinkError> {
        let mut outgoing = self.open()?;
        if !outgoing.bundle.is_empty() {
            self.add(&mut outgoing, *header, |_| {}, waiting)?;
            return Ok(());
        }
        self.tally.sent(Header::BYTES);
        if !outgoing.queue.is_empty() || outgoing.lazy.len == LAZY * Header::BYTES {
            return self.push(&mut outgoing, &header.encode(), Payload::None, waiting);
        }
        outgoing.lazy.push(&header.encode());
        Ok(())
    }

    /// Keeps a frame whose payload `fill` appends, as [`Link::keep`] does, and in one message with
    /// what is kept after it; returns the payload's length.
    pub(crate) fn keep_with(
        &self,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
        waiting: &Waiting,
    ) -> Result<u64, LinkError> {
        let mut outgoing = self.open()?;
        Ok(self.add(&mut outgoing, header, fill, waiting)? as u64)
    }

    /// [`Link::keep_with`] of a frame without payload, unless the one kept last can stand for both.
    pub(crate) fn keep_or_join(
        &self,
        header: Header,
        join: impl FnOnce(&Header) -> Option<Header>,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        let mut outgoing = self.open()?;
        if outgoing.bundle.amend(join) {
            return Ok(());
        }
        self.add(&mut outgoing, header, |_| {}, waiting)?;
        Ok(())
    }

    /// One more member of the bundle, which is begun behind the lazy frames if there is none, or anew
    /// if it is full; returns the payload's length.
    fn add(
        &self,
        outgoing: &mut Outgoing,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
        waiting: &Waiting,
    ) -> Result<usize, LinkError> {
        if outgoing.bundle.is_full() {
            // The promise is kept by this member, which whoever kept it sends.
            self.push_bundle(outgoing, MORE, waiting)?;
        }
        let Outgoing { lazy, bundle, .. } = outgoing;
        if bundle.is_empty() {
            bundle.follow(lazy.as_slice());
            lazy.len = 0;
        }
        let payload = bundle.add(header, fill);
        let bytes = Header::BYTES + payload;
        if self.load.answers_now() {
            outgoing.bundled_answers += bytes;
        }
        match outgoing.bundle.members() {
            1 => self.tally.sent(bytes),
            // Only now it has a header of its own.
            2 => self.tally.bundled(2, Header::BYTES + bytes),
            _ => self.tally.bundled(1, bytes),
        }
        Ok(payload)
    }

    /// Sends the bundle, or makes it the end of the queue. `flags` are 0 or [`MORE`].
    fn push_bundle(
        &self,
        outgoing: &mut Outgoing,
        flags: u8,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        let answers = core::mem::take(&mut outgoing.bundled_answers);
        let (bytes, start) = outgoing.bundle.seal(flags);
        let waits = !outgoing.queue.is_empty();
        let mut sent = start;
        if !waits {
            let taken = sys::send_bytes(self.socket(), &bytes[start..]);
            sent += taken.or_else(not_yet).map_err(|_| self.shut(outgoing, waiting))?;
        }
        if sent == outgoing.bundle.len() {
            outgoing.bundle.clear();
            return Ok(());
        }
        let room = outgoing.queue.take_spare();
        let mut bytes = outgoing.bundle.take(room);
        if waits {
            bytes.drain(..start);
        }
        outgoing.queue.push_bytes(bytes, answers);
        if !waits {
            outgoing.queue.advance(sent);
        }
        self.queued(outgoing, waiting);
        if waits {
            // Bulk that is made faster than it is received: the socket is not to run dry meanwhile.
            self.flush_queue(outgoing, waiting);
        }
        Ok(())
    }

    /// Sends what [`Link::keep`] kept, if it has not gone with something else.
    pub(crate) fn send_lazy(&self, waiting: &Waiting) {
        let mut outgoing = lock(&self.outgoing);
        // A link that is gone is noticed by the receiver.
        if !outgoing.bundle.is_empty() {
            let _ = self.push_bundle(&mut outgoing, 0, waiting);
        } else if outgoing.lazy.len > 0 {
            let _ = self.push_head(&mut outgoing, Payload::None, waiting);
        }
    }

    /// Says BYE as the last frame.
    pub(crate) fn leave(&self, own: NodeId, waiting: &Waiting) {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.phase != Phase::Open {
            return;
        }
        let bye = Header { kind: BYE, from: own.0, ..Header::default() };
        outgoing.phase = Phase::Leaving;
        let said = self.push(&mut outgoing, &bye.encode(), Payload::None, waiting);
        if said.is_ok() && outgoing.queue.is_empty() {
            self.rest(&mut outgoing, waiting);
        }
    }

    /// A frame behind everything else, for itself.
    fn push(
        &self,
        outgoing: &mut Outgoing,
        header: &[u8; Header::BYTES],
        payload: Payload<'_>,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        if !outgoing.bundle.is_empty() {
            self.push_bundle(outgoing, 0, waiting)?;
        }
        if !outgoing.queue.is_empty() {
            outgoing.queue.push(header, payload, self.sent());
            self.load.weigh(&outgoing.queue);
            self.tally.queued();
            return Ok(());
        }
        outgoing.lazy.push(header);
        self.push_head(outgoing, payload, waiting)
    }

    /// Sends the headers that are together now, and the payload of the last. The queue is empty.
    fn push_head(
        &self,
        outgoing: &mut Outgoing,
        payload: Payload<'_>,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        let head = outgoing.lazy.len;
        // SAFETY: the payload is vouched for by the caller of send.
        let taken = unsafe { self.send_now(&outgoing.lazy, payload.span()) };
        outgoing.lazy.len = 0;
        let sent = taken.or_else(not_yet).map_err(|_| self.shut(outgoing, waiting))?;
        if sent == head + payload.span().len() {
            return Ok(());
        }
        let Outgoing { queue, lazy, .. } = outgoing;
        queue.push(&lazy.bytes[..head], payload, self.sent());
        queue.advance(sent);
        self.queued(outgoing, waiting);
        Ok(())
    }

    /// The socket did not take all of a message.
    fn queued(&self, outgoing: &mut Outgoing, waiting: &Waiting) {
        self.tally.queued();
        self.load.weigh(&outgoing.queue);
        self.backlog.store(true, Ordering::Relaxed);
        self.rewatch(outgoing, waiting);
    }

    /// One system call.
    ///
    /// # Safety
    /// `payload` is readable.
    unsafe fn send_now(&self, head: &Head, payload: Span) -> Result<usize, Errno> {
        if payload.len() == 0 {
            return sys::send_bytes(self.socket(), head.as_slice());
        }
        if payload.len() > SMALL {
            // SAFETY: `head` is a reference, and the payload is the caller's.
            return unsafe { sys::send(self.socket(), &mut [Span::of(head.as_slice()), payload]) };
        }
        let mut frame = [0; (LAZY + 1) * Header::BYTES + SMALL];
        let whole = head.len + payload.len();
        frame[..head.len].copy_from_slice(head.as_slice());
        // SAFETY: the payload is readable, and does not overlap this array.
        unsafe { sys::copy_from(payload.start(), &mut frame[head.len..whole]) };
        sys::send_bytes(self.socket(), &frame[..whole])
    }

    /// Sends from the queue what the socket takes now.
    pub(crate) fn flush(&self, waiting: &Waiting) {
        self.flush_queue(&mut lock(&self.outgoing), waiting);
    }

    fn flush_queue(&self, outgoing: &mut Outgoing, waiting: &Waiting) {
        while !outgoing.queue.is_empty() {
            let mut spans = [Span::EMPTY; AT_ONCE];
            let asked = outgoing.queue.gather(&mut spans);
            // SAFETY: headers and owned pieces live in the queue, which is locked; raw pieces are
            // vouched for by the caller of send until they are sent.
            let taken = unsafe { sys::send(self.socket(), &mut spans) };
            match taken.or_else(not_yet) {
                Ok(taken) => {
                    outgoing.queue.advance(taken);
                    self.load.weigh(&outgoing.queue);
                    if taken < asked {
                        return;
                    }
                }
                Err(_) => {
                    self.shut(outgoing, waiting);
                    return;
                }
            }
        }
        if self.has_backlog() {
            self.rest(outgoing, waiting);
        }
    }

    /// The queue is empty.
    fn rest(&self, outgoing: &mut Outgoing, waiting: &Waiting) {
        self.backlog.store(false, Ordering::Relaxed);
        if outgoing.phase == Phase::Leaving {
            outgoing.phase = Phase::Shut;
            let _ = shutdown(&self.socket, Shutdown::Write);
            shim::changed();
        }
        self.rewatch(outgoing, waiting);
    }

    /// Nothing can be sent any more. The receiving thread reads what is left, and then the end.
    fn shut(&self, outgoing: &mut Outgoing, waiting: &Waiting) -> LinkError {
        outgoing.phase = Phase::Shut;
        outgoing.queue.clear();
        outgoing.bundle.clear();
        outgoing.bundled_answers = 0;
        self.load.weigh(&outgoing.queue);
        outgoing.lazy.len = 0;
        self.backlog.store(false, Ordering::Relaxed);
        let _ = shutdown(&self.socket, Shutdown::Both);
        shim::changed();
        self.rewatch(outgoing, waiting);
        LinkError::Gone { to: self.peer }
    }

    /// The incoming half has ended. A peer that left still gets what is queued, and our BYE.
    pub(crate) fn end(&self, reason: &LostReason, waiting: &Waiting) {
        let mut outgoing = lock(&self.outgoing);
        self.lost.store(true, Ordering::Relaxed);
        match reason {
            LostReason::Left => self.rewatch(&mut outgoing, waiting),
            LostReason::Died | LostReason::Failed(_) | LostReason::Violation(_) => {
                self.shut(&mut outgoing, waiting);
            }
        }
    }

    /// Ends both halves from this side.
    pub(crate) fn close(&self, waiting: &Waiting) {
        let mut outgoing = lock(&self.outgoing);
        self.lost.store(true, Ordering::Relaxed);
        self.shut(&mut outgoing, waiting);
    }

    fn rewatch(&self, outgoing: &mut Outgoing, waiting: &Waiting) {
        let mut interest = EventFlags::empty();
        // The end is watched for in any case; saying so keeps a hushed link in the set.
        let input = if outgoing.hushed { EventFlags::HUP } else { EventFlags::IN };
        interest.set(input, self.is_alive());
        interest.set(EventFlags::OUT, self.has_backlog());
        if interest != outgoing.watched {
            waiting.rewatch(&self.socket, self.peer.0.into(), outgoing.watched, interest);
            outgoing.watched = interest;
        }
    }
}

/// A full socket has taken nothing; that is no error.
fn not_yet(errno: Errno) -> Result<usize, Errno> {
    match errno {
        Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM => Ok(0),
        other => Err(other),
    }
}
