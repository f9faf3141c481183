//! The outgoing half of a link.
//!
//! Role: one sendmsg straight from the caller's memory; what the socket does not take waits in a
//! queue, the payload still by reference. Nobody ever sleeps to send: whoever receives flushes
//! the queues, so two nodes that send big payloads to each other both go on receiving.
//!
//! Invariants: frames leave in the order of the calls (one lock per link, and nothing passes a
//! queue that is not empty). Output is watched for exactly while there is a queue.
#![expect(unsafe_code, reason = "payloads are sent from raw memory")]

use crate::error::LinkError;
use crate::frame::{BYE, Header};
use crate::piece::{Head, LAZY, Payload, Piece};
use crate::shim::{self, AtomicBool, Mutex};
use crate::sink::LostReason;
use crate::sys::{self, Span, lock};
use crate::waiting::Waiting;
use multigrain_types::NodeId;
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// Room in the queue that is there from the start, in pieces.
const READY_PIECES: usize = 256;
/// A payload up to so many bytes is cheaper copied next to its header than gathered.
const SMALL: usize = 96;
/// Frames that wait for company are sent when they are so many bytes.
const BULK: usize = 64 << 10;
/// Pieces that go into one system call.
const AT_ONCE: usize = 16;

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
    queue: VecDeque<Piece>,
    /// Bytes of the first piece that are sent already.
    sent: usize,
    phase: Phase,
    /// Frames without payload that wait for company; only while `queue` and `bulk` are empty.
    lazy: Head,
    /// Whole frames that wait for company; only while `queue` is empty.
    bulk: Vec<u8>,
    /// What the inner epoll watches this socket for.
    watched: EventFlags,
}

/// One peer's socket and what is to be sent to it.
#[derive(Debug)]
pub(crate) struct Link {
    peer: NodeId,
    socket: OwnedFd,
    outgoing: Mutex<Outgoing>,
    /// There is a queue; a glance that spares the lock.
    backlog: AtomicBool,
    /// There are lazy frames; as above.
    lazy: AtomicBool,
    /// The incoming half has ended.
    lost: AtomicBool,
}

impl Link {
    /// The link of a socket that is watched for input already.
    pub(crate) fn new(peer: NodeId, socket: OwnedFd) -> Self {
        let outgoing = Outgoing {
            queue: VecDeque::with_capacity(READY_PIECES),
            sent: 0,
            phase: Phase::Open,
            lazy: Head::EMPTY,
            bulk: Vec::new(),
            watched: EventFlags::IN,
        };
        Self {
            peer,
            socket,
            outgoing: Mutex::new(outgoing),
            backlog: AtomicBool::new(false),
            lazy: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        }
    }

