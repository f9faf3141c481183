//! What threads ask of the synchronization engines, and the engine that works with another: conditions, whose
//! waiters give locks up and take them again.

use multigrain_types::sync_id::IdName;
use multigrain_types::{NodeId, ThreadId};

use super::super::barrier::Arrival;
use super::super::condition::Condition;
use super::super::context::SyncContext;
use super::super::input::{SyncError, SyncInput, Withdrawable};
use super::super::lock::{Lock, Returns, WaitLimit};
use super::super::read_write::ReadWrite;
use super::super::semaphore::Semaphore;
use super::{SyncTables, with};
use crate::effect::{Effect, Effects};
use crate::message::{ConditionMessage, SemaphoreMessage};
use crate::mutant_macro::mutant;

impl SyncTables {
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
        let fan = self.here.fan;
        let at = |id| SyncContext::new(me, nodes, id).with_fan(fan);
        match *input {
            SyncInput::Begin { thread } => {
                self.here.threads += 1;
                self.begin(me, nodes, thread, out);
                Ok(())
            }
            SyncInput::End { thread } => {
                self.here.threads = self.here.threads.saturating_sub(1);
                self.abandon(thread);
                Ok(())
            }
            SyncInput::Pause { .. } => {
                self.here.threads = self.here.threads.saturating_sub(1);
                Ok(())
            }
            SyncInput::Lock { thread, id } => self.acquire(at(id), thread, WaitLimit::Endless, out),
            SyncInput::TimedLock { thread, id } => {
                self.acquire(at(id), thread, WaitLimit::Limited, out)
            }
            SyncInput::TryLock { thread, id } => self.acquire(at(id), thread, WaitLimit::None, out),
            SyncInput::Unlock { thread, id } => {
                self.unlock(at(id), (thread, Returns::Unlikely), out)
            }
            SyncInput::UnlockToReacquire { thread, id, at_once } => {
                let returns = if at_once { Returns::AtOnce } else { Returns::Soon };
                self.unlock(at(id), (thread, returns), out)
            }
            SyncInput::LockWindowOver { id } => self.lock_step(at(id), |lock, context| {
                lock.end_window(context, out);
                Ok(())
            }),
            SyncInput::Barrier { thread, id, local, total, quiescent } => {
                let total =
                    mutant!("barrier-opens-early": total - u32::from(total > 1), else total);
                let arrival = Arrival { local, total, quiescent, threads: self.here.threads };
                self.arrive(at(id), thread, arrival, out)
            }
            SyncInput::Collective { thread, id, local, total, quiescent, ref operand } => {
                let arrival = Arrival { local, total, quiescent, threads: self.here.threads };
                self.collect(at(id), thread, (arrival, operand), out)
            }
            SyncInput::SemaphoreWait { thread, id } => with(
                &mut self.semaphores,
                &mut self.uses,
                at(id),
                |sem: &mut Semaphore, context| sem.wait(context, thread, false, out),
            ),
            SyncInput::SemaphoreTry { thread, id } => with(
                &mut self.semaphores,
                &mut self.uses,
                at(id),
                |sem: &mut Semaphore, context| sem.wait(context, thread, true, out),
            ),
            SyncInput::SemaphorePost { id, count } => {
                if at(id).is_manager() && !self.semaphores.contains_key(&id) {
                    self.uses.check_own(me)?;
                }
                let count = mutant!("post-counts-twice": count * 2, else count);
                at(id).send(at(id).manager, SemaphoreMessage::Post { count }.about(id), out);
                Ok(())
            }
            SyncInput::ConditionWait { thread, id, lock } => {
                if self.locks.get(&lock).and_then(Lock::owner) != Some(thread) {
                    return Err(SyncError::Misuse(format!(
                        "wait on condition {} without holding lock {}",
                        IdName(id),
                        IdName(lock)
                    )));
                }
                with(&mut self.conditions, &mut self.uses, at(id), |it: &mut Condition, context| {
                    it.wait(context, thread, lock, out)
                })
            }
            SyncInput::ConditionSignal { id, all } => {
                let all = mutant!("broadcast-wakes-one": false, else all);
                at(id).send(at(id).manager, ConditionMessage::Signal { all }.about(id), out);
                Ok(())
            }
            SyncInput::ReadWriteLock { thread, id, kind, tries } => {
                if !self.read_writes.contains_key(&id) {
                    self.uses.check_own(me)?;
                }
                self.read_write_step(at(id), Some(thread), |lock, context| {
                    lock.acquire(context, thread, (kind, tries), out)
                })
            }
            SyncInput::ReadWriteUnlock { thread, id } => {
                self.read_write_step(at(id), Some(thread), |lock, context| {
                    lock.release(context, thread, out)
                })
            }
            SyncInput::Withdraw { thread, from } => self.withdraw(me, nodes, thread, from, out),
        }
    }

    fn acquire(
        &mut self,
        context: SyncContext,
        thread: ThreadId,
        limit: WaitLimit,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        if !self.locks.contains_key(&context.id) {
            self.uses.check_own(context.me)?;
        }
        self.lock_step(context, |lock, context| lock.acquire(context, thread, limit, out))
    }

    fn unlock(
        &mut self,
        context: SyncContext,
        (thread, returns): (ThreadId, Returns),
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.lock_step(context, |lock, context| lock.release(context, (thread, returns), out))?;
        mutant!("lock-waiters-forgotten" => {
            let requests = [false, true].map(|tell| {
                crate::message::LockMessage::Request { tell }.about(context.id)
            });
            out.retain(|effect| {
                !matches!(effect, Effect::Send { message, .. } if requests.contains(message))
            });
        });
        mutant!("handover-sleeps" => {
            out.retain(|effect| !matches!(effect, Effect::Wake { .. }));
        });
        self.offer_idle(context.me, context.nodes, out);
        Ok(())
    }

    fn withdraw(
        &mut self,
        me: NodeId,
        nodes: u16,
        thread: ThreadId,
        from: Withdrawable,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let at = |id| SyncContext::new(me, nodes, id);
        match from {
            Withdrawable::Lock(id) => self.lock_step(at(id), |lock, context| {
                lock.withdraw(context, thread, out);
                Ok(())
            }),
            Withdrawable::Semaphore(id) => with(
                &mut self.semaphores,
                &mut self.uses,
                at(id),
                |sem: &mut Semaphore, context| {
                    sem.withdraw(context, thread, out);
                    Ok(())
                },
            ),
            Withdrawable::Condition(id) => {
                with(&mut self.conditions, &mut self.uses, at(id), |it: &mut Condition, context| {
                    it.withdraw(context, thread, out);
                    Ok(())
                })
            }
        }
    }

    /// A thread has ended: nobody else may unlock what it holds.
    fn abandon(&mut self, thread: ThreadId) {
        if self.holds.get(thread) > 0 {
            self.holds.update(thread, |held| *held = 0);
            self.locks.values_mut().for_each(|lock| lock.abandon(thread));
            self.read_writes.values_mut().for_each(|lock| lock.abandon(thread));
            self.read_writes.retain(|_, lock| *lock != ReadWrite::default());
        }
    }

    /// One message about a condition, whose waiters give their locks up and take them again.
    pub(super) fn condition(
        &mut self,
        context: &SyncContext,
        nodes: u16,
        from: NodeId,
        message: ConditionMessage,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        let mut lock = None;
        with(&mut self.conditions, &mut self.uses, *context, |it: &mut Condition, context| {
            lock = receive(it, context, from, message, out)?;
            Ok(())
        })?;
        match (message, lock) {
            // Only now may the lock go: a signal sent under it comes after us in the queue.
            (ConditionMessage::Queued { thread }, Some(id)) => {
                self.ask(context.me, nodes, &SyncInput::Unlock { thread, id }, out)
            }
            (ConditionMessage::Wake { thread }, Some(id)) => {
                mutant!("condition-without-lock" => {
                    out.push(Effect::Wake { thread });
                    return Ok(());
                });
                self.take_again(SyncContext::new(context.me, nodes, id), thread, out)
            }
            (ConditionMessage::Refused { thread }, Some(id)) => {
                out.push(Effect::Refuse { thread });
                self.take_again(SyncContext::new(context.me, nodes, id), thread, out)
            }
            (
                ConditionMessage::Enqueue { .. }
                | ConditionMessage::Withdraw { .. }
                | ConditionMessage::Signal { .. },
                _,
            )
            | (
                ConditionMessage::Queued { .. }
                | ConditionMessage::Wake { .. }
                | ConditionMessage::Refused { .. },
                None,
            ) => Ok(()),
        }
    }

    fn take_again(
        &mut self,
        context: SyncContext,
        thread: ThreadId,
        out: &mut Effects,
    ) -> Result<(), SyncError> {
        self.lock_step(context, |lock, context| {
            lock.acquire(context, thread, WaitLimit::Endless, out)
        })
    }
}

