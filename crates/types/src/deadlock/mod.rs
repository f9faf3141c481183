//! What threads wait for, as a node reports it, and when that is a deadlock.
//!
//! Role: a node knows its threads, the launcher collects the reports of all nodes; both use these types. A
//! deadlock is *proven*, never guessed from a time ([`deadlock`]): what held before a question was asked and
//! holds in all answers to it held at one moment in between.
//!
//! Which threads count as waiting is for the node to say: only those that nothing but the job itself can let go
//! on, neither a time-out nor a signal nor another process.

mod proof;
mod text;

pub use proof::{deadlock, waiting};

use serde::{Deserialize, Serialize};

/// Exit code of a job that is in a deadlock: the number of EDEADLK.
pub const DEADLOCKED: i32 = 35;

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
    /// A condition variable, by its id; or its lock, once the signal has come.
    Condition(u64),
    /// The end of a thread of this node.
    Join(u32),
    /// A name that nobody has published.
    Name,
    /// A segment that nobody has created.
    Segment,
}

/// The bits of a word that say what kind of place it is.
const KIND: u64 = 0x7f;

impl BlockingCall {
    /// As one word, which is not 0. Of an id, which is a number or an address and perhaps [`ONCE`], bits 56 to 62
    /// are 0.
    ///
    /// [`ONCE`]: crate::sync_id::ONCE
    #[must_use]
    pub fn to_word(self) -> u64 {
        let (kind, id) = match self {
            Self::Finalize => (1, 0),
            Self::Barrier(id) => (2, id),
            Self::Lock(id) => (3, id),
            Self::Semaphore(id) => (4, id),
            Self::Condition(id) => (5, id),
            Self::Join(node) => (6, node.into()),
            Self::Name => (7, 0),
            Self::ReadWriteLock(id) => (8, id),
            Self::Segment => (9, 0),
        };
        id.rotate_left(8) | kind
    }

    /// The place of this word; none for a word that no place has.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        let id = (word & !KIND).rotate_right(8);
        match word & KIND {
            1 => Some(Self::Finalize),
            2 => Some(Self::Barrier(id)),
            3 => Some(Self::Lock(id)),
            4 => Some(Self::Semaphore(id)),
            5 => Some(Self::Condition(id)),
            6 => Some(Self::Join(u32::try_from(id).ok()?)),
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
    pub turn: u64,
    /// Where it waits.
    pub place: BlockingCall,
    /// Ids of the locks it holds meanwhile.
    pub holds: Vec<u64>,
    /// How many threads are to come to the barrier where it waits; 0 anywhere else.
    #[serde(default)]
    pub party: u32,
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
    /// Whether every thread of the process waits: nothing but a message can let one go on. Only then is
    /// the rest more than the waiters below.
    pub all: bool,
    /// Messages sent to other nodes; each is counted before it can be received.
    pub sent: u64,
    /// Messages received from other nodes; each is counted when all it has led to is done.
    pub received: u64,
    /// How often a thread of the node has begun or ended.
    pub changes: u64,
    /// The threads that wait.
    pub waiters: Vec<Waiter>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_a_word_of_its_own_and_none_has_0() {
        let last = (1 << 56) - 1;
        let places = [
            BlockingCall::Finalize,
            BlockingCall::Barrier(last),
            BlockingCall::Lock(0),
            BlockingCall::Lock(last),
            BlockingCall::Lock(last | crate::sync_id::ONCE),
            BlockingCall::ReadWriteLock(last),
            BlockingCall::Semaphore(7),
            BlockingCall::Condition(7),
            BlockingCall::Join(1023),
            BlockingCall::Name,
            BlockingCall::Segment,
        ];
        for place in places {
            assert_ne!(place.to_word(), 0);
            assert_eq!(BlockingCall::from_word(place.to_word()), Some(place));
        }
        let ids: std::collections::BTreeSet<u64> =
            places.iter().map(|place| place.to_word()).collect();
        assert_eq!(ids.len(), places.len());
        assert_eq!((BlockingCall::from_word(0), BlockingCall::from_word(u64::MAX)), (None, None));
    }
}
