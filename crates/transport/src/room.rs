//! How much of this node's memory waits for a peer's socket, and what of that are answers.
//!
//! Role: two bounds. Who sends of his own accord may ask how much waits ([`Mesh::waiting_bytes`]) and wait
//! for room. A peer that asks and does not read the answers is cut off: what is sent to it by the
//! thread that takes its own frames, while it does, counts as answers until the socket has taken it.
//! What this node sends it besides, be it a gigabyte, does not count, nor what it owes of its own
//! writes when the peer asks ([`Mesh::unasked`]); and a peer that is slow or
//! stopped asks no more than what it may have asked already ([`Mesh::allow_answers`]).
//!
//! What counts is what the queue holds: owned bytes and its own entries, not memory that frames refer
//! to. The numbers change under the lock of their link; a glance at them may be a little old.

use crate::mesh::Mesh;
use crate::outgoing::Link;
use crate::queue::Queue;
use crate::sink::LostReason;
use crate::sys;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers that may wait for a peer when nothing else was said, in bytes: those to all its threads
/// are far less.
pub(crate) const ANSWERS: usize = 64 << 20;
/// The same, however many minipages there are: who asks for more than six million at once reads answers
/// meanwhile.
const MOST_ANSWERS: usize = 1 << 30;
/// How long to wait for a socket before looking again whether somebody else has made room.
const GLANCE: Duration = Duration::from_millis(100);

/// What waits for one peer.
#[derive(Debug, Default)]
pub(crate) struct Load {
    bytes: AtomicUsize,
    answers: AtomicUsize,
    /// The thread that takes this peer's frames just now; 0 for none.
    serving: AtomicUsize,
}

impl Load {
    /// The queue has changed.
    pub(crate) fn weigh(&self, queue: &Queue) {
        self.bytes.store(queue.bytes(), Ordering::Relaxed);
        self.answers.store(queue.answers(), Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// From now on what this thread sends to the peer are answers, until it says so with false.
    pub(crate) fn serve(&self, serves: bool) {
        self.serving.store(if serves { sys::this_thread() } else { 0 }, Ordering::Relaxed);
    }

    /// Whether what this thread sends just now answers the peer. Only a thread's own number can be its
    /// number, whatever the others write here.
    pub(crate) fn answers_now(&self) -> bool {
        let serving = self.serving.load(Ordering::Relaxed);
        serving != 0 && serving == sys::this_thread()
    }

    /// Whether a peer may go on asking.
    pub(crate) fn check(&self, allowed: usize) -> Result<(), LostReason> {
        #[cfg(feature = "mutants")]
        if crate::mutants::on(crate::mutants::ANSWERS_WITHOUT_END) {
            return Ok(());
        }
        let waiting = self.answers.load(Ordering::Relaxed);
        if waiting <= allowed {
            return Ok(());
        }
        let wrong = format!("asks without reading the answers, of which {waiting} bytes wait here");
        Err(LostReason::Violation(wrong))
    }
}

impl Mesh {
    /// Bytes of this node's memory that wait for a peer to take them.
    pub fn waiting_bytes(&self, to: NodeId) -> usize {
        self.link(to).map_or(0, |link| link.load().bytes())
    }

    /// Who most waits for, if that is more than so many bytes.
    pub fn most_waiting(&self, limit: usize) -> Option<NodeId> {
        let peers = (0..self.nodes()).map(NodeId);
        let most = peers.max_by_key(|&to| self.waiting_bytes(to))?;
        (self.waiting_bytes(most) > limit).then_some(most)
    }

    /// Sleeps until a peer has taken something of what waits for it, is gone, or a short time is over.
    /// Any thread may; meanwhile somebody else has to receive, or both nodes may wait for ever.
    pub fn wait_for_room(&self, to: NodeId) {
        let Some(link) = self.link(to) else { return };
        let socket = link.socket();
        let timeout = Timespec::try_from(GLANCE).ok();
        let _ = poll(&mut [PollFd::new(&socket, PollFlags::OUT)], timeout.as_ref());
        self.flush(link);
    }

    /// What `act` sends to a peer is no answer, though it may be sent while that peer is served: this
    /// node's own writes that a lock's next holder must see, for one.
    pub fn unasked<R>(&self, to: NodeId, act: impl FnOnce() -> R) -> R {
        let served = self.link(to).map(Link::load).filter(|load| load.answers_now());
        if let Some(load) = served {
            load.serve(false);
        }
        let result = act();
        if let Some(load) = served {
            load.serve(true);
        }
        result
    }

    /// So many more bytes of answers may wait for each peer, which now has more to ask for; up to
    /// what one can have asked for at once.
    pub fn allow_answers(&self, more: usize) {
        let raised = |allowed: usize| Some(allowed.saturating_add(more).min(MOST_ANSWERS));
        let _ = self.allowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::mesh_without_peers;

    #[test]
    fn what_may_wait_for_a_peer_has_an_end_however_many_minipages_there_are() {
        let mesh = mesh_without_peers(NodeId(0), 2);
        let allowed = || mesh.allowed.load(Ordering::Relaxed);
        mesh.allow_answers(160);
        assert_eq!(allowed(), ANSWERS + 160);
        for _ in 0..2 {
            mesh.allow_answers(usize::MAX);
            assert_eq!(allowed(), MOST_ANSWERS);
        }
    }
}
