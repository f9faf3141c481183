//! The manager role: the directory entry of one minipage (Millipage Figure 3, right column; 3.3).
//!
//! One transaction is open at a time; the requester's ack closes it. Requests that arrive
//! meanwhile wait here, first come first served, and nowhere else.
//!
//! An ack of another node travels, and so does what takes the minipage away from it again. The
//! manager's own ack does not: where nodes compete, the manager has a rival answer an echo before it
//! closes its own transaction, so that its grant lasts as long as theirs (ADR 17).

#[cfg(feature = "mutants")]
mod mutants;

use std::collections::VecDeque;

use multigrain_types::NodeId;

use super::{Illegal, Site};
use crate::effect::{Effect, Effects};
use crate::message::{Attach, Kind, PageMessage};
use crate::nodeset::NodeSet;

/// The directory entry of one minipage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Entry {
    /// Who holds a copy. Exact while no transaction is open.
    copyset: NodeSet,
    open: Option<Box<Transaction>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transaction {
    request: Request,
    phase: Phase,
    /// Competing requests (4.4). At most one fetch and one push a node.
    queue: VecDeque<Request>,
    /// Whose transaction it had to wait for.
    after: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    from: NodeId,
    ask: Ask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ask {
    Fetch(Kind),
    Reclaim,
    Push,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Waiting for invalidation replies before the request can be supplied.
    Invalidating { awaited: NodeSet },
    /// Supplied; waiting for the acks that close the transaction.
    Supplied { awaited: NodeSet },
    /// Acknowledged by this node itself; waiting for a rival's echo.
    Echoing { rival: NodeId },
}

/// What can happen to a directory entry; every event comes from a node (perhaps the own one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManagerEvent {
    /// Figure 3, manager: Handle Read Request, Handle Write Request.
    Fetch(Kind),
    /// The owner takes a freed minipage back.
    Reclaim,
    /// A holder wants every node to have a read copy.
    Push,
    /// Figure 3, manager: Handle Invalidate Reply.
    InvalidateReply,
    /// Section 3.3: the ack that closes the transaction.
    Ack,
    /// A rival has answered.
    EchoReply,
}

impl Entry {
    /// The entry of a fresh minipage: its allocating node holds the one writable copy.
    #[must_use]
    pub fn owned_by(owner: NodeId) -> Self {
        Self { copyset: core::iter::once(owner).collect(), open: None }
    }

    /// Who holds a copy; exact while [`Entry::is_idle`].
    #[must_use]
    pub fn copyset(&self) -> &NodeSet {
        &self.copyset
    }

