//! The model of a job, and its steps.

use multigrain_types::NodeId;

use super::program::Job;

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
    /// The same, and of the minipages it misses this is the one it traps on.
    Miss(usize, u8),
    /// A window begins for what a thread was asked to hold: it goes on, or has yet to begin.
    Keep(usize),
    /// A window is over.
    End(usize, u8),
    /// The window of a lock is over at a node.
    EndLock(NodeId, u64),
    /// A thread waits no longer.
    Withdraw(usize),
    /// Deferred packets are sent alone. A sender may do it any time, and need not.
    Release {
        /// Sender.
        from: NodeId,
        /// Receiver.
        to: NodeId,
    },
}

/// All interleavings of a job.
#[derive(Clone, Debug)]
pub struct JobModel {
    /// The job.
    pub job: Job,
}
