//! All synchronization states of a node: routes requests and messages to the engine of their id, drops
//! what is back at rest, and bounds the rest.

use core::ops::Bound;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use multigrain_types::tree::Fan;
use multigrain_types::{NodeId, ThreadId};
use smallvec::SmallVec;

mod collective_steps;
mod quota_per_node;
mod requests;

pub(crate) use collective_steps::Collected;
pub use quota_per_node::MOST_IDS;
use quota_per_node::QuotaPerNode;

use super::barrier::Barrier;
use super::collective::Collective;
use super::condition::Condition;
use super::context::{SyncContext, SyncState};
use super::input::SyncError;
use super::lock::Lock;
use super::read_write::ReadWrite;
use super::semaphore::Semaphore;
use super::small_map::SmallMap;
use crate::effect::{Effect, Effects};
use crate::message::{LockMessage, SyncMessage};
use crate::mutant_macro::mutant;
use multigrain_types::sync_id::IdName;

/// Idle tokens that a node keeps, to take the locks again without a message.
pub const IDLE_TOKENS: u32 = 1 << 16;
/// States that are looked at for idle tokens when there are too many.
const LOOKS: usize = 64;

/// All synchronization state of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SyncTables {
    locks: BTreeMap<u64, Lock>,
    barriers: BTreeMap<u64, Box<Barrier>>,
    collectives: Collectives,
    semaphores: BTreeMap<u64, Semaphore>,
    conditions: BTreeMap<u64, Condition>,
    read_writes: BTreeMap<u64, ReadWrite>,
    /// How many locks each thread of this node holds, if any, and read-write locks.
    holds: SmallMap<ThreadId, u32>,
    here: Here,
    uses: QuotaPerNode,
    idle: IdleTokens,
}

/// What these tables know of their node and its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
struct Here {
    /// Threads of this node that have begun and not ended.
    threads: u32,
    /// Of the tree of the job.
    fan: Fan,
}

/// Operands of the barriers that are collective operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Collectives {
    /// By the barrier's id.
    open: BTreeMap<u64, Collective>,
    /// Bytes of operands that have come ahead of their threads, by node.
    early: BTreeMap<NodeId, usize>,
    collected: Collected,
}

/// Tokens of locks that no thread of this node uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct IdleTokens {
    here: u32,
    /// How many there may be before some are offered.
    most: u32,
    /// The lock after which the search for more to offer goes on.
    offered: u64,
}

impl Default for IdleTokens {
    fn default() -> Self {
        Self { here: 0, most: IDLE_TOKENS, offered: 0 }
    }
}

impl SyncTables {
    /// No id is in use, and so many threads have begun.
    #[must_use]
    pub fn with_threads(threads: u32) -> Self {
        Self { here: Here { threads, ..Here::default() }, ..Self::default() }
    }

    /// The same, of a node that keeps so many idle tokens.
    #[must_use]
    pub fn with_idle_tokens(self, keep: u32) -> Self {
        Self { idle: IdleTokens { most: keep, ..self.idle }, ..self }
    }

    /// The same, in a job whose tree has this fan.
    #[must_use]
    pub fn with_fan(self, fan: Fan) -> Self {
        Self { here: Here { fan, ..self.here }, ..self }
    }

    /// An id as these tables see it.
    fn context(&self, me: NodeId, nodes: u16, id: u64) -> SyncContext {
        SyncContext::new(me, nodes, id).with_fan(self.here.fan)
    }

    /// The node whose release tells this one that all threads of the job have come to a barrier.
    #[must_use]
    pub fn releaser(&self, me: NodeId, nodes: u16, barrier: u64) -> NodeId {
        let context = self.context(me, nodes, barrier);
        match context.tree() {
            Some(tree) => tree.parent(me).unwrap_or(me),
            None => context.manager,
        }
    }

    /// Ids whose states this node keeps.
    #[must_use]
    pub fn ids(&self) -> usize {
        let others = self.conditions.len() + self.read_writes.len();
        self.locks.len() + self.barriers.len() + self.semaphores.len() + others
    }

