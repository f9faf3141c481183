//! A step of a job.

use multigrain_types::NodeId;

/// One step of the whole job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The oldest packet of a link arrives.
    Deliver {
        /// Sender.
        from: NodeId,
        /// Receiver.
        to: NodeId,
    },
    /// A thread does the next thing it can do.
    Run(usize),
    /// The window of a lock is over at a node.
    EndLock(NodeId, u64),
    /// The write notices at this place in [`super::state::State::unqueued`] are queued.
    Queue(usize),
}
