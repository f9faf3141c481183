//! The manager role: the directory entry of one minipage (Millipage Figure 3, right column; 3.3).
//!
//! One transaction is open at a time; the requester's ack closes it. Requests that arrive
//! meanwhile wait here and nowhere else, in order of arrival; but readers that wait are served
//! together, when the first of them has its turn, so that nobody's copy outlasts others' turns.
//!
//! A grant says for how many turns of others its node has waited and how long the longest was, which acks
//! tell, so that the node can have as long a turn itself. (The ack of another node takes time to travel, and so does what takes the minipage away from that
//! node again; the manager's own ack takes none. See ADR 17.)

use std::collections::VecDeque;

use multigrain_types::NodeId;

use crate::context::{EngineContext, Illegal};
use crate::effect::{Effect, Effects};
use crate::invalidation_tree::{self, Ranks, Subtree, Subtrees};
use crate::message::{Attach, Kind, PageMessage, Turns};
use crate::mutant_macro::mutant;
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
    /// The longest of the turns before this one: what is older counts for less.
    late_us: u32,
    /// The longest turn of those who have acknowledged this one.
    turn_us: u32,
    /// Competing requests (4.4). At most one fetch and one push a node.
    queue: VecDeque<Request>,
}

/// The part of a turn's length that is forgotten with each later one: turns to read are short where the same threads
/// write next.
const FORGOTTEN: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    from: NodeId,
    ask: Ask,
    /// Transactions that it has waited for; of readers, those that wrote.
    turns: Turns,
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
    Invalidating { awaited: Subtrees },
    /// Supplied; waiting for the acks that close the transaction.
    Supplied { awaited: NodeSet },
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
    /// Section 3.3: the ack that closes the transaction, after a turn that long.
    Ack {
        /// In microseconds.
        turn_us: u32,
    },
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
        context: &EngineContext,
        from: NodeId,
        event: ManagerEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        use ManagerEvent as E;
        match (event, self.open.as_mut()) {
            (E::Fetch(kind), _) => self.admit(context, from, Ask::Fetch(kind), out),
            (E::Reclaim, _) => self.admit(context, from, Ask::Reclaim, out),
            (E::Push, _) => {
                self.admit(context, from, Ask::Push, out)?;
                mutant!("pushes-pile-up" => {
                    if let Some(open) = self.open.as_mut() {
                        let request = Request { from, ask: Ask::Push, turns: Turns::NONE };
                        let waits = |other: &Request| {
                            (other.from, other.ask) == (request.from, request.ask)
                        };
                        if open.queue.iter().any(waits) {
                            open.queue.push_back(request);
                        }
                    }
                });
                Ok(())
            }
            (E::InvalidateReply, Some(open)) => {
                let Phase::Invalidating { awaited } = &mut open.phase else {
                    return Err(self.illegal());
                };
                let Some(place) = awaited.iter().position(|subtree| subtree.root == from) else {
                    return Err(self.illegal());
                };
                let subtree = awaited.remove(place);
                mutant!("first-invalidation-suffices" => { awaited.clear(); });
                let all_in = awaited.is_empty();
                let request = open.request;
                subtree.nodes().for_each(|node| _ = self.copyset.remove(node));
                // Figure 3: "if got less than (#replicas - 1) replies then return".
                if all_in {
                    self.supply_exclusive(context, request, out);
                }
                Ok(())
            }
            (E::Ack { turn_us }, Some(open)) => {
                let Phase::Supplied { awaited } = &mut open.phase else {
                    return Err(self.illegal());
                };
                mutant!("queue-lost" => { open.queue.clear(); });
                mutant!("readers-closed-by-first-ack" => {
                    *awaited = [from].into_iter().collect();
                });
                mutant!("push-closed-by-first-ack" => {
                    if open.request.ask == Ask::Push {
                        *awaited = [from].into_iter().collect();
                    }
                });
                if !awaited.remove(from) {
                    return Err(self.illegal());
                }
                let closed = awaited.is_empty();
                open.turn_us = open.turn_us.max(turn_us);
                self.copyset.insert(from);
                if closed {
                    self.close(context, out);
                }
                mutant!("ack-not-listed" => { self.copyset.remove(from); });
                Ok(())
            }
            (E::InvalidateReply | E::Ack { .. }, None) => Err(self.illegal()),
        }
    }

    fn illegal(&self) -> Illegal {
        Illegal { role: "manager", state: format!("{self:?}") }
    }

    /// Serve the request, or queue it behind the open transaction.
    fn admit(
        &mut self,
        context: &EngineContext,
        from: NodeId,
        ask: Ask,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        mutant!("served-before-ack" => {
            let supplied = |open: &Transaction| {
                matches!(open.phase, Phase::Supplied { .. }) && open.queue.is_empty()
            };
            if matches!(ask, Ask::Fetch(_)) && self.open.as_deref().is_some_and(supplied) {
                self.open = None;
            }
        });
        if self.is_idle() {
            self.serve(
                context,
                Request { from, ask, turns: Turns::NONE },
                (VecDeque::new(), 0),
                out,
            );
            return Ok(());
        }
        let request = Request { from, ask, turns: Turns::NONE };
        if self.joins_readers(context, request, out) {
            return Ok(());
        }
        let Some(open) = self.open.as_mut() else { return Err(self.illegal()) };
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
            // The replies did not ask for the ack at once.
            let count = mutant!("ack-now-not-sent": 0, else usize::MAX);
            for to in awaited.iter().take(count) {
                send(context, to, PageMessage::AckNow, out);
            }
        }
        open.queue.push_back(request);
        out.push(Effect::Competing { minipage: context.minipage });
        Ok(())
    }

    fn serve(
        &mut self,
        context: &EngineContext,
        request: Request,
        (queue, late_us): (VecDeque<Request>, u32),
        out: &mut Effects,
    ) {
        let Request { from, ask, .. } = request;
        let phase = Phase::Supplied { awaited: core::iter::once(from).collect() };
        self.open = Some(Box::new(Transaction { request, phase, late_us, turn_us: 0, queue }));
        match ask {
            Ask::Fetch(Kind::Read) => self.supply_readers(context, request, out),
            Ask::Fetch(Kind::Write) | Ask::Reclaim => self.invalidate_others(context, request, out),
            Ask::Push => self.supply_all(context, from, out),
        }
    }

    /// A reader has its turn, and so has every other one that waits.
    fn supply_readers(&mut self, context: &EngineContext, first: Request, out: &mut Effects) {
        let Some(open) = self.open.as_mut() else { return };
        let (readers, others) =
            core::mem::take(&mut open.queue).into_iter().partition(Request::reads);
        open.queue = others;
        let mut readers: VecDeque<Request> = readers;
        readers.push_front(first);
        let awaited = readers.iter().map(|request| request.from).collect();
        open.phase = Phase::Supplied { awaited };
        // First those who need a page: a replica may be a reader itself, and its reply comes behind.
        let (have, need): (Vec<Request>, Vec<Request>) =
            readers.into_iter().partition(|reader| self.copyset.contains(reader.from));
        for request in need.into_iter().chain(have) {
            self.supply_read(context, request, out);
        }
    }

    /// Readers are served, and another one comes: it is served as well, by a replica at rest, unless a
    /// writer waits. True if so.
    fn joins_readers(
        &mut self,
        context: &EngineContext,
        request: Request,
        out: &mut Effects,
    ) -> bool {
        let Some(open) = self.open.as_mut() else { return false };
        let Phase::Supplied { awaited } = &mut open.phase else { return false };
        let alone = open.request.reads() && request.reads() && open.queue.is_empty();
        if !alone || awaited.contains(request.from) || self.copyset.contains(request.from) {
            return false;
        }
        // A node that has not acknowledged its own grant must not be asked to supply.
        let mut at_rest = self.copyset.clone();
        awaited.iter().for_each(|node| _ = at_rest.remove(node));
        let Some(to) = nearest(context, &at_rest) else { return false };
        awaited.insert(request.from);
        let (kind, requester) = (Kind::Read, request.from);
        send(
            context,
            to,
            PageMessage::Forward { kind, requester, ack_now: false, turns: Turns::NONE },
            out,
        );
        true
    }

    /// Figure 3, manager: Handle Read Request: find a replica, forward.
    fn supply_read(&self, context: &EngineContext, request: Request, out: &mut Effects) {
        let (kind, requester, ack_now) = (Kind::Read, request.from, self.queued() > 0);
        // A node that waits to write ends its turn, other readers do not.
        let writes = |other: &Request| other.ask == Ask::Fetch(Kind::Write);
        let ends = self.open.as_ref().is_some_and(|open| open.queue.iter().any(writes));
        let turns = self.turns(request).at_least_one(ends);
        let pushed = self.copyset.contains(requester);
        if mutant!("overtaken-read-forwarded": false, else pushed) {
            // It was pushed a copy while its request was on the way.
            let attach = Attach::Nothing;
            send(context, requester, PageMessage::Reply { kind, attach, ack_now, turns }, out);
        } else {
            let forward = PageMessage::Forward { kind, requester, ack_now, turns };
            send(context, self.replica(context), forward, out);
        }
    }

    /// Figure 3, manager: Handle Write Request: invalidate all replicas but the one that supplies.
    fn invalidate_others(&mut self, context: &EngineContext, request: Request, out: &mut Effects) {
        let mut awaited = self.copyset.clone();
        awaited.remove(request.from);
        if request.ask != Ask::Reclaim && !self.copyset.contains(request.from) {
            awaited.remove(self.replica(context));
        }
        if awaited.is_empty() {
            self.supply_exclusive(context, request, out);
            return;
        }
        mutant!("reader-forgotten" => {
            if awaited.len() > 1
                && let Some(last) = awaited.iter().last()
            {
                awaited.remove(last);
            }
        });
        let awaited = subtrees_of(context, awaited);
        for &Subtree { root, below } in &awaited {
            let order = match below.is_empty() {
                true => PageMessage::InvalidateRequest,
                false => PageMessage::InvalidateTree { below },
            };
            send(context, root, order, out);
        }
        if let Some(open) = self.open.as_mut() {
            open.phase = Phase::Invalidating { awaited };
        }
    }

    /// One replica at most is left beside the requester's: it sends the page and gives it up.
    fn supply_exclusive(&mut self, context: &EngineContext, request: Request, out: &mut Effects) {
        let (kind, requester, ack_now) = (Kind::Write, request.from, self.queued() > 0);
        let turns = self.turns(request);
        if request.ask == Ask::Reclaim || self.copyset.contains(requester) {
            let attach = Attach::Nothing;
            send(context, requester, PageMessage::Reply { kind, attach, ack_now, turns }, out);
        } else {
            let to = self.replica(context);
            send(context, to, PageMessage::Forward { kind, requester, ack_now, turns }, out);
            self.copyset.remove(to);
            mutant!("supplier-stays-listed" => { self.copyset.insert(to); });
        }
        if let Some(open) = self.open.as_mut() {
            open.phase = Phase::Supplied { awaited: core::iter::once(requester).collect() };
        }
    }

    /// Push: every node without a copy is supplied by the pusher, all at once.
    fn supply_all(&mut self, context: &EngineContext, pusher: NodeId, out: &mut Effects) {
        let targets: NodeSet = (0..context.nodes)
            .map(NodeId)
            .filter(|node| self.copyset.contains(pusher) && !self.copyset.contains(*node))
            .collect();
        if targets.is_empty() {
            // Everybody has a copy, or the pusher lost its own to a writer.
            self.close(context, out);
            return;
        }
        for target in targets.iter() {
            send(context, pusher, PageMessage::PushForward { target }, out);
        }
        if let Some(open) = self.open.as_mut() {
            open.phase = Phase::Supplied { awaited: targets };
        }
    }

    /// What a grant says of the turns that the requester has waited for.
    fn turns(&self, request: Request) -> Turns {
        let late_us = self.open.as_ref().map_or(0, |open| open.late_us);
        Turns { longest_us: request.turns.longest_us.max(late_us), ..request.turns }
    }

    /// Figure 3, `find_replica`.
    fn replica(&self, context: &EngineContext) -> NodeId {
        nearest(context, &self.copyset)
            .expect("a minipage has a copy somewhere while no transaction moves it")
    }

    /// All acks are in.
    fn close(&mut self, context: &EngineContext, out: &mut Effects) {
        let Some(open) = self.open.take() else { return };
        let mut queue = open.queue;
        for waiting in &mut queue {
            if !(waiting.reads() && open.request.reads()) {
                waiting.turns = waiting.turns.and(open.turn_us);
            }
        }
        if let Some(next) = queue.pop_front() {
            let late_us = open.turn_us.max(open.late_us - open.late_us / FORGOTTEN);
            self.serve(context, next, (queue, late_us), out);
        }
    }
}

