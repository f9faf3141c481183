//! Clocks between nodes, and from synchronization objects to the threads that follow them.
//!
//! A clock that goes to another node is a frame of its own, ahead of the message it belongs to on the
//! same link, and waits there until that message is taken. What a node sends to itself is treated
//! alike, without a frame.

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants::{self, Mutant};
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{Message, SyncMessage};
use multigrain_transport::{Header, Payload};
use multigrain_types::{NodeId, ThreadId};

use super::clock::Clock;
use super::happens_before::Ordered;
use super::{Checker, Races};
use crate::frames::{Asker, DriverFrame, OwnKind, Request, header_of};
use crate::shim::lock;

/// The header by which a synchronization message is known.
fn header_of_sync(id: u64, body: SyncMessage) -> Header {
    header_of(Message::Sync { id, body })
}

impl Races<'_> {
    /// A thread's request to the synchronization engines was granted.
    pub(crate) fn on_request(&self, asked: &SyncInput) {
        let Some(races) = self.checker else { return };
        let now = lock(&races.open).clock.clone();
        lock(&races.happens_before).on_request(asked, &now);
    }

    /// The synchronization engines want this message sent, when what it releases is seen.
    pub(crate) fn on_send(&self, to: NodeId, id: u64, body: SyncMessage) {
        let Some(races) = self.checker else { return };
        let now = lock(&races.open).clock.clone();
        lock(&races.happens_before).on_send(to, id, body, &now);
    }

    /// This message leaves for another node now.
    pub(crate) fn on_departure(&self, to: NodeId, message: Message) {
        let Some(races) = self.checker else { return };
        if let Message::Sync { id, body } = message
            && body.carries_release()
        {
            let clock = lock(&races.happens_before).on_departure(to, id, body);
            self.send_clock(races, to, &header_of(message), clock);
        }
    }

    /// The synchronization engines are about to take this message, perhaps from their own node.
    pub(crate) fn on_receive(&self, from: NodeId, id: u64, body: SyncMessage) {
        let Some(races) = self.checker else { return };
        if !body.carries_release() {
            return;
        }
        let followed = {
            let mut order = lock(&races.happens_before);
            let clock = if from == self.platform.me() {
                order.on_departure(from, id, body)
            } else {
                let header = header_of_sync(id, body);
                order.came_with((from, header.kind, ThreadId(header.thread)))
            };
            order.on_receive(id, body, clock)
        };
        if let Some(clock) = followed {
            self.merge(races, &clock);
        }
    }

    /// Before a request of the runtime's own that orders what is done because of it.
    pub(crate) fn request(&self, to: NodeId, header: &Header) {
        let Some(races) = self.checker else { return };
        let orders = matches!(
            OwnKind::of(header.kind),
            Some(OwnKind::Request(Request::Free | Request::Publish | Request::ThreadStart))
        );
        if orders {
            let now = lock(&races.open).clock.clone();
            self.send_clock(races, to, header, now);
        }
    }

    /// The clock of a request becomes that of an object here.
    pub(crate) fn keep(&self, object: Ordered, asker: Asker, request: Request) {
        let Some(races) = self.checker else { return };
        let mut order = lock(&races.happens_before);
        let clock = order.came_with((asker.node, request.number(), asker.thread));
        order.keep(object, clock);
    }

    /// What this node's threads have done becomes the clock of an object here.
    pub(crate) fn keep_own(&self, object: Ordered) {
        let Some(races) = self.checker else { return };
        let now = lock(&races.open).clock.clone();
        lock(&races.happens_before).keep(object, now);
    }

    /// Before an answer: the thread that gets it follows this object.
    pub(crate) fn answer(&self, asker: Asker, object: &Ordered) {
        let Some(races) = self.checker else { return };
        let clock = lock(&races.happens_before).give(object);
        let header = Header {
            kind: DriverFrame::Answer.number(),
            thread: asker.thread.0,
            ..Header::default()
        };
        self.send_clock(races, asker.node, &header, clock);
    }

    /// Nobody will follow this object.
    pub(crate) fn forget(&self, object: &Ordered) {
        let Some(races) = self.checker else { return };
        let _ = lock(&races.happens_before).give(object);
    }

    /// A thread has its answer from that node.
    pub(crate) fn answered(&self, from: NodeId, thread: ThreadId) {
        let Some(races) = self.checker else { return };
        let clock =
            lock(&races.happens_before).came_with((from, DriverFrame::Answer.number(), thread));
        self.merge(races, &clock);
    }

    /// The calling thread follows an object of this node.
    pub(crate) fn follow(&self, object: &Ordered) {
        let Some(races) = self.checker else { return };
        let clock = lock(&races.happens_before).give(object);
        self.merge(races, &clock);
    }

    /// What is written here from now on comes after all that the clock knows of.
    fn merge(&self, races: &Checker, clock: &Clock) {
        // What another thread of this node has merged a moment ago is not new, and its watch not yet renewed.
        let _renewed = lock(&races.merging);
        if lock(&races.open).receive(self.platform.me(), clock) {
            self.renew_watch(races);
        }
    }

    fn send_clock(&self, races: &Checker, to: NodeId, about: &Header, clock: Clock) {
        #[cfg(feature = "mutants")]
        let clock = if mutants::on(Mutant::named("clock-of-the-moment")) {
            lock(&races.open).clock.clone()
        } else {
            clock
        };
        if clock.is_empty() {
            return;
        }
        if to == self.platform.me() {
            let tag = (to, about.kind, ThreadId(about.thread));
            let room = lock(&races.happens_before).arrives(tag, clock);
            assert!(room, "a node has no more threads");
            return;
        }
        let header = Header {
            kind: DriverFrame::RaceClock.number(),
            from: self.platform.me().0,
            thread: about.thread,
            value: about.kind.into(),
            ..Header::default()
        };
        self.platform.send_frame(to, header, Payload::Owned(clock.to_bytes()));
    }

    /// A peer's clock, of the frame that comes next of that kind and thread; false for what none
    /// sends. `awaits`: whether a thread of this node waits for an answer of the peer.
    pub(crate) fn receive_clock(
        &self,
        from: NodeId,
        header: &Header,
        body: &[u8],
        awaits: impl FnOnce(ThreadId) -> bool,
    ) -> bool {
        let Some(races) = self.checker else { return false };
        let Some((clock, [])) = Clock::from_bytes(body, self.platform.nodes()) else {
            return false;
        };
        let Ok(kind) = u8::try_from(header.value) else { return false };
        let thread = ThreadId(header.thread);
        if kind == DriverFrame::Answer.number() && !awaits(thread) {
            return false;
        }
        #[cfg(feature = "mutants")]
        if mutants::on(Mutant::named("clock-merged-at-arrival")) {
            self.merge(races, &clock);
        }
        lock(&races.happens_before).arrives((from, kind, ThreadId(header.thread)), clock)
    }
}
