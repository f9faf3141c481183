//! What threads wait for, as a node reports it, and when that is a deadlock.
//!
//! Role: a node knows its threads, the launcher collects the reports of all nodes; both use these types. A
//! deadlock is *proven*, never guessed from a time ([`deadlock`]): what held before a question was asked and
//! holds in all answers to it held at one moment in between.
//!
//! Which threads count as waiting is for the node to say: those that nothing lets go on but the job itself, neither
//! another process nor a deadline that they have given. (A signal's handler may post a semaphore; the node says where one
//! may run.) Those that wait until a deadline are reported for the line
//! of a job that runs out of time; the proof leaves them out.

mod proof;
#[cfg(test)]
mod simulated_tests;
mod text;

pub use proof::{deadlock, may_be_deadlock, waiting};

use serde::{Deserialize, Serialize};

/// A call of the program that waits until another thread of the job does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockingCall {
    /// `mg_finalize`: all nodes leave together.
    Finalize,
    /// A barrier, by its id.
    Barrier(u64),
    /// A lock, by its id.
    Lock(u64),
    /// A read-write lock, by its id.
    ReadWriteLock(u64),
    /// A semaphore, by its id.
    Semaphore(u64),
    /// A condition variable, by its id.
    Condition(u64),
    /// The end of a thread, by its handle: its node from bit [`HANDLE_NODE`] on, and its number there.
    Join(u64),
    /// A name that nobody has published.
    Name,
    /// A segment that nobody has created.
    Segment,
}

/// In a thread's handle: its node is from this bit on.
pub const HANDLE_NODE: u32 = 48;

impl BlockingCall {
    /// As two words, of which the first is not 0.
    #[must_use]
    pub const fn to_words(self) -> (u64, u64) {
        match self {
            Self::Finalize => (1, 0),
            Self::Barrier(id) => (2, id),
            Self::Lock(id) => (3, id),
            Self::Semaphore(id) => (4, id),
            Self::Condition(id) => (5, id),
            Self::Join(handle) => (6, handle),
            Self::Name => (7, 0),
            Self::ReadWriteLock(id) => (8, id),
            Self::Segment => (9, 0),
        }
    }

    /// The call of these words; none for those that no call has.
    #[must_use]
    pub const fn from_words(kind: u64, id: u64) -> Option<Self> {
        match kind {
            1 => Some(Self::Finalize),
            2 => Some(Self::Barrier(id)),
            3 => Some(Self::Lock(id)),
            4 => Some(Self::Semaphore(id)),
            5 => Some(Self::Condition(id)),
            6 => Some(Self::Join(id)),
            7 => Some(Self::Name),
            8 => Some(Self::ReadWriteLock(id)),
            9 => Some(Self::Segment),
            _ => None,
        }
    }
}

/// A thread of the job: its node's rank and its number there.
type Thread = (usize, u32);

/// A thread that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// Its number on its node.
    pub thread: u32,
    /// How often it has begun to wait: the same number is the same wait.
    pub wait: u64,
    /// Where it waits.
    pub call: BlockingCall,
    /// Whether a deadline ends the wait, if nothing else does: then it is part of no deadlock.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub timed: bool,
    /// What others may wait for until it goes on: the locks and read-write locks that it has, and its own end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<BlockingCall>,
    /// How many threads are to come to the barrier where it waits; 0 anywhere else.
    #[serde(default)]
    pub expected: u32,
    /// Whether they are all threads of a job that is so large that such a barrier is one apart.
    #[serde(default)]
    pub whole: bool,
    /// The name it waits for; empty anywhere else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// What a node knows of its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The question it answers; 0 if the node speaks unasked.
    pub question: u64,
    /// Whether every thread of the process waits: nothing but a message can let one go on, or a signal's handler. Only
    /// then is the rest more than the waiters below.
    pub all: bool,
    /// Whether a handler of the program's may run nevertheless: it may post a semaphore, anyone's, and nothing else, for
    /// its thread is in a call of the library.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub handles: bool,
    /// Messages sent to other nodes; each is counted before it can be received.
    pub sent: u64,
    /// Messages received from other nodes; each is counted when all it has led to is done.
    pub received: u64,
    /// How often a thread of the node has begun or ended.
    pub changes: u64,
    /// The threads that wait.
    pub waiters: Vec<Waiter>,
    /// Threads that this node is to answer, by node and number there, and has not: those in the queues of its read-write
    /// locks, and who joins its threads. Said in answers alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_to_wait: Vec<(u16, u32)>,
}

impl Report {
    /// Whether the other one says the same, whatever was asked.
    fn is_as(&self, other: &Self) -> bool {
        let unasked = |of: &Self| Self { question: 0, known_to_wait: Vec::new(), ..of.clone() };
        unasked(self) == unasked(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_words_of_its_own_and_none_begins_with_0() {
        let places = [
            BlockingCall::Finalize,
            BlockingCall::Barrier(u64::MAX),
            BlockingCall::Lock(0),
            BlockingCall::Lock(u64::MAX),
            BlockingCall::ReadWriteLock(u64::MAX),
            BlockingCall::Semaphore(7),
            BlockingCall::Condition(7),
            BlockingCall::Join(1023 << HANDLE_NODE | 1),
            BlockingCall::Name,
            BlockingCall::Segment,
        ];
        for call in places {
            let (kind, id) = call.to_words();
            assert_ne!(kind, 0);
            assert_eq!(BlockingCall::from_words(kind, id), Some(call));
        }
        let words: std::collections::BTreeSet<(u64, u64)> =
            places.iter().map(|call| call.to_words()).collect();
        assert_eq!(words.len(), places.len());
        assert_eq!([0, u64::MAX].map(|kind| BlockingCall::from_words(kind, 0)), [None, None]);
    }
}
