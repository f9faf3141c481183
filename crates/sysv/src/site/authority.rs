//! Who decides: site 0 has the System V objects of the job ([`Ipc`]), and the others ask it.
//!
//! Role: calls go to site 0 and answers come back, by messages that the runtime carries; on site 0 itself they take no message. A
//! call that blocks is answered when it may go on: nothing here waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use multigrain_runtime::Runtime;
use multigrain_types::NodeId;
use serde::{Deserialize, Serialize};

use super::deadlock::{Next, Proof, Standstill};
use super::proxies::Proxies;
use super::tally::{ObjectUsage, Tally, Used};
use crate::ipc::{CallId, Caller, Event, Ipc, Limits, Process, Reply, Request, in_words};

/// What sites say to each other.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// To site 0: carry this out.
    Call(CallId, Caller, Request),
    /// To site 0: the call's waiting is over, with this error number.
    Cancel(CallId, i32),
    /// To site 0: the process has ended.
    Ended(Process, i64),
    /// To site 0: a fork has made an attach of a segment.
    Forked(i32, Process, i64),
    /// To site 0: an attach is gone without a call.
    Detached(i32, Process, i64),
    /// To site 0: the answer to a question, what the processes of the site do.
    Seen(u64, Option<Standstill>),
    /// From site 0 to all: a question what their processes do.
    Look(u64),
    /// From site 0.
    Answer(CallId, Reply),
    /// From site 0 to all: a segment is gone.
    Gone(i32),
    /// From site 0 to all: a POSIX object has a size.
    Sized(i32, u64),
}

/// Takes an answer; it must not wait.
pub(super) type Completion = Box<dyn FnOnce(Reply) + Send>;

/// The way to the objects.
pub(super) struct Authority {
    /// On site 0.
    ipc: Mutex<Ipc>,
    calls: Mutex<Calls>,
    gone: Mutex<Sender<i32>>,
    questions: Mutex<Sender<u64>>,
    proxies: Proxies,
    /// On site 0.
    watch: Mutex<Watch>,
    /// On site 0: what was asked of which object.
    tally: Mutex<Tally>,
}

/// What comes to this site and takes a while.
pub(super) struct Told {
    /// Segments that are gone.
    pub(super) gone: Receiver<i32>,
    /// Questions what the processes do.
    pub(super) questions: Receiver<u64>,
}

#[derive(Default)]
struct Calls {
    newest: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// A call that is not answered.
struct Waiting {
    completion: Completion,
    pid: i32,
    /// Its process has said that nothing ends it but the answer, or a signal.
    for_ever: bool,
}

/// Who waits, as site 0 looks at it.
#[derive(Default)]
struct Watch {
    /// The calls that have waited at the last look.
    last: Vec<CallId>,
    /// Whether the launcher has been told of some.
    has_told: Option<bool>,
    proof: Proof,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds since the epoch.
pub(super) fn now() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

impl Authority {
    /// And what it hands on.
    pub(super) fn new() -> (Self, Told) {
        let (gone, of_gone) = channel();
        let (questions, of_questions) = channel();
        let authority = Self {
            ipc: Mutex::new(Ipc::new(Limits::default())),
            calls: Mutex::default(),
            gone: Mutex::new(gone),
            questions: Mutex::new(questions),
            proxies: Proxies::default(),
            watch: Mutex::default(),
            tally: Mutex::default(),
        };
        (authority, Told { gone: of_gone, questions: of_questions })
    }

    /// What was asked of the objects, on site 0; nothing on others.
    pub(super) fn tally(&self) -> Vec<ObjectUsage> {
        lock(&self.tally).report()
    }

    /// What stands for POSIX objects on this site: whose size is shown before anybody is answered who could tell of it.
    pub(super) fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// Asks, and has `completion` take the answer.
    pub(super) fn ask(
        &self,
        runtime: &Runtime,
        caller: Caller,
        request: Request,
        completion: Completion,
    ) -> CallId {
        let mut calls = lock(&self.calls);
        calls.newest += 1;
        let id = CallId { site: runtime.rank().0, number: calls.newest };
        let pid = caller.process.pid;
        calls.waiting.insert(id.number, Waiting { completion, pid, for_ever: false });
        drop(calls);
        self.tell(runtime, Message::Call(id, caller, request));
        id
    }