    /// Whether every id rests in its first state.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.locks.is_empty()
            && self.barriers.is_empty()
            && self.collectives.open.is_empty()
            && self.semaphores.is_empty()
            && self.conditions.is_empty()
            && self.read_writes.is_empty()
    }

    /// Whether nobody holds, waits or is expected: what is left are tokens of free locks.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.barriers.is_empty()
            && self.collectives.open.is_empty()
            && self.semaphores.is_empty()
            && self.conditions.is_empty()
            && self.read_writes.is_empty()
            && self.locks.values().all(Lock::is_unused)
    }

    /// The lock's state on this node, if it is not at rest.
    #[must_use]
    pub fn lock(&self, id: u64) -> Option<&Lock> {
        self.locks.get(&id)
    }

    /// Locks that threads of this node hold, in ascending order.
    pub fn owned_locks(&self) -> impl Iterator<Item = (u64, ThreadId)> + '_ {
        self.locks.iter().filter_map(|(&id, lock)| Some((id, lock.owner()?)))
    }

    /// Locks that threads of this node wait for until they have them, in ascending order.
    pub fn awaited_locks(&self) -> impl Iterator<Item = (u64, ThreadId)> + '_ {
        self.locks.iter().flat_map(|(&id, lock)| lock.waiters().map(move |thread| (id, thread)))
    }

    /// Locks whose tokens this node keeps for a window, in ascending order.
    pub fn kept_locks(&self) -> impl Iterator<Item = u64> + '_ {
        self.locks.iter().filter(|(_, lock)| lock.is_kept()).map(|(&id, _)| id)
    }

    /// The thread of this node that holds a lock.
    #[must_use]
    pub fn owner_of(&self, lock: u64) -> Option<ThreadId> {
        self.locks.get(&lock)?.owner()
    }

    /// Whether a thread of this node holds a read-write lock, be it to read.
    #[must_use]
    pub fn holds_read_write_lock(&self, thread: ThreadId, lock: u64) -> bool {
        self.read_writes.get(&lock).is_some_and(|lock| lock.is_held_by(thread))
    }

    /// Read-write locks that threads of this node hold, in ascending order.
    pub fn owned_read_write_locks(&self) -> impl Iterator<Item = (u64, ThreadId)> + '_ {
        self.read_writes
            .iter()
            .flat_map(|(&id, lock)| lock.holders().map(move |thread| (id, thread)))
    }

    /// Manager: threads in the queues of read-write locks.
    pub fn queued_at_read_write_locks(&self) -> impl Iterator<Item = (NodeId, ThreadId)> + '_ {
        self.read_writes.values().flat_map(ReadWrite::queued)
    }

    /// Whether this node has declared to a barrier's manager that all its threads wait there.
    #[must_use]
    pub fn is_declared_quiescent(&self, id: u64) -> bool {
        self.barriers.get(&id).is_some_and(|barrier| barrier.is_declared_quiescent())
    }

    /// Whether all threads of this node wait in a barrier whose manager has been told so, and has not answered yet.
    #[must_use]
    pub fn nothing_runs(&self) -> bool {
        let mut barriers = self.barriers.values();
        barriers.any(|barrier| barrier.is_declared_quiescent() && barrier.waiting() > 0)
    }

    /// Whether all threads of this node but one wait at a barrier: the one that asks.
    #[must_use]
    pub fn all_others_wait_at(&self, id: u64) -> bool {
        let waiting = self.barriers.get(&id).map_or(0, |barrier| barrier.waiting());
        waiting + 1 == self.here.threads as usize
    }

    /// What a thread of this node holds, in the words of a program: locks and read-write locks.
    #[must_use]
    pub fn held_by(&self, thread: ThreadId) -> Vec<String> {
        if self.holds.get(thread) == 0 {
            return Vec::new();
        }
        let locks = self.locks.iter().filter(|(_, lock)| lock.owner() == Some(thread));
        let others = self.read_writes.iter().filter(|(_, lock)| lock.is_held_by(thread));
        locks
            .map(|(&id, _)| format!("lock {}", IdName(id)))
            .chain(others.map(|(&id, _)| format!("read-write lock {}", IdName(id))))
            .collect()
    }

    /// A thread runs at once, unless this node has declared that it is quiescent.
    fn begin(&mut self, me: NodeId, nodes: u16, thread: ThreadId, out: &mut Effects) {
        // All its threads wait in one barrier, so there is no other.
        let fan = self.here.fan;
        let mut declared = self.barriers.iter_mut();
        let declared = declared.find(|(_, barrier)| barrier.is_declared_quiescent());
        let quiescent = mutant!("begin-without-retract": None, else declared);
        match quiescent {
            Some((&id, barrier)) => {
                let context = SyncContext::new(me, nodes, id).with_fan(fan);
                barrier.begin(&context, thread, out);
            }
            None => out.push(Effect::Wake { thread }),
        }
    }

    /// One message about `id` from a node (perhaps this one).
    ///
    /// # Errors
    /// [`SyncError`] when the message fits no state.
    pub fn receive(
        &mut self,
        me: NodeId,
        nodes: u16,
        from: NodeId,
        (id, message): (u64, SyncMessage),
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let context = self.context(me, nodes, id);
        if let SyncMessage::Lock(LockMessage::Recall { to, .. }) = message
            && to.0 >= nodes
        {
            return Err(SyncError::Illegal(format!("a job of {nodes} nodes")));
        }
        let before = out.len();
        match message {
            SyncMessage::Lock(message) => {
                self.lock_step(context, |lock, context| lock.receive(context, from, message, out))
            }
            SyncMessage::Barrier(message) => self.barrier_step(context, from, message, out),
            SyncMessage::Semaphore(message) => with(
                &mut self.semaphores,
                &mut self.uses,
                context,
                |sem: &mut Semaphore, context| sem.receive(context, from, message, out),
            ),
            SyncMessage::Condition(message) => self.condition(&context, nodes, from, message, out),
            SyncMessage::ReadWrite(message) => {
                self.read_write_step(context, message.thread(), |lock, context| {
                    lock.receive(context, from, message, out)
                })
            }
        }?;
        if context.is_manager() || (from != me && message.goes_by_tree()) {
            self.uses.came(from, message);
            self.uses.answered(&out[before..]);
        }
        self.uses.check_peer(&context, from)
    }

    /// A step of a lock; counts idle tokens, and who holds what.
    fn lock_step(
        &mut self,
        context: SyncContext,
        step: impl FnOnce(&mut Lock, &SyncContext) -> Result<(), SyncError>,
    ) -> Result<(), SyncError> {
        let (idle, holds) = (&mut self.idle.here, &mut self.holds);
        with(&mut self.locks, &mut self.uses, context, |lock: &mut Lock, context| {
            let before = (lock.is_idle(context), lock.owner());
            let done = step(lock, context);
            *idle = *idle + u32::from(lock.is_idle(context)) - u32::from(before.0);
            change_holder(holds, before.1, lock.owner());
            done
        })
    }

    /// A step of a read-write lock, which changes what one thread holds at most.
    fn read_write_step(
        &mut self,
        context: SyncContext,
        thread: Option<ThreadId>,
        step: impl FnOnce(&mut ReadWrite, &SyncContext) -> Result<(), SyncError>,
    ) -> Result<(), SyncError> {
        let holds = &mut self.holds;
        with(&mut self.read_writes, &mut self.uses, context, |lock: &mut ReadWrite, context| {
            let holder = |lock: &ReadWrite| thread.filter(|&thread| lock.is_held_by(thread));
            let before = holder(lock);
            let done = step(lock, context);
            change_holder(holds, before, holder(lock));
            done
        })
    }

    /// Offers some of the idle tokens that are too many, each lock in its turn.
    fn offer_idle(&mut self, me: NodeId, nodes: u16, out: &mut Effects) {
        if self.idle.here <= self.idle.most {
            return;
        }
        let context = |id| SyncContext::new(me, nodes, id);
        let after = (Bound::Excluded(self.idle.offered), Bound::Unbounded);
        let locks = self.locks.range(after).chain(self.locks.range(..=self.idle.offered));
        let looked: SmallVec<[(u64, bool); LOOKS]> =
            locks.take(LOOKS).map(|(&id, lock)| (id, lock.is_idle(&context(id)))).collect();
        for (id, idle) in looked {
            self.idle.offered = id;
            if idle && let Some(lock) = self.locks.get_mut(&id) {
                lock.offer(&context(id), out);
                self.idle.here -= 1;
            }
            if self.idle.here <= self.idle.most {
                return;
            }
        }
    }
}

/// Who holds a lock has changed.
fn change_holder(
    holds: &mut SmallMap<ThreadId, u32>,
    before: Option<ThreadId>,
    after: Option<ThreadId>,
) {
    if before == after {
        return;
    }
    if let Some(thread) = before {
        holds.update(thread, |held| *held = held.saturating_sub(1));
    }
    if let Some(thread) = after {
        holds.update(thread, |held| *held += 1);
    }
}

/// Runs `step` on the state of an id and drops the state if it is back at rest.
fn with<T: SyncState>(
    table: &mut BTreeMap<u64, T>,
    uses: &mut QuotaPerNode,
    context: SyncContext,
    step: impl FnOnce(&mut T, &SyncContext) -> Result<(), SyncError>,
) -> Result<(), SyncError> {
    let mut user = None;
    let state = match table.entry(context.id) {
        Entry::Occupied(state) => {
            let state = state.into_mut();
            user = state.user(&context);
            state
        }
        Entry::Vacant(place) => place.insert(T::new(&context)),
    };
    let result = step(state, &context);
    if state.is_at_rest(&context) {
        uses.change(user, None);
        table.remove(&context.id);
    } else {
        uses.change(user, state.user(&context));
    }
    result
}
