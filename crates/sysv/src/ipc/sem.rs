//! Sets of semaphores: names, rights and limits, and the processes whose end undoes something.

use std::collections::BTreeMap;

use super::call::{CallId, Caller, Event, Info, Operation, Process, Reply, SemStat};
use super::described::Described;
use super::errno::Errno;
use super::limits::Limits;
use super::permission::{Permission, READ, WRITE};
use super::registry::{Entry, Registry};
use super::sem_set::{Changed, Set, Waiter, changes};
use super::semop::{HIGHEST_VALUE, has};
use super::waits::WaitedFor;

/// All sets.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    registry: Registry<Set>,
    semaphores: u64,
    /// The sets whose books a process is in, in the order in which it came into them.
    undo: BTreeMap<Process, Vec<i32>>,
}

impl Sets {
    pub(super) fn new() -> Self {
        Self { registry: Registry::new(), semaphores: 0, undo: BTreeMap::new() }
    }

    pub(super) fn get_or_create(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        key: i32,
        count: i32,
        flags: i32,
    ) -> Result<Reply, Errno> {
        let count = u32::try_from(count).map_err(|_| Errno::INVAL)?;
        if count > limits.set_semaphores {
            return Err(Errno::INVAL);
        }
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        let large_enough = |set: &Set| set.count() >= count;
        let id = match self.registry.find(key, flags, caller, large_enough)? {
            Some(id) => id,
            None => self.create(limits, caller, key, count, flags)?,
        };
        Ok(Reply::Done(id.into()))
    }

    fn create(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        key: i32,
        count: usize,
        flags: i32,
    ) -> Result<i32, Errno> {
        if count == 0 {
            return Err(Errno::INVAL);
        }
        let semaphores = self.semaphores + as_u64(count);
        if semaphores > limits.semaphores.into() {
            return Err(Errno::NOSPC);
        }
        let permission = Permission::new(key, flags, caller);
        let id = self.registry.insert(permission, Set::new(count, caller.now), limits.sets)?;
        self.semaphores = semaphores;
        Ok(id)
    }

    /// `semop`; without an answer, the call waits.
    pub(super) fn operate(
        &mut self,
        limits: &Limits,
        call: CallId,
        caller: &Caller,
        id: i32,
        operations: Vec<Operation>,
        out: &mut Vec<Event>,
    ) -> Result<Option<Reply>, Errno> {
        if operations.len() > usize::try_from(limits.operations).unwrap_or(usize::MAX) {
            return Err(Errno::TOO_BIG);
        }
        if operations.is_empty() {
            return Err(Errno::INVAL);
        }
        let entry = self.registry.get_mut(id)?;
        let set = &mut entry.object;
        let undo = operations.iter().any(|operation| has(*operation, libc::SEM_UNDO));
        // Even if the call fails: the kernel then takes the process's end for an operation, too.
        if undo && set.values.record(caller.process) {
            self.undo.entry(caller.process).or_default().push(id);
        }
        if operations.iter().any(|operation| usize::from(operation.number) >= set.count()) {
            return Err(Errno::FBIG);
        }
        entry.permission.allow(caller, if changes(&operations) { WRITE } else { READ })?;
        let waiter = Waiter { call, process: caller.process, operations, blocking: 0 };
        set.operate(waiter, caller.now, out)
    }

    /// What a call waits for.
    pub(super) fn waited_for(&self, id: i32, call: CallId) -> Option<WaitedFor> {
        let entry = self.registry.get(id).ok()?;
        let Operation { number, change, .. } = entry.object.blocking_operation(call)?;
        Some(WaitedFor::Semaphore { set: entry.named(), number, change })
    }

    /// Forgets a call that waits.
    pub(super) fn cancel(&mut self, id: i32, call: CallId) {
        if let Ok(entry) = self.registry.get_mut(id) {
            entry.object.cancel(call);
        }
    }

    /// Undoes what the process, which has ended, did with `SEM_UNDO`; the set it used first comes last, as in the
    /// kernel.
    pub(super) fn ended(&mut self, process: Process, now: i64, out: &mut Vec<Event>) {
        for id in self.undo.remove(&process).unwrap_or_default().into_iter().rev() {
            if let Ok(entry) = self.registry.get_mut(id)
                && entry.object.values.undo(process)
            {
                entry.object.operation_time = now;
                entry.object.wake(Changed::Any, now, out);
            }
        }
    }

    pub(super) fn count(&self, id: i32) -> Result<Reply, Errno> {
        Ok(done(self.registry.get(id)?.object.count()))
    }

    pub(super) fn value(&self, caller: &Caller, id: i32, number: i32) -> Result<Reply, Errno> {
        let (_, semaphore) = self.registry.readable(id, caller)?.object.values.semaphore(number)?;
        Ok(Reply::Done(semaphore.value.into()))
    }