    /// Asks, and waits for the answer to a call that does not block.
    pub(super) fn call(&self, runtime: &Runtime, caller: Caller, request: Request) -> Reply {
        let (to, answer) = channel();
        let completion = Box::new(move |reply| drop(to.send(reply)));
        self.ask(runtime, caller, request, completion);
        answer.recv().unwrap_or(Reply::Failed(libc::EIDRM))
    }

    /// A call waits no longer; it is answered all the same.
    pub(super) fn cancel(&self, runtime: &Runtime, id: CallId, errno: i32) {
        self.tell(runtime, Message::Cancel(id, errno));
    }

    /// Nobody waits for an answer any more.
    pub(super) fn forget(&self, id: CallId) {
        lock(&self.calls).waiting.remove(&id.number);
    }

    /// Whether a call that waits ends by its answer or a signal alone, as its process says.
    pub(super) fn waits(&self, id: CallId, for_ever: bool) {
        if let Some(waiting) = lock(&self.calls).waiting.get_mut(&id.number) {
            waiting.for_ever = for_ever;
        }
    }

    /// Whether a call of this site is not answered yet.
    pub(super) fn is_unanswered(&self, id: CallId) -> bool {
        lock(&self.calls).waiting.contains_key(&id.number)
    }

    /// The calls of this site that are not answered: number, process, and whether that is for ever, as far as it knows.
    pub(super) fn waiting_calls(&self) -> Vec<(u64, i32, bool)> {
        let calls = lock(&self.calls);
        calls.waiting.iter().map(|(number, of)| (*number, of.pid, of.for_ever)).collect()
    }

    /// On site 0: says who waits, and asks all sites whether it is for ever where nothing has moved since the last look.
    pub(super) fn look_for_deadlock(&self, runtime: &Runtime) {
        if runtime.rank() != NodeId(0) {
            return;
        }
        let waits = lock(&self.ipc).waits();
        let calls: Vec<CallId> = waits.iter().map(|wait| wait.call).collect();
        let mut watch = lock(&self.watch);
        if !calls.is_empty() || watch.has_told != Some(false) {
            runtime.tell_blocked(&in_words(&waits, now()));
            watch.has_told = Some(!calls.is_empty());
        }
        let is_still = !calls.is_empty() && calls == watch.last;
        watch.last = calls;
        let question = if is_still { watch.proof.begin() } else { None };
        drop(watch);
        if let Some(question) = question {
            self.ask_all(runtime, question);
        }
    }

    fn ask_all(&self, runtime: &Runtime, question: u64) {
        let others = 1..runtime.node_count();
        others.for_each(|site| send(runtime, NodeId(site), &Message::Look(question)));
        // Who answers it lives as long as this process.
        let _ = lock(&self.questions).send(question);
    }

    /// What the processes of this site do.
    pub(super) fn answer_question(
        &self,
        runtime: &Runtime,
        question: u64,
        seen: Option<Standstill>,
    ) {
        self.tell(runtime, Message::Seen(question, seen));
    }

    /// On site 0: a site has answered.
    fn judge(&self, runtime: &Runtime, from: NodeId, question: u64, seen: Option<Standstill>) {
        let sites = runtime.node_count();
        let next = lock(&self.watch).proof.receive((from.0, sites), question, seen);
        match next {
            Next::Wait => {}
            Next::Ask(question) => self.ask_all(runtime, question),
            Next::Claim(calls) => {
                let waits = lock(&self.ipc).waits();
                let waiting: BTreeSet<CallId> = waits.iter().map(|wait| wait.call).collect();
                if !calls.is_empty() && calls.is_subset(&waiting) {
                    runtime.tell_deadlock(&in_words(&waits, now()));
                }
            }
        }
    }

    /// A process of this site has ended.
    pub(super) fn ended(&self, runtime: &Runtime, pid: i32) {
        self.tell(runtime, Message::Ended(process(runtime, pid), now()));
    }

    /// A fork of a process of this site has made an attach.
    pub(super) fn forked(&self, runtime: &Runtime, segment: i32, pid: i32) {
        self.tell(runtime, Message::Forked(segment, process(runtime, pid), now()));
    }

