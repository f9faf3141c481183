//! A program on both sides: each step is made here and by the kernel, and compared.

use std::fmt::Write as _;
use std::time::Duration;

use multigrain_sysv::ipc::{CallId, Caller, Event, Ipc, Limits, Process, Reply, Request};

use crate::Late;
use crate::here::{is_race, query};
use crate::kernel_calls::{Attached, carry_out};
use crate::namespace;
use crate::normalized::normalized;
use crate::random::{Objects, Random};
use crate::worker::{User, Worker};

/// Who calls: root, and two who may little, one of whom is in the group of the other.
const USERS: [User; 7] = [ROOT, ROOT, USER, OTHER, ROOT, ROOT, ROOT];
const ROOT: User = User { uid: 0, gid: 0, group: 0 };
const USER: User = User { uid: 65_534, gid: 65_534, group: 65_534 };
const OTHER: User = User { uid: 65_533, gid: 65_533, group: 65_534 };

/// Characters of a line of the log.
const LONGEST_LINE: usize = 300;

/// A worker and what it does.
struct Seat {
    worker: Worker,
    caller: Caller,
    /// The call that it waits in.
    waits: Option<(CallId, Request)>,
    /// The segments it has attached.
    attached: Vec<i32>,
    /// A child it has forked, and what that has attached.
    child: Option<(i32, Vec<i32>)>,
}

/// Both sides.
pub(crate) struct World {
    ipc: Ipc,
    seats: Vec<Seat>,
    objects: Objects,
    random: Random,
    calls: u64,
    log: String,
    queue_bytes: u64,
    /// Whether root has CAP_SYS_RESOURCE.
    raises_limits: bool,
    has_copy: bool,
    /// The calls that were answered after they had waited.
    pub(crate) late_replies: Late,
}

