//! What the user knows an object by: its key or its name, and its size.

/// An object, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A segment; `!id` of a POSIX shared memory object.
    Segment(i32),
    /// A set of semaphores.
    Set(i32),
    /// A message queue.
    Queue(i32),
    /// A named POSIX semaphore.
    PosixSem(i32),
}

/// What it is known by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The key, 0 for IPC_PRIVATE and for POSIX objects.
    pub key: i32,
    /// The name of a POSIX object, if it has one still.
    pub name: Option<Vec<u8>>,
    /// Bytes of a segment, semaphores of a set; else 0.
    pub size: u64,
}