    /// An attach of a process of this site is gone.
    pub(super) fn detached(&self, runtime: &Runtime, segment: i32, pid: i32) {
        self.tell(runtime, Message::Detached(segment, process(runtime, pid), now()));
    }

    fn tell(&self, runtime: &Runtime, message: Message) {
        if runtime.rank() == NodeId(0) {
            self.serve(runtime, NodeId(0), message);
        } else {
            send(runtime, NodeId(0), &message);
        }
    }

    /// Takes a message of another site; false if no correct one sends it.
    pub(super) fn receive(&self, runtime: &Runtime, from: NodeId, body: &[u8]) -> bool {
        let Ok(message) = postcard::from_bytes(body) else { return false };
        self.serve(runtime, from, message)
    }

    fn serve(&self, runtime: &Runtime, from: NodeId, message: Message) -> bool {
        let (is_first, of_first) = (runtime.rank() == NodeId(0), from == NodeId(0));
        let mut events = Vec::new();
        match message {
            Message::Answer(id, reply) if of_first && id.site == runtime.rank().0 => {
                self.take(id, reply);
                return true;
            }
            Message::Gone(segment) if of_first => {
                // Who takes these lives as long as this process.
                let _ = lock(&self.gone).send(segment);
                return true;
            }
            Message::Sized(object, bytes) if of_first => {
                self.proxies.set_size(object, bytes);
                return true;
            }
            Message::Look(question) if of_first => {
                let _ = lock(&self.questions).send(question);
                return true;
            }
            Message::Answer(..) | Message::Gone(_) | Message::Sized(..) | Message::Look(_) => {
                return false;
            }
            _ if !is_first => return false,
            Message::Seen(question, seen) => self.judge(runtime, from, question, seen),
            Message::Call(id, caller, request) => {
                if id.site != from.0 || caller.process.site != from.0 {
                    return false;
                }
                let used = Used::of(&request);
                let mut ipc = lock(&self.ipc);
                ipc.call(id, &caller, request, &mut events);
                lock(&self.tally).count(&ipc, used, id, &events);
            }
            Message::Cancel(id, errno) => {
                if id.site != from.0 {
                    return false;
                }
                lock(&self.ipc).cancel(id, errno, &mut events);
            }
            Message::Ended(process, now) => {
                if process.site != from.0 {
                    return false;
                }
                lock(&self.ipc).ended(process, now, &mut events);
            }
            Message::Forked(segment, process, now) => {
                if process.site != from.0 {
                    return false;
                }
                lock(&self.ipc).forked_attach(segment, process, now);
            }
            Message::Detached(segment, process, now) => {
                if process.site != from.0 {
                    return false;
                }
                lock(&self.ipc).detached(segment, process, now, &mut events);
            }
        }
        events.into_iter().for_each(|event| self.carry_out(runtime, event));
        true
    }

    fn carry_out(&self, runtime: &Runtime, event: Event) {
        match event {
            Event::Reply(id, reply) if id.site == runtime.rank().0 => {
                self.take(id, reply);
            }
            Event::Reply(id, reply) => send(runtime, NodeId(id.site), &Message::Answer(id, reply)),
            Event::SegmentGone(segment) => {
                let others = 1..runtime.node_count();
                others.for_each(|site| send(runtime, NodeId(site), &Message::Gone(segment)));
                let _ = lock(&self.gone).send(segment);
            }
            Event::ObjectSized(object, bytes) => {
                let others = 1..runtime.node_count();
                others.for_each(|site| send(runtime, NodeId(site), &Message::Sized(object, bytes)));
                self.proxies.set_size(object, bytes);
            }
        }
    }

    /// Hands an answer to who waits for it, if anybody still does.
    fn take(&self, id: CallId, reply: Reply) {
        let waiting = lock(&self.calls).waiting.remove(&id.number);
        if let Some(Waiting { completion, .. }) = waiting {
            completion(reply);
        }
    }
}

fn process(runtime: &Runtime, pid: i32) -> Process {
    Process { site: runtime.rank().0, pid }
}

fn send(runtime: &Runtime, to: NodeId, message: &Message) {
    // It fails where a type cannot be written, and these can.
    if let Ok(body) = postcard::to_allocvec(message) {
        // A job that ends needs no answers.
        let _ = runtime.send_to_site(to, &body);
    }
}