/// A condition takes a message; the lock that its waiter has to give up or to take again, if it has.
fn receive(
    condition: &mut Condition,
    context: &SyncContext,
    from: NodeId,
    message: ConditionMessage,
    out: &mut Effects,
) -> Result<Option<u64>, SyncError> {
    let (by_manager, to_manager) = (from == context.manager, context.is_manager());
    let lock = match message {
        ConditionMessage::Enqueue { thread } if to_manager => {
            condition.enqueue(context, (from, thread), out);
            return Ok(None);
        }
        ConditionMessage::Withdraw { thread } if to_manager => {
            condition.dequeue(context, (from, thread), out);
            return Ok(None);
        }
        ConditionMessage::Signal { all } if to_manager => {
            condition.signal(context, all, out);
            return Ok(None);
        }
        ConditionMessage::Queued { thread } if by_manager => condition.queued(context, thread, out),
        ConditionMessage::Wake { thread } | ConditionMessage::Refused { thread } if by_manager => {
            condition.woken(thread)
        }
        ConditionMessage::Enqueue { .. }
        | ConditionMessage::Withdraw { .. }
        | ConditionMessage::Signal { .. }
        | ConditionMessage::Queued { .. }
        | ConditionMessage::Wake { .. }
        | ConditionMessage::Refused { .. } => None,
    };
    // A waiter has a lock: nobody waits for this.
    lock.map(Some).ok_or_else(|| SyncError::Illegal(format!("{message:?} was not asked for")))
}
