//! Locks, barriers, semaphores and condition variables as calls that wait.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_protocol::Input;
use multigrain_protocol::sync::{SyncInput, SyncSite};
use multigrain_types::{NodeId, ThreadId};

use crate::boot::{LEAVING_BARRIER, Runtime};
use crate::error::Error;
use crate::slots::{self, Slot};
use crate::stepping;
use crate::tsan::{self, Token};

/// Threads of this node that have left barriers of the whole job.
#[derive(Debug, Default)]
pub(crate) struct Leavers(AtomicU64);

impl Leavers {
    /// One more leaves: whether it is the first of the `local` ones that leave together.
    fn is_first_of(&self, local: u32) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(local.into())
    }
}

impl Runtime {
    /// Waits until this thread holds lock `id`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if it holds the lock already; [`Error::Limit`] for one id too many.
    pub fn lock(&self, id: u32) -> Result<(), Error> {
        let (thread, slot) = self.my_slot()?;
        self.counters.locks.fetch_add(1, Ordering::Relaxed);
        if !self.synchronize(slot, SyncInput::Lock { thread, id })? {
            self.counters.lock_messages.fetch_add(1, Ordering::Relaxed);
        }
        tsan::take(Token::Lock(id));
        Ok(())
    }

    /// Gives lock `id` back.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold it.
    pub fn unlock(&self, id: u32) -> Result<(), Error> {
        let (thread, _) = self.my_slot()?;
        tsan::give(Token::Lock(id));
        self.end_epoch();
        let done = self.step(Input::Sync(SyncInput::Unlock { thread, id }));
        self.mesh.send_lazy();
        done
    }

    /// Waits until `total` threads of the job have come; 0 = every node's `threads`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] when threads disagree about the size.
    pub fn barrier(&self, id: u32, total: u32) -> Result<(), Error> {
        if id == LEAVING_BARRIER {
            return Err(Error::Invalid(format!("barrier {id} is the runtime's own")));
        }
        self.pass_barrier(id, total)
    }

    /// [`Runtime::barrier`] for any id.
    pub(crate) fn pass_barrier(&self, id: u32, total: u32) -> Result<(), Error> {
        let (thread, slot) = self.my_slot()?;
        self.counters.barriers.fetch_add(1, Ordering::Relaxed);
        let (local, total) = match total {
            0 => (self.threads, self.threads.saturating_mul(self.nodes.into())),
            total => (0, total),
        };
        tsan::give(Token::Barrier(id));
        self.end_epoch();
        let quiescent = self.may_be_quiescent(local);
        self.synchronize(slot, SyncInput::Barrier { thread, id, local, total, quiescent })?;
        tsan::take(Token::Barrier(id));
        slot.scan.forget();
        // Of the threads that left together, one looks ahead for the node.
        if local > 0 && self.left_barriers.is_first_of(local) {
            self.fetch_ahead();
        }
        Ok(())
    }

    /// Takes one unit of semaphore `id`.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub fn semaphore_wait(&self, id: u32) -> Result<(), Error> {
        let (thread, slot) = self.my_slot()?;
        self.synchronize(slot, SyncInput::SemaphoreWait { thread, id })?;
        tsan::take(Token::Semaphore(id));
        Ok(())
    }

    /// Adds units to semaphore `id`. Waits only where much waits already for its manager to take.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads or ids in use.
    pub fn semaphore_post(&self, id: u32, count: u32) -> Result<(), Error> {
        tsan::give(Token::Semaphore(id));
        self.end_epoch();
        let post = SyncInput::SemaphorePost { id, count };
        self.step(Input::Sync(post))?;
        self.relieve(self.manager_of(id))
    }

    /// Gives `lock` back, waits for a signal on condition `id`, takes `lock` again.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold the lock.
    pub fn condition_wait(&self, id: u32, lock: u32) -> Result<(), Error> {
        let (thread, slot) = self.my_slot()?;
        tsan::give(Token::Lock(lock));
        self.end_epoch();
        self.synchronize(slot, SyncInput::ConditionWait { thread, id, lock })?;
        tsan::take(Token::Condition(id));
        tsan::take(Token::Lock(lock));
        Ok(())
    }

    /// Wakes one waiting thread of condition `id`, or all. Waits as [`Runtime::semaphore_post`] does.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub fn condition_signal(&self, id: u32, all: bool) -> Result<(), Error> {
        tsan::give(Token::Condition(id));
        let signal = SyncInput::ConditionSignal { id, all };
        self.step(Input::Sync(signal))?;
        self.relieve(self.manager_of(id))
    }

    fn manager_of(&self, id: u32) -> NodeId {
        SyncSite::new(self.me, self.nodes, id).manager
    }

    pub(crate) fn my_slot(&self) -> Result<(ThreadId, &'static Slot), Error> {
        stepping::forget();
        self.own_slot().ok_or_else(|| {
            Error::Limit(format!(
                "more than {} threads of one node use shared memory",
                slots::MAX_THREADS
            ))
        })
    }

    /// Asks and waits; true if there was nothing to wait for.
    fn synchronize(&self, slot: &Slot, input: SyncInput) -> Result<bool, Error> {
        slot.arm();
        self.step(Input::Sync(input))?;
        let at_once = slot.word.is_woken_at_once();
        if at_once {
            // No message took the last acks along, and the program may now compute for long.
            self.mesh.send_lazy();
        }
        self.wait_for(slot);
        Ok(at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_three_threads_one_looks_ahead_also_beyond_32_bits() {
        // A multiple of three just below 2^32.
        let leavers = Leavers(AtomicU64::new((1 << 32) - 4));
        for _ in 0..4 {
            let first = [(); 3].map(|()| leavers.is_first_of(3));
            assert_eq!(first, [true, false, false]);
        }
    }
}
