//! Receiving: which links are read, and when deferred frames go.
//!
//! Few links are tried one by one without asking epoll; an only one is even where there may be more to see than links. What
//! was deferred goes when something has been received, and before a sleep; unless all that came says that more follows at
//! once, for then what this node has to answer goes together.
#![expect(unsafe_code, reason = "links receive into the raw places that the sink names")]

use super::{FEW_LINKS, Mesh};
use crate::incoming::{Due, Incoming, Input, ReceiveContext, Staging};
use crate::peer::Peer;
use crate::readiness::{EVENTS, LISTENER, WAKE};
use crate::shim::MutexGuard;
use crate::sink::{LostReason, Sink};
use crate::timeout::Timeout;
use crate::unauthenticated;
use core::mem::MaybeUninit;
use rustix::event::epoll::{Event, EventFlags};
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

/// Every so many fruitless tries, epoll is asked all the same.
const TRIES: u32 = 256;
/// Reads of one link before the next one has its turn.
const READS: usize = 16;

/// What only the receiving thread uses.
pub(super) struct Receiving {
    /// By rank, as long as something is to be received.
    incoming: Vec<Option<Incoming>>,
    staging: Staging,
    /// Receives in a row that found nothing.
    fruitless: u32,
    /// All that was received last is followed by more at once, say its senders.
    more_follows: bool,
}

impl Receiving {
    pub(super) fn new(peers: &[Option<Peer>]) -> Self {
        let incoming = |peer: &Option<Peer>| peer.as_ref().map(|peer| Incoming::new(peer.node()));
        Self {
            incoming: peers.iter().map(incoming).collect(),
            staging: Staging::new(),
            fruitless: 0,
            more_follows: false,
        }
    }
}

impl Mesh {
    /// Delivers everything that is readable now to `sink`, after waiting for something if there
    /// is nothing; returns the number of messages. It may be 0 before the time is over: after
    /// [`Mesh::wake`], a signal, a piece of a frame, an unauthenticated connection, or a lost link.
    /// Queues are flushed on the way. One thread at a time; the sink may not call it.
    pub fn receive(&self, sink: &mut dyn Sink, wait: Timeout) -> usize {
        let mut receiving = self.receiving();
        if self.closed.load(Ordering::Acquire) {
            return 0;
        }
        let Receiving { incoming, staging, fruitless, more_follows } = &mut *receiving;
        if wait != Timeout::Now {
            self.waiting.will_sleep(self.suppressing_links());
            if !*more_follows {
                // Nobody may sleep on what another node could come to wait for.
                self.flush_deferred();
            }
        }
        let mut context = ReceiveContext::new(staging, sink);
        let few = self.peers.len() <= FEW_LINKS + 1 && wait == Timeout::Now;
        let tries = few && *fruitless < TRIES;
        // What the set names besides is still there when the only link has nothing.
        let only = tries && self.peers.len() == 2;
        if only || tries && !self.waiting.must_rescan() {
            self.try_each(incoming, &mut context);
        } else {
            self.serve_ready(incoming, wait, &mut context);
            *fruitless = 0;
        }
        if only && context.messages() == 0 && self.waiting.must_rescan() {
            self.serve_ready(incoming, wait, &mut context);
            *fruitless = 0;
        }
        let messages = context.messages();
        *fruitless = if messages == 0 { *fruitless + 1 } else { 0 };
        if messages > 0 {
            *more_follows = context.more_follows();
            if !*more_follows {
                self.flush_deferred();
            }
        }
        if context.early() > 0 {
            self.tally.placed_early(context.early() as u64);
        }
        if context.bytes() > 0 {
            self.tally.received(messages as u64, context.bytes() as u64);
        }
        messages
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

    /// Serves every link, without asking which has something.
    fn try_each<'a>(&'a self, incoming: &mut [Option<Incoming>], context: &mut ReceiveContext<'a>) {
        for (peer, incoming) in self.peers.iter().zip(incoming) {
            if let Some(peer) = peer {
                self.serve(peer, incoming, EventFlags::IN, context);
            }
        }
    }

