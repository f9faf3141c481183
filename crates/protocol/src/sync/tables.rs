//! All synchronization states of a node: routes requests and messages to the engine of their id, drops
//! what is back at rest, and bounds the rest.

use core::ops::Bound;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use multigrain_types::{NodeId, ThreadId};
use smallvec::SmallVec;

use super::barrier::{Barrier, Party};
use super::condition::Condition;
use super::input::{SyncError, SyncInput};
use super::lock::Lock;
use super::semaphore::Semaphore;
use super::site::{SyncSite, SyncState};
use super::uses::Uses;
use crate::bend::mutant;
use crate::effect::{Effect, Effects};
use crate::message::{ConditionMessage, LockMessage, SemaphoreMessage, SyncMessage};

/// Idle tokens that a node keeps, to take the locks again without a message.
pub const IDLE_TOKENS: u32 = 1 << 16;
/// States that are looked at for idle tokens when there are too many.
const LOOKS: usize = 64;

/// All synchronization state of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncTables {
    locks: BTreeMap<u32, Lock>,
    barriers: BTreeMap<u32, Barrier>,
    semaphores: BTreeMap<u32, Semaphore>,
    conditions: BTreeMap<u32, Condition>,
    /// Threads of this node that have begun and not ended.
    threads: u32,
    uses: Uses,
    /// Idle tokens here, how many may be, and the lock after which the search for more to offer goes on.
    idle: u32,
    keep: u32,
    offered: u32,
}

impl Default for SyncTables {
    fn default() -> Self {
        Self {
            locks: BTreeMap::new(),
            barriers: BTreeMap::new(),
            semaphores: BTreeMap::new(),
            conditions: BTreeMap::new(),
            threads: 0,
            uses: Uses::default(),
            idle: 0,
            keep: IDLE_TOKENS,
            offered: 0,
        }
    }
}

impl SyncTables {
    /// No id is in use, and so many threads have begun.
    #[must_use]
    pub fn with_threads(threads: u32) -> Self {
        Self { threads, ..Self::default() }
    }

    /// The same, of a node that keeps so many idle tokens.
    #[must_use]
    pub fn with_idle_tokens(self, keep: u32) -> Self {
        Self { keep, ..self }
    }

    /// Ids whose states this node keeps.
    #[must_use]
    pub fn ids(&self) -> usize {
        self.locks.len() + self.barriers.len() + self.semaphores.len() + self.conditions.len()
    }

