//! Locks, barriers, semaphores, condition variables, read-write locks and `once`, as calls that wait.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::collections::BTreeSet;

use multigrain_protocol::sync::{ONCE, Operand, SyncContext, SyncInput, WHOLE, Withdrawable};
use multigrain_protocol::{Input, Kind};
use multigrain_types::deadlock::BlockingCall;
use multigrain_types::{NodeId, ThreadId};

use crate::deadlines::{Deadline, Deadlines};
use crate::deferred_posts::DeferredPosts;
use crate::driver::{Driver, WaitReason};
use crate::error::{Error, Unavailable};
use crate::receiver::critical_section;
use crate::receiver::slots::Slot;
use crate::shim::{Mutex, lock};
use crate::stats::Count;
use crate::time_windows::now_ns;
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
pub(crate) const LEAVING_BARRIER: u64 = u32::MAX as u64;

/// The id of a lock, barrier, semaphore, condition, read-write lock or once: a number, or an address of
/// shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncId(u64);

impl From<u32> for SyncId {
    fn from(number: u32) -> Self {
        Self(number.into())
    }
}

impl SyncId {
    /// An address that the caller knows to be shared.
    pub(crate) fn at(address: usize) -> Self {
        Self(address as u64)
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// How long a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitLimit {
    /// Until it has what it wants.
    Endless,
    /// Until then.
    Until(Deadline),
    /// Not at all.
    None,
}

/// # Errors
/// [`Error::Invalid`] if an id is the runtime's own.
pub(crate) fn of_program(what: &str, id: u64) -> Result<(), Error> {
    if id == LEAVING_BARRIER {
        return Err(Error::Invalid(format!("{what} {id} is the runtime's own: ids are below it")));
    }
    Ok(())
}

/// Synchronization of a node: what threads of the whole job agree on is the engines'.
#[derive(Debug)]
pub(crate) struct Synchronization {
    /// Threads each node is meant to run.
    threads: u32,
    left_barriers: Leavers,
    deadlines: Deadlines,
    /// Ids given out by this node.
    given: AtomicU32,
    /// What has run once, as far as this node knows.
    done: Mutex<BTreeSet<u64>>,
    pub(crate) deferred_posts: DeferredPosts,
}

/// A barrier that a thread has passed.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) thread: ThreadId,
    pub(crate) slot: &'static Slot,
    /// All threads of this node have met there, and this one fetches for all what the next interval needs.
    pub(crate) fetches: bool,
}

impl Synchronization {
    pub(crate) fn new(threads: u32) -> Self {
        Self {
            threads,
            left_barriers: Leavers::default(),
            deadlines: Deadlines::default(),
            given: AtomicU32::new(0),
            done: Mutex::default(),
            deferred_posts: DeferredPosts::default(),
        }
    }

