//! The network: frames under way, and deferred ones that wait for the next frame to the same node.
//!
//! Of the table in the head of `transport/src/outbox/send_rules.rs` this has the columns "nothing is here" and "deferred frames",
//! with the outbox's own bound ([`MAX_DEFERRED`]). The others are left out, and the code is not shared: a link is never
//! full here, so there is no queue, and frames are timed and counted one by one, so a batch, which keeps their order,
//! would not be seen. What the outbox decides by is bytes and what the link has taken; of both there is nothing here.

use multigrain_transport::{Header, MAX_DEFERRED};
use multigrain_types::NodeId;

use super::codec::Frame;
use super::links::{Links, Timing};
use super::queue::Queue;

/// What the queue holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// A timer of the cluster's user.
    Timer(u64),
    /// A frame is there. `bounded`: it counts against the bound of frames under way.
    Frame { frame: Frame, bounded: bool },
    /// A node is done with a frame and takes the next one that has arrived.
    Ready(NodeId),
    /// A node learns that another is dead.
    Lost { node: NodeId, peer: NodeId },
}

/// What went over the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames.
    pub messages: u64,
    /// Headers and payloads.
    pub bytes: u64,
}

#[derive(Debug)]
pub(super) struct Net<T> {
    pub(super) queue: Queue<Due>,
    pub(super) timing: T,
    pub(super) traffic: Traffic,
    links: Links,
    /// By node: frames deferred, oldest first.
    deferred: Vec<Vec<Frame>>,
    under_way: u64,
    /// Most frames that can be under way, but for `PushRequest` and `AckNow`, which nobody waits for.
    bound: u64,
}

impl<T: Timing> Net<T> {
    pub(super) fn new(nodes: u16, timing: T, bound: u64) -> Self {
        Self {
            queue: Queue::new(),
            timing,
            traffic: Traffic::default(),
            links: Links::default(),
            deferred: vec![Vec::new(); usize::from(nodes)],
            under_way: 0,
            bound,
        }
    }

    /// Sends a frame, after those deferred for the same node.
    pub(super) fn post(
        &mut self,
        from: NodeId,
        frame: Frame,
        at: u64,
        bounded: bool,
    ) -> Result<(), String> {
        if frame.to == from || frame.to.index() >= self.deferred.len() {
            return Err(format!("{from} sends to {}", frame.to));
        }
        if !self.deferred[from.index()].is_empty() {
            self.release(from, at, |deferred| deferred.to == frame.to);
        }
        self.put(from, frame, at, bounded);
        if self.under_way > self.bound {
            return Err(format!("{} frames are under way, more than ever needed", self.under_way));
        }
        Ok(())
    }

    /// Keeps a frame until there is another for the same node, or [`Net::flush`].
    pub(super) fn defer(&mut self, from: NodeId, frame: Frame, at: u64) -> Result<(), String> {
        let deferred = &mut self.deferred[from.index()];
        if deferred.iter().filter(|other| other.to == frame.to).count() == MAX_DEFERRED {
            return self.post(from, frame, at, true);
        }
        deferred.push(frame);
        Ok(())
    }

    /// Sends what a node deferred.
    pub(super) fn flush(&mut self, from: NodeId, at: u64) {
        if !self.deferred[from.index()].is_empty() {
            self.release(from, at, |_| true);
        }
    }

    /// A frame has arrived.
    pub(super) fn landed(&mut self, bounded: bool) {
        self.under_way -= u64::from(bounded);
    }

    /// When the end of a link is seen at its other end: after whatever was sent before.
    pub(super) fn end_of(&mut self, from: NodeId, to: NodeId, at: u64) -> u64 {
        self.links.arrival(&mut self.timing, (from, to), 0, at)
    }

    /// A node is no more: what it has deferred is gone.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.deferred[node.index()] = Vec::new();
    }

    fn release(&mut self, from: NodeId, at: u64, wanted: impl Fn(&Frame) -> bool) {
        let mut deferred = core::mem::take(&mut self.deferred[from.index()]);
        deferred.retain(|frame| {
            let goes = wanted(frame);
            if goes {
                self.put(from, *frame, at, true);
            }
            !goes
        });
        self.deferred[from.index()] = deferred;
    }

    fn put(&mut self, from: NodeId, frame: Frame, at: u64, bounded: bool) {
        let bytes = Header::BYTES as u64 + frame.payload;
        self.traffic.messages += 1;
        self.traffic.bytes += bytes;
        self.under_way += u64::from(bounded);
        let arrival = self.links.arrival(&mut self.timing, (from, frame.to), bytes, at);
        self.queue.push(arrival, Due::Frame { frame, bounded });
    }
}