    /// Whether no transaction is open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.is_none()
    }

    /// Requests waiting behind the open transaction.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.queue.len())
    }

    /// One step; effects are appended to `out`.
    ///
    /// # Errors
    /// [`Illegal`] when no correct peer can have sent this event in this state.
    pub fn handle(
        &mut self,
        site: &Site,
        from: NodeId,
        event: ManagerEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        use ManagerEvent as E;
        match (event, self.open.as_mut()) {
            (E::Fetch(kind), _) => self.admit(site, Request { from, ask: Ask::Fetch(kind) }, out),
            (E::Reclaim, _) => self.admit(site, Request { from, ask: Ask::Reclaim }, out),
            (E::Push, _) => self.admit(site, Request { from, ask: Ask::Push }, out),
            (E::InvalidateReply, Some(open)) => {
                let Phase::Invalidating { awaited } = &mut open.phase else {
                    return Err(self.illegal());
                };
                if !awaited.remove(from) {
                    return Err(self.illegal());
                }
                let all_in = awaited.is_empty();
                let request = open.request;
                self.copyset.remove(from);
                // Figure 3: "if got less than (#replicas - 1) replies then return".
                if all_in {
                    self.supply_exclusive(site, request, out);
                }
                Ok(())
            }
            (E::Ack, Some(open)) => {
                let Phase::Supplied { awaited } = &mut open.phase else {
                    return Err(self.illegal());
                };
                if !awaited.remove(from) {
                    return Err(self.illegal());
                }
                let closed = awaited.is_empty();
                self.copyset.insert(from);
                if closed {
                    self.acknowledged(site, out);
                }
                Ok(())
            }
            (E::EchoReply, Some(open)) if open.phase == (Phase::Echoing { rival: from }) => {
                self.close(site, out);
                Ok(())
            }
            (E::EchoReply, _) | (E::InvalidateReply | E::Ack, None) => Err(self.illegal()),
        }
    }

    fn illegal(&self) -> Illegal {
        Illegal { role: "manager", state: format!("{self:?}") }
    }

    /// Serve the request, or queue it behind the open transaction.
    fn admit(&mut self, site: &Site, request: Request, out: &mut Effects) -> Result<(), Illegal> {
        let Some(open) = self.open.as_mut() else {
            self.serve(site, request, VecDeque::new(), None, out);
            return Ok(());
        };
        let is_fetch = |request: &Request| request.ask != Ask::Push;
        let twice =
            |other: &Request| other.from == request.from && is_fetch(other) == is_fetch(&request);
        if open.queue.iter().any(twice) {
            // A second push adds nothing to one that waits; a second fetch is never sent.
            return if is_fetch(&request) { Err(self.illegal()) } else { Ok(()) };
        }
        if open.queue.is_empty()
            && let Phase::Supplied { awaited } = &open.phase
        {
            // The replies did not say that others wait.
            for to in awaited.iter() {
                send(site, to, PageMessage::Hurry, out);
            }
        }
        open.queue.push_back(request);
        out.push(Effect::Competing { minipage: site.minipage });
        Ok(())
    }

    fn serve(
        &mut self,
        site: &Site,
        request: Request,
        queue: VecDeque<Request>,
        after: Option<NodeId>,
        out: &mut Effects,
    ) {
        let Request { from, ask } = request;
        let phase = Phase::Supplied { awaited: core::iter::once(from).collect() };
        self.open = Some(Box::new(Transaction { request, phase, queue, after }));
        match ask {
            Ask::Fetch(Kind::Read) => self.supply_read(site, from, out),
            Ask::Fetch(Kind::Write) | Ask::Reclaim => self.invalidate_others(site, request, out),
            Ask::Push => self.supply_all(site, from, out),
        }
    }

    /// Figure 3, manager: Handle Read Request: find a replica, forward.
    fn supply_read(&self, site: &Site, requester: NodeId, out: &mut Effects) {
        let (kind, hurry) = (Kind::Read, self.queued() > 0);
        if self.copyset.contains(requester) {
            // It was pushed a copy while its request was on the way.
            send(site, requester, PageMessage::Reply { kind, attach: Attach::Nothing, hurry }, out);
        } else {
            send(site, self.replica(site), PageMessage::Forward { kind, requester, hurry }, out);
        }
    }

    /// Figure 3, manager: Handle Write Request: invalidate all replicas but the one that supplies.
    fn invalidate_others(&mut self, site: &Site, request: Request, out: &mut Effects) {
        let mut awaited = self.copyset.clone();
        awaited.remove(request.from);
        if request.ask != Ask::Reclaim && !self.copyset.contains(request.from) {
            awaited.remove(self.replica(site));
        }
        if awaited.is_empty() {
            self.supply_exclusive(site, request, out);
            return;
        }
        for to in awaited.iter() {
            send(site, to, PageMessage::InvalidateRequest, out);
        }
        if let Some(open) = self.open.as_mut() {
            open.phase = Phase::Invalidating { awaited };
        }
    }

    /// One replica at most is left beside the requester's: it sends the page and gives it up.
    fn supply_exclusive(&mut self, site: &Site, request: Request, out: &mut Effects) {
        let (kind, requester, hurry) = (Kind::Write, request.from, self.queued() > 0);
        if request.ask == Ask::Reclaim || self.copyset.contains(requester) {
            send(site, requester, PageMessage::Reply { kind, attach: Attach::Nothing, hurry }, out);
        } else {
            let to = self.replica(site);
            send(site, to, PageMessage::Forward { kind, requester, hurry }, out);
            self.copyset.remove(to);
        }
        if let Some(open) = self.open.as_mut() {
            open.phase = Phase::Supplied { awaited: core::iter::once(requester).collect() };
        }
    }

    /// Push: every node without a copy is supplied by the pusher, all at once.
    fn supply_all(&mut self, site: &Site, pusher: NodeId, out: &mut Effects) {
        let targets: NodeSet = (0..site.nodes)
            .map(NodeId)
            .filter(|node| self.copyset.contains(pusher) && !self.copyset.contains(*node))
            .collect();
        if targets.is_empty() {
            // Everybody has a copy, or the pusher lost its own to a writer.
            self.close(site, out);
            return;
        }
        for target in targets.iter() {
            send(site, pusher, PageMessage::PushForward { target }, out);
        }
        if let Some(open) = self.open.as_mut() {
            open.phase = Phase::Supplied { awaited: targets };
        }
    }

    /// Figure 3, `find_replica`: the manager's own copy saves a message.
    fn replica(&self, site: &Site) -> NodeId {
        if self.copyset.contains(site.me) {
            return site.me;
        }
        self.copyset.first().expect("a minipage has a copy somewhere while no transaction moves it")
    }

    /// All acks are in.
    fn acknowledged(&mut self, site: &Site, out: &mut Effects) {
        let Some(open) = self.open.as_mut() else { return };
        let own = matches!(open.request, Request { from, ask: Ask::Fetch(_) } if from == site.me);
        match open.rival(site.me).filter(|_| own) {
            Some(rival) => {
                open.phase = Phase::Echoing { rival };
                send(site, rival, PageMessage::Echo, out);
            }
            None => self.close(site, out),
        }
    }

    fn close(&mut self, site: &Site, out: &mut Effects) {
        let Some(open) = self.open.take() else { return };
        let mut queue = open.queue;
        if let Some(next) = queue.pop_front() {
            self.serve(site, next, queue, Some(open.request.from), out);
        }
    }
}

impl Transaction {
    /// Another node that wants the minipage too, or has just had it.
    fn rival(&self, me: NodeId) -> Option<NodeId> {
        #[cfg(feature = "mutants")]
        if mutants::closes_at_once() {
            return None;
        }
        let queued = self.queue.iter().map(|request| request.from);
        queued.chain(self.after).find(|node| *node != me)
    }
}

fn send(site: &Site, to: NodeId, body: PageMessage, out: &mut Effects) {
    out.push(Effect::Send { to, message: body.about(site.minipage) });
}