    /// Threads each node is meant to run.
    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }

    /// An id that no other call in the job gives.
    ///
    /// # Errors
    /// [`Error::Limit`] when this node has given out all of its share.
    pub(crate) fn new_id(&self, driver: &Driver) -> Result<u32, Error> {
        let nodes = u32::from(driver.nodes());
        let share = (u32::MAX - FIRST_GIVEN) / nodes;
        let given = self.given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |given| {
            (given < share).then_some(given + 1)
        });
        let given = given.map_err(|_| {
            Error::Limit(format!("this node has given out {share} new ids, its share"))
        })?;
        Ok(FIRST_GIVEN + given * nodes + u32::from(driver.me().0))
    }

    /// Waits until this thread holds lock `id`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if it holds the lock already; [`Error::Limit`] for one id too many;
    /// [`Error::Busy`], [`Error::TimedOut`].
    pub(crate) fn lock(
        &'static self,
        driver: &'static Driver,
        id: u64,
        limit: WaitLimit,
    ) -> Result<(), Error> {
        of_program("lock", id)?;
        let (thread, slot) = driver.my_slot()?;
        count_call(driver, Count::Locks, id);
        let input = match limit {
            WaitLimit::Endless => SyncInput::Lock { thread, id },
            WaitLimit::Until(_) => SyncInput::TimedLock { thread, id },
            WaitLimit::None => SyncInput::TryLock { thread, id },
        };
        slot.reacquisition.before_lock(id, now_ns);
        let waited = self.wait(driver, (thread, slot), input, (limit, Withdrawable::Lock(id)))?;
        critical_section::lock();
        slot.reacquisition.after_lock(id, waited, critical_section::was_idle);
        if slot.reacquisition.follows(id) {
            critical_section::begin(waited);
        }
        tsan::take(Token::Lock(id));
        Ok(())
    }

    /// Gives lock `id` back.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold it.
    pub(crate) fn unlock(&self, driver: &Driver, id: u64) -> Result<(), Error> {
        of_program("lock", id)?;
        let (thread, slot) = driver.my_slot()?;
        tsan::give(Token::Lock(id));
        driver.end_epoch();
        critical_section::unlock();
        if critical_section::was_idle() && slot.reacquisition.looks(id) {
            driver.look_as_if_waiting();
        }
        let polls = slot.reacquisition.follows(id)
            && critical_section::end(|minipage| driver.platform().checksum(minipage));
        let done =
            match slot.reacquisition.expected(id, || driver.has_sleepers()).filter(|_| !polls) {
                Some(at_once) => driver.unlock_to_reacquire(slot, (thread, id), at_once),
                None => driver.tell(SyncInput::Unlock { thread, id }),
            };
        slot.reacquisition.after_unlock(id, now_ns);
        done
    }

    /// Waits until this thread has read-write lock `id`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if it has it to write, or has it and wants to write; [`Error::Limit`] for one
    /// id too many; [`Error::Busy`] if it `tries`.
    pub(crate) fn read_write_lock(
        &self,
        driver: &Driver,
        id: u64,
        (kind, tries): (Kind, bool),
    ) -> Result<(), Error> {
        of_program("read-write lock", id)?;
        let (thread, slot) = driver.my_slot()?;
        let counter = match kind {
            Kind::Read => Count::ReadLocks,
            Kind::Write => Count::WriteLocks,
        };
        count_call(driver, counter, id);
        let call = BlockingCall::ReadWriteLock(id);
        let wait = if tries { WaitReason::Other } else { WaitReason::At(call) };
        synchronize(driver, slot, SyncInput::ReadWriteLock { thread, id, kind, tries }, wait)?;
        if slot.is_refused() {
            return Err(Error::Busy(if driver.tables().owns_read_write_lock(thread, id) {
                Unavailable::OwnReadWriteLock(id)
            } else {
                Unavailable::ReadWriteLock(id)
            }));
        }
        tsan::take(Token::ReadWrite(id));
        Ok(())
    }

    /// Gives read-write lock `id` back.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not have it.
    pub(crate) fn read_write_unlock(&self, driver: &Driver, id: u64) -> Result<(), Error> {
        of_program("read-write lock", id)?;
        let (thread, _) = driver.my_slot()?;
        tsan::give(Token::ReadWrite(id));
        driver.end_epoch();
        driver.tell(SyncInput::ReadWriteUnlock { thread, id })
    }

    /// Runs `run` in the first thread of the job that comes with this id; returns when it has run.
    ///
    /// A unit of a semaphore says that it has. The holder of the lock takes the unit if there is one, else calls
    /// `run`, and posts the unit back before it unlocks. A post returns before the semaphore's manager has it,
    /// so two are posted and one is awaited: the one awaited proves that both are there.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] inside of `run`; [`Error::Limit`] for one id too many.
    pub(crate) fn once(
        &'static self,
        driver: &'static Driver,
        id: u64,
        run: impl FnOnce(),
    ) -> Result<(), Error> {
        of_program("once", id)?;
        let id = id | ONCE;
        if lock(&self.done).contains(&id) {
            tsan::take(Token::Lock(id));
            return Ok(());
        }
        self.lock(driver, id, WaitLimit::Endless)?;
        // Without it, whoever comes next would wait for ever.
        let unlock = OnReturn(|| _ = self.unlock(driver, id));
        match self.semaphore_wait(driver, id, WaitLimit::None) {
            Ok(()) => {}
            Err(Error::Busy(_)) => run(),
            Err(error) => return Err(error),
        }
        self.semaphore_post(driver, id, 2)?;
        self.semaphore_wait(driver, id, WaitLimit::Endless)?;
        lock(&self.done).insert(id);
        core::mem::forget(unlock);
        self.unlock(driver, id)
    }

    /// Waits until `total` threads of the job have come; 0 = every node's `threads`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] when threads disagree about the size.
    pub(crate) fn barrier(&self, driver: &Driver, id: u64, total: u32) -> Result<Passed, Error> {
        self.meet(driver, (id, total), None)
    }

    /// As [`Synchronization::barrier`], with what this thread contributes to a collective operation.
    pub(crate) fn meet(
        &self,
        driver: &Driver,
        (id, total): (u64, u32),
        operand: Option<Operand>,
    ) -> Result<Passed, Error> {
        let (thread, slot) = driver.my_slot()?;
        let of_program = id != LEAVING_BARRIER;
        if of_program {
            driver.counters().add(Count::Barriers, 1);
        }
        let (local, total) = match total {
            0 => (self.threads, self.threads.saturating_mul(driver.nodes().into())),
            // Each node comes once.
            total if id == LEAVING_BARRIER => (1, total),
            total => (0, total),
        };
        tsan::give(Token::Barrier(id));
        driver.end_epoch();
        let quiescent = of_program && driver.may_be_quiescent(local);
        // In a large job it is no barrier of some threads: all know who is to come.
        let id = if local > 0 { SyncContext::of_all(driver.nodes(), id) } else { id };
        slot.awaited().set_expected(total, id & WHOLE != 0);
        // Two that come at once may both find that the other has not: then none is the last, and nobody fetches ahead this time.
        let last = local == 0 && of_program && driver.tables().all_others_wait_at(id);
        let arrive = match operand {
            Some(operand) => {
                let operand = Box::new(operand);
                SyncInput::Collective { thread, id, local, total, quiescent, operand }
            }
            None => SyncInput::Barrier { thread, id, local, total, quiescent },
        };
        let call =
            if of_program { BlockingCall::Barrier(id & !WHOLE) } else { BlockingCall::Finalize };
        synchronize(driver, slot, arrive, WaitReason::At(call))?;
        tsan::take(Token::Barrier(id & !WHOLE));
        let fetches = match local {
            0 => last,
            local => of_program && self.left_barriers.is_first_of(local),
        };
        Ok(Passed { thread, slot, fetches })
    }

    /// Takes one unit of semaphore `id`.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads; [`Error::Busy`], [`Error::TimedOut`].
    pub(crate) fn semaphore_wait(
        &'static self,
        driver: &'static Driver,
        id: u64,
        limit: WaitLimit,
    ) -> Result<(), Error> {
        of_program("semaphore", id)?;
        let (thread, slot) = driver.my_slot()?;
        count_call(driver, Count::SemaphoreWaits, id);
        let input = match limit {
            WaitLimit::Endless | WaitLimit::Until(_) => SyncInput::SemaphoreWait { thread, id },
            WaitLimit::None => SyncInput::SemaphoreTry { thread, id },
        };
        self.wait(driver, (thread, slot), input, (limit, Withdrawable::Semaphore(id)))?;
        critical_section::take_unit();
        tsan::take(Token::Semaphore(id));
        Ok(())
    }

    /// [`Synchronization::semaphore_post`] by another thread, soon. Callable in a handler.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the id is the runtime's own; [`Error::Limit`] for too many of them that wait.
    pub(crate) fn post_later(&self, id: u64, count: u32) -> Result<(), Error> {
        if id == LEAVING_BARRIER {
            // Nothing is allocated for this text.
            return Err(Error::Invalid(String::new()));
        }
        self.deferred_posts.put(id, count)
    }

    /// A post that a handler has left.
    pub(crate) fn post_late(&self, driver: &Driver, id: u64, count: u32) {
        if let Err(error) = self.semaphore_post(driver, id, count) {
            driver.platform().launcher().warn(&format!("a post of a signal's handler: {error}"));
        }
    }

    /// Adds units to semaphore `id`. Waits only where much waits already for its manager to take.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads or ids in use.
    pub(crate) fn semaphore_post(&self, driver: &Driver, id: u64, count: u32) -> Result<(), Error> {
        of_program("semaphore", id)?;
        count_call(driver, Count::SemaphorePosts, id);
        tsan::give(Token::Semaphore(id));
        driver.end_epoch();
        critical_section::give_unit();
        let post = SyncInput::SemaphorePost { id, count };
        driver.step(Input::Sync(post))?;
        driver.apply_back_pressure(manager_of(driver, id))
    }

    /// Gives `lock` back, waits for a signal on condition `id`, takes `lock` again.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if this thread does not hold the lock; [`Error::TimedOut`], with the lock.
    pub(crate) fn condition_wait(
        &'static self,
        driver: &'static Driver,
        (id, lock): (u64, u64),
        deadline: Option<Deadline>,
    ) -> Result<(), Error> {
        of_program("condition", id)?;
        of_program("lock", lock)?;
        let (thread, slot) = driver.my_slot()?;
        count_call(driver, Count::ConditionWaits, id);
        tsan::give(Token::Lock(lock));
        driver.end_epoch();
        let input = SyncInput::ConditionWait { thread, id, lock };
        let limit = deadline.map_or(WaitLimit::Endless, WaitLimit::Until);
        let waited = self.wait(driver, (thread, slot), input, (limit, Withdrawable::Condition(id)));
        if waited.is_ok() {
            tsan::take(Token::Condition(id));
        }
        if matches!(waited, Ok(_) | Err(Error::TimedOut(_))) {
            tsan::take(Token::Lock(lock));
        }
        waited.map(|_| ())
    }

    /// Wakes one waiting thread of condition `id`, or all. Waits as [`Synchronization::semaphore_post`] does.
    ///
    /// # Errors
    /// [`Error::Limit`] when the node has too many threads.
    pub(crate) fn condition_signal(
        &self,
        driver: &Driver,
        id: u64,
        all: bool,
    ) -> Result<(), Error> {
        of_program("condition", id)?;
        count_call(driver, Count::ConditionSignals, id);
        tsan::give(Token::Condition(id));
        let signal = SyncInput::ConditionSignal { id, all };
        driver.step(Input::Sync(signal))?;
        driver.apply_back_pressure(manager_of(driver, id))
    }

    /// Asks and waits, as long as is wanted; false if what it asks for was here.
    fn wait(
        &'static self,
        driver: &'static Driver,
        (thread, slot): (ThreadId, &'static Slot),
        input: SyncInput,
        (limit, from): (WaitLimit, Withdrawable),
    ) -> Result<bool, Error> {
        driver.ask(slot, input)?;
        let waits = !slot.is_woken();
        if waits {
            self.wait_within(driver, (thread, slot), (limit, from))?;
        }
        driver.end_interval();
        if slot.is_refused() {
            return Err(refused(driver, thread, (limit, from)));
        }
        Ok(waits)
    }

    /// Waits until it has what it has asked for, or is refused.
    fn wait_within(
        &'static self,
        driver: &'static Driver,
        (thread, slot): (ThreadId, &'static Slot),
        (limit, from): (WaitLimit, Withdrawable),
    ) -> Result<(), Error> {
        let call = match from {
            Withdrawable::Lock(id) => BlockingCall::Lock(id),
            Withdrawable::Semaphore(id) => BlockingCall::Semaphore(id),
            // Its lock it takes again without a deadline.
            Withdrawable::Condition(id) => BlockingCall::Condition(id),
        };
        let deadline = match limit {
            WaitLimit::Endless => {
                driver.wait_for(slot, WaitReason::At(call));
                return Ok(());
            }
            WaitLimit::None => {
                driver.wait_for(slot, WaitReason::Other);
                return Ok(());
            }
            WaitLimit::Until(deadline) => deadline,
        };
        let added = self.deadlines.add(driver, thread, (deadline, from));
        if added.is_err() {
            // Nobody else would end the wait in time.
            driver.step(Input::Sync(SyncInput::Withdraw { thread, from }))?;
        }
        driver.wait_for(slot, WaitReason::Until(call));
        self.deadlines.remove(thread, deadline);
        if slot.is_refused() { added } else { Ok(()) }
    }
}

/// Why a thread that is refused did not get what it asked for.
fn refused(driver: &Driver, thread: ThreadId, (limit, from): (WaitLimit, Withdrawable)) -> Error {
    let what = unavailable(driver, thread, from);
    match limit {
        WaitLimit::None => Error::Busy(what),
        WaitLimit::Endless | WaitLimit::Until(_) => Error::TimedOut(what),
    }
}

/// What a thread did not get.
fn unavailable(driver: &Driver, thread: ThreadId, from: Withdrawable) -> Unavailable {
    match from {
        Withdrawable::Lock(id) if driver.tables().owns_lock(thread, id) => Unavailable::OwnLock(id),
        Withdrawable::Lock(id) => Unavailable::Lock(id),
        Withdrawable::Semaphore(id) => Unavailable::Semaphore(id),
        Withdrawable::Condition(id) => Unavailable::Signal(id),
    }
}

/// The first id that [`Synchronization::new_id`] gives.
const FIRST_GIVEN: u32 = 1 << 31;

fn manager_of(driver: &Driver, id: u64) -> NodeId {
    SyncContext::new(driver.me(), driver.nodes(), id).manager
}

/// Done where it is dropped: by an error, a panic, an exception of C++, or `pthread_exit`. Else it is forgotten.
struct OnReturn<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnReturn<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// One more call of the program; what `once` calls for itself is none.
fn count_call(driver: &Driver, call: Count, id: u64) {
    if id & ONCE == 0 {
        driver.counters().add(call, 1);
    }
}

/// Asks and waits.
fn synchronize(
    driver: &Driver,
    slot: &Slot,
    input: SyncInput,
    wait: WaitReason,
) -> Result<(), Error> {
    driver.ask(slot, input)?;
    driver.wait_for(slot, wait);
    driver.end_interval();
    Ok(())
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
