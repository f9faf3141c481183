//! The operations of a program's threads, a few in a row.

use core::fmt;

use multigrain_protocol::Kind;

/// One step of a program. Minipages by index; locks by the minipage they guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Load.
    Read(u32),
    /// Store of a number of its own.
    Write(u32),
    /// Atomic fetch and add of one.
    Add(u32),
    /// Store of what was read last, plus this.
    Change(u32, i8),
    /// Load of an object that may have been freed: what it returns is nobody's business.
    Peek(u32),
    Prefetch(u32, Kind),
    Push(u32),
    Lock(u32),
    Unlock(u32),
    /// Takes one unit of a semaphore.
    Down(u32),
    /// Adds one.
    Up(u32),
    /// Under its lock: waits until the box is not empty.
    Await(u32),
    /// Under its lock: wakes one who waits for the box, or all.
    Signal(u32, bool),
    /// The object just allocated has been written: others may use it.
    Publish(u32),
    /// The thread is done with an object.
    Leave(u32),
    Free(u32),
    /// Meets all threads.
    Barrier,
}

impl fmt::Display for Op {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(page) => write!(out, "read of m{page}"),
            Self::Write(page) => write!(out, "write to m{page}"),
            Self::Add(page) => write!(out, "fetch-and-add on m{page}"),
            Self::Change(page, by) => write!(out, "write of what it read plus {by} to m{page}"),
            Self::Peek(page) => write!(out, "careless read of m{page}"),
            Self::Prefetch(page, kind) => write!(out, "prefetch of m{page} for {kind:?}"),
            Self::Push(page) => write!(out, "push of m{page}"),
            Self::Lock(page) => write!(out, "lock of m{page}"),
            Self::Unlock(page) => write!(out, "unlock of m{page}"),
            Self::Down(id) => write!(out, "wait for semaphore {id}"),
            Self::Up(id) => write!(out, "post to semaphore {id}"),
            Self::Await(page) => write!(out, "wait for something in m{page}"),
            Self::Signal(page, _) => write!(out, "signal that m{page} is not empty"),
            Self::Publish(page) => write!(out, "publishing of m{page}"),
            Self::Leave(page) => write!(out, "last use of m{page}"),
            Self::Free(page) => write!(out, "free of m{page}"),
            Self::Barrier => write!(out, "barrier"),
        }
    }
}

/// A few operations in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    ops: [Op; 6],
    len: u8,
}

impl Sequence {
    pub(super) fn of(ops: &[Op]) -> Self {
        let mut sequence = Self { ops: [Op::Barrier; 6], len: 0 };
        sequence.ops[..ops.len()].copy_from_slice(ops);
        sequence.len = u8::try_from(ops.len()).expect("sequences are short");
        sequence
    }

    pub(super) fn get(&self, at: u8) -> Option<Op> {
        (at < self.len).then(|| self.ops[usize::from(at)])
    }
}