    /// Waits on the inner epoll set and serves what it names.
    fn serve_ready<'a>(
        &'a self,
        incoming: &mut [Option<Incoming>],
        wait: Timeout,
        context: &mut ReceiveContext<'a>,
    ) {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        for event in self.waiting.wait(&mut room, wait) {
            let (key, flags) = (event.data.u64(), event.flags);
            match key {
                WAKE => {
                    self.waiting.woken();
                    self.report_unreached(incoming, context.sink());
                }
                LISTENER => self.refuse_connections(context.sink()),
                rank => {
                    let rank = usize::try_from(rank).unwrap_or(usize::MAX);
                    if let Some(Some(peer)) = self.peers.get(rank) {
                        self.serve(peer, &mut incoming[rank], flags, context);
                    }
                }
            }
        }
    }

    /// Flushes and reads one link.
    fn serve<'a>(
        &self,
        peer: &'a Peer,
        incoming: &mut Option<Incoming>,
        flags: EventFlags,
        context: &mut ReceiveContext<'a>,
    ) {
        if peer.has_backlog() {
            peer.flush(&self.waiting);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let Some(parser) = incoming else { return };
        peer.replies().serve(true);
        let done = self.read(peer, parser, context);
        peer.replies().serve(false);
        peer.has_received(&self.waiting);
        if let Err(reason) = done {
            *incoming = None;
            peer.end(&reason, &self.waiting);
            context.sink().lost(peer.node(), reason);
        }
    }

    /// Tells the sink of peers that could not be reached.
    fn report_unreached(&self, incoming: &mut [Option<Incoming>], sink: &mut dyn Sink) {
        for (node, reason) in self.take_unreached() {
            let Some(peer) = self.peer(node) else { continue };
            incoming[node.index()] = None;
            peer.end(&reason, &self.waiting);
            sink.lost(node, reason);
        }
    }

    /// Reads a link until it is empty or its turn is over, and nothing is held inside.
    fn read<'a>(
        &self,
        peer: &'a Peer,
        parser: &mut Incoming,
        context: &mut ReceiveContext<'a>,
    ) -> Result<(), LostReason> {
        let Some(link) = peer.link() else { return Ok(()) };
        let allowed = self.allowed_answers.load(Ordering::Relaxed);
        context.tapped(peer.tap());
        let mut reads = 0;
        while reads < READS || link.holds_input() {
            // SAFETY: the parser names its own header, the staging buffer, and places that the sink
            // vouches for.
            let receive = |spans: &mut [_]| unsafe { link.receive(spans) };
            let input = parser.pump(receive, context)?;
            let due = parser.take_due();
            if due != Due::default() {
                self.acknowledge_parts(peer, due)?;
            }
            peer.replies().check(allowed)?;
            if input == Input::Drained && !link.holds_input() {
                break;
            }
            reads += 1;
        }
        Ok(())
    }

    fn acknowledge_parts(&self, peer: &Peer, due: Due) -> Result<(), LostReason> {
        for _ in 0..due.to_send {
            self.tally.part_acknowledged();
            peer.take_part(self.rank(), &self.waiting);
        }
        for _ in 0..due.received {
            if !peer.part_taken(&self.waiting) {
                let wrong = "it acknowledges a part that was not sent to it";
                return Err(LostReason::Violation(wrong.to_owned()));
            }
        }
        Ok(())
    }

    fn refuse_connections(&self, sink: &mut dyn Sink) {
        for listener in &self.refusing.listeners {
            let refused = &mut |line| sink.refused(line);
            let done = unauthenticated::refuse_waiting(
                listener,
                &self.identity,
                &self.refusing.refusals,
                refused,
            );
            if let Err(errno) = done {
                self.waiting.rewatch(listener, LISTENER, EventFlags::IN, EventFlags::empty());
                sink.refused(format!("listens no more: accept: {errno}"));
            }
        }
    }
}
