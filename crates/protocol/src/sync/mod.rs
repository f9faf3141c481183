//! Synchronization engines: locks, barriers, counting semaphores, condition variables.
//!
//! Ids are any 32-bit numbers; an id is managed by node `id mod nodes`. Each engine has two roles
//! in one struct: the manager's, used on the managing node alone, and the node's own. States equal
//! to the first state are dropped from the tables, so ids cost nothing once they rest.

mod barrier;
mod condition;
mod lock;
mod semaphore;

use std::collections::BTreeMap;

pub use barrier::Barrier;
use barrier::Party;
pub use condition::Condition;
pub use lock::{LOCAL_HANDOVERS, Lock};
use multigrain_types::{NodeId, ThreadId};
pub use semaphore::Semaphore;

use crate::effect::{Effect, Effects};
use crate::message::{ConditionMessage, LockMessage, Message, SemaphoreMessage, SyncMessage};
#[cfg(feature = "mutants")]
use crate::mutants;

/// What a synchronization engine knows of its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct SyncSite {
    /// The node the engine runs on.
    pub me: NodeId,
    /// The synchronization id.
    pub id: u32,
    /// The node that manages it.
    pub manager: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
}

impl SyncSite {
    /// The site of `id` on node `me` of a job of `nodes` nodes.
    #[must_use]
    pub fn new(me: NodeId, nodes: u16, id: u32) -> Self {
        let rank = id % u32::from(nodes.max(1));
        Self { me, id, manager: NodeId(u16::try_from(rank).unwrap_or(0)), nodes }
    }

    fn send(&self, to: NodeId, message: Message, out: &mut Effects) {
        debug_assert!(matches!(message, Message::Sync { id, .. } if id == self.id));
        out.push(Effect::Send { to, message });
    }

    /// Whether this node manages the id.
    #[must_use]
    pub fn is_manager(&self) -> bool {
        self.me == self.manager
    }
}

/// Why a synchronization input is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncError {
    /// The calling program is wrong: unlock without lock, barriers of unlike size.
    Misuse(String),
    /// No correct peer can have sent this now.
    Illegal(String),
}

/// All synchronization state of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SyncTables {
    locks: BTreeMap<u32, Lock>,
    barriers: BTreeMap<u32, Barrier>,
    semaphores: BTreeMap<u32, Semaphore>,
    conditions: BTreeMap<u32, Condition>,
    /// Threads of this node that have begun and not ended.
    threads: u32,
}

/// What threads ask of the synchronization engines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are ids and counts in the caller's words")]
pub enum SyncInput {
    /// A thread begins on this node; it runs when it is woken. `thread` waits for that, and need not be
    /// the one that begins.
    Begin {
        thread: ThreadId,
    },
    /// A thread of this node has ended.
    End,
    Lock {
        thread: ThreadId,
        id: u32,
    },
    Unlock {
        thread: ThreadId,
        id: u32,
    },
    /// `local` threads of this node come together and are announced in one message; 0 announces
    /// each thread alone. `total` threads of the job make the episode complete. `quiet`: homes may
    /// move if all threads of the node wait; it is said only if every thread that can write has begun
    /// ([`SyncInput::Begin`]), or its first write would trap.
    Barrier {
        thread: ThreadId,
        id: u32,
        local: u32,
        total: u32,
        quiet: bool,
    },
    SemaphoreWait {
        thread: ThreadId,
        id: u32,
    },
    SemaphorePost {
        id: u32,
        count: u32,
    },
    /// The caller holds `lock`.
    ConditionWait {
        thread: ThreadId,
        id: u32,
        lock: u32,
    },
    ConditionSignal {
        id: u32,
        all: bool,
    },
}

