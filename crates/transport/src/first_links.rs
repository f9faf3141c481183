//! The links that a node begins with, from the addresses of all.
//!
//! Role: a job so small that all nodes are neighbours makes all its links here, and is complete then. In a larger one each node makes those
//! to its neighbours in the tree of the job: so all nodes are connected, whoever is wrong is found out by somebody, and the loss
//! of a node reaches all. The other links are made when they are first used (`mesh/on_demand_links.rs`, ADR 48).

use crate::address::Address;
use crate::credentials::Credentials;
use crate::error::TransportError;
use crate::handshake::Identity;
use crate::link::Emulation;
use crate::link::{Backends, Link, Listener, Transport};
use crate::rendezvous::{Connects, Rendezvous, RendezvousSetup};
use crate::unauthenticated::Refusals;
use core::num::NonZeroUsize;
use core::time::Duration;
use multigrain_types::NodeId;
use multigrain_types::tree::{Fan, Tree};
use rustix::fd::OwnedFd;
use rustix::net;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Instant;

/// What a node needs to find the others.
#[derive(Debug)]
pub struct BootConfig {
    /// This node.
    pub rank: NodeId,
    /// Where each node listens; index = rank, length = number of nodes.
    pub peers: Vec<Address>,
    /// What makes the links; it serves the addresses of all peers.
    pub transport: Transport,
    /// This node's listening sockets: one for each kind of link that leads to it. Without any,
    /// `peers[rank]` is bound here when a higher rank must connect to it.
    pub listeners: Vec<OwnedFd>,
    /// The job's id.
    pub job: u128,
    /// The job's secret.
    pub secret: [u8; 32],
    /// With them, both ends of a link over TCP prove their ranks, and encrypt what they say unless the credentials are
    /// [`Credentials::in_clear`]; without, whoever knows the secret is a node.
    pub credentials: Option<Credentials>,
    /// Identifies the build of program and library; all nodes must agree.
    pub build: u64,
    /// How long boot waits for all peers.
    pub deadline: Duration,
    /// What links are to be like.
    pub conditions: Conditions,
}

/// What links are to be like, for measurements.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// The network that they are to be like, once the nodes know each other.
    pub emulate: Option<Emulation>,
    /// Payloads that are longer than so many bytes go in parts of that length, each acknowledged before the next is sent;
    /// without, as streams. The receiver takes both.
    pub part: Option<NonZeroUsize>,
}

/// The result of boot.
pub(crate) struct Booted {
    pub(crate) identity: Identity,
    /// By rank, those that are made.
    pub(crate) links: Vec<Option<Box<dyn Link>>>,
    pub(crate) others: Others,
    /// See [`Conditions::part`].
    pub(crate) part: Option<NonZeroUsize>,
}

/// What becomes of who connects after boot.
pub(crate) enum Others {
    /// All links are there: it is refused.
    Refused(Vec<Listener>, Refusals),
    /// It may be a peer that has something to say.
    ByRendezvous(Box<Rendezvous>),
}

impl Others {
    /// Nobody can connect.
    pub(crate) fn none() -> Self {
        Self::Refused(Vec::new(), Refusals::default())
    }
}

/// Connects this node with those that it begins with.
pub(crate) fn boot(
    config: BootConfig,
    refused: &mut dyn FnMut(String),
) -> Result<Booted, TransportError> {
    let (rank, count) = (config.rank, config.peers.len());
    let wrong = TransportError::Config { rank: rank.0, nodes: count };
    let Ok(nodes) = u16::try_from(count) else { return Err(wrong) };
    if rank.0 >= nodes {
        return Err(wrong);
    }
    let tree = Tree::new(nodes, Fan::default());
    let connects = if tree.is_flat() { Connects::HigherRank } else { Connects::Either };
    let backends = Backends::new(config.transport, config.job, config.credentials.as_ref())?;
    let mut sockets = config.listeners;
    if sockets.is_empty() && (rank.0 + 1 < nodes || connects == Connects::Either) {
        sockets.push(config.transport.bind(&config.peers[rank.index()])?.0);
    }
    let identity =
        Identity { rank, nodes, job: config.job, secret: config.secret, build: config.build };
    let end = Instant::now() + config.deadline;
    let far = sockets.iter().find_map(tcp_address);
    let leave_host = |peer: &NodeId| config.peers[peer.index()].kind().leave_host();
    let from_afar: BTreeSet<NodeId> = (rank.0 + 1..nodes).map(NodeId).filter(leave_host).collect();
    let setup = RendezvousSetup {
        identity: identity.clone(),
        peers: config.peers,
        backends,
        network: config.conditions.emulate,
        connects,
        end,
    };
    let mut rendezvous = Rendezvous::new(setup, sockets)?;
    let mut links: Vec<_> = (0..nodes).map(|_| None).collect();
    let mut missing = neighbours(tree, rank, nodes);
    for &peer in missing.iter().filter(|&&peer| peer < rank) {
        rendezvous.reach(peer)?;
    }
    while !missing.is_empty() {
        if Instant::now() >= end {
            let at = far.filter(|_| !from_afar.is_disjoint(&missing));
            let missing = missing.into_iter().collect();
            let missing = TransportError::Missing { missing, at, waited: config.deadline };
            return Err(rendezvous.not_reached().unwrap_or(missing));
        }
        let done = rendezvous.wait().and_then(|keys| rendezvous.turn(keys));
        rendezvous.take_lines().into_iter().for_each(&mut *refused);
        done?;
        for (peer, link) in rendezvous.take_connected() {
            missing.remove(&peer);
            links[peer.index()] = Some(link);
        }
    }
    let others = match connects {
        Connects::HigherRank => {
            let (listeners, refusals, lines) = rendezvous.close();
            lines.into_iter().for_each(refused);
            let listeners = listeners.into_iter().map(Listener::refusing).collect();
            Others::Refused(listeners, refusals)
        }
        Connects::Either => {
            rendezvous.goes_on();
            Others::ByRendezvous(Box::new(rendezvous))
        }
    };
    Ok(Booted { identity, links, others, part: config.conditions.part })
}

/// Where a socket listens for other hosts, if it does.
fn tcp_address(socket: &OwnedFd) -> Option<Address> {
    let name = net::getsockname(socket).ok()?;
    SocketAddr::try_from(name).ok().map(Address::Tcp)
}

/// The peers that a node begins with.
fn neighbours(tree: Tree, rank: NodeId, nodes: u16) -> BTreeSet<NodeId> {
    if tree.is_flat() {
        return (0..nodes).map(NodeId).filter(|&node| node != rank).collect();
    }
    tree.children(rank).chain(tree.parent(rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_job_begins_with_all_links_and_a_large_one_with_those_of_a_tree() {
        let ranks = |rank, nodes| -> Vec<u16> {
            neighbours(Tree::new(nodes, Fan::default()), NodeId(rank), nodes)
                .into_iter()
                .map(|node| node.0)
                .collect()
        };
        assert_eq!(ranks(0, 1), []);
        assert_eq!(ranks(3, 8), [0, 1, 2, 4, 5, 6, 7]);
        assert_eq!(ranks(0, 9), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(ranks(1, 16), [0, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(ranks(15, 16), [1]);
        let links = |nodes| (0..nodes).map(|rank| ranks(rank, nodes).len()).sum::<usize>() / 2;
        assert_eq!([8, 9, 1024].map(links), [28, 8, 1023]);
    }
}
