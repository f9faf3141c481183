//! The platform of the engines: a node's memory, its links, the protocol's states, its counters and its launcher.
//!
//! Everything above reaches these through here, and nothing here knows what is above.

#![expect(unsafe_code, reason = "page bytes are sent straight from the privileged view")]

use std::os::fd::RawFd;

use multigrain_memory::Memory;
use multigrain_transport::{Header, LinkError, LostReason, Mesh, Payload};
use multigrain_types::{MinipageId, NodeId, PAGE_BYTES, ThreadId};

use crate::compression::Coders;
use crate::launcher::Launcher;
use crate::membership::{LossMeaning, Membership};
use crate::minipage_run::Run;
use crate::receiver::parking::Waking;
use crate::receiver::slots;
use crate::state_tables::SharedTables;
use crate::stats::Counters;

/// Where the bytes of neighbouring minipages are in the privileged view, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// One behind the other, from this one on.
    Together(*mut u8, usize),
    /// With others between them.
    Apart(usize),
}

impl Contents {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Together(_, bytes) | Self::Apart(bytes) => bytes,
        }
    }
}

/// A node's parts below the engines.
#[derive(Debug)]
pub(crate) struct Platform {
    me: NodeId,
    nodes: u16,
    memory: Memory,
    mesh: Mesh,
    tables: SharedTables,
    counters: Counters,
    launcher: Launcher,
    membership: Membership,
    coders: Coders,
}

impl Platform {
    pub(crate) fn new(
        (me, nodes): (NodeId, u16),
        memory: Memory,
        mesh: Mesh,
        tables: SharedTables,
        launcher: Launcher,
    ) -> Self {
        Self {
            me,
            nodes,
            memory,
            mesh,
            tables,
            counters: Counters::default(),
            launcher,
            membership: Membership::default(),
            coders: Coders::default(),
        }
    }

    /// This node's rank.
    pub(crate) fn me(&self) -> NodeId {
        self.me
    }

    /// Nodes in the job.
    pub(crate) fn nodes(&self) -> u16 {
        self.nodes
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A checksum of the contents of a minipage that has a page at most; of others it is not worth the time.
    pub(crate) fn checksum(&self, minipage: MinipageId) -> Option<u64> {
        (self.memory.privileged(minipage).1 <= PAGE_BYTES).then(|| self.memory.checksum(minipage))
    }

    /// Where the contents of known minipages are.
    pub(crate) fn contents(&self, run: Run) -> Contents {
        let (start, mut bytes) = self.memory.privileged(run.first());
        let mut together = true;
        for minipage in run.minipages().skip(1) {
            let (next, len) = self.memory.privileged(minipage);
            together &= next == start.wrapping_add(bytes);
            bytes += len;
        }
        if together { Contents::Together(start, bytes) } else { Contents::Apart(bytes) }
    }

    pub(crate) fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    pub(crate) fn tables(&self) -> &SharedTables {
        &self.tables
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn coders(&self) -> &Coders {
        &self.coders
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The file descriptors that this node keeps open as long as it lives, but for its engine's.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let own = self.memory.descriptors().into_iter().chain(self.mesh.descriptors());
        own.chain(self.launcher.descriptor())
    }

    /// Ends this node with one line that says why.
    pub(crate) fn fatal(&self, why: &str) -> ! {
        self.launcher.fatal(why)
    }

    /// A peer is lost, for any reason: every loss and every violation comes through here, [`Membership`] says what it
    /// means, and that is done here.
    ///
    /// In a job that survived a loss, `LossMeaning` would have a verdict more, and this would hand it on as an input of the
    /// engines and the services (transactions, locks and answers that wait for the peer); [`Platform::peer_broke`] would
    /// return to its callers, which are in the middle of a step or of taking an answer, and would leave that undone.
    pub(crate) fn peer_lost(&self, peer: NodeId, reason: &LostReason) {
        match self.membership.meaning_of_loss(reason) {
            LossMeaning::Expected => {}
            LossMeaning::EndsJob(why) => self.launcher.peer_lost(peer, &why),
        }
    }

    /// A peer did what no correct one does: it is lost, which [`Membership`] never expects.
    pub(crate) fn peer_broke(&self, peer: NodeId, what: String) -> ! {
        self.cut_off(peer, &LostReason::Violation(what))
    }

    /// A peer uses more of this node than any may, mostly for its program does: it is lost.
    pub(crate) fn peer_beyond_limit(&self, peer: NodeId, what: String) -> ! {
        self.cut_off(peer, &LostReason::BeyondLimit(what))
    }

    fn cut_off(&self, peer: NodeId, reason: &LostReason) -> ! {
        self.peer_lost(peer, reason);
        unreachable!("a job goes on with a peer that broke its rules")
    }

    /// Wakes a thread of this node, wherever it waits.
    pub(crate) fn wake_thread(&self, thread: ThreadId) {
        let Some(slot) = slots::slot(thread) else { return };
        // A thread that wakes itself is not asleep.
        let own = slots::held() == Some(thread);
        if slot.word.wake(own) == Waking::KickMesh && !own {
            self.mesh.wake();
        }
    }

    /// Sends a frame; a peer that is gone is noticed by the receiver, not here.
    pub(crate) fn send_frame(&self, to: NodeId, header: Header, payload: Payload<'_>) {
        // SAFETY: memory payloads come from the engine's world, which says why they stay unchanged.
        self.check_sent(to, unsafe { self.mesh.send(to, header, payload) });
    }

    /// A peer that is gone is noticed by the receiver; anything else ends this node.
    pub(crate) fn check_sent(&self, to: NodeId, sent: Result<(), LinkError>) {
        match sent {
            Ok(()) | Err(LinkError::Gone { .. }) => {}
            Err(error) => self.cannot_send(to, &error),
        }
    }

    /// Defers a frame with a payload, which travels with others to the same node; the payload's length,
    /// if the peer is there.
    pub(crate) fn defer_with(
        &self,
        to: NodeId,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Option<u64> {
        match self.mesh.defer_with(to, header, fill) {
            Ok(bytes) => Some(bytes),
            Err(LinkError::Gone { .. }) => None,
            Err(error) => self.cannot_send(to, &error),
        }
    }

    fn cannot_send(&self, to: NodeId, error: &LinkError) -> ! {
        self.fatal(&format!("cannot send to {to}: {error}"))
    }
}
