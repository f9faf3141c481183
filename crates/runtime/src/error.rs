//! Errors of calls, with the fixed codes of `multigrain.h`.

use multigrain_memory::{MemoryError, VIEWS_BASE, VIEWS_END};
use multigrain_transport::TransportError;
use multigrain_types::NodeId;
use multigrain_types::sync_id::IdName;

use crate::error_code as code;

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
    #[error("no node {0}: nodes of this job: {1}")]
    NoNode(i64, u16),
    /// Not shared, or not the start of an allocation. Calls that name this error give the next two as well, which have
    /// its code.
    #[error("{}", not_shared(*.0))]
    NotShared(usize),
    /// No memory that the call is for, though it is shared or has been: what it is instead.
    #[error("address {0:#x} {1}")]
    OfOtherKind(usize, &'static str),
    /// Shared memory, but in no allocation: what lies near it.
    #[error("address {0:#x} {1}")]
    BesideAllocations(usize, String),
    /// The nodes make no job: what all of them have found, and one has said.
    #[error("{0}")]
    NoJob(String),
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
    /// There is something of that name.
    #[error("{0}")]
    Exists(String),
    /// There is nothing of that name.
    #[error("{0}")]
    NotFound(String),
    /// Its mode does not allow that.
    #[error("{0}")]
    Denied(String),
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
    /// The thread itself has it.
    #[error("read-write lock {} is held by this thread already", IdName(*.0))]
    OwnReadWriteLock(u64),
    /// It has none.
    #[error("semaphore {} has no unit", IdName(*.0))]
    Semaphore(u64),
    /// None has come.
    #[error("no signal came on condition {}", IdName(*.0))]
    Signal(u64),
}

/// Why an address is none that a call takes: a program that frees twice needs another word than one that shares a global.
fn not_shared(address: usize) -> String {
    if (VIEWS_BASE..VIEWS_END).contains(&address) {
        return format!(
            "address {address:#x} is shared memory's, but no live allocation of this kind begins there: it was freed, or it lies \
             inside of one"
        );
    }
    format!(
        "address {address:#x} is not shared memory: globals, stacks and malloc memory are private"
    )
}

impl Error {
    /// Of a free of what is free already, wherever that is found.
    pub(crate) fn free_twice(address: usize) -> Self {
        Self::NotPermitted(format!("free of {address:#x}, which is free already"))
    }

    /// Whether the line about it was written, here or by another node.
    #[must_use]
    pub(crate) fn is_said(&self) -> bool {
        matches!(self, Self::NoJob(_))
    }

    /// The code of `enum mg_error`.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Invalid(_) | Self::NoJob(_) => code::INVALID,
            Self::NoMemory(_) => code::NO_MEMORY,
            Self::NotInitialized | Self::Child(_) => code::NOT_INITIALIZED,
            Self::AlreadyInitialized => code::ALREADY_INITIALIZED,
            Self::NoNode(..) => code::NO_NODE,
            Self::NotShared(_) | Self::OfOtherKind(..) | Self::BesideAllocations(..) => {
                code::NOT_SHARED
            }
            Self::Limit(_) => code::LIMIT,
            Self::Peer(_) => code::PEER,
            Self::System(_) => code::SYSTEM,
            Self::NotPermitted(_) => code::NOT_PERMITTED,
            Self::Busy(_) => code::BUSY,
            Self::TimedOut(_) => code::TIMED_OUT,
            Self::Exists(_) => code::EXISTS,
            Self::NotFound(_) => code::NOT_FOUND,
            Self::Denied(_) => code::DENIED,
        }
    }

    /// The error a peer reported by code; the peer wrote its line itself.
    pub(crate) fn from_code(reported: i32, what: &str) -> Self {
        match reported {
            code::NO_MEMORY => Self::NoMemory(what.into()),
            code::NOT_SHARED => {
                Self::NotPermitted(format!("{what}: not where a shared allocation begins"))
            }
            code::LIMIT => Self::Limit(what.into()),
            code::NOT_PERMITTED => Self::NotPermitted(what.into()),
            _ => Self::System(format!("{what} (code {reported})")),
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
