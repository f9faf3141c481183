//! What the System V calls mean: one namespace of segments, semaphores and queues, whatever machines its processes
//! run on.
//!
//! POSIX names (sem_overview(7), shm_overview(7)) are kinds of their own: named semaphores and shared memory objects. Where a
//! segment is named that may be either, an object is `!id`.
//!
//! Role: the semantics of shmget(2), shmop(2), shmctl(2), semget(2), semop(2), semctl(2), msgget(2), msgop(2) and
//! msgctl(2), errno for errno and in the order of wakes that Linux has. It is deterministic: a call comes in with who
//! makes it and at what time, and events go out. It knows no clock, no socket and no memory: a segment is a size and
//! the processes attached to it, and addresses (`shmat`'s alignment, `SHM_REMAP`) are checked where they are.
//!
//! `tests/kernel` runs random programs against the kernel's own calls. This differs from the kernel on purpose:
//!
//! - A process is asked for one privilege, where the kernel tells CAP_IPC_OWNER, CAP_IPC_LOCK, CAP_SYS_ADMIN and
//!   CAP_SYS_RESOURCE apart.
//! - `SHM_HUGETLB` and `SHM_NORESERVE` are ignored: a segment has pages of 4 KiB, and no memory is reserved for it, so
//!   that `shmget` does not fail with ENOMEM. `SHM_LOCK` sets a bit and locks nothing; RLIMIT_MEMLOCK is not asked.
//! - There is no `shm_rmid_forced`, and ids cannot be chosen (`*_next_id`).
//! - Senders who are woken together go in the order in which they waited; in the kernel they race. So do all who ask
//!   again after IPC_SET: here receivers come first, then senders.
//! - `msg_lrpid` is a process; of a receiver that waited, the kernel has the thread.
//! - What `SEM_UNDO` undoes belongs to a process; in the kernel, several may share it (CLONE_SYSVSEM).
//! - Pids are those of the caller's site: a pid in a `*_ds` may be another process's where it is read.
//! - No site is lost alone: with a node the job ends.

mod call;
mod described;
mod errno;
mod limits;
mod msg;
mod msg_queue;
mod permission;
mod posix_sem;
mod posix_shm;
mod registry;
mod sem;
mod sem_set;
mod sem_undo;
mod semop;
mod shm;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::BTreeMap;

pub use call::{
    CallId, Caller, Event, Info, MsgStat, Operation, PermissionStat, PosixSem, PosixShm, Process,
    Reply, Request, SemStat, ShmStat,
};
pub use described::{Described, Object};
use errno::Errno;
pub use limits::Limits;
use msg::Queues;
use msg_queue::Message;
use posix_sem::PosixSems;
use posix_shm::Objects;
use sem::Sets;
use shm::Segments;
pub use waits::{Wait, WaitedFor, in_words};

/// Where a call waits.
#[derive(Clone, Copy, Debug)]
enum Place {
    Set(i32),
    Queue(i32),
    Posix(i32),
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    process: Process,
    place: Place,
    /// Seconds since the epoch.
    since: i64,
}

/// All objects of one namespace, and the calls that wait at them.
#[derive(Clone, Debug)]
pub struct Ipc {
    limits: Limits,
    segments: Segments,
    sets: Sets,
    queues: Queues,
    posix: PosixSems,
    objects: Objects,
    waiting: BTreeMap<CallId, Waiting>,
}

impl Ipc {
    /// A namespace without objects.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            segments: Segments::new(),
            sets: Sets::new(),
            queues: Queues::new(),
            posix: PosixSems::new(),
            objects: Objects::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Carries out a call. A `semop`, `msgsnd` or `msgrcv` that has to wait is answered later.
    pub fn call(&mut self, id: CallId, caller: &Caller, request: Request, out: &mut Vec<Event>) {
        let from = out.len();
        let place = place_of(&request);
        match self.carry_out(id, caller, request, out) {
            Ok(Some(reply)) => out.push(Event::Reply(id, reply)),
            Err(Errno(errno)) => out.push(Event::Reply(id, Reply::Failed(errno))),
            Ok(None) => {
                let place = place.expect("only calls at a set, a queue or a semaphore wait");
                let waiting = Waiting { process: caller.process, place, since: caller.now };
                self.waiting.insert(id, waiting);
            }
        }
        self.forget_answered(&out[from..]);
    }

    /// Ends a call that waits with this errno: EINTR, or EAGAIN when its time is up. Nothing if it was answered.
    pub fn cancel(&mut self, id: CallId, errno: i32, out: &mut Vec<Event>) {
        if self.drop_call(id) {
            out.push(Event::Reply(id, Reply::Failed(errno)));
        }
    }

    /// A process has ended: its calls are dropped, then what it did with `SEM_UNDO` is undone. The daemon sends
    /// [`Self::detached`] for its attaches, before this as the kernel does.
    pub fn ended(&mut self, process: Process, now: i64, out: &mut Vec<Event>) {
        let from = out.len();
        self.drop_calls(|caller| caller == process);
        self.sets.ended(process, now, out);
        self.posix.ended(|opener| opener == process);
        self.forget_answered(&out[from..]);
    }

    /// One attach more, of a child that is forked. `process` is the parent, whom the kernel names as the last.
    pub fn forked_attach(&mut self, segment: i32, process: Process, now: i64) {
        if segment < 0 {
            self.objects.mapped(!segment, process.site);
        } else {
            self.segments.forked_attach(segment, process, now);
        }
    }

    /// One attach less without a call: a process has ended, called exec, or unmapped or replaced the memory.
    pub fn detached(&mut self, segment: i32, process: Process, now: i64, out: &mut Vec<Event>) {
        if segment < 0 {
            return self.objects.unmapped(!segment, process.site, out);
        }
        // A site that has no attach is told nothing: it made no call.
        drop(self.segments.detach(segment, process, now, out));
    }

