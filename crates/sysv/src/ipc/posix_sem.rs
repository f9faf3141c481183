//! Named POSIX semaphores: sem_open(3), sem_close(3), sem_unlink(3), sem_post(3), sem_wait(3), sem_getvalue(3).
//!
//! A semaphore lives while it has a name or a process has it open. Those who wait go in the order in which they came; a post
//! gives the semaphore to the first of them, so that its value is 0 while anybody waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use multigrain_types::sysv::{MOST_NAME, MOST_SEM_VALUE};

use super::call::{CallId, Caller, Event, PosixSem, Process, Reply};
use super::described::Described;
use super::errno::Errno;
use super::permission::{Permission, READ, WRITE};
use super::registry::{Entry, Registry};
use super::waits::WaitedFor;

/// As many as a registry has ids for.
const MOST: u32 = 1 << 15;

/// One semaphore.
#[derive(Clone, Debug)]
struct Semaphore {
    value: u32,
    waiters: VecDeque<CallId>,
    /// None once it is unlinked.
    name: Option<Vec<u8>>,
    openers: BTreeSet<Process>,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct PosixSems {
    registry: Registry<Semaphore>,
    names: BTreeMap<Vec<u8>, i32>,
}

impl PosixSems {
    pub(super) fn new() -> Self {
        Self { registry: Registry::new(), names: BTreeMap::new() }
    }

    /// Without an answer, the call waits.
    pub(super) fn carry_out(
        &mut self,
        call: CallId,
        caller: &Caller,
        request: PosixSem,
        out: &mut Vec<Event>,
    ) -> Result<Option<Reply>, Errno> {
        let number = match request {
            PosixSem::Open { name, flags, mode, value } => {
                self.open(caller, name, flags, mode, value)?.into()
            }
            PosixSem::Close(id) => self.close(caller, id)?,
            PosixSem::Unlink(name) => self.unlink(caller, &name)?,
            PosixSem::Post(id) => self.semaphore(caller, id)?.post(out)?,
            PosixSem::Wait(id) => {
                let semaphore = self.semaphore(caller, id)?;
                if !semaphore.take() {
                    semaphore.waiters.push_back(call);
                    return Ok(None);
                }
                0
            }
            PosixSem::Try(id) => {
                if !self.semaphore(caller, id)?.take() {
                    return Err(Errno::AGAIN);
                }
                0
            }
            PosixSem::Value(id) => self.semaphore(caller, id)?.value.into(),
            PosixSem::Inherit(parent) => self.inherit(caller.process, parent),
        };
        Ok(Some(Reply::Done(number)))
    }

    fn open(
        &mut self,
        caller: &Caller,
        name: Vec<u8>,
        flags: i32,
        mode: u32,
        value: u32,
    ) -> Result<i32, Errno> {
        check_name(&name, MOST_NAME)?;
        let create = flags & libc::O_CREAT != 0;
        let exclusive = create && flags & libc::O_EXCL != 0;
        let found = self.names.get(&name).copied();
        // As the C library, which looks at the value before it makes a file, and not if there is one.
        if (exclusive || create && found.is_none()) && value > MOST_SEM_VALUE {
            return Err(Errno::INVAL);
        }
        let id = match found {
            Some(_) if exclusive => return Err(Errno::EXIST),
            Some(id) => {
                let entry = self.registry.get_mut(id)?;
                entry.permission.allow(caller, READ | WRITE)?;
                entry.object.openers.insert(caller.process);
                id
            }
            None if !create => return Err(Errno::NOENT),
            None => {
                let permission =
                    Permission::new(libc::IPC_PRIVATE, mode.cast_signed() & 0o777, caller);
                let openers = BTreeSet::from([caller.process]);
                let (waiters, named) = (VecDeque::new(), Some(name.clone()));
                let semaphore = Semaphore { value, waiters, name: named, openers };
                let id = self.registry.insert(permission, semaphore, MOST)?;
                self.names.insert(name, id);
                id
            }
        };
        Ok(id)
    }

