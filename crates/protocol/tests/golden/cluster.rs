//! The world of the golden traces: a deterministic cluster without memories; packets arrive in the order
//! they were sent, one at a time, and every effect is a line of the trace.

use std::collections::VecDeque;
use std::sync::Arc;

use multigrain_protocol::coherence::{Entry, Holder};
use multigrain_protocol::release::{ReleaseTracker, WriteNotices};
use multigrain_protocol::sync::{Operand, SyncInput};
use multigrain_protocol::{
    HlrcMessage, Input, Kind, Message, Node, OwnedTables, ReleaseWorld, Tables, Turns, Violation,
    World, hlrc, mgs,
};
use multigrain_types::{Access, Consistency, MinipageId, NodeId, ThreadId};

/// The minipage that a golden cluster is about. Lines of the trace do not name it.
pub(crate) const M: MinipageId = MinipageId(0);
/// Another, for releases of several.
pub(crate) const N: MinipageId = MinipageId(1);

/// Nodes, packets on their way, and what happened so far.
pub(crate) struct Cluster {
    nodes: Vec<Node<OwnedTables>>,
    hub: Hub,
}

#[derive(Default)]
struct Hub {
    flying: VecDeque<(NodeId, NodeId, Packet)>,
    trace: Vec<String>,
    /// Whether minipages hold zeros.
    zero: bool,
    /// Whether nobody has written what was opened ahead.
    unwritten: bool,
    /// Nodes whose threads have written the usual minipage unseen.
    unseen: Vec<NodeId>,
}

enum Packet {
    Message(Message),
    WriteNotices(WriteNotices),
    Operand(u64, Operand),
}

impl Cluster {
    /// A cluster under sequential consistency.
    pub(crate) fn new(nodes: u16, manager: u16, owner: u16) -> Self {
        Self::of(Consistency::Sequential, nodes, manager, owner)
    }

    /// A cluster under any consistency.
    pub(crate) fn of(consistency: Consistency, nodes: u16, manager: u16, owner: u16) -> Self {
        Self::with_tables(nodes, (manager, owner), consistency, |tables| tables)
    }

    /// A cluster whose homes are dynamic after so many migrations at barriers; node 0 has
    /// allocated the minipages.
    pub(crate) fn dynamic(nodes: u16, moves: u8) -> Self {
        Self::with_tables(nodes, (0, 0), Consistency::Auto, |tables| {
            tables.with_dynamic_homes_after(moves)
        })
    }

    /// A lazily consistent cluster whose homes are tracked.
    pub(crate) fn tracking(nodes: u16) -> Self {
        let consistency = Consistency::LazyRelease;
        Self::with_tables(nodes, (0, 0), consistency, |tables| tables.with_tracking(true))
    }

    /// A cluster whose nodes keep so many idle tokens of locks.
    pub(crate) fn keeping(nodes: u16, tokens: u32) -> Self {
        let consistency = Consistency::Sequential;
        Self::with_tables(nodes, (0, 0), consistency, |tables| tables.with_idle_tokens(tokens))
    }

    fn with_tables(
        nodes: u16,
        (manager, owner): (u16, u16),
        consistency: Consistency,
        set: impl Fn(OwnedTables) -> OwnedTables,
    ) -> Self {
        let node = |rank| {
            let mut tables = set(OwnedTables::new(NodeId(rank), []).with_threads(1));
            for minipage in [M, N] {
                tables.add(minipage, NodeId(manager), NodeId(owner), consistency);
                tables.minipage(minipage);
            }
            Node { me: NodeId(rank), nodes, tables }
        };
        Self { nodes: (0..nodes).map(node).collect(), hub: Hub::default() }
    }

    /// One input to one node, which must accept it.
    pub(crate) fn input(&mut self, node: u16, input: Input) {
        let asked = format!("{input:?}");
        self.try_input(node, input).unwrap_or_else(|refusal| panic!("{asked}: {refusal}"));
    }

    /// One input to one node.
    pub(crate) fn try_input(&mut self, node: u16, input: Input) -> Result<(), Violation> {
        let mut world = TestWorld { me: NodeId(node), hub: &mut self.hub };
        self.nodes[usize::from(node)].step(input, &mut world)
    }

