//! How much waits for a peer, seen from outside: who sends of its own accord may ask, and wait for room.

use super::Mesh;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::Ordering;

/// Answers that may wait for a peer, however many minipages there are, in bytes: who asks for more than six
/// million at once reads answers meanwhile.
const MOST_ANSWERS: usize = 1 << 30;
/// How long to wait for a link before looking again whether somebody else has made room.
const GLANCE: Duration = Duration::from_millis(100);
/// The same where parts wait for acknowledgements, which whoever receives takes.
const ACKNOWLEDGED: Duration = Duration::from_millis(1);

impl Mesh {
    /// Bytes of this node's memory that wait for a peer to take them.
    pub fn waiting_bytes(&self, to: NodeId) -> usize {
        self.peer(to).map_or(0, |peer| peer.replies().bytes())
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
        let Some(peer) = self.peer(to) else { return };
        // What waits for an acknowledgement has room.
        let (glance, flags) = match peer.has_backlog() {
            true => (GLANCE, PollFlags::OUT),
            false => (ACKNOWLEDGED, PollFlags::empty()),
        };
        let timeout = Timespec::try_from(glance).ok();
        let link = peer.link().map(|link| link.readiness());
        let mut link: Vec<_> = link.iter().map(|fd| PollFd::new(fd, flags)).collect();
        let _ = poll(&mut link, timeout.as_ref());
        peer.flush(&self.waiting);
    }

    /// What `act` sends to a peer is no answer, though it may be sent while that peer is served: this
    /// node's own writes that a lock's next holder must see, for one.
    pub fn unsolicited<R>(&self, to: NodeId, act: impl FnOnce() -> R) -> R {
        let load = self.peer(to).map(|peer| peer.replies()).filter(|load| load.answers_now());
        if let Some(load) = load {
            load.serve(false);
        }
        let result = act();
        if let Some(load) = load {
            load.serve(true);
        }
        result
    }

    /// So many more bytes of answers may wait for each peer, which now has more to ask for; up to
    /// what one can have asked for at once.
    pub fn allow_answers(&self, more: usize) {
        let raised = |allowed: usize| Some(allowed.saturating_add(more).min(MOST_ANSWERS));
        let _ = self.allowed_answers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::mesh_without_peers;

    #[test]
    fn what_may_wait_for_a_peer_has_an_end_however_many_minipages_there_are() {
        let mesh = mesh_without_peers(NodeId(0), 2);
        let allowed = || mesh.allowed_answers.load(Ordering::Relaxed);
        let first = allowed();
        mesh.allow_answers(160);
        assert_eq!(allowed(), first + 160);
        for _ in 0..2 {
            mesh.allow_answers(usize::MAX);
            assert_eq!(allowed(), MOST_ANSWERS);
        }
    }
}