    pub(super) fn pid(&self, caller: &Caller, id: i32, number: i32) -> Result<Reply, Errno> {
        let (_, semaphore) = self.registry.readable(id, caller)?.object.values.semaphore(number)?;
        Ok(Reply::Done(semaphore.pid.into()))
    }

    pub(super) fn waiters(
        &self,
        caller: &Caller,
        id: i32,
        number: i32,
        zero: bool,
    ) -> Result<Reply, Errno> {
        let set = &self.registry.readable(id, caller)?.object;
        let (index, _) = set.values.semaphore(number)?;
        Ok(done(set.waiters(index, zero)))
    }

    pub(super) fn all_values(&self, caller: &Caller, id: i32) -> Result<Reply, Errno> {
        let semaphores = &self.registry.readable(id, caller)?.object.values.semaphores;
        let value = |value: i32| u16::try_from(value).expect("no value is above 32767");
        Ok(Reply::Values(semaphores.iter().map(|semaphore| value(semaphore.value)).collect()))
    }

    pub(super) fn set_value(
        &mut self,
        caller: &Caller,
        id: i32,
        number: i32,
        value: i32,
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        // The kernel looks at the value before it looks for the set, but not before it sees that no set is meant.
        if id >= 0 && !(0..=HIGHEST_VALUE).contains(&value) {
            return Err(Errno::RANGE);
        }
        let entry = self.registry.get_mut(id)?;
        let (index, _) = entry.object.values.semaphore(number)?;
        entry.permission.allow(caller, WRITE)?;
        let set = &mut entry.object;
        set.values.set(index, value, caller.process.pid);
        set.change_time = caller.now;
        set.wake(Changed::Any, caller.now, out);
        Ok(Reply::Done(0))
    }

    pub(super) fn set_all(
        &mut self,
        caller: &Caller,
        id: i32,
        values: &[u16],
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        let entry = self.registry.get_mut(id)?;
        entry.permission.allow(caller, WRITE)?;
        let set = &mut entry.object;
        // Only if the caller counted the semaphores of a set that is not this one any more.
        if values.len() != set.count() {
            return Err(Errno::INVAL);
        }
        if values.iter().any(|&value| i32::from(value) > HIGHEST_VALUE) {
            return Err(Errno::RANGE);
        }
        set.values.set_all(values, caller.process.pid);
        set.change_time = caller.now;
        set.wake(Changed::Any, caller.now, out);
        Ok(Reply::Done(0))
    }

    pub(super) fn described(&self, id: i32) -> Option<Described> {
        let entry = self.registry.get(id).ok()?;
        Some(Described {
            key: entry.permission.key,
            size: as_u64(entry.object.count()),
            name: None,
        })
    }

    pub(super) fn stat(&self, caller: &Caller, id: i32) -> Result<Reply, Errno> {
        Ok(Reply::Sem(stat_of(self.registry.readable(id, caller)?)))
    }

    pub(super) fn stat_index(
        &self,
        caller: &Caller,
        index: i32,
        any: bool,
    ) -> Result<Reply, Errno> {
        Ok(Reply::Sem(stat_of(self.registry.readable_at(index, caller, any)?)))
    }

    pub(super) fn set(
        &mut self,
        caller: &Caller,
        id: i32,
        uid: u32,
        gid: u32,
        mode: u32,
    ) -> Result<Reply, Errno> {
        self.registry.set(id, caller, (uid, gid, mode))?.object.change_time = caller.now;
        Ok(Reply::Done(0))
    }

    pub(super) fn remove(
        &mut self,
        caller: &Caller,
        id: i32,
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        self.registry.control(id, caller)?.object.expel(out);
        if let Some(entry) = self.registry.remove(id) {
            self.semaphores -= as_u64(entry.object.count());
            for process in entry.object.values.recorded() {
                if let Some(sets) = self.undo.get_mut(&process) {
                    sets.retain(|&set| set != id);
                    if sets.is_empty() {
                        self.undo.remove(&process);
                    }
                }
            }
        }
        Ok(Reply::Done(0))
    }

    pub(super) fn info(&self, limits: &Limits) -> Info {
        Info {
            highest_index: self.registry.highest_index(),
            objects: self.registry.len(),
            contents: self.semaphores,
            bytes: 0,
            limits: *limits,
        }
    }
}

fn stat_of(entry: &Entry<Set>) -> SemStat {
    SemStat {
        id: entry.id,
        permission: entry.permission.stat(),
        operation_time: entry.object.operation_time,
        change_time: entry.object.change_time,
        count: as_u64(entry.object.count()),
    }
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn done(count: usize) -> Reply {
    Reply::Done(i64::try_from(count).unwrap_or(i64::MAX))
}