    /// A thread's fault; the thread has the number of its node.
    pub(crate) fn fault(&mut self, node: u16, kind: Kind) {
        self.input(node, Input::Fault { thread: ThreadId(node.into()), minipage: M, kind });
    }

    /// The same, and its minipage is not the usual one.
    pub(crate) fn fault_on(&mut self, node: u16, minipage: MinipageId, kind: Kind) {
        self.input(node, Input::Fault { thread: ThreadId(node.into()), minipage, kind });
    }

    /// A thread of a tracked home writes.
    pub(crate) fn write_unseen(&mut self, node: u16) {
        self.hub.unseen.push(NodeId(node));
    }

    /// A thread releases; it is woken when that has ended.
    pub(crate) fn release(&mut self, node: u16) {
        self.input(node, Input::Release { thread: ThreadId(node.into()) });
    }

    /// Whether minipages hold zeros, for requests from now on.
    pub(crate) fn hold_zeros(&mut self, zero: bool) {
        self.hub.zero = zero;
    }

    /// Whether nobody writes what is opened ahead, from now on.
    pub(crate) fn leave_unwritten(&mut self, unwritten: bool) {
        self.hub.unwritten = unwritten;
    }

    /// The thread that a grant woke goes on.
    pub(crate) fn resume(&mut self, node: u16) {
        self.resume_for(node, 0);
    }

    /// The same, and its node has had the minipage for so long when it lets it go.
    pub(crate) fn resume_for(&mut self, node: u16, turn_us: u32) {
        let thread = ThreadId(node.into());
        self.input(node, Input::Resumed { thread, minipage: M });
        // A thread that is asked to hold the minipage does its access and has done with it.
        let hold = format!("{node}: hold {node}");
        if self.hub.trace.last().is_some_and(|last| last.starts_with(&hold)) {
            self.input(node, Input::Retired { thread, minipage: M, turn_us });
        }
    }

    /// A synchronization call.
    pub(crate) fn call(&mut self, node: u16, asked: SyncInput) {
        self.input(node, Input::Sync(asked));
    }

    /// The oldest packet arrives; false if none is on its way.
    pub(crate) fn deliver(&mut self) -> bool {
        self.take(0)
    }

    /// The oldest packet between two nodes arrives, and whatever else is on its way stays there.
    pub(crate) fn deliver_from(&mut self, from: u16, to: u16) -> bool {
        let link = (NodeId(from), NodeId(to));
        let oldest = self.hub.flying.iter().position(|(from, to, _)| (*from, *to) == link);
        self.take(oldest.expect("something is on its way"))
    }

    fn take(&mut self, place: usize) -> bool {
        let Some((from, to, packet)) = self.hub.flying.remove(place) else { return false };
        let input = match packet {
            Packet::Message(message) => Input::Message { from, message },
            Packet::Operand(id, operand) => Input::Operand { from, id, operand: Box::new(operand) },
            Packet::WriteNotices(notices) => {
                Input::WriteNotices { from, notices: Box::new(notices) }
            }
        };
        self.input(to.0, input);
        true
    }

    /// Packets arrive until none is on its way.
    pub(crate) fn settle(&mut self) {
        while self.deliver() {}
    }

    /// What is on its way is lost, and what happened is forgotten.
    pub(crate) fn drop_packets(&mut self) {
        self.hub.flying.clear();
        self.hub.trace.clear();
    }

    /// A fault that is served, resumed and acknowledged, and leaves no trace.
    pub(crate) fn access(&mut self, node: u16, kind: Kind) {
        self.fault(node, kind);
        self.settle();
        self.resume(node);
        self.settle();
        self.hub.trace.clear();
    }

    /// What happened since the last call, one line each.
    pub(crate) fn trace(&mut self) -> Vec<String> {
        core::mem::take(&mut self.hub.trace)
    }

    /// Ids of synchronization that a node keeps a state of.
    pub(crate) fn ids(&self, node: u16) -> usize {
        self.nodes[usize::from(node)].tables.sync_tables().ids()
    }

    /// A node's holder.
    pub(crate) fn holder(&self, node: u16) -> &Holder {
        &self.cell(node).0
    }

    /// The directory entry at its manager.
    pub(crate) fn entry(&self, manager: u16) -> &Entry {
        &self.cell(manager).1
    }

    /// Ranks in the copyset.
    pub(crate) fn copyset(&self, manager: u16) -> Vec<u16> {
        self.entry(manager).copyset().iter().map(|node| node.0).collect()
    }