impl Request {
    fn reads(&self) -> bool {
        self.ask == Ask::Fetch(Kind::Read)
    }
}

/// Whom the manager tells to invalidate these copies, and who passes it on to whom. Its own is told apart: no message.
fn subtrees_of(context: &EngineContext, mut copies: NodeSet) -> Subtrees {
    let own = copies.remove(context.me).then_some(Subtree { root: context.me, below: Ranks::NONE });
    let fan = context.invalidations.of_manager(copies.len());
    let mut subtrees = invalidation_tree::subtrees(copies.iter(), copies.len(), fan);
    subtrees.extend(own);
    subtrees
}

/// The manager's own copy saves a message.
fn nearest(context: &EngineContext, copies: &NodeSet) -> Option<NodeId> {
    if copies.contains(context.me) { Some(context.me) } else { copies.first() }
}

fn send(context: &EngineContext, to: NodeId, body: PageMessage, out: &mut Effects) {
    let body = mutant!("turns-not-counted": without_turns(body), else body);
    out.push(Effect::Send { to, message: body.about(context.minipage) });
}

/// A mutant: a grant that has waited for nobody.
#[cfg(feature = "mutants")]
fn without_turns(mut body: PageMessage) -> PageMessage {
    if let PageMessage::Forward { turns, .. } | PageMessage::Reply { turns, .. } = &mut body {
        *turns = Turns::NONE;
    }
    body
}
