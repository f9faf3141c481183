//! What can go wrong in a call, with the fixed codes of `multigrain.h`.

use multigrain_memory::MemoryError;
use multigrain_transport::TransportError;
use multigrain_types::NodeId;
use multigrain_types::sync_id::IdName;

/// An error of the runtime. [`Error::code`] is its number in the C interface, fixed for ever.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument is NULL, zero or out of range.
    #[error("invalid argument: {0}")]
    Invalid(String),
    /// The job's shared size is used up or the system is out of memory.
    #[error("out of shared memory: {0}")]
    NoMemory(String),
    /// No `mg_init`, or after `mg_finalize`.
    #[error("the program has not joined a job: call mg_init first (and nothing after mg_finalize)")]
    NotInitialized,
    /// In a child that a node has forked.
    #[error(
        "this process is a child of {0}, made by fork, and outside of the job: let the node make the call, \
         or exec a program that is no node"
    )]
    Child(NodeId),
    /// A second `mg_init`.
    #[error("mg_init was called already")]
    AlreadyInitialized,
    /// No node has this rank.
    #[error("no node {0}: the job has {1} nodes")]
    NoNode(i64, u16),
    /// Not shared, or not the start of an allocation.
    #[error(
        "address {0:#x} is not shared memory, or not where an allocation of this kind begins: globals, stacks and malloc memory are private"
    )]
    NotShared(usize),
    /// A limit of the guard or of the system.
    #[error("{0}")]
    Limit(String),
    /// Another node did not come up, or ended while the job started.
    #[error("{0}")]
    Peer(String),
    /// A system call failed.
    #[error("{0}")]
    System(String),
    /// Unlock without lock, free of freed memory and the like.
    #[error("{0}")]
    NotPermitted(String),
    /// What a thread tried to get is not to be had at once.
    #[error("{0}")]
    Busy(Unavailable),
    /// The deadline came first.
    #[error("the deadline came first: {0}")]
    TimedOut(Unavailable),
}

/// What a thread did not get, and why; ids as [`crate::SyncId`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// Another thread has it.
    #[error("lock {} is held by another thread", IdName(*.0))]
    Lock(u64),
    /// The thread itself has it.
    #[error("lock {} is held by this thread already", IdName(*.0))]
    OwnLock(u64),
    /// Others have it, or come first.
    #[error("read-write lock {} is held by other threads, or was asked for before", IdName(*.0))]
    ReadWriteLock(u64),
    /// It has none.
    #[error("semaphore {} has no unit", IdName(*.0))]
    Semaphore(u64),
    /// None has come.
    #[error("no signal came on condition {}", IdName(*.0))]
    Signal(u64),
}

impl Error {
    /// The code of `enum mg_error`.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Invalid(_) => -1,
            Self::NoMemory(_) => -2,
            Self::NotInitialized | Self::Child(_) => -3,
            Self::AlreadyInitialized => -4,
            Self::NoNode(..) => -5,
            Self::NotShared(_) => -6,
            Self::Limit(_) => -7,
            Self::Peer(_) => -8,
            Self::System(_) => -9,
            Self::NotPermitted(_) => -10,
            Self::Busy(_) => -11,
            Self::TimedOut(_) => -12,
        }
    }

    /// The error a peer reported by code; the peer wrote its line itself.
    pub(crate) fn from_code(code: i32, what: &str) -> Self {
        match code {
            -2 => Self::NoMemory(what.into()),
            -6 => Self::NotPermitted(format!("{what}: not where a shared allocation begins")),
            -7 => Self::Limit(what.into()),
            -10 => Self::NotPermitted(what.into()),
            _ => Self::System(format!("{what} (code {code})")),
        }
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        Self::System(error.to_string())
    }
}

impl From<TransportError> for Error {
    fn from(error: TransportError) -> Self {
        match error.lost_peer() {
            Some(_) => Self::Peer(error.to_string()),
            None => Self::System(error.to_string()),
        }
    }
}