impl World {
    /// A program of this seed, in a namespace without objects that has these limits.
    pub(crate) fn new(seed: u64, limits: Limits) -> Self {
        let mut random = Random(seed);
        let shares = random.of(&[[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [3, 2, 2]]);
        let objects = Objects {
            segments: Vec::new(),
            sets: Vec::new(),
            queues: Vec::new(),
            shares,
            users: vec![0, 65_534, 65_533],
        };
        let mut world = Self {
            ipc: Ipc::new(limits),
            seats: Vec::new(),
            objects,
            random,
            calls: 0,
            log: String::new(),
            queue_bytes: limits.queue_bytes,
            raises_limits: namespace::may_raise_limits(),
            has_copy: namespace::has_copy(),
            late_replies: Late::default(),
        };
        world.seats = (0..USERS.len()).map(seat).collect();
        world
    }

    /// What was done so far.
    pub(crate) fn log(&self) -> &str {
        &self.log
    }

    /// Does something on both sides, and compares what comes of it.
    pub(crate) fn step(&mut self) {
        let disturb = self.random.percent(6);
        let waits = |&index: &usize| self.seats[index].waits.is_some();
        let (waiting, idle): (Vec<usize>, Vec<usize>) = (0..self.seats.len()).partition(waits);
        let events = if idle.is_empty() || disturb && !waiting.is_empty() {
            let index = self.random.of(&waiting);
            // The child of a worker that is killed in a call would die at a time of its own.
            if self.random.percent(20) && self.seats[index].child.is_none() {
                self.kill(index)
            } else {
                self.interrupt(index)
            }
        } else {
            let index = self.random.of(&idle);
            match self.random.below(100) {
                0..2 => self.kill(index),
                2..4 => self.exit(index),
                4..8 => {
                    self.fork_or_reap(index);
                    Vec::new()
                }
                _ => match self.call(index) {
                    Some(events) => events,
                    None => return,
                },
            }
        };
        self.expect(events);
        self.compare();
    }

    /// Sees that nobody who should still wait was answered, however late.
    pub(crate) fn finish(&mut self) {
        std::thread::sleep(Duration::from_millis(10));
        self.expect(Vec::new());
    }

    /// A call by a worker that is in none; none if the kernel's answer could be one or another.
    fn call(&mut self, index: usize) -> Option<Vec<Event>> {
        let seat = &self.seats[index];
        let request = self.objects.call(&mut self.random, &seat.attached);
        if is_race(&self.ipc, self.waits(), &seat.caller, &request)
            || self.is_lacking(&seat.caller, &request)
        {
            return None;
        }
        Some(self.make(index, request))
    }

    /// Has a worker that is in no call make this one, and compares what comes of it.
    pub(crate) fn perform(&mut self, index: usize, request: Request) {
        let events = self.make(index, request);
        self.expect(events);
        self.compare();
    }

    /// Lets a worker that is in no call end, and compares what comes of it.
    pub(crate) fn end(&mut self, index: usize) {
        let events = self.exit(index);
        self.expect(events);
        self.compare();
    }

    fn make(&mut self, index: usize, request: Request) -> Vec<Event> {
        let seat = &mut self.seats[index];
        self.calls += 1;
        let id = CallId { site: seat.caller.process.site, number: self.calls };
        note(&mut self.log, &format!("{} {request:?}", seat.worker.pid));
        let mut events = Vec::new();
        self.ipc.call(id, &seat.caller, request.clone(), &mut events);
        seat.waits = Some((id, request.clone()));
        seat.worker.call(request);
        events
    }

    /// All calls that wait.
    fn waits(&self) -> impl Iterator<Item = &(CallId, Request)> {
        self.seats.iter().filter_map(|seat| seat.waits.as_ref())
    }

    /// What this kernel or this root has not: a container's often has not the privilege to raise a queue's limit.
    fn is_lacking(&self, caller: &Caller, request: &Request) -> bool {
        if let Request::MsgSet { most_bytes, .. } = request {
            caller.privileged && !self.raises_limits && *most_bytes > self.queue_bytes
        } else if let Request::MsgReceive { flags, .. } = request {
            flags & libc::MSG_COPY != 0 && !self.has_copy
        } else {
            false
        }
    }

    fn interrupt(&mut self, index: usize) -> Vec<Event> {
        let seat = &self.seats[index];
        note(&mut self.log, &format!("{} is interrupted", seat.worker.pid));
        seat.worker.interrupt();
        let mut events = Vec::new();
        if let Some((call, _)) = &seat.waits {
            self.ipc.cancel(*call, libc::EINTR, &mut events);
        }
        events
    }

    fn kill(&mut self, index: usize) -> Vec<Event> {
        self.reap(index);
        let seat = &mut self.seats[index];
        note(&mut self.log, &format!("{} is killed", seat.worker.pid));
        seat.worker.kill();
        self.ended(index)
    }

    fn exit(&mut self, index: usize) -> Vec<Event> {
        self.reap(index);
        let seat = &mut self.seats[index];
        note(&mut self.log, &format!("{} exits", seat.worker.pid));
        seat.worker.exit();
        self.ended(index)
    }

    fn ended(&mut self, index: usize) -> Vec<Event> {
        let old = core::mem::replace(&mut self.seats[index], seat(index));
        let process = old.caller.process;
        let mut events = Vec::new();
        for segment in old.attached {
            self.ipc.detached(segment, process, old.caller.now, &mut events);
        }
        self.ipc.ended(process, old.caller.now, &mut events);
        events
    }

    fn fork_or_reap(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if seat.child.is_some() {
            return self.reap(index);
        }
        let child = seat.worker.fork();
        note(&mut self.log, &format!("{} forks {child}", seat.worker.pid));
        seat.child = Some((child, seat.attached.clone()));
        for segment in &seat.attached {
            self.ipc.forked_attach(*segment, seat.caller.process, seat.caller.now);
        }
    }

    fn reap(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        if let Some((pid, attached)) = seat.child.take() {
            note(&mut self.log, &format!("{} reaps {pid}", seat.worker.pid));
            seat.worker.reap();
            let process = Process { pid, ..seat.caller.process };
            let mut events = Vec::new();
            for segment in attached {
                self.ipc.detached(segment, process, seat.caller.now, &mut events);
            }
            assert!(events.iter().all(|event| matches!(event, Event::SegmentGone(_))));
        }
    }

    /// Waits for the replies that are to come, and sees that no other does.
    fn expect(&mut self, events: Vec<Event>) {
        let mut replies: Vec<(CallId, Reply)> = Vec::new();
        for event in events {
            match event {
                Event::Reply(call, reply) => replies.push((call, reply)),
                Event::SegmentGone(id) => note(&mut self.log, &format!("  {id} is gone")),
                Event::ObjectSized(..) => {}
            }
        }
        // The latest call first: the others' answers depend on it.
        let waits =
            |seat: &Seat| seat.waits.as_ref().map(|(call, _)| core::cmp::Reverse(call.number));
        let mut order: Vec<usize> = (0..self.seats.len()).collect();
        order.sort_by_key(|&index| waits(&self.seats[index]));
        for index in order {
            let Some((call, request)) = self.seats[index].waits.clone() else { continue };
            let reply = replies.iter().find(|reply| reply.0 == call).map(|reply| reply.1.clone());
            let seat = &mut self.seats[index];
            let kernel = seat.worker.outcome(reply.is_some());
            if reply.is_some() || kernel.is_some() || call.number == self.calls {
                note(&mut self.log, &format!("  {}: {kernel:?}", seat.worker.pid));
            }
            assert_eq!(
                reply.as_ref().map(normalized),
                kernel.as_ref().map(normalized),
                "this side (left) and the kernel's answer to {} on {request:?}",
                seat.worker.pid
            );
            let Some(reply) = reply else { continue };
            if call.number != self.calls && reply != Reply::Failed(libc::EINTR) {
                self.late_replies.count(&request);
            }
            self.seats[index].waits = None;
            self.learn(index, &request, &reply);
        }
    }

    fn learn(&mut self, index: usize, request: &Request, reply: &Reply) {
        let id = if let Reply::Done(id) | Reply::Created(id) = reply { *id } else { 0 };
        let id = i32::try_from(id).unwrap_or(0);
        let done = !matches!(reply, Reply::Failed(_));
        if !done {
            return;
        }
        if let Request::SemGet { .. } = request {
            let count = query(&mut self.ipc, Request::SemCount { id });
            let Reply::Done(count) = count else { panic!("the set {id} is there: {count:?}") };
            remember(&mut self.objects.sets, (id, usize::try_from(count).expect("a count")));
        } else if let Request::SemRemove { id } = request {
            // Most ids that are used are to be of objects that are there.
            let keep = self.random.percent(20);
            self.objects.sets.retain(|set| set.0 != *id || keep);
        } else if let Request::MsgRemove { id } = request {
            let keep = self.random.percent(20);
            self.objects.queues.retain(|queue| queue != id || keep);
        } else if let Request::MsgGet { .. } = request {
            remember(&mut self.objects.queues, id);
        } else if let Request::ShmGet { .. } = request {
            remember(&mut self.objects.segments, id);
        } else if let Request::ShmAttach { id, .. } = request {
            self.seats[index].attached.push(*id);
        } else if let Request::ShmDetach { id } = request {
            let attached = &mut self.seats[index].attached;
            let at = attached.iter().position(|attach| attach == id).expect("it was attached");
            attached.remove(at);
        }
    }

    /// Compares all that can be read of all objects.
    fn compare(&mut self) {
        let mut requests = vec![Request::SemInfo, Request::MsgInfo, Request::ShmInfo];
        for &(id, count) in &self.objects.sets {
            requests.push(Request::SemStat { id });
            requests.push(Request::SemGetAll { id });
            for number in 0..i32::try_from(count).expect("a few") {
                requests.push(Request::SemGetPid { id, number });
                requests.push(Request::SemGetWaiters { id, number });
                requests.push(Request::SemGetZeroWaiters { id, number });
            }
        }
        requests.extend(self.objects.queues.iter().map(|&id| Request::MsgStat { id }));
        requests.extend(self.objects.segments.iter().map(|&id| Request::ShmStat { id }));
        for request in requests {
            let here = normalized(&query(&mut self.ipc, request.clone()));
            let kernel = normalized(&carry_out(request.clone(), &mut Attached::default()));
            assert_eq!(here, kernel, "this side (left) and the kernel's answer to {request:?}");
        }
    }
}

fn seat(index: usize) -> Seat {
    let worker = Worker::start(USERS[index]).expect("a process");
    let site = if index.is_multiple_of(2) { 1 } else { 2 };
    let caller = caller(Process { site, pid: worker.pid }, USERS[index]);
    Seat { worker, caller, waits: None, attached: Vec::new(), child: None }
}

fn caller(process: Process, user: User) -> Caller {
    let User { uid, gid, group } = user;
    Caller { process, uid, gid, groups: vec![group], privileged: uid == 0, now: 1 }
}

/// Keeps the ids of late, most of which are those of objects that are there.
fn remember<T: PartialEq>(ids: &mut Vec<T>, id: T) {
    if !ids.contains(&id) {
        if ids.len() > 5 {
            ids.remove(0);
        }
        ids.push(id);
    }
}

fn note(log: &mut String, line: &str) {
    let shown: String = line.chars().take(LONGEST_LINE).collect();
    writeln!(log, "{shown}").expect("memory");
}
