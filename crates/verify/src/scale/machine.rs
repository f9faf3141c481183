//! The cost model: how long frames, traps and wake-ups take.

use multigrain_types::NodeId;

use crate::sim::cluster::{LinkSpeed, Timing};

/// How long a thread that waits polls before it sleeps (`POLL_FOR` in the runtime).
const POLL_NS: u64 = 60_000;

/// What things cost. All of it can be measured on two nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// One way through the network, beside what the two nodes do.
    pub latency_ns: u64,
    /// Picoseconds a byte; the frames of a node leave one after the other.
    pub byte_ps: u64,
    /// A node's time to send a frame.
    pub send_ns: u64,
    /// A node's time to take a frame, and to do what it says.
    pub service_ns: u64,
    /// What a fault takes beside its messages: trap, protection, installing, return.
    pub fault_ns: u64,
    /// How much later a frame is taken by a node that computes or sleeps than by one that polls.
    pub wake_ns: u64,
}

/// What a node's application thread does.
#[derive(Clone, Copy, Debug)]
enum Thread {
    /// The service thread sleeps; it was awake until then.
    Computes { served_until: u64 },
    /// It polls until then.
    Waits { sleeps_at: u64 },
}

/// The costs at work on every node.
#[derive(Debug)]
pub(super) struct Machine {
    costs: Costs,
    nodes: Vec<State>,
    /// When the frame at hand leaves.
    departs_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    thread: Thread,
    /// When the last frame sent has left.
    sent_ns: u64,
    /// Taken from the thread that computes, by frames.
    stolen_ns: u64,
}

impl Machine {
    pub(super) fn new(costs: Costs, nodes: u16) -> Self {
        let thread = Thread::Computes { served_until: 0 };
        let state = State { thread, sent_ns: 0, stolen_ns: 0 };
        Self { costs, nodes: vec![state; usize::from(nodes)], departs_ns: 0 }
    }

    /// A thread computes from here on.
    pub(super) fn computes(&mut self, node: NodeId) {
        let state = &mut self.nodes[node.index()];
        (state.thread, state.stolen_ns) = (Thread::Computes { served_until: 0 }, 0);
    }

    /// A thread waits from here on.
    pub(super) fn waits(&mut self, node: NodeId, now_ns: u64) {
        self.nodes[node.index()].thread = Thread::Waits { sleeps_at: now_ns + POLL_NS };
    }

    /// What frames have taken from the thread since it began to compute, or since the last call.
    pub(super) fn take_stolen_ns(&mut self, node: NodeId) -> u64 {
        core::mem::take(&mut self.nodes[node.index()].stolen_ns)
    }
}

impl Timing for Machine {
    fn link_speed(&mut self, _: NodeId, _: NodeId) -> LinkSpeed {
        // Bytes take their time at the sender, where all its frames share one wire.
        LinkSpeed { latency_ns: self.costs.latency_ns, byte_ps: 0 }
    }

    fn departs_ns(&mut self, from: NodeId, bytes: u64, at_ns: u64) -> u64 {
        let state = &mut self.nodes[from.index()];
        state.stolen_ns += self.costs.send_ns;
        let takes_ns = self.costs.send_ns + bytes * self.costs.byte_ps / 1000;
        state.sent_ns = state.sent_ns.max(at_ns) + takes_ns;
        self.departs_ns = state.sent_ns;
        state.sent_ns
    }

    /// Asked after [`Timing::departs_ns`] of the same frame.
    fn delay_ns(&mut self, _: NodeId, to: NodeId) -> u64 {
        let there = self.departs_ns + self.costs.latency_ns;
        let awake = there + self.costs.wake_ns;
        match &mut self.nodes[to.index()].thread {
            Thread::Computes { served_until } if *served_until < there => *served_until = awake,
            Thread::Waits { sleeps_at } if *sleeps_at < there => *sleeps_at = awake + POLL_NS,
            Thread::Computes { served_until } => return *served_until - there,
            Thread::Waits { sleeps_at } => {
                *sleeps_at = (*sleeps_at).max(there + POLL_NS);
                return 0;
            }
        }
        self.costs.wake_ns
    }

    fn service_ns(&mut self, node: NodeId, _: u64) -> u64 {
        self.nodes[node.index()].stolen_ns += self.costs.service_ns;
        self.costs.service_ns
    }
}
