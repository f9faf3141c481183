//! Links that are made when first used, by a thread of their own.
//!
//! Role: who sends to a peer without a link queues what it sends, and asks for the link here: two writes, whatever
//! its thread may do just now. The thread in [`Mesh::make_links`] does the handshakes, its node's and those of peers that
//! connect, so that a trap waits for none and allocates nothing for one.
//!
//! Invariant: a link that a peer was welcomed to is in the mesh before this node leaves, and a peer that may have welcomed
//! this node gets its goodbye right behind its HELLO, so that either sees it leave.

use super::Mesh;
use super::atomic_peer_set::AtomicPeerSet;
use crate::error::TransportError;
use crate::link;
use crate::rendezvous::Rendezvous;
use crate::shim::{AtomicBool, Mutex, lock};
use crate::sink::LostReason;
use multigrain_types::NodeId;
use rustix::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is worth telling of the links that are made.
#[derive(Debug)]
pub enum LinkEvent {
    /// One more is there, with these file descriptors, which it keeps open as long as the mesh lives.
    Made(Vec<RawFd>),
    /// An unauthenticated connection was refused; one line for the log.
    Refused(String),
}

/// The links of a mesh that are still to be made.
pub(super) struct OnDemandLinks {
    /// Locked by the thread that makes links as long as it does; none where all links were made at boot, and in the end.
    rendezvous: Mutex<Option<Box<Rendezvous>>>,
    /// What wakes that thread.
    wake_up: Option<Arc<OwnedFd>>,
    /// The descriptors of the rendezvous.
    descriptors: Vec<RawFd>,
    /// Peers that somebody has something to say to.
    wanted: AtomicPeerSet,
    /// No more are made. Locked while some are.
    over: Mutex<bool>,
    /// Peers that cannot be reached, until the receiving thread tells.
    unreached: Mutex<Vec<(NodeId, LostReason)>>,
    /// By rank: somebody has asked for the link.
    asked: Box<[AtomicBool]>,
}

impl OnDemandLinks {
    pub(super) fn new(rendezvous: Option<Box<Rendezvous>>, nodes: usize) -> Self {
        Self {
            wake_up: rendezvous.as_ref().map(|rendezvous| rendezvous.wake_up()),
            descriptors: rendezvous
                .iter()
                .flat_map(|rendezvous| rendezvous.descriptors())
                .collect(),
            over: Mutex::new(rendezvous.is_none()),
            rendezvous: Mutex::new(rendezvous),
            wanted: AtomicPeerSet::new(nodes),
            unreached: Mutex::new(Vec::new()),
            asked: (0..nodes).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.descriptors.iter().copied()
    }

    fn wake(&self) {
        if let Some(wake_up) = &self.wake_up {
            // It only fails when that thread is to wake already.
            let _ = rustix::io::write(wake_up, &1u64.to_ne_bytes());
        }
    }
}

impl Mesh {
    /// Whether some links are made only when they are used: then a thread has to be in [`Mesh::make_links`].
    pub fn makes_links(&self) -> bool {
        self.links.wake_up.is_some()
    }

    /// Makes links to peers as this node, or they, have something to say for the first time. Returns when this node leaves
    /// or the mesh is closed; at once where all links are there already, or another thread is here.
    ///
    /// # Errors
    /// [`TransportError::System`]: no more links can be made. (A peer that cannot be reached is lost, and
    /// [`Mesh::receive`] says so.)
    pub fn make_links(&self, tell: &mut dyn FnMut(LinkEvent)) -> Result<(), TransportError> {
        let Ok(mut rendezvous) = self.links.rendezvous.try_lock() else { return Ok(()) };
        let Some(rendezvous) = rendezvous.as_mut() else { return Ok(()) };
        loop {
            let keys = rendezvous.wait()?;
            let over = lock(&self.links.over);
            if *over {
                return Ok(());
            }
            self.links.wanted.take(|place| {
                let peer = NodeId(u16::try_from(place).unwrap_or(u16::MAX));
                if let Err(error) = rendezvous.reach(peer) {
                    self.cannot_reach(peer, &error);
                }
            });
            if let Err(error) = rendezvous.turn(keys) {
                let Some(peer) = error.peer() else { return Err(error) };
                self.cannot_reach(peer, &error);
            }
            for (node, link) in rendezvous.take_connected() {
                let Some(peer) = self.peer(node) else { continue };
                let made = peer.join(link, &self.waiting)?;
                made.into_iter()
                    .for_each(|made| tell(LinkEvent::Made(link::descriptors(made).collect())));
            }
            rendezvous.take_lines().into_iter().for_each(|line| tell(LinkEvent::Refused(line)));
        }
    }

    /// Something is to be said to a peer to which there is no link.
    pub(super) fn ask_for_link(&self, to: NodeId) {
        let asked = &self.links.asked[to.index()];
        if !asked.load(Ordering::Relaxed) && !asked.swap(true, Ordering::Relaxed) {
            self.links.wanted.insert(to.index());
            self.links.wake();
        }
    }

    /// Afterwards every link that this node has welcomed a peer to is in the mesh, and there will be no other. What is left
    /// of the rendezvous comes back the first time, when the thread that made links has ended that.
    pub(super) fn make_no_more_links(&self) -> Option<Box<Rendezvous>> {
        *lock(&self.links.over) = true;
        self.links.wake();
        lock(&self.links.rendezvous).take()
    }

    fn cannot_reach(&self, peer: NodeId, error: &TransportError) {
        let reason = LostReason::Unreached(format!("{error}{}", error.advice()));
        lock(&self.links.unreached).push((peer, reason));
        self.waiting.wake();
    }

    pub(super) fn take_unreached(&self) -> Vec<(NodeId, LostReason)> {
        core::mem::take(&mut *lock(&self.links.unreached))
    }
}
