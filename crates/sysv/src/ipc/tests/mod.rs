//! The rules one by one. What a whole program sees is compared with the kernel in `tests/kernel`.

mod lifetime;
mod msg;
mod msg_waits;
mod posix;
mod sem;
mod sem_waits;
mod shm;

use super::*;

/// An unprivileged user, alone in a group of the same number, at second 100.
pub(super) fn user(uid: u32) -> Caller {
    let process = Process { site: 1, pid: i32::try_from(uid).expect("a small number") };
    Caller { process, uid, gid: uid, groups: Vec::new(), privileged: false, now: 100 }
}

/// Another process of this caller's user.
fn process(caller: &Caller, site: u16, pid: i32) -> Caller {
    Caller { process: Process { site, pid }, ..caller.clone() }
}

fn root() -> Caller {
    Caller { privileged: true, ..user(0) }
}

/// A namespace, and what has come of calls.
struct Bench {
    ipc: Ipc,
    calls: u64,
    /// Answers to calls that waited, in the order in which they came.
    late: Vec<(CallId, Reply)>,
    gone: Vec<i32>,
    sized: Vec<(i32, u64)>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self {
            ipc: Ipc::new(limits),
            calls: 0,
            late: Vec::new(),
            gone: Vec::new(),
            sized: Vec::new(),
        }
    }

    /// The answer of a call that does not wait.
    fn call(&mut self, caller: &Caller, request: Request) -> Reply {
        let id = self.start(caller, request);
        let index = self.late.iter().position(|reply| reply.0 == id).expect("it does not wait");
        self.late.remove(index).1
    }

    /// Starts a call that waits.
    fn wait(&mut self, caller: &Caller, request: Request) -> CallId {
        let id = self.start(caller, request);
        assert!(self.late.iter().all(|reply| reply.0 != id), "it waits");
        id
    }

    fn start(&mut self, caller: &Caller, request: Request) -> CallId {
        self.calls += 1;
        let id = CallId { site: caller.process.site, number: self.calls };
        let mut out = Vec::new();
        self.ipc.call(id, caller, request, &mut out);
        self.take(out);
        id
    }

    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Reply(call, reply) => self.late.push((call, reply)),
                Event::SegmentGone(id) => self.gone.push(id),
                Event::ObjectSized(id, bytes) => self.sized.push((id, bytes)),
            }
        }
    }

    /// The calls that were answered since this was asked last.
    fn woken(&mut self) -> Vec<(CallId, Reply)> {
        core::mem::take(&mut self.late)
    }

    fn end(&mut self, process: Process) {
        let mut out = Vec::new();
        self.ipc.ended(process, 200, &mut out);
        self.take(out);
    }

    fn id(&mut self, caller: &Caller, request: Request) -> i32 {
        let reply = self.call(caller, request);
        let (Reply::Done(id) | Reply::Created(id)) = reply else { panic!("an id, not {reply:?}") };
        i32::try_from(id).expect("an id")
    }

    /// A new set with these values, which everybody may use.
    fn set(&mut self, values: &[u16]) -> i32 {
        let count = i32::try_from(values.len()).expect("a few");
        let id = self.id(&root(), Request::SemGet { key: 0, count, flags: 0o666 });
        self.call(&root(), Request::SemSetAll { id, values: values.to_vec() });
        id
    }

    fn values(&mut self, id: i32) -> Vec<u16> {
        let reply = self.call(&root(), Request::SemGetAll { id });
        let Reply::Values(values) = reply else { panic!("values, not {reply:?}") };
        values
    }

    fn number(&mut self, request: Request) -> i64 {
        let reply = self.call(&root(), request);
        let Reply::Done(number) = reply else { panic!("a number, not {reply:?}") };
        number
    }

    fn sem_stat(&mut self, id: i32) -> SemStat {
        let reply = self.call(&root(), Request::SemStat { id });
        let Reply::Sem(stat) = reply else { panic!("a set, not {reply:?}") };
        stat
    }

    fn shm_stat(&mut self, id: i32) -> ShmStat {
        let reply = self.call(&root(), Request::ShmStat { id });
        let Reply::Shm(stat) = reply else { panic!("a segment, not {reply:?}") };
        stat
    }

    fn msg_stat(&mut self, id: i32) -> MsgStat {
        let reply = self.call(&root(), Request::MsgStat { id });
        let Reply::Msg(stat) = reply else { panic!("a queue, not {reply:?}") };
        stat
    }

    /// A new queue that everybody may use, with room for so many bytes.
    fn queue(&mut self, most_bytes: u64) -> i32 {
        let id = self.id(&root(), Request::MsgGet { key: 0, flags: 0o666 });
        let set = Request::MsgSet { id, uid: 0, gid: 0, mode: 0o666, most_bytes };
        assert_eq!(self.call(&root(), set), DONE);
        id
    }
}

const DONE: Reply = Reply::Done(0);
const NOWAIT: i16 = 0o4000;
const UNDO: i16 = 0x1000;

fn failed(errno: i32) -> Reply {
    Reply::Failed(errno)
}

/// `semop` of these numbers, changes and flags.
fn semop(id: i32, operations: &[(u16, i16, i16)]) -> Request {
    let operation =
        |&(number, change, flags): &(u16, i16, i16)| Operation { number, change, flags };
    Request::SemOperate { id, operations: operations.iter().map(operation).collect() }
}

fn send(id: i32, kind: i64, bytes: &[u8]) -> Request {
    Request::MsgSend { id, kind, bytes: bytes.to_vec(), flags: 0 }
}

fn receive(id: i32, kind: i64) -> Request {
    Request::MsgReceive { id, kind, most: 100, flags: 0 }
}

fn message(kind: i64, bytes: &[u8]) -> Reply {
    Reply::Message { kind, bytes: bytes.to_vec() }
}
