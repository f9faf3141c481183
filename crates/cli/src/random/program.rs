//! A program: objects, and what each thread does with them.

use core::fmt;
use multigrain_protocol::Kind;
use multigrain_types::Consistency;

/// A thread by number: the initial threads of node 0 first, then those of node 1 and so on, then the
/// threads that others start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ThreadId(pub(super) usize);

/// An object by number; memory that is allocated again is another object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectId(pub(super) usize);

/// A group by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GroupId(pub(super) usize);

/// How an object is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `malloc`, or `malloc_with` where it has a consistency or a grain of its own.
    Block { grain: Option<usize> },
    /// `calloc`, of the job's consistency.
    Zeroed,
    /// `malloc_grain`, of the job's consistency.
    Grain(usize),
    /// `malloc_array_with`: elements of so many bytes, which are not contiguous.
    Array { element: usize, grain: Option<usize> },
}

/// A piece of shared memory from its allocation to the end or to its `free`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) bytes: usize,
    pub(super) shape: Shape,
    /// `None`: as the job has it.
    pub(super) consistency: Option<Consistency>,
}

impl Object {
    /// Bytes that follow each other in memory: all, or those of an element.
    pub(super) fn stride(&self) -> usize {
        match self.shape {
            Shape::Array { element, .. } => element,
            Shape::Block { .. } | Shape::Zeroed | Shape::Grain(_) => self.bytes,
        }
    }
}

/// Bytes of an object; of an array's, within one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) object: ObjectId,
    pub(super) from: usize,
    pub(super) bytes: usize,
}

/// What a write puts there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Bytes that differ from place to place and from write to write.
    Stamp(u32),
    /// One byte again and again: often what was there before.
    Fill(u8),
}

impl Pattern {
    pub(super) fn byte(self, place: usize) -> u8 {
        match self {
            Self::Fill(byte) => byte,
            Self::Stamp(stamp) => {
                let mixed = (place as u64 ^ u64::from(stamp) << 32)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29)
                    .wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed.to_be_bytes()[0]
            }
        }
    }
}

/// Numbers in several places under one lock. Every critical section that changes one adds the same
/// to all of them, so whoever has the lock finds that all have grown by the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) lock: u32,
    pub(super) condition: u32,
    /// Little-endian numbers of 2, 4 or 8 bytes, anywhere.
    pub(super) places: Vec<Span>,
    /// What all threads together add.
    pub(super) total: u64,
}

impl Group {
    /// As much of a number as the smallest place has.
    pub(super) fn mask(&self) -> u64 {
        let bytes = self.places.iter().map(|place| place.bytes).min().unwrap_or(8);
        u64::MAX >> (64 - 8 * bytes)
    }
}

/// What a thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// Allocates and publishes; all but zeroed memory is then filled with this.
    Alloc(ObjectId, Pattern),
    Free(ObjectId),
    Read(Span),
    Write(Span, Pattern),
    /// Writes what is there.
    Rewrite(Span),
    Copy {
        from: Span,
        to: Span,
    },
    /// Adds to a number of 1, 2, 4 or 8 bytes.
    Add(Span, u64),
    Lock(u32),
    Unlock(u32),
    /// Under the group's lock.
    Bump(GroupId, u64),
    /// Under the group's lock: looks at the places.
    Inspect(GroupId),
    /// Under the group's lock: waits on its condition until it has grown by so much.
    Await(GroupId, u64),
    Signal {
        condition: u32,
        all: bool,
    },
    /// A total of 0 is all initial threads, node by node.
    Barrier {
        id: u32,
        total: u32,
    },
    Post {
        id: u32,
        units: u32,
    },
    Down(u32),
    Start(ThreadId),
    Join(ThreadId),
    Prefetch(Span, Kind),
    Push(Span),
    Touch(Span, Kind),
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) node: usize,
    pub(super) ops: Vec<Op>,
}

/// The whole of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) objects: Vec<Object>,
    pub(super) groups: Vec<Group>,
    pub(super) threads: Vec<Thread>,
    /// Whose next operation is next, in one legal sequential execution.
    pub(super) order: Vec<ThreadId>,
}

impl Program {
    /// All operations in the order of that execution, each with its thread and its place there.
    pub(super) fn sequence(&self) -> impl Iterator<Item = (ThreadId, usize, Op)> + '_ {
        let mut next = vec![0; self.threads.len()];
        self.order.iter().map(move |&thread| {
            let place = next[thread.0];
            next[thread.0] += 1;
            (thread, place, self.threads[thread.0].ops[place])
        })
    }

    /// A line for every operation, in that order.
    pub(super) fn show(&self) -> String {
        let mut text = String::new();
        for (number, object) in self.objects.iter().enumerate() {
            text += &format!("o{number}: {object:?}\n");
        }
        for (number, group) in self.groups.iter().enumerate() {
            let places: Vec<_> = group.places.iter().map(Span::to_string).collect();
            let Group { lock, condition, .. } = group;
            text += &format!(
                "g{number}: {} under lock {lock}, condition {condition}\n",
                places.join(" ")
            );
        }
        for (thread, place, op) in self.sequence() {
            let node = self.threads[thread.0].node;
            text += &format!("node {node} thread {} op {place}: {op}\n", thread.0);
        }
        text
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "o{}[{}..{}]", self.object.0, self.from, self.from + self.bytes)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alloc(object, pattern) => write!(out, "allocate o{}, {pattern:?}", object.0),
            Self::Free(object) => write!(out, "free o{}", object.0),
            Self::Read(span) => write!(out, "read {span}"),
            Self::Write(span, pattern) => write!(out, "write {span}, {pattern:?}"),
            Self::Rewrite(span) => write!(out, "rewrite {span}"),
            Self::Copy { from, to } => write!(out, "copy {from} to {to}"),
            Self::Add(span, amount) => write!(out, "add {amount} to {span}"),
            Self::Lock(id) => write!(out, "lock {id}"),
            Self::Unlock(id) => write!(out, "unlock {id}"),
            Self::Bump(group, amount) => write!(out, "add {amount} to all of g{}", group.0),
            Self::Inspect(group) => write!(out, "look at all of g{}", group.0),
            Self::Await(group, value) => write!(out, "wait until g{} has {value} more", group.0),
            Self::Signal { condition, all } => {
                write!(out, "{} condition {condition}", if *all { "broadcast" } else { "signal" })
            }
            Self::Barrier { id, total: 0 } => write!(out, "barrier {id} of all initial threads"),
            Self::Barrier { id, total } => write!(out, "barrier {id} of {total} threads"),
            Self::Post { id, units } => write!(out, "post {units} to semaphore {id}"),
            Self::Down(id) => write!(out, "wait for semaphore {id}"),
            Self::Start(thread) => write!(out, "start thread {}", thread.0),
            Self::Join(thread) => write!(out, "join thread {}", thread.0),
            Self::Prefetch(span, kind) => write!(out, "prefetch {span} for {kind:?}"),
            Self::Push(span) => write!(out, "push {span}"),
            Self::Touch(span, kind) => write!(out, "touch {span} for {kind:?}"),
        }
    }
}