    /// Whether every id rests in its first state.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.locks.is_empty()
            && self.barriers.is_empty()
            && self.semaphores.is_empty()
            && self.conditions.is_empty()
    }

    /// Whether nobody holds, waits or is expected: what is left are tokens of free locks.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.barriers.is_empty()
            && self.semaphores.is_empty()
            && self.conditions.is_empty()
            && self.locks.values().all(Lock::is_unused)
    }

    /// The lock's state on this node, if it is not at rest.
    #[must_use]
    pub fn lock(&self, id: u32) -> Option<&Lock> {
        self.locks.get(&id)
    }

    /// Locks that threads of this node hold, in ascending order.
    pub fn owned_locks(&self) -> impl Iterator<Item = (u32, ThreadId)> + '_ {
        self.locks.iter().filter_map(|(&id, lock)| Some((id, lock.owner()?)))
    }

    /// Whether this node has declared to a barrier's manager that all its threads wait there.
    #[must_use]
    pub fn is_declared_quiescent(&self, id: u32) -> bool {
        self.barriers.get(&id).is_some_and(Barrier::is_declared_quiescent)
    }

    /// One request of a thread of this node.
    ///
    /// # Errors
    /// [`SyncError::Misuse`] when the program broke a rule; nothing was changed then.
    pub fn ask(
        &mut self,
        me: NodeId,
        nodes: u16,
        input: &SyncInput,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let site = |id| SyncSite::new(me, nodes, id);
        match *input {
            SyncInput::Begin { thread } => {
                self.threads += 1;
                self.begin(me, nodes, thread, out);
                Ok(())
            }
            SyncInput::End => {
                self.threads = self.threads.saturating_sub(1);
                Ok(())
            }
            SyncInput::Lock { thread, id } => {
                if !self.locks.contains_key(&id) {
                    self.uses.check_own(me)?;
                }
                self.lock_step(site(id), |lock, site| lock.acquire(site, thread, out))
            }
            SyncInput::Unlock { thread, id } => {
                self.lock_step(site(id), |lock, site| lock.release(site, thread, out))?;
                mutant!("lock-waiters-forgotten" => {
                    let request = LockMessage::Request.about(id);
                    out.retain(|effect| {
                        !matches!(effect, Effect::Send { message, .. } if *message == request)
                    });
                });
                mutant!("handover-sleeps" => {
                    out.retain(|effect| !matches!(effect, Effect::Wake { .. }));
                });
                self.offer_idle(me, nodes, out);
                Ok(())
            }
            SyncInput::Barrier { thread, id, local, total, quiescent } => {
                let total =
                    mutant!("barrier-opens-early": total - u32::from(total > 1), else total);
                let party = Party { local, total, quiescent, threads: self.threads };
                with(&mut self.barriers, &mut self.uses, site(id), |barrier: &mut Barrier, site| {
                    barrier.arrive(site, thread, party, out)
                })
            }
            SyncInput::SemaphoreWait { thread, id } => {
                with(&mut self.semaphores, &mut self.uses, site(id), |sem: &mut Semaphore, site| {
                    sem.wait(site, thread, out)
                })
            }
            SyncInput::SemaphorePost { id, count } => {
                if site(id).is_manager() && !self.semaphores.contains_key(&id) {
                    self.uses.check_own(me)?;
                }
                let count = mutant!("post-counts-twice": count * 2, else count);
                site(id).send(site(id).manager, SemaphoreMessage::Post { count }.about(id), out);
                Ok(())
            }
            SyncInput::ConditionWait { thread, id, lock } => {
                if self.locks.get(&lock).and_then(Lock::owner) != Some(thread) {
                    return Err(SyncError::Misuse(format!(
                        "wait on condition {id} without holding lock {lock}"
                    )));
                }
                with(&mut self.conditions, &mut self.uses, site(id), |it: &mut Condition, site| {
                    it.wait(site, thread, lock, out)
                })
            }
            SyncInput::ConditionSignal { id, all } => {
                let all = mutant!("broadcast-wakes-one": false, else all);
                site(id).send(site(id).manager, ConditionMessage::Signal { all }.about(id), out);
                Ok(())
            }
        }
    }

    /// A thread runs at once, unless this node has declared that it is quiescent.
    fn begin(&mut self, me: NodeId, nodes: u16, thread: ThreadId, out: &mut Effects) {
        // All its threads wait in one barrier, so there is no other.
        let mut declared = self.barriers.iter_mut();
        let declared = declared.find(|(_, barrier)| barrier.is_declared_quiescent());
        let quiescent = mutant!("begin-without-retract": None, else declared);
        match quiescent {
            Some((&id, barrier)) => barrier.begin(&SyncSite::new(me, nodes, id), thread, out),
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
        (id, message): (u32, SyncMessage),
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let site = SyncSite::new(me, nodes, id);
        if let SyncMessage::Lock(LockMessage::Recall { to }) = message
            && to.0 >= nodes
        {
            return Err(SyncError::Illegal(format!("a job of {nodes} nodes")));
        }
        let before = out.len();
        match message {
            SyncMessage::Lock(message) => {
                self.lock_step(site, |lock, site| lock.receive(site, from, message, out))
            }
            SyncMessage::Barrier(message) => {
                with(&mut self.barriers, &mut self.uses, site, |barrier: &mut Barrier, site| {
                    barrier.receive(site, from, message, out)
                })
            }
            SyncMessage::Semaphore(message) => {
                with(&mut self.semaphores, &mut self.uses, site, |sem: &mut Semaphore, site| {
                    sem.receive(site, from, message, out)
                })
            }
            SyncMessage::Condition(message) => self.condition(&site, nodes, from, message, out),
        }?;
        if site.is_manager() {
            self.uses.came(from, message);
            self.uses.answered(&out[before..]);
        }
        self.uses.check_peer(&site, from)
    }

    /// A step of a lock; counts idle tokens.
    fn lock_step(
        &mut self,
        site: SyncSite,
        step: impl FnOnce(&mut Lock, &SyncSite) -> Result<(), SyncError>,
    ) -> Result<(), SyncError> {
        let idle = &mut self.idle;
        with(&mut self.locks, &mut self.uses, site, |lock: &mut Lock, site| {
            let before = lock.is_idle(site);
            let done = step(lock, site);
            *idle = *idle + u32::from(lock.is_idle(site)) - u32::from(before);
            done
        })
    }

    /// Offers some of the idle tokens that are too many, each lock in its turn.
    fn offer_idle(&mut self, me: NodeId, nodes: u16, out: &mut Effects) {
        if self.idle <= self.keep {
            return;
        }
        let site = |id| SyncSite::new(me, nodes, id);
        let after = (Bound::Excluded(self.offered), Bound::Unbounded);
        let locks = self.locks.range(after).chain(self.locks.range(..=self.offered));
        let looked: SmallVec<[(u32, bool); LOOKS]> =
            locks.take(LOOKS).map(|(&id, lock)| (id, lock.is_idle(&site(id)))).collect();
        for (id, idle) in looked {
            self.offered = id;
            if idle && let Some(lock) = self.locks.get_mut(&id) {
                lock.offer(&site(id), out);
                self.idle -= 1;
            }
            if self.idle <= self.keep {
                return;
            }
        }
    }

    fn condition(
        &mut self,
        site: &SyncSite,
        nodes: u16,
        from: NodeId,
        message: ConditionMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let mut waiter = None;
        with(&mut self.conditions, &mut self.uses, *site, |condition: &mut Condition, site| {
            let asked = match message {
                ConditionMessage::Enqueue => {
                    condition.enqueue(site, from, out);
                    site.is_manager()
                }
                ConditionMessage::Signal { all } => {
                    condition.signal(site, all, out);
                    site.is_manager()
                }
                ConditionMessage::Queued => {
                    waiter = condition.queued();
                    waiter.is_some() && from == site.manager
                }
                ConditionMessage::Wake => {
                    waiter = condition.woken();
                    waiter.is_some() && from == site.manager
                }
            };
            if asked {
                Ok(())
            } else {
                Err(SyncError::Illegal(format!("{message:?} was not asked for")))
            }
        })?;
        match (message, waiter) {
            // Only now may the lock go: a signal sent under it comes after us in the queue.
            (ConditionMessage::Queued, Some((thread, id))) => {
                self.ask(site.me, nodes, &SyncInput::Unlock { thread, id }, out)
            }
            (ConditionMessage::Wake, Some((thread, id))) => {
                mutant!("condition-without-lock" => {
                    out.push(Effect::Wake { thread });
                    return Ok(());
                });
                let site = SyncSite::new(site.me, nodes, id);
                self.lock_step(site, |lock, site| lock.acquire(site, thread, out))
            }
            (ConditionMessage::Enqueue | ConditionMessage::Signal { .. }, _)
            | (ConditionMessage::Queued | ConditionMessage::Wake, None) => Ok(()),
        }
    }
}

/// Runs `step` on the state of an id and drops the state if it is back at rest.
fn with<T: SyncState>(
    table: &mut BTreeMap<u32, T>,
    uses: &mut Uses,
    site: SyncSite,
    step: impl FnOnce(&mut T, &SyncSite) -> Result<(), SyncError>,
) -> Result<(), SyncError> {
    let mut user = None;
    let state = match table.entry(site.id) {
        Entry::Occupied(state) => {
            let state = state.into_mut();
            user = state.user(&site);
            state
        }
        Entry::Vacant(place) => place.insert(T::new(&site)),
    };
    let result = step(state, &site);
    if *state == T::new(&site) {
        uses.change(user, None);
        table.remove(&site.id);
    } else {
        uses.change(user, state.user(&site));
    }
    result
}
