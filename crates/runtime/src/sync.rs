//! Locks, barriers, semaphores and condition variables as calls that wait.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_protocol::Input;
use multigrain_protocol::sync::{SyncInput, SyncSite};
use multigrain_types::{NodeId, ThreadId};

use crate::driver::{Driver, Wait};
use crate::error::Error;
use crate::receiver::slots::Slot;
use crate::stats::Count;
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

/// The barrier every node passes before it leaves; programs are refused this id.
pub(crate) const LEAVING_BARRIER: u32 = u32::MAX;

/// Synchronization of a node: what threads of the whole job agree on is the engines'.
#[derive(Debug)]
pub(crate) struct Synchronization {
    /// Threads each node is meant to run.
    threads: u32,
    left_barriers: Leavers,
}

/// A barrier that a thread has passed.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) thread: ThreadId,
    pub(crate) slot: &'static Slot,
    /// It is the first of this node's threads to pass a barrier of the whole job.
    pub(crate) first: bool,
}

impl Synchronization {
    pub(crate) fn new(threads: u32) -> Self {
        Self { threads, left_barriers: Leavers::default() }
    }

    /// Threads each node is meant to run.
    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }

    /// Waits until this thread holds lock `id`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if it holds the lock already; [`Error::Limit`] for one id too many.
    pub(crate) fn lock(&self, driver: &Driver, id: u32) -> Result<(), Error> {
        let (thread, slot) = driver.my_slot()?;
        driver.counters().add(Count::Locks, 1);
        if !synchronize(driver, slot, SyncInput::Lock { thread, id }, Wait::Lock)? {
            driver.counters().add(Count::LockMessages, 1);
        }
        tsan::take(Token::Lock(id));
        Ok(())
    }

    /// Gives lock `id` back.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold it.
    pub(crate) fn unlock(&self, driver: &Driver, id: u32) -> Result<(), Error> {
        let (thread, _) = driver.my_slot()?;
        tsan::give(Token::Lock(id));
        driver.end_epoch();
        let done = driver.step(Input::Sync(SyncInput::Unlock { thread, id }));
        driver.mesh().flush_deferred();
        done
    }

    /// Waits until `total` threads of the job have come; 0 = every node's `threads`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] when threads disagree about the size.
    pub(crate) fn barrier(&self, driver: &Driver, id: u32, total: u32) -> Result<Passed, Error> {
        let (thread, slot) = driver.my_slot()?;
        let wait = if id == LEAVING_BARRIER { Wait::Leaving } else { Wait::Barrier };
        if wait == Wait::Barrier {
            driver.counters().add(Count::Barriers, 1);
        }
        let (local, total) = match total {
            0 => (self.threads, self.threads.saturating_mul(driver.nodes().into())),
            total => (0, total),
        };
        tsan::give(Token::Barrier(id));
        driver.end_epoch();
        let quiescent = driver.may_be_quiescent(local);
        let arrive = SyncInput::Barrier { thread, id, local, total, quiescent };
        synchronize(driver, slot, arrive, wait)?;
        tsan::take(Token::Barrier(id));
        let first = local > 0 && self.left_barriers.is_first_of(local);
        Ok(Passed { thread, slot, first })
    }

    /// Takes one unit of semaphore `id`.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub(crate) fn semaphore_wait(&self, driver: &Driver, id: u32) -> Result<(), Error> {
        let (thread, slot) = driver.my_slot()?;
        synchronize(driver, slot, SyncInput::SemaphoreWait { thread, id }, Wait::Other)?;
        tsan::take(Token::Semaphore(id));
        Ok(())
    }

    /// Adds units to semaphore `id`. Waits only where much waits already for its manager to take.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads or ids in use.
    pub(crate) fn semaphore_post(&self, driver: &Driver, id: u32, count: u32) -> Result<(), Error> {
        tsan::give(Token::Semaphore(id));
        driver.end_epoch();
        let post = SyncInput::SemaphorePost { id, count };
        driver.step(Input::Sync(post))?;
        driver.relieve(manager_of(driver, id))
    }

    /// Gives `lock` back, waits for a signal on condition `id`, takes `lock` again.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold the lock.
    pub(crate) fn condition_wait(&self, driver: &Driver, id: u32, lock: u32) -> Result<(), Error> {
        let (thread, slot) = driver.my_slot()?;
        tsan::give(Token::Lock(lock));
        driver.end_epoch();
        synchronize(driver, slot, SyncInput::ConditionWait { thread, id, lock }, Wait::Other)?;
        tsan::take(Token::Condition(id));
        tsan::take(Token::Lock(lock));
        Ok(())
    }

    /// Wakes one waiting thread of condition `id`, or all. Waits as [`Synchronization::semaphore_post`] does.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub(crate) fn condition_signal(
        &self,
        driver: &Driver,
        id: u32,
        all: bool,
    ) -> Result<(), Error> {
        tsan::give(Token::Condition(id));
        let signal = SyncInput::ConditionSignal { id, all };
        driver.step(Input::Sync(signal))?;
        driver.relieve(manager_of(driver, id))
    }
}

fn manager_of(driver: &Driver, id: u32) -> NodeId {
    SyncSite::new(driver.me(), driver.nodes(), id).manager
}

/// Asks and waits; true if there was nothing to wait for.
fn synchronize(driver: &Driver, slot: &Slot, input: SyncInput, wait: Wait) -> Result<bool, Error> {
    slot.arm();
    driver.step(Input::Sync(input))?;
    let at_once = slot.word.is_woken_at_once();
    if at_once {
        // No message took the last acks along, and the program may now compute for long.
        driver.mesh().flush_deferred();
    }
    driver.wait_for(slot, wait);
    Ok(at_once)
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