impl SyncTables {
    /// No id is in use, and so many threads have begun.
    #[must_use]
    pub fn with_threads(threads: u32) -> Self {
        Self { threads, ..Self::default() }
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
                with(&mut self.locks, site(id), Lock::new, |lock, site| {
                    lock.acquire(site, thread, out)
                })
            }
            SyncInput::Unlock { thread, id } => {
                with(&mut self.locks, site(id), Lock::new, |lock, site| {
                    lock.release(site, thread, out)
                })
            }
            SyncInput::Barrier { thread, id, local, total, quiet } => {
                let party = Party { local, total, quiet, threads: self.threads };
                with(&mut self.barriers, site(id), Barrier::new, |barrier, site| {
                    barrier.arrive(site, thread, party, out)
                })
            }
            SyncInput::SemaphoreWait { thread, id } => {
                with(&mut self.semaphores, site(id), Semaphore::new, |sem, site| {
                    sem.wait(site, thread, out)
                })
            }
            SyncInput::SemaphorePost { id, count } => {
                site(id).send(site(id).manager, SemaphoreMessage::Post { count }.about(id), out);
                Ok(())
            }
            SyncInput::ConditionWait { thread, id, lock } => {
                if self.locks.get(&lock).and_then(Lock::owner) != Some(thread) {
                    return Err(SyncError::Misuse(format!(
                        "wait on condition {id} without holding lock {lock}"
                    )));
                }
                with(&mut self.conditions, site(id), Condition::new, |condition, site| {
                    condition.wait(site, thread, lock, out)
                })
            }
            SyncInput::ConditionSignal { id, all } => {
                site(id).send(site(id).manager, ConditionMessage::Signal { all }.about(id), out);
                Ok(())
            }
        }
    }

    /// A thread runs at once, unless this node has said that nothing runs here.
    fn begin(&mut self, me: NodeId, nodes: u16, thread: ThreadId, out: &mut Effects) {
        // All its threads wait in one barrier, so there is no other.
        let quiet = self.barriers.iter_mut().find(|(_, barrier)| barrier.is_told_quiet());
        #[cfg(feature = "mutants")]
        let quiet = quiet.filter(|_| !mutants::on(mutants::Mutant::BeginsUnannounced));
        match quiet {
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
        match message {
            SyncMessage::Lock(message) => with(&mut self.locks, site, Lock::new, |lock, site| {
                lock.receive(site, from, message, out)
            }),
            SyncMessage::Barrier(message) => {
                with(&mut self.barriers, site, Barrier::new, |barrier, site| {
                    barrier.receive(site, from, message, out)
                })
            }
            SyncMessage::Semaphore(message) => {
                with(&mut self.semaphores, site, Semaphore::new, |sem, site| {
                    sem.receive(site, from, message, out)
                })
            }
            SyncMessage::Condition(message) => self.condition(&site, nodes, from, message, out),
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
        with(&mut self.conditions, *site, Condition::new, |condition, site| {
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
            #[cfg(feature = "mutants")]
            (ConditionMessage::Wake, Some((thread, _)))
                if mutants::on(mutants::Mutant::ConditionWithoutLock) =>
            {
                out.push(Effect::Wake { thread });
                Ok(())
            }
            (ConditionMessage::Wake, Some((thread, id))) => {
                self.ask(site.me, nodes, &SyncInput::Lock { thread, id }, out)
            }
            (ConditionMessage::Enqueue | ConditionMessage::Signal { .. }, _)
            | (ConditionMessage::Queued | ConditionMessage::Wake, None) => Ok(()),
        }
    }
}

/// Runs `step` on the state of an id and drops the state if it is back at rest.
fn with<T: PartialEq>(
    table: &mut BTreeMap<u32, T>,
    site: SyncSite,
    first: impl Fn(&SyncSite) -> T,
    step: impl FnOnce(&mut T, &SyncSite) -> Result<(), SyncError>,
) -> Result<(), SyncError> {
    let state = table.entry(site.id).or_insert_with(|| first(&site));
    let result = step(state, &site);
    if *state == first(&site) {
        table.remove(&site.id);
    }
    result
}