    /// The calls that wait, and for what.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let wait = |(&call, &Waiting { process, place, since }): (&CallId, &Waiting)| {
            let object = match place {
                Place::Set(id) => self.sets.waited_for(id, call),
                Place::Queue(id) => self.queues.waited_for(id, call),
                Place::Posix(id) => self.posix.waited_for(id),
            };
            Some(Wait { call, process, since, object: object? })
        };
        self.waiting.iter().filter_map(wait).collect()
    }

    /// What the user knows an object by, while it is there.
    #[must_use]
    pub fn described(&self, object: Object) -> Option<Described> {
        match object {
            Object::Segment(id) if id < 0 => self.objects.described(!id),
            Object::Segment(id) => self.segments.described(id),
            Object::Set(id) => self.sets.described(id),
            Object::Queue(id) => self.queues.described(id),
            Object::PosixSem(id) => self.posix.described(id),
        }
    }

    /// Without an answer, the call waits.
    fn carry_out(
        &mut self,
        call: CallId,
        caller: &Caller,
        request: Request,
        out: &mut Vec<Event>,
    ) -> Result<Option<Reply>, Errno> {
        let Self { limits, segments, sets, queues, posix, objects, .. } = self;
        let reply = match request {
            Request::ShmGet { key, bytes, flags } => {
                segments.get_or_create(limits, caller, key, bytes, flags)
            }
            Request::ShmAttach { id, flags } => segments.attach(caller, id, flags),
            Request::ShmDetach { id } => segments.detach(id, caller.process, caller.now, out),
            Request::ShmStat { id } => segments.stat(caller, id),
            Request::ShmSet { id, uid, gid, mode } => segments.set(caller, id, uid, gid, mode),
            Request::ShmRemove { id } => segments.remove(caller, id, out),
            Request::ShmLock { id, locked } => segments.lock(caller, id, locked),
            Request::ShmInfo => Ok(Reply::Info(segments.info(limits))),
            Request::ShmStatIndex { index, any } => segments.stat_index(caller, index, any),

            Request::SemGet { key, count, flags } => {
                sets.get_or_create(limits, caller, key, count, flags)
            }
            Request::SemOperate { id, operations } => {
                return sets.operate(limits, call, caller, id, operations, out);
            }
            Request::SemCount { id } => sets.count(id),
            Request::SemGetValue { id, number } => sets.value(caller, id, number),
            Request::SemSetValue { id, number, value } => {
                sets.set_value(caller, id, number, value, out)
            }
            Request::SemGetAll { id } => sets.all_values(caller, id),
            Request::SemSetAll { id, values } => sets.set_all(caller, id, &values, out),
            Request::SemGetPid { id, number } => sets.pid(caller, id, number),
            Request::SemGetWaiters { id, number } => sets.waiters(caller, id, number, false),
            Request::SemGetZeroWaiters { id, number } => sets.waiters(caller, id, number, true),
            Request::SemStat { id } => sets.stat(caller, id),
            Request::SemSet { id, uid, gid, mode } => sets.set(caller, id, uid, gid, mode),
            Request::SemRemove { id } => sets.remove(caller, id, out),
            Request::SemInfo => Ok(Reply::Info(sets.info(limits))),
            Request::SemStatIndex { index, any } => sets.stat_index(caller, index, any),

            Request::MsgGet { key, flags } => queues.get_or_create(limits, caller, key, flags),
            Request::MsgSend { id, kind, bytes, flags } => {
                let message = Message { kind, bytes };
                return queues.send(limits, call, caller, id, message, flags, out);
            }
            Request::MsgReceive { id, kind, most, flags } => {
                return queues.receive(limits, call, caller, id, kind, most, flags, out);
            }
            Request::MsgStat { id } => queues.stat(caller, id),
            Request::MsgSet { id, uid, gid, mode, most_bytes } => {
                queues.set(limits, caller, id, (uid, gid, mode), most_bytes, out)
            }
            Request::MsgRemove { id } => queues.remove(caller, id, out),
            Request::MsgInfo => Ok(Reply::Info(queues.info(limits))),
            Request::MsgStatIndex { index, any } => queues.stat_index(caller, index, any),

            Request::Posix(request) => return posix.carry_out(call, caller, request, out),
            Request::PosixShm(request) => objects.carry_out(limits, caller, request, out),
        };
        reply.map(Some)
    }

    fn drop_calls(&mut self, of: impl Fn(Process) -> bool) {
        let calls = self.waiting.iter().filter(|(_, waiting)| of(waiting.process));
        for call in calls.map(|(&call, _)| call).collect::<Vec<_>>() {
            self.drop_call(call);
        }
    }

    /// Forgets a call; whether it waited.
    fn drop_call(&mut self, call: CallId) -> bool {
        let Some(waiting) = self.waiting.remove(&call) else {
            return false;
        };
        match waiting.place {
            Place::Set(id) => self.sets.cancel(id, call),
            Place::Queue(id) => self.queues.cancel(id, call),
            Place::Posix(id) => self.posix.cancel(id, call),
        }
        true
    }

    fn forget_answered(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Reply(call, _) = event {
                self.waiting.remove(call);
            }
        }
    }
}

/// Where the call waits if it has to.
fn place_of(request: &Request) -> Option<Place> {
    if let Request::SemOperate { id, .. } = request {
        Some(Place::Set(*id))
    } else if let Request::MsgSend { id, .. } | Request::MsgReceive { id, .. } = request {
        Some(Place::Queue(*id))
    } else if let Request::Posix(PosixSem::Wait(id)) = request {
        Some(Place::Posix(*id))
    } else {
        None
    }
}