    fn close(&mut self, caller: &Caller, id: i32) -> Result<i64, Errno> {
        if !self.registry.get_mut(id)?.object.openers.remove(&caller.process) {
            return Err(Errno::INVAL);
        }
        self.reap(id);
        Ok(0)
    }

    fn unlink(&mut self, caller: &Caller, name: &[u8]) -> Result<i64, Errno> {
        let id = *self.names.get(name).ok_or(Errno::NOENT)?;
        // In a directory with the sticky bit, as /dev/shm has it.
        self.registry.control(id, caller).map_err(|_| Errno::ACCES)?.object.name = None;
        self.names.remove(name);
        self.reap(id);
        Ok(0)
    }

    /// The semaphore, for who has opened it, or might.
    fn semaphore(&mut self, caller: &Caller, id: i32) -> Result<&mut Semaphore, Errno> {
        let Entry { permission, object, .. } = self.registry.get_mut(id)?;
        if !object.openers.contains(&caller.process) {
            permission.allow(caller, READ | WRITE).map_err(|_| Errno::INVAL)?;
        }
        Ok(object)
    }

    fn inherit(&mut self, child: Process, parent: i32) -> i64 {
        let parent = Process { pid: parent, ..child };
        let mut inherited = 0;
        for id in self.ids() {
            if let Ok(entry) = self.registry.get_mut(id)
                && entry.object.openers.contains(&parent)
            {
                entry.object.openers.insert(child);
                inherited += 1;
            }
        }
        inherited
    }

    /// What is waited for at a semaphore.
    pub(super) fn waited_for(&self, id: i32) -> Option<WaitedFor> {
        Some(WaitedFor::Posix(self.registry.get(id).ok()?.object.name.clone()))
    }

    pub(super) fn described(&self, id: i32) -> Option<Described> {
        let entry = self.registry.get(id).ok()?;
        Some(Described { name: entry.object.name.clone(), ..Described::default() })
    }

    /// Forgets a call that waits.
    pub(super) fn cancel(&mut self, id: i32, call: CallId) {
        if let Ok(entry) = self.registry.get_mut(id) {
            entry.object.waiters.retain(|waiter| *waiter != call);
        }
    }

    /// Processes have ended, whose calls are dropped already.
    pub(super) fn ended(&mut self, has_ended: impl Fn(Process) -> bool) {
        for id in self.ids() {
            if let Ok(entry) = self.registry.get_mut(id) {
                entry.object.openers.retain(|opener| !has_ended(*opener));
            }
            self.reap(id);
        }
    }

    fn ids(&self) -> Vec<i32> {
        self.registry.iter().map(|entry| entry.id).collect()
    }

    /// Ends the semaphore if it has no name and nobody has it open.
    fn reap(&mut self, id: i32) {
        let done = |entry: &Entry<Semaphore>| {
            entry.object.name.is_none() && entry.object.openers.is_empty()
        };
        // One that waits without having it open, after a clone that nobody told of, keeps it.
        if self.registry.get(id).is_ok_and(|entry| done(entry) && entry.object.waiters.is_empty()) {
            self.registry.remove(id);
        }
    }
}

impl Semaphore {
    fn take(&mut self) -> bool {
        let some = self.value > 0;
        self.value -= u32::from(some);
        some
    }

    fn post(&mut self, out: &mut Vec<Event>) -> Result<i64, Errno> {
        if let Some(first) = self.waiters.pop_front() {
            out.push(Event::Reply(first, Reply::Done(0)));
        } else if self.value >= MOST_SEM_VALUE {
            return Err(Errno::OVERFLOW);
        } else {
            self.value += 1;
        }
        Ok(0)
    }
}

/// Whether it can be a file's name.
pub(super) fn check_name(name: &[u8], most: usize) -> Result<(), Errno> {
    if name.is_empty() || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(Errno::INVAL);
    }
    if name.len() > most { Err(Errno::NAME_TOO_LONG) } else { Ok(()) }
}
