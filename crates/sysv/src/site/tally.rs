//! What the processes of a job ask of its objects, counted on site 0, for the summary.

use std::collections::BTreeMap;

use multigrain_types::site_usage::ObjectUsage as Usage;

pub(super) use multigrain_types::site_usage::ObjectUsage;

use crate::ipc::{CallId, Described, Event, Ipc, Object, PosixSem, PosixShm, Reply, Request};

/// Objects that are counted each by itself: of more, the sum.
const MOST: usize = 4096;

/// What a call uses of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Used {
    /// semop, msgsnd, sem_post.
    First(Object),
    /// msgrcv, sem_wait and sem_trywait.
    Second(Object),
    /// It is made or attached, and has to be known.
    Known(Object),
    /// A segment is made, whose id is the answer.
    Made,
    /// Nothing that counts.
    Nothing,
}

impl Used {
    pub(super) fn of(request: &Request) -> Self {
        if let Request::SemOperate { id, .. } = request {
            Self::First(Object::Set(*id))
        } else if let Request::MsgSend { id, .. } = request {
            Self::First(Object::Queue(*id))
        } else if let Request::MsgReceive { id, .. } = request {
            Self::Second(Object::Queue(*id))
        } else if let Request::Posix(PosixSem::Post(id)) = request {
            Self::First(Object::PosixSem(*id))
        } else if let Request::Posix(PosixSem::Wait(id) | PosixSem::Try(id)) = request {
            Self::Second(Object::PosixSem(*id))
        } else if let Request::ShmAttach { id, .. } = request {
            Self::Known(Object::Segment(*id))
        } else if let Request::PosixShm(PosixShm::Map(id)) = request {
            Self::Known(Object::Segment(!*id))
        } else if let Request::ShmGet { .. } = request {
            Self::Made
        } else {
            Self::Nothing
        }
    }
}

/// The counts. Under no id: those of objects beyond the first ones.
#[derive(Debug, Default)]
pub(super) struct Tally(BTreeMap<Option<Object>, Usage>);

impl Tally {
    /// Counts a call that was carried out, with what has come of it.
    pub(super) fn count(&mut self, ipc: &Ipc, used: Used, call: CallId, events: &[Event]) {
        let reply = events.iter().find_map(|event| match event {
            Event::Reply(of, reply) if *of == call => Some(reply),
            Event::Reply(..) | Event::SegmentGone(_) | Event::ObjectSized(..) => None,
        });
        let (object, which) = match (used, reply) {
            // There is no such object, or this process may not use it.
            (_, Some(Reply::Failed(libc::EINVAL | libc::EACCES))) | (Used::Nothing, _) => return,
            (Used::First(object), _) => (object, Some(0)),
            (Used::Second(object), _) => (object, Some(1)),
            (Used::Known(object), _) => (object, None),
            (Used::Made, Some(Reply::Created(id))) => {
                (Object::Segment(i32::try_from(*id).unwrap_or(-1)), None)
            }
            (Used::Made, _) => return,
        };
        let usage = self.of(ipc, object);
        if let Some(which) = which {
            usage.calls[which] += 1;
            usage.waited += u64::from(reply.is_none());
        }
    }

    fn of(&mut self, ipc: &Ipc, object: Object) -> &mut Usage {
        let is_known = self.0.contains_key(&Some(object));
        let key = Some(object).filter(|_| is_known || self.0.len() < MOST);
        self.0.entry(key).or_insert_with(|| match key {
            Some(object) => new(object, ipc.described(object).unwrap_or_default()),
            None => Usage { kind: "others".into(), ..Usage::default() },
        })
    }

    pub(super) fn report(&self) -> Vec<ObjectUsage> {
        self.0.values().cloned().collect()
    }
}

fn new(object: Object, Described { key, name, size }: Described) -> Usage {
    let (kind, id) = match object {
        Object::Segment(id) => ("segment", id),
        Object::Set(id) => ("set", id),
        Object::Queue(id) => ("queue", id),
        Object::PosixSem(id) => ("semaphore", id),
    };
    let name = name.map(|name| format!("/{}", name.escape_ascii())).unwrap_or_default();
    Usage { kind: kind.into(), id, key, name, size, ..Usage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::{Caller, Limits, Operation, Process};

    #[test]
    fn calls_are_counted_by_object_and_those_that_wait_and_those_of_no_object_are_not() {
        let (mut ipc, mut tally) = (Ipc::new(Limits::default()), Tally::default());
        let process = Process { site: 0, pid: 7 };
        let caller = Caller { process, uid: 0, gid: 0, groups: vec![], privileged: true, now: 1 };
        let mut number = 0;
        let mut call = |request: Request| {
            number += 1;
            let id = CallId { site: 0, number };
            let (used, mut events) = (Used::of(&request), Vec::new());
            ipc.call(id, &caller, request, &mut events);
            tally.count(&ipc, used, id, &events);
        };
        call(Request::SemGet { key: 9, count: 3, flags: libc::IPC_CREAT | 0o600 });
        let operation = |change| Request::SemOperate {
            id: 0,
            operations: vec![Operation { number: 0, change, flags: 0 }],
        };
        [1, -1, -1].map(operation).into_iter().for_each(&mut call);
        call(Request::SemOperate { id: 77, operations: vec![] });
        call(Request::ShmGet { key: 8, bytes: 5000, flags: libc::IPC_CREAT | 0o600 });
        let [segment, set] = <[Usage; 2]>::try_from(tally.report()).unwrap();
        assert_eq!((segment.kind.as_str(), segment.key, segment.size), ("segment", 8, 5000));
        assert_eq!((set.kind.as_str(), set.key, set.size), ("set", 9, 3));
        assert_eq!((set.calls, set.waited), ([3, 0], 1));
    }
}
