//! Read-write locks: the manager knows how many read or that one writes, and queues threads, first come
//! first served. A node knows which of its threads have it, so that nobody else gives it back.

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::sync_id::IdName;
use multigrain_types::{NodeId, ThreadId};

use super::context::{SyncContext, SyncState};
use super::input::SyncError;
use crate::effect::{Effect, Effects};
use crate::message::{Kind, ReadWriteMessage};

/// One read-write lock as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ReadWrite {
    /// Threads of this node that the manager has not answered.
    waiting: BTreeMap<ThreadId, Kind>,
    held: BTreeMap<ThreadId, Held>,
    /// Manager: threads that have it to read, whether one has it to write, and threads that wait.
    readers: u64,
    writer: bool,
    queue: VecDeque<(NodeId, ThreadId, Kind)>,
    /// Manager: who got it last, while anybody has it.
    last: Option<NodeId>,
}

/// A thread of this node has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    kind: Kind,
    /// How often: who reads may read once more.
    times: u32,
}

impl SyncState for ReadWrite {
    /// The first state: nobody has it.
    fn new(_: &SyncContext) -> Self {
        Self::default()
    }

    fn user(&self, _: &SyncContext) -> Option<NodeId> {
        self.last
    }
}

impl ReadWrite {
    /// Whether a thread of this node has it.
    pub(super) fn is_held_by(&self, thread: ThreadId) -> bool {
        self.held.contains_key(&thread)
    }

    /// Threads of this node that have it.
    pub(super) fn holders(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.held.keys().copied()
    }

    /// Manager: threads that wait, first come first.
    pub(super) fn queued(&self) -> impl Iterator<Item = (NodeId, ThreadId)> + '_ {
        self.queue.iter().map(|&(node, thread, _)| (node, thread))
    }

    pub(super) fn acquire(
        &mut self,
        context: &SyncContext,
        thread: ThreadId,
        (kind, tries): (Kind, bool),
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        match self.held.get_mut(&thread) {
            Some(Held { kind: Kind::Read, times }) if kind == Kind::Read => {
                *times += 1;
                out.push(Effect::Wake { thread });
            }
            Some(_) if tries => out.extend([Effect::Refuse { thread }, Effect::Wake { thread }]),
            Some(Held { kind: holds, .. }) => {
                let what = match holds {
                    Kind::Read => "to read: it unlocks it before it asks to write",
                    Kind::Write => "to write",
                };
                return Err(SyncError::Misuse(format!(
                    "read-write lock {} is held by this thread already, {what}",
                    IdName(context.id)
                )));
            }
            None if self.waiting.contains_key(&thread) => {}
            None => {
                self.waiting.insert(thread, kind);
                let message = match tries {
                    true => ReadWriteMessage::Try { thread, kind },
                    false => ReadWriteMessage::Request { thread, kind },
                };
                context.send(context.manager, message.about(context.id), out);
            }
        }
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        context: &SyncContext,
        thread: ThreadId,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let Some(held) = self.held.get_mut(&thread) else {
            return Err(SyncError::Misuse(format!(
                "unlock of read-write lock {}, which this thread does not hold",
                IdName(context.id)
            )));
        };
        held.times -= 1;
        let Held { kind, times } = *held;
        if times == 0 {
            self.held.remove(&thread);
            context.send(
                context.manager,
                ReadWriteMessage::Release { kind }.about(context.id),
                out,
            );
        }
        Ok(())
    }

    /// The thread has ended: if it has the lock, nobody ever gives it back.
    pub(super) fn abandon(&mut self, thread: ThreadId) {
        self.held.remove(&thread);
    }

    pub(super) fn receive(
        &mut self,
        context: &SyncContext,
        from: NodeId,
        message: ReadWriteMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let illegal =
            |state: &Self| Err(SyncError::Illegal(format!("{message:?} meets {state:?}")));
        match message {
            ReadWriteMessage::Request { thread, kind } if context.is_manager() => {
                self.queue.push_back((from, thread, kind));
                self.serve(context, out);
            }
            ReadWriteMessage::Try { thread, kind } if context.is_manager() => {
                if self.queue.is_empty() && self.admits(kind) {
                    self.queue.push_back((from, thread, kind));
                    self.serve(context, out);
                } else {
                    context.send(from, ReadWriteMessage::Refused { thread }.about(context.id), out);
                }
            }
            ReadWriteMessage::Release { kind } if context.is_manager() => {
                match kind {
                    Kind::Read if self.readers > 0 => self.readers -= 1,
                    Kind::Write if self.writer => self.writer = false,
                    Kind::Read | Kind::Write => return illegal(self),
                }
                self.serve(context, out);
            }
            ReadWriteMessage::Grant { thread } if from == context.manager => {
                let Some(kind) = self.waiting.remove(&thread) else { return illegal(self) };
                self.held.insert(thread, Held { kind, times: 1 });
                out.push(Effect::Wake { thread });
            }
            ReadWriteMessage::Refused { thread }
                if from == context.manager && self.waiting.remove(&thread).is_some() =>
            {
                out.extend([Effect::Refuse { thread }, Effect::Wake { thread }]);
            }
            ReadWriteMessage::Request { .. }
            | ReadWriteMessage::Try { .. }
            | ReadWriteMessage::Release { .. }
            | ReadWriteMessage::Grant { .. }
            | ReadWriteMessage::Refused { .. } => return illegal(self),
        }
        Ok(())
    }

    /// Manager: whether one more may have it.
    fn admits(&self, kind: Kind) -> bool {
        !self.writer && (kind == Kind::Read || self.readers == 0)
    }

    fn serve(&mut self, context: &SyncContext, out: &mut Effects) {
        while let Some(&(to, thread, kind)) = self.queue.front()
            && self.admits(kind)
        {
            self.queue.pop_front();
            match kind {
                Kind::Read => self.readers += 1,
                Kind::Write => self.writer = true,
            }
            self.last = Some(to);
            context.send(to, ReadWriteMessage::Grant { thread }.about(context.id), out);
        }
        if self.readers == 0 && !self.writer {
            self.last = None;
        }
    }
}
