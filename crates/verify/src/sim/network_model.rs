//! The network model of a run: how fast its links, nodes and threads are, drawn from the seed. Each
//! seed has another: with and without stalls, fast and slow, uniform and not.

use core::fmt;

use multigrain_types::NodeId;

use super::cluster::{LinkSpeed, Timing};
use super::rng::Rng;

/// Clock rates are in this many parts.
const RATE_UNIT: u64 = 1 << 16;

/// How long things take in one run.
#[derive(Clone, Debug)]
pub struct NetworkModel {
    rng: Rng,
    latency_ns: u64,
    jitter_ns: u64,
    byte_ps: u64,
    /// One frame in so many waits on a link that stalls, for up to `stall_ns`.
    stall_every: u64,
    stall_ns: u64,
    service_ns: u64,
    /// One frame in so many finds its node stopped, for up to `stop_ns`.
    stop_every: u64,
    stop_ns: u64,
    think_ns: u64,
    /// By node: what a nanosecond of its clock takes, in [`RATE_UNIT`]s.
    rates: Vec<u64>,
}

impl NetworkModel {
    /// The network model of a seed.
    #[must_use]
    pub fn of(seed: u64, nodes: u16) -> Self {
        let mut rng = Rng::of(seed, 1);
        let latency_ns = rng.magnitude(2_000, 2_000_000);
        let drift = rng.pick(&[0, RATE_UNIT / 10_000, RATE_UNIT / 100, RATE_UNIT / 2]);
        Self {
            latency_ns,
            jitter_ns: latency_ns * rng.pick(&[0, 1, 8, 64]) / 8,
            byte_ps: rng.magnitude(80, 80_000),
            stall_every: rng.pick(&[0, 300, 10_000]),
            stall_ns: latency_ns * rng.magnitude(10, 1000),
            service_ns: rng.pick(&[0, 200, 2_000, 20_000]),
            stop_every: rng.pick(&[0, 3_000, 30_000]),
            stop_ns: latency_ns * rng.magnitude(10, 1000),
            think_ns: rng.pick(&[100, latency_ns / 8, latency_ns, latency_ns * 8]),
            rates: (0..nodes).map(|_| RATE_UNIT - drift + rng.below(2 * drift + 1)).collect(),
            rng,
        }
    }

    /// What a node's clock calls `ns` nanoseconds.
    #[must_use]
    pub fn local(&self, node: NodeId, ns: u64) -> u64 {
        ns * self.rates[node.index()] / RATE_UNIT
    }

    /// How long a thread computes before its next operation.
    pub fn think_ns(&mut self, node: NodeId) -> u64 {
        if self.rng.once_in(4) {
            return 0;
        }
        let ns = self.rng.below(2 * self.think_ns);
        self.local(node, ns)
    }

    /// Between a trap and its handling, a wake-up and its effect: often nothing at all.
    pub fn gap_ns(&mut self, node: NodeId) -> u64 {
        let ns = match self.rng.below(16) {
            // Another program had the processor.
            0 => self.rng.below(8 * self.latency_ns),
            1..=2 => self.rng.below(self.latency_ns),
            3..=6 => 1 + self.rng.below(2_000),
            _ => 0,
        };
        self.local(node, ns)
    }
}

impl Timing for NetworkModel {
    fn link_speed(&mut self, _: NodeId, _: NodeId) -> LinkSpeed {
        let latency_ns = self.latency_ns / 2 + self.rng.below(self.latency_ns);
        LinkSpeed { latency_ns, byte_ps: self.byte_ps * (1 + self.rng.below(4)) / 2 }
    }

    fn delay_ns(&mut self, _: NodeId, _: NodeId) -> u64 {
        let stall = if self.rng.once_in(self.stall_every) { self.stall_ns } else { 0 };
        self.rng.below(self.jitter_ns + stall + 1)
    }

    fn service_ns(&mut self, node: NodeId, _: u64) -> u64 {
        let stop = if self.rng.once_in(self.stop_every) { self.stop_ns } else { 0 };
        let ns = self.service_ns + self.rng.below(stop + 1);
        self.local(node, ns)
    }
}

impl fmt::Display for NetworkModel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        write!(out, "latency {:.0} us, jitter {:.0} us", us(self.latency_ns), us(self.jitter_ns))?;
        if self.stall_every > 0 {
            write!(out, ", stalls of {:.0} us", us(self.stall_ns))?;
        }
        if self.stop_every > 0 {
            write!(out, ", stops of {:.0} us", us(self.stop_ns))?;
        }
        write!(
            out,
            ", {:.1} us a frame, {:.0} us of thought",
            us(self.service_ns),
            us(self.think_ns)
        )
    }
}