    /// A node's client and, on the home, the server.
    pub(crate) fn eager(&self, node: u16) -> &(mgs::Client, mgs::Server) {
        self.nodes[usize::from(node)].tables.eager(M).expect("made at the start")
    }

    /// A node's lazily consistent copy.
    pub(crate) fn copy(&self, node: u16) -> &hlrc::Copy {
        self.nodes[usize::from(node)].tables.lazy(M).expect("made at the start")
    }

    /// What releases of a node wait for.
    pub(crate) fn release_tracker(&self, node: u16) -> &ReleaseTracker {
        self.nodes[usize::from(node)].tables.release_tracker()
    }

    fn cell(&self, node: u16) -> &(Holder, Entry) {
        self.nodes[usize::from(node)].tables.cell(M).expect("made at the start")
    }
}

/// The world of one node.
struct TestWorld<'a> {
    me: NodeId,
    hub: &'a mut Hub,
}

impl TestWorld<'_> {
    fn note(&mut self, what: &str) {
        self.hub.trace.push(format!("{}: {what}", self.me.0));
    }

    fn note_of(&mut self, minipage: MinipageId, what: &str) {
        self.note(&format!("{what}{}", suffix(minipage)));
    }
}

impl World for TestWorld<'_> {
    fn send(&mut self, to: NodeId, message: Message) {
        let line = format!("{} > {}: {}", self.me.0, to.0, spell(self.me, message));
        self.hub.trace.push(line);
        self.hub.flying.push_back((self.me, to, Packet::Message(message)));
    }
    fn send_operand(&mut self, to: NodeId, id: u64, operand: &Operand) {
        self.hub.trace.push(format!("{} > {}: operand {}", self.me.0, to.0, operand.shape()));
        self.hub.flying.push_back((self.me, to, Packet::Operand(id, operand.clone())));
    }
    fn result(&mut self, thread: ThreadId, values: Arc<[u8]>) {
        self.note(&format!("result {} {values:?}", thread.0));
    }
    fn send_deferred(&mut self, to: NodeId, message: Message) {
        let line = format!("{} > {} later: {}", self.me.0, to.0, spell(self.me, message));
        self.hub.trace.push(line);
        self.hub.flying.push_back((self.me, to, Packet::Message(message)));
    }
    fn install(&mut self, minipage: MinipageId, access: Access) {
        self.note_of(minipage, &format!("install {access:?}"));
    }
    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        self.note_of(minipage, &format!("protect {from:?} to {to:?}"));
    }
    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        self.note_of(minipage, &format!("reprotect {access:?}"));
    }
    fn wake(&mut self, thread: ThreadId) {
        self.note(&format!("wake {}", thread.0));
    }
    fn refuse(&mut self, thread: ThreadId) {
        self.note(&format!("refuse {}", thread.0));
    }
    fn hold(&mut self, thread: ThreadId, _: MinipageId, turns: Turns, _: bool) {
        let after = if turns.count < 2 { String::new() } else { format!(" turns {turns:?}") };
        self.note(&format!("hold {}{after}", thread.0));
    }
    fn reclaimed(&mut self, _: MinipageId) {
        self.note("reclaimed");
    }
    fn competing(&mut self, _: MinipageId) {
        self.note("competing");
    }

    fn release_world(&mut self) -> Option<&mut dyn ReleaseWorld> {
        Some(self)
    }
}

