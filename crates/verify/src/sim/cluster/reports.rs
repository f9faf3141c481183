//! What a cluster reports to its user.

use multigrain_protocol::{Turns, Words};
use multigrain_types::{MinipageId, NodeId, ThreadId};

use super::trace::Subject;

/// What a cluster reports to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields repeat the words of the methods")]
pub enum Event {
    /// A timer set with [`super::Cluster::timer`] is due.
    Timer { token: u64 },
    /// The engine of a node wakes one of its threads.
    Woken { node: NodeId, thread: ThreadId },
    /// A minipage came back to its owner after a free.
    Reclaimed { minipage: MinipageId },
    /// A frame of [`super::Cluster::send_control`] is there.
    Control { from: NodeId, to: NodeId, words: Words },
    /// A node learns that another has died.
    Lost { node: NodeId, peer: NodeId },
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What it is about.
    pub subject: Subject,
    /// What is wrong.
    pub text: String,
}

/// A thread has to hold its minipage: the fields of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see there")]
pub struct Hold {
    pub turns: Turns,
    pub urgent: bool,
}
