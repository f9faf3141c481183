//! One peer: its link, its outbox, and how far leaving is.
//!
//! Role: locks the outbox for each call, watches the link for room exactly while the outbox has a queue that may leave,
//! and closes the link in order. Before there is a link all that is sent is queued. Nobody ever sleeps to send: whoever receives flushes the queues, so two
//! nodes that send big payloads to each other both go on receiving.
#![expect(unsafe_code, reason = "payloads are sent from raw memory")]

use crate::counters::Tally;
use crate::error::{LinkError, TransportError};
use crate::frame_header::{BYE, Header};
use crate::link::{Close, Link};
use crate::outbox::{Outbox, Payload, Port};
use crate::readiness::Waiting;
use crate::reply_bound::ReplyBound;
use crate::shim::{AtomicBool, Mutex, MutexGuard, lock};
use crate::sink::LostReason;
use crate::tap::FrameTap;
use core::num::NonZeroUsize;
use multigrain_types::NodeId;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// How far this node is with what it sends to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// BYE is in the outbox; nothing may follow it.
    Leaving,
    /// Nothing can be sent any more.
    Shut,
}

#[derive(Debug)]
struct Sending {
    outbox: Outbox,
    phase: Phase,
    /// What the inner epoll set watches the link for.
    watched: EventFlags,
    /// It watches the link's timer, if there is one.
    timed: bool,
    /// Frames of before there was a link, which may have a tap.
    untold: Vec<Header>,
}

/// The link to a peer.
#[derive(Debug)]
struct Joined {
    link: Box<dyn Link>,
    /// It has a tap; asked once.
    tapped: bool,
}

/// One peer's link and what is to be sent to it.
#[derive(Debug)]
pub(crate) struct Peer {
    node: NodeId,
    /// Made once, at boot or when something is to be said for the first time.
    link: OnceLock<Joined>,
    sending: Mutex<Sending>,
    /// What was sent.
    tally: Tally,
    /// What is in the queue.
    replies: ReplyBound,
    /// There is a queue that waits for room; a relaxed read that spares the lock.
    backlog: AtomicBool,
    /// The link takes no input for now; a relaxed read that spares the lock.
    full: AtomicBool,
    /// Nothing more is received from it.
    lost: AtomicBool,
}

impl Peer {
    /// A peer to which there is no link yet, and to which payloads longer than a part of so many bytes go in parts.
    pub(crate) fn new(node: NodeId, part: Option<NonZeroUsize>) -> Self {
        let (outbox, watched) = (Outbox::new(part), EventFlags::empty());
        let sending =
            Sending { outbox, phase: Phase::Open, watched, timed: false, untold: Vec::new() };
        Self {
            node,
            link: OnceLock::new(),
            sending: Mutex::new(sending),
            tally: Tally::default(),
            replies: ReplyBound::default(),
            backlog: AtomicBool::new(false),
            full: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        }
    }