impl ReleaseWorld for TestWorld<'_> {
    fn send_notices(&mut self, to: NodeId, notices: WriteNotices) {
        let line = format!("{} > {}: {}", self.me.0, to.0, spell_notices(&notices));
        self.hub.trace.push(line);
        self.hub.flying.push_back((self.me, to, Packet::WriteNotices(notices)));
    }
    fn install_zero(&mut self, minipage: MinipageId, access: Access) {
        self.note_of(minipage, &format!("install zeros {access:?}"));
    }
    fn track(&mut self, minipage: MinipageId, from: Access) {
        self.note_of(minipage, &format!("track from {from:?}"));
    }
    fn written(&mut self) -> Vec<MinipageId> {
        self.hub.unseen.extract_if(.., |node| *node == self.me).map(|_| M).collect()
    }
    fn make_twin(&mut self, minipage: MinipageId) {
        self.note_of(minipage, "twin");
    }
    fn drop_twin(&mut self, minipage: MinipageId) {
        self.note_of(minipage, "drop twin");
    }
    fn store(&mut self, minipage: MinipageId) {
        self.note_of(minipage, "store");
    }
    fn buffer_diff(&mut self, minipage: MinipageId) {
        self.note_of(minipage, "buffer diff");
    }
    fn merge_diffs(&mut self, minipage: MinipageId, _: bool) {
        self.note_of(minipage, "merge");
    }
    fn forward_diff(&mut self, to: NodeId, message: Message) {
        let line = format!("{} > {} forwarded: {}", self.me.0, to.0, spell(self.me, message));
        self.hub.trace.push(line);
        self.hub.flying.push_back((self.me, to, Packet::Message(message)));
    }
    fn close_if_zero(&mut self, minipage: MinipageId) -> bool {
        if self.hub.zero {
            self.note_of(minipage, "close, all zeros");
        }
        self.hub.zero
    }
    fn close_if_unwritten(&mut self, minipage: MinipageId) -> bool {
        if self.hub.unwritten {
            self.note_of(minipage, "close, unwritten");
        }
        self.hub.unwritten
    }
    fn send_notices_alone(&mut self) {}

    fn closing(&mut self, _: &[MinipageId]) {}
    fn losing(&mut self, _: &[MinipageId]) {}

    fn send_batched(&mut self) {}
}

/// A message in few words: its variant, then its fields' values.
fn spell(from: NodeId, message: Message) -> String {
    let body = match message {
        Message::Hlrc { body: HlrcMessage::DiffAck { flush, count: 1 }, .. } => {
            format!("DiffAck flush {flush}")
        }
        Message::Hlrc { body: HlrcMessage::Diff { writer, flush, epoch }, .. } => {
            let writer = if writer == from { String::new() } else { format!("by {writer:?} ") };
            let epoch = if epoch == 0 { String::new() } else { format!(" epoch {epoch}") };
            format!("Diff {writer}flush {flush}{epoch}")
        }
        Message::Page { body, .. } => format!("{body:?}"),
        Message::Mgs { body, .. } => format!("{body:?}"),
        Message::Hlrc { body, .. } => format!("{body:?}"),
        Message::Sync { body, .. } => format!("{body:?}"),
    };
    let body = format!("{body}{}", message.minipage().map(suffix).unwrap_or_default());
    let body = body.replace("ack_now: false", "").replace("ack_now: true", "ack now");
    let body = body.replace("tell: false", "").replace("tell: true", "tell");
    // Which thread waits is seen where it is woken.
    let body = match body.split_once("thread: ThreadId(") {
        Some((before, after)) => {
            format!("{before}{}", after.split_once(')').map_or("", |(_, rest)| rest))
        }
        None => body,
    };
    // One turn is the usual thing.
    let body = body.replace("turns: 0", "").replace("turns: 1 ", "").replace("turn_us: 0", "");
    let body = body.replace("quiescent: false", "").replace("quiescent: true", "quiescent");
    let body = body.replace("quiescent: 0", "").replace("quiescent: 1", "quiescent");
    let body = body.replace("waits: true", "").replace("waits: false", "ahead");
    let plain = body.replace("NodeId", "").replace(['(', ')', '{', '}', ',', ':'], " ");
    let names =
        ["kind", "attach", "requester", "target", "to", "arrivals", "total", "count", "all"];
    let words = plain.split_whitespace().filter(|word| !names.contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Names the minipage if it is not the usual one.
fn suffix(minipage: MinipageId) -> String {
    if minipage == M { String::new() } else { format!(" of {}", minipage.0) }
}

/// Write notices in few words: the clock, who wrote which minipage in which of its intervals, what all know,
/// and where homes move.
fn spell_notices(notices: &WriteNotices) -> String {
    let mut words = format!("WriteNotices {:?}", notices.clock);
    for notice in &notices.notices {
        words +=
            &format!(", {} wrote {} in {}", notice.writer.0, notice.minipage.0, notice.interval);
    }
    if !notices.floor.is_empty() {
        words += &format!(", all know {:?}", notices.floor);
    }
    for (minipage, home) in notices.plan.iter().flat_map(|plan| &plan.moves) {
        words += &format!(", {} moves to {}", minipage.0, home.0);
    }
    words
}
