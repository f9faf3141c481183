//! Links: how long a frame travels. Order is kept within a link and not across links.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

use multigrain_types::NodeId;

/// How long things take. The checks draw it from a seed, a projection takes what was measured.
pub trait Timing {
    /// Of a link, at its first use.
    fn link_speed(&mut self, from: NodeId, to: NodeId) -> LinkSpeed;
    /// Nanoseconds that one frame takes more than its link needs: jitter, a stall.
    fn delay_ns(&mut self, from: NodeId, to: NodeId) -> u64;
    /// Nanoseconds in which a node takes one frame with `bytes` of payload; what it sends leaves
    /// after them.
    fn service_ns(&mut self, node: NodeId, bytes: u64) -> u64;
    /// When a frame of `bytes` that is ready at `at_ns` leaves its node: later, if frames of a node
    /// leave one after the other.
    fn departs_ns(&mut self, from: NodeId, bytes: u64, at_ns: u64) -> u64 {
        let _ = (from, bytes);
        at_ns
    }
}

/// Links and nodes that are all alike: 10 us, a nanosecond a byte, and as long for every frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Even {
    pub(crate) service_ns: u64,
}

impl Timing for Even {
    fn link_speed(&mut self, _: NodeId, _: NodeId) -> LinkSpeed {
        LinkSpeed { latency_ns: 10_000, byte_ps: 1000 }
    }
    fn delay_ns(&mut self, _: NodeId, _: NodeId) -> u64 {
        0
    }
    fn service_ns(&mut self, _: NodeId, _: u64) -> u64 {
        self.service_ns
    }
}

/// What a link in one direction takes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpeed {
    /// Nanoseconds from the first byte's sending to its arrival.
    pub latency_ns: u64,
    /// Picoseconds between two bytes.
    pub byte_ps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    speed: LinkSpeed,
    /// When the last byte sent has left.
    free_at: u64,
    /// When the last frame sent arrives.
    last_arrival: u64,
}

/// The links that were ever used: of 10,000 nodes there can be a hundred million.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: HashMap<u32, Link, BuildHasherDefault<Mix>>,
}

impl Links {
    /// When a frame arrives that is sent at `at`.
    pub(super) fn arrival(
        &mut self,
        timing: &mut impl Timing,
        (from, to): (NodeId, NodeId),
        bytes: u64,
        at: u64,
    ) -> u64 {
        let at = timing.departs_ns(from, bytes, at);
        let key = u32::from(from.0) << 16 | u32::from(to.0);
        let link = self.links.entry(key).or_insert_with(|| Link {
            speed: timing.link_speed(from, to),
            free_at: 0,
            last_arrival: 0,
        });
        link.free_at = link.free_at.max(at) + bytes * link.speed.byte_ps / 1000;
        let arrival = link.free_at + link.speed.latency_ns + timing.delay_ns(from, to);
        link.last_arrival = link.last_arrival.max(arrival);
        link.last_arrival
    }
}

/// A hash of one number that costs one multiplication; the order of the map is never used.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