    /// The link is there, the first: what waits for it goes. None if the peer has been given up.
    pub(crate) fn join(
        &self,
        link: Box<dyn Link>,
        waiting: &Waiting,
    ) -> Result<Option<&dyn Link>, TransportError> {
        let mut sending = lock(&self.sending);
        if sending.phase != Phase::Open {
            return Ok(None);
        }
        let tapped = link.tap().is_some();
        let link = &*self.link.get_or_init(|| Joined { link, tapped }).link;
        let untold = core::mem::take(&mut sending.untold);
        if let Some(tap) = self.tap() {
            untold.iter().for_each(|header| tap.sent(header));
        }
        let key = self.node.0.into();
        waiting.watch(link.readiness(), key)?;
        sending.watched = EventFlags::IN;
        if let Some(timer) = link.timer() {
            waiting.watch(timer, key)?;
            sending.timed = true;
        }
        if link.tells_taken() {
            waiting.watch_taken(link.readiness())?;
        }
        let done = sending.outbox.flush(self.port());
        // A link that is broken already is noticed by the receiver.
        let _ = self.follow_up(&mut sending, done, waiting);
        if self.has_backlog() {
            self.rewatch(&mut sending, waiting);
        }
        Ok(Some(link))
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn link(&self) -> Option<&dyn Link> {
        self.link.get().map(|joined| &*joined.link)
    }

    /// Who is told of the frames to and from it.
    pub(crate) fn tap(&self) -> Option<&dyn FrameTap> {
        self.link.get().filter(|joined| joined.tapped)?.link.tap()
    }

    pub(crate) fn has_link(&self) -> bool {
        self.link.get().is_some()
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn replies(&self) -> &ReplyBound {
        &self.replies
    }

    pub(crate) fn has_backlog(&self) -> bool {
        self.backlog.load(Ordering::Relaxed)
    }

    /// It has neither left nor died, as far as this node knows.
    pub(crate) fn is_alive(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    fn port(&self) -> Port<'_> {
        Port { link: self.link(), tally: &self.tally, replies: &self.replies }
    }

    /// [`Outbox::send`].
    ///
    /// # Safety
    /// A [`Payload::Memory`] is readable and stays unchanged until the link has sent it.
    pub(crate) unsafe fn send(
        &self,
        header: &Header,
        payload: Payload<'_>,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is the one asked for.
        let send = |out: &mut Outbox, port: Port<'_>| unsafe { out.send(header, payload, port) };
        self.with_outbox(header, waiting, |out, port| send(out, port).map(|()| header.payload))?;
        Ok(())
    }

    /// [`Outbox::defer`].
    pub(crate) fn defer(&self, header: &Header, waiting: &Waiting) -> Result<(), LinkError> {
        self.with_outbox(header, waiting, |out, port| out.defer(header, port).map(|()| 0))?;
        Ok(())
    }

    /// [`Outbox::defer_with`].
    pub(crate) fn defer_with(
        &self,
        header: &Header,
        fill: impl FnOnce(&mut Vec<u8>),
        waiting: &Waiting,
    ) -> Result<u64, LinkError> {
        self.with_outbox(header, waiting, |out, port| out.defer_with(*header, fill, port))
    }

    /// [`Outbox::defer_or_merge`].
    pub(crate) fn defer_or_merge(
        &self,
        header: &Header,
        merge: impl FnOnce(&Header) -> Option<Header>,
        waiting: &Waiting,
    ) -> Result<(), LinkError> {
        let defer = |out: &mut Outbox, port: Port<'_>| out.defer_or_merge(*header, merge, port);
        self.with_outbox(header, waiting, |out, port| defer(out, port).map(|()| 0))?;
        Ok(())
    }

    /// [`Outbox::flush_deferred`]. A peer that is gone is noticed by the receiver.
    pub(crate) fn flush_deferred(&self, waiting: &Waiting) {
        let mut sending = lock(&self.sending);
        let done = sending.outbox.flush_deferred(self.port());
        let _ = self.follow_up(&mut sending, done, waiting);
    }

    /// Sends from the queue what fits now.
    pub(crate) fn flush(&self, waiting: &Waiting) {
        let mut sending = lock(&self.sending);
        let done = sending.outbox.flush(self.port());
        let _ = self.follow_up(&mut sending, done, waiting);
    }

    /// Acknowledges a part of a payload that has come. A peer that is gone is noticed by the receiver.
    pub(crate) fn take_part(&self, own: NodeId, waiting: &Waiting) {
        let mut sending = lock(&self.sending);
        if sending.phase != Phase::Shut {
            let done = sending.outbox.take_part(own.0, self.port());
            let _ = self.follow_up(&mut sending, done, waiting);
        }
    }

    /// The peer has acknowledged a part; false if it had none to acknowledge.
    pub(crate) fn part_taken(&self, waiting: &Waiting) -> bool {
        let mut sending = lock(&self.sending);
        let done = sending.outbox.part_taken(self.port());
        self.follow_up(&mut sending, done, waiting).unwrap_or(true)
    }

    /// Says BYE as the last frame.
    pub(crate) fn leave(&self, own: NodeId, waiting: &Waiting) {
        let mut sending = lock(&self.sending);
        if sending.phase != Phase::Open {
            return;
        }
        if !self.has_link() {
            // Nothing was said to it, and nobody waits for what was to be.
            self.shut(&mut sending, waiting);
            return;
        }
        let bye = Header { kind: BYE, from: own.0, ..Header::default() };
        sending.phase = Phase::Leaving;
        let said = sending.outbox.send_own(&bye, self.port());
        let _ = self.follow_up(&mut sending, said, waiting);
        self.tell(&mut sending, &bye, 0);
    }

    /// Sends a frame as `act` does, which returns its payload's length.
    fn with_outbox(
        &self,
        header: &Header,
        waiting: &Waiting,
        act: impl FnOnce(&mut Outbox, Port<'_>) -> Result<u64, Errno>,
    ) -> Result<u64, LinkError> {
        let mut sending = lock(&self.sending);
        if sending.phase != Phase::Open || !self.is_alive() {
            return Err(LinkError::Gone { to: self.node });
        }
        let done = act(&mut sending.outbox, self.port());
        let payload = self.follow_up(&mut sending, done, waiting)?;
        self.tell(&mut sending, header, payload);
        Ok(payload)
    }

    /// A tap is told of a frame with a payload of so many bytes, now or when there is a link.
    #[inline]
    fn tell(&self, sending: &mut Sending, header: &Header, payload: u64) {
        if !matches!(self.link.get(), Some(Joined { tapped: false, .. })) {
            self.tell_tap(sending, Header { payload, ..*header });
        }
    }

    #[cold]
    fn tell_tap(&self, sending: &mut Sending, header: Header) {
        match self.link.get() {
            Some(Joined { link, .. }) => {
                if let Some(tap) = link.tap() {
                    tap.sent(&header);
                }
            }
            None => sending.untold.push(header),
        }
    }

    /// After every call of the outbox: its queue may have begun or ended, or the link broken.
    fn follow_up<R>(
        &self,
        sending: &mut Sending,
        done: Result<R, Errno>,
        waiting: &Waiting,
    ) -> Result<R, LinkError> {
        let Ok(result) = done else {
            self.shut(sending, waiting);
            return Err(LinkError::Gone { to: self.node });
        };
        let backlog = sending.outbox.waits_for_room();
        if sending.phase == Phase::Leaving && !sending.outbox.has_backlog() {
            sending.phase = Phase::Shut;
            self.close_link(Close::Sending);
        }
        if backlog != self.has_backlog() {
            self.backlog.store(backlog, Ordering::Relaxed);
            self.rewatch(sending, waiting);
        }
        Ok(result)
    }

    /// Nothing can be sent any more. The receiving thread reads what is left, and then the end.
    fn shut(&self, sending: &mut Sending, waiting: &Waiting) {
        sending.phase = Phase::Shut;
        sending.outbox.clear(self.port());
        sending.untold = Vec::new();
        self.backlog.store(false, Ordering::Relaxed);
        self.close_link(Close::Both);
        self.rewatch(sending, waiting);
    }

    fn close_link(&self, what: Close) {
        if let Some(link) = self.link() {
            link.close(what);
        }
    }

    /// After something was received, or might have been: the link may take input again, or no more for now.
    pub(crate) fn has_received(&self, waiting: &Waiting) {
        let full = !self.link().is_none_or(Link::takes_input);
        if full != self.full.load(Ordering::Relaxed) {
            let mut sending = lock(&self.sending);
            self.full.store(full, Ordering::Relaxed);
            self.rewatch(&mut sending, waiting);
        }
    }

    /// BYE has been queued, and the link has not taken it.
    pub(crate) fn is_leaving(&self) -> bool {
        lock(&self.sending).phase == Phase::Leaving
    }

    /// Nothing more is received. A peer that left still gets what is queued, and our BYE.
    pub(crate) fn end(&self, reason: &LostReason, waiting: &Waiting) {
        let mut sending = lock(&self.sending);
        self.lost.store(true, Ordering::Relaxed);
        match reason {
            LostReason::Left => {
                let done = sending.outbox.parts_are_free(self.port());
                if self.follow_up(&mut sending, done, waiting).is_ok() {
                    self.rewatch(&mut sending, waiting);
                }
            }
            LostReason::Died
            | LostReason::Failed(_)
            | LostReason::Violation(_)
            | LostReason::BeyondLimit(_)
            | LostReason::Unreached(_) => {
                self.shut(&mut sending, waiting);
            }
        }
    }

    /// Ends both halves from this side.
    pub(crate) fn close(&self, waiting: &Waiting) {
        let mut sending: MutexGuard<'_, Sending> = lock(&self.sending);
        self.lost.store(true, Ordering::Relaxed);
        self.shut(&mut sending, waiting);
    }

    fn rewatch(&self, sending: &mut Sending, waiting: &Waiting) {
        let Some(link) = self.link() else { return };
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, self.is_alive() && link.takes_input());
        interest.set(EventFlags::OUT, self.has_backlog());
        if interest != sending.watched {
            waiting.rewatch(link.readiness(), self.node.0.into(), sending.watched, interest);
            sending.watched = interest;
        }
        if !self.is_alive()
            && core::mem::take(&mut sending.timed)
            && let Some(timer) = link.timer()
        {
            waiting.rewatch(timer, self.node.0.into(), EventFlags::IN, EventFlags::empty());
        }
    }
}
