//! A deterministic cluster in memory: packets arrive in the order they were sent, one at a time.

use std::collections::VecDeque;

use multigrain_protocol::coherence::{Entry, Holder};
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{Input, Kind, Message, Node, OwnedTables, Tables, Violation, World};
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

/// The only minipage of a golden cluster.
pub(crate) const M: MinipageId = MinipageId(0);

/// Nodes, packets on their way, and what happened so far.
pub(crate) struct Cluster {
    nodes: Vec<Node<OwnedTables>>,
    hub: Hub,
}

#[derive(Default)]
struct Hub {
    flying: VecDeque<(NodeId, NodeId, Message)>,
    trace: Vec<String>,
}

impl Cluster {
    /// A cluster with one minipage.
    pub(crate) fn new(nodes: u16, manager: u16, owner: u16) -> Self {
        let node = |rank| {
            let site = (M, NodeId(manager), NodeId(owner));
            let mut tables = OwnedTables::new(NodeId(rank), [site]);
            tables.minipage(M);
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
        let mut desk = Desk { me: NodeId(node), hub: &mut self.hub };
        self.nodes[usize::from(node)].step(input, &mut desk)
    }

    /// A thread's fault; the thread has the number of its node.
    pub(crate) fn fault(&mut self, node: u16, kind: Kind) {
        self.input(node, Input::Fault { thread: ThreadId(node.into()), minipage: M, kind });
    }

    /// The thread that a grant woke goes on.
    pub(crate) fn resume(&mut self, node: u16) {
        self.input(node, Input::Resumed { minipage: M });
    }

    /// A synchronization call.
    pub(crate) fn call(&mut self, node: u16, asked: SyncInput) {
        self.input(node, Input::Sync(asked));
    }

    /// The oldest packet arrives; false if none is on its way.
    pub(crate) fn deliver(&mut self) -> bool {
        let Some((from, to, message)) = self.hub.flying.pop_front() else { return false };
        self.input(to.0, Input::Message { from, message });
        true
    }

    /// Packets arrive until none is on its way.
    pub(crate) fn settle(&mut self) {
        while self.deliver() {}
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

    fn cell(&self, node: u16) -> &(Holder, Entry) {
        self.nodes[usize::from(node)].tables.cell(M).expect("made at the start")
    }
}

/// The world of one node.
struct Desk<'a> {
    me: NodeId,
    hub: &'a mut Hub,
}

impl Desk<'_> {
    fn note(&mut self, what: &str) {
        self.hub.trace.push(format!("{}: {what}", self.me.0));
    }
}

impl World for Desk<'_> {
    fn send(&mut self, to: NodeId, message: Message) {
        let line = format!("{} > {}: {}", self.me.0, to.0, spell(message));
        self.hub.trace.push(line);
        self.hub.flying.push_back((self.me, to, message));
    }
    fn send_later(&mut self, to: NodeId, message: Message) {
        let line = format!("{} > {} later: {}", self.me.0, to.0, spell(message));
        self.hub.trace.push(line);
        self.hub.flying.push_back((self.me, to, message));
    }
    fn install(&mut self, _: MinipageId, access: Access) {
        self.note(&format!("install {access:?}"));
    }
    fn protect(&mut self, _: MinipageId, from: Access, to: Access) {
        self.note(&format!("protect {from:?} to {to:?}"));
    }
    fn reprotect(&mut self, _: MinipageId, access: Access) {
        self.note(&format!("reprotect {access:?}"));
    }
    fn wake(&mut self, thread: ThreadId) {
        self.note(&format!("wake {}", thread.0));
    }
    fn reclaimed(&mut self, _: MinipageId) {
        self.note("reclaimed");
    }
    fn competing(&mut self, _: MinipageId) {
        self.note("competing");
    }
}

/// A message in few words: its variant, then its fields' values.
fn spell(message: Message) -> String {
    let body = match message {
        Message::Page { body, .. } => format!("{body:?}"),
        Message::Mgs { body, .. } => format!("{body:?}"),
        Message::Hlrc { body, .. } => format!("{body:?}"),
        Message::Sync { body, .. } => format!("{body:?}"),
    };
    let body = body.replace("hurry: false", "").replace("hurry: true", "hurried");
    let body = body.replace("quiet: false", "").replace("quiet: true", "quiet");
    let plain = body.replace("NodeId", "").replace(['(', ')', '{', '}', ',', ':'], " ");
    let names =
        ["kind", "attach", "requester", "target", "to", "arrivals", "total", "count", "all"];
    let words = plain.split_whitespace().filter(|word| !names.contains(word));
    words.collect::<Vec<_>>().join(" ")
}