    pub(crate) fn peer(&self) -> NodeId {
        self.peer
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Relaxed)
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    /// Sends a frame or queues what is left of it; true when it was queued.
    ///
    /// # Safety
    /// A [`Payload::Memory`] is readable and stays unchanged until the link has sent it.
    pub(crate) unsafe fn send(
        &self,
        header: &Header,
        payload: Payload<'_>,
        waiting: &Waiting,
    ) -> Result<bool, LinkError> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.phase != Phase::Open || self.lost.load(Ordering::Relaxed) {
            return Err(LinkError::Gone { to: self.peer });
        }
        self.push(&mut outgoing, &header.encode(), payload, waiting)
    }

    /// Keeps a frame until the next send, or until [`Link::send_lazy`].
    pub(crate) fn keep(&self, header: &Header, waiting: &Waiting) -> Result<bool, LinkError> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.phase != Phase::Open || self.lost.load(Ordering::Relaxed) {
            return Err(LinkError::Gone { to: self.peer });
        }
        if !outgoing.bulk.is_empty() {
            outgoing.bulk.extend(header.encode());
            return self.limit_bulk(&mut outgoing, waiting);
        }
        if !outgoing.queue.is_empty() || outgoing.lazy.len == LAZY * Header::BYTES {
            return self.push(&mut outgoing, &header.encode(), Payload::None, waiting);
        }
        outgoing.lazy.push(&header.encode());
        self.lazy.store(true, Ordering::Relaxed);
        Ok(false)
    }

    /// Keeps a frame whose payload `fill` appends, as [`Link::keep`] does; returns the payload's
    /// length, and whether it was queued.
    pub(crate) fn keep_with(
        &self,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
        waiting: &Waiting,
    ) -> Result<(u64, bool), LinkError> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.phase != Phase::Open || self.lost.load(Ordering::Relaxed) {
            return Err(LinkError::Gone { to: self.peer });
        }
        if !outgoing.queue.is_empty() {
            let mut payload = Vec::new();
            fill(&mut payload);
            let bytes = payload.len() as u64;
            let header = Header { payload: bytes, ..header };
            let payload = Payload::Owned(payload);
            let queued = self.push(&mut outgoing, &header.encode(), payload, waiting)?;
            return Ok((bytes, queued));
        }
        let Outgoing { lazy, bulk, .. } = &mut *outgoing;
        bulk.extend_from_slice(lazy.as_slice());
        lazy.len = 0;
        let start = bulk.len();
        bulk.extend([0; Header::BYTES]);
        fill(bulk);
        let bytes = (bulk.len() - start - Header::BYTES) as u64;
        let header = Header { payload: bytes, ..header };
        bulk[start..start + Header::BYTES].copy_from_slice(&header.encode());
        self.lazy.store(true, Ordering::Relaxed);
        Ok((bytes, self.limit_bulk(&mut outgoing, waiting)?))
    }

    fn limit_bulk(&self, outgoing: &mut Outgoing, waiting: &Waiting) -> Result<bool, LinkError> {
        if outgoing.bulk.len() < BULK { Ok(false) } else { self.push_bulk(outgoing, waiting) }
    }

    /// Sends the frames that wait in `bulk`, or makes them the queue; true if they are queued.
    fn push_bulk(&self, outgoing: &mut Outgoing, waiting: &Waiting) -> Result<bool, LinkError> {
        self.lazy.store(false, Ordering::Relaxed);
        let taken = sys::send_bytes(self.socket(), &outgoing.bulk);
        let sent = taken.or_else(not_yet).map_err(|_| {
            self.shut(outgoing, waiting);
            LinkError::Gone { to: self.peer }
        })?;
        if sent == outgoing.bulk.len() {
            outgoing.bulk.clear();
            return Ok(false);
        }
        let bulk = core::mem::take(&mut outgoing.bulk);
        outgoing.queue.extend(Payload::Owned(bulk).into_piece());
        outgoing.sent = sent;
        self.backlog.store(true, Ordering::Relaxed);
        self.rewatch(outgoing, waiting);
        Ok(true)
    }

    /// Sends what [`Link::keep`] kept.
    pub(crate) fn send_lazy(&self, waiting: &Waiting) {
        if !self.lazy.load(Ordering::Relaxed) {
            return;
        }
        let mut outgoing = lock(&self.outgoing);
        if !outgoing.bulk.is_empty() {
            // As below.
            let _ = self.push_bulk(&mut outgoing, waiting);
        } else if outgoing.lazy.len > 0 {
            // A link that is gone is noticed by the receiver.
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
        if self.push(&mut outgoing, &bye.encode(), Payload::None, waiting) == Ok(false) {
            self.rest(&mut outgoing, waiting);
        }
    }

    fn push(
        &self,
        outgoing: &mut Outgoing,
        header: &[u8; Header::BYTES],
        payload: Payload<'_>,
        waiting: &Waiting,
    ) -> Result<bool, LinkError> {
        if !outgoing.bulk.is_empty() {
            if payload.span().len() == 0 {
                outgoing.bulk.extend_from_slice(header);
                return self.push_bulk(outgoing, waiting);
            }
            self.push_bulk(outgoing, waiting)?;
        }
        if !outgoing.queue.is_empty() {
            outgoing.queue.push_back(Piece::Header(*header));
            outgoing.queue.extend(payload.into_piece());
            return Ok(true);
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
    ) -> Result<bool, LinkError> {
        let head = outgoing.lazy.len;
        // SAFETY: the payload is vouched for by the caller of send.
        let taken = unsafe { self.send_now(&outgoing.lazy, payload.span()) };
        self.lazy.store(false, Ordering::Relaxed);
        outgoing.lazy.len = 0;
        let sent = taken.or_else(not_yet).map_err(|_| {
            self.shut(outgoing, waiting);
            LinkError::Gone { to: self.peer }
        })?;
        if sent == head + payload.span().len() {
            return Ok(false);
        }
        for header in outgoing.lazy.bytes[..head].chunks_exact(Header::BYTES) {
            let mut piece = [0; Header::BYTES];
            piece.copy_from_slice(header);
            outgoing.queue.push_back(Piece::Header(piece));
        }
        outgoing.queue.extend(payload.into_piece());
        outgoing.sent = 0;
        outgoing.advance(sent);
        self.backlog.store(true, Ordering::Relaxed);
        self.rewatch(outgoing, waiting);
        Ok(true)
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
        let mut outgoing = lock(&self.outgoing);
        while !outgoing.queue.is_empty() {
            let mut spans = [Span::EMPTY; AT_ONCE];
            let asked = outgoing.gather(&mut spans);
            // SAFETY: headers and owned pieces live in the queue, which is locked; raw pieces are
            // vouched for by the caller of send until they are sent.
            let taken = unsafe { sys::send(self.socket(), &mut spans) };
            match taken.or_else(not_yet) {
                Ok(taken) => {
                    outgoing.advance(taken);
                    if taken < asked {
                        return;
                    }
                }
                Err(_) => return self.shut(&mut outgoing, waiting),
            }
        }
        if self.has_backlog() {
            self.rest(&mut outgoing, waiting);
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
    fn shut(&self, outgoing: &mut Outgoing, waiting: &Waiting) {
        outgoing.phase = Phase::Shut;
        outgoing.queue.clear();
        outgoing.bulk.clear();
        self.backlog.store(false, Ordering::Relaxed);
        let _ = shutdown(&self.socket, Shutdown::Both);
        shim::changed();
        self.rewatch(outgoing, waiting);
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
        interest.set(EventFlags::IN, self.is_alive());
        interest.set(EventFlags::OUT, self.has_backlog());
        if interest != outgoing.watched {
            waiting.rewatch(&self.socket, self.peer.0.into(), outgoing.watched, interest);
            outgoing.watched = interest;
        }
    }
}

impl Outgoing {
    /// Names the first pieces; returns their length.
    fn gather(&self, spans: &mut [Span; AT_ONCE]) -> usize {
        let mut skip = self.sent;
        let mut asked = 0;
        for (span, piece) in spans.iter_mut().zip(&self.queue) {
            let whole = piece.span();
            *span = Span::at(whole.start().wrapping_add(skip), whole.len() - skip);
            asked += span.len();
            skip = 0;
        }
        asked
    }

    /// Drops `taken` bytes from the front.
    fn advance(&mut self, taken: usize) {
        self.sent += taken;
        while let Some(first) = self.queue.front()
            && first.span().len() <= self.sent
        {
            self.sent -= first.span().len();
            self.queue.pop_front();
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
