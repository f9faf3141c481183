//! A node under schedules of shuttle: waiting, receiving, waking and leaving, as they run.
//!
//! The node is a real [`Runtime`] over a real socket; its threads are shuttle's. Every schedule must show that
//! all threads get what they wait for (a lost wake-up, or a message that is left unread
//! while a thread sleeps for it, ends as a deadlock), that one thread receives at a time (the mesh
//! asserts it), that locks exclude, and that leaving ends every thread. `MULTIGRAIN_SCHEDULES` sets the number
//! of schedules of each test. Shuttle knows no weak memory: every atomic is as if `SeqCst`.

#![expect(unsafe_code, reason = "the other node's sink")]

mod homes;

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use multigrain_memory::{Area, GuardChoice, Memory, Shape, VIEWS_BASE};
use multigrain_protocol::{
    Attach, BarrierMessage, Input, Kind, Message, PageMessage, SyncMessage, Turns,
};
use multigrain_transport::{Destination, Header, LostReason, Mesh, Sink, Timeout, pair};
use multigrain_types::{AreaId, Consistency, MinipageId, NodeId, ThreadId};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::mpsc;
use shuttle::{Runner, thread};

use crate::area::{AreaRecord, Items, Origin};
use crate::config::Config;
use crate::driver::sink::NodeSink;
use crate::frames::{DriverFrame, OwnKind, Request, header_of, words_of};
use crate::job::Runtime;
use crate::receiver::WaitMode;
use crate::receiver::slots;
use crate::sync::LEAVING_BARRIER;

/// Schedules of a test, of each scheduler and way to wait, when nothing else is said.
const SCHEDULES: usize = 150;
/// Points at which a schedule of PCT changes its mind.
const PCT_DEPTH: usize = 3;

/// Memory lies at fixed addresses: one node at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// What the threads of a node do.
#[derive(Clone, Copy, Debug)]
struct Scene {
    wait: WaitMode,
    threads: u64,
    /// Questions of each thread to the other node.
    questions: u64,
    /// Times each thread takes a lock that this node manages.
    locks: u64,
    /// Whether the threads meet at barriers of this node.
    barriers: bool,
    /// Requests of the other node, served before this one leaves.
    requests: u64,
    /// Whether there is a service thread. Without one, a thread that waits must receive.
    service: bool,
}

const NOTHING: Scene = Scene {
    wait: WaitMode::Block,
    threads: 0,
    questions: 0,
    locks: 0,
    barriers: false,
    requests: 0,
    service: true,
};

// Even numbers are managed by node 0.
const LOCK: u32 = 2;
const BARRIER: u32 = 4;

/// A node's parts are moved on the stack as it is put together, several times over in a debug build.
const STACK_BYTES: usize = 1 << 20;

/// Plays so many random schedules, one node at a time.
pub(crate) fn play_random(play: fn(), schedules: usize) {
    let _alone = ALONE.lock().expect("the test before this one passed");
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::None;
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new(schedules), config).run(play);
}

fn explore(scene: Scene) {
    explore_with(move |wait| play(Scene { wait, ..scene }));
}

/// Plays with both ways to wait, by both schedulers.
fn explore_with(play: impl Fn(WaitMode) + Copy + Send + Sync + 'static) {
    let _alone = ALONE.lock().expect("the test before this one passed");
    let schedules = env::var("MULTIGRAIN_SCHEDULES").map_or(SCHEDULES, |text| {
        text.parse().expect("MULTIGRAIN_SCHEDULES is a number of schedules")
    });
    for wait in [WaitMode::Block, WaitMode::Adaptive] {
        let mut config = shuttle::Config::new();
        config.stack_size = STACK_BYTES;
        config.silence_warnings = true;
        Runner::new(RandomScheduler::new(schedules), config.clone()).run(move || play(wait));
        Runner::new(PctScheduler::new(PCT_DEPTH, schedules), config).run(move || play(wait));
    }
}

/// One schedule: from the start of a node to its end.
fn play(scene: Scene) {
    slots::forget_all();
    let [ours, theirs] = pair(None);
    let memory = multigrain_memory::Config::new(4096, GuardChoice::Mprotect);
    let config = Config { wait: scene.wait, ..Config::single() };
    let memory = Memory::new(&memory).unwrap();
    let runtime = Arc::new(Runtime::assemble(&config, 2, memory, ours, None).unwrap());
    let counter = Arc::new(AtomicU64::new(0));

    let service = scene.service.then(|| {
        let runtime = Arc::clone(&runtime);
        thread::spawn(move || runtime.driver.serve_peers())
    });
    let (served, all_served) = mpsc::channel();
    let peer = thread::spawn(move || Peer::new(theirs, scene).live(&served));
    let threads: Vec<_> = (0..scene.threads)
        .map(|number| {
            let (runtime, counter) = (Arc::clone(&runtime), Arc::clone(&counter));
            thread::spawn(move || work(&runtime, scene, number, &counter))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counter.load(Ordering::Relaxed), scene.threads * scene.locks);
    // In their sleep, the program's threads cannot serve the other node.
    all_served.recv().unwrap();
    runtime.leave().unwrap();
    if let Some(service) = service {
        service.join().unwrap();
    }
    peer.join().unwrap();
}

/// A thread of the program.
fn work(runtime: &Runtime, scene: Scene, number: u64, counter: &AtomicU64) {
    for question in 0..scene.questions {
        let subject = number << 32 | question;
        let answer = runtime.driver.request(NodeId(1), Request::Lookup, subject, 0, &[]);
        assert_eq!(answer, Ok(answer_to(subject)));
    }
    // SAFETY: it lives until this thread has been joined, and without deadlines no other keeps it.
    let runtime: &'static Runtime = unsafe { &*core::ptr::from_ref(runtime) };
    for _ in 0..scene.locks {
        runtime.lock(LOCK).unwrap();
        let before = counter.load(Ordering::Relaxed);
        thread::yield_now();
        counter.store(before + 1, Ordering::Relaxed);
        runtime.unlock(LOCK).unwrap();
    }
    if scene.barriers {
        runtime.barrier(BARRIER, u32::try_from(scene.threads).unwrap()).unwrap();
    }
}

fn answer_to(subject: u64) -> u64 {
    subject ^ 0x5a5a
}

/// The other node: answers in any order, asks for itself, and leaves with us.
struct Peer {
    mesh: Mesh,
    requests: u64,
    received: Received,
}

#[derive(Default)]
struct Received {
    questions: Vec<Header>,
    answers: u64,
    /// Node 0 has come to the last barrier.
    leaving: bool,
}

impl Peer {
    fn new(mesh: Mesh, scene: Scene) -> Self {
        Self { mesh, requests: scene.requests, received: Received::default() }
    }

    fn live(mut self, served: &mpsc::Sender<()>) {
        let mut asked = 0;
        let mut told = false;
        while !self.received.leaving {
            if !told && self.received.answers == self.requests {
                served.send(()).unwrap();
                told = true;
            }
            if asked < self.requests && thread_rng().r#gen() {
                self.send(
                    Header { kind: Request::Publish.number(), subject: 8, ..Header::default() },
                    b"name",
                );
                asked += 1;
            }
            let all_asked = asked == self.requests;
            let wait = if all_asked { Timeout::Forever } else { Timeout::Now };
            self.mesh.receive(&mut self.received, wait);
            while !self.received.questions.is_empty() {
                let any = thread_rng().gen_range(0..self.received.questions.len());
                let Header { thread, subject, .. } = self.received.questions.swap_remove(any);
                let value = answer_to(subject);
                let header = Header {
                    kind: DriverFrame::Answer.number(),
                    thread,
                    value,
                    ..Header::default()
                };
                self.send(header, &[]);
            }
            thread::yield_now();
        }
        let requests = self.requests;
        leave_after(self.mesh, &mut self.received, |received| received.answers > requests);
    }

    fn send(&self, header: Header, body: &[u8]) {
        self.mesh.send_bytes(NodeId(0), header, body).unwrap();
    }
}

/// Node 0 has come to the last barrier, and is let go. It is above this node: nobody leaves before it answers.
fn leave_after<S: Sink>(mesh: Mesh, received: &mut S, is_answered: impl Fn(&S) -> bool) {
    let release = SyncMessage::Barrier(BarrierMessage::Release { arrivals: 1, quiescent: false });
    let release = header_of(Message::Sync { id: LEAVING_BARRIER, body: release });
    mesh.send_bytes(NodeId(0), release, &[]).unwrap();
    let depart = Header { kind: Request::Departure.number(), ..Header::default() };
    mesh.send_bytes(NodeId(0), depart, &[]).unwrap();
    while !is_answered(received) {
        mesh.receive(received, Timeout::Forever);
    }
    mesh.leave();
    while mesh.links_alive() > 0 {
        mesh.receive(received, Timeout::Forever);
    }
}

// SAFETY: it names no place.
unsafe impl Sink for Received {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, header: &Header, _: Option<&[u8]>) -> Result<(), String> {
        match OwnKind::of(header.kind) {
            Some(OwnKind::Request(Request::Lookup)) => self.questions.push(*header),
            Some(OwnKind::Driver(DriverFrame::Answer)) => self.answers += 1,
            Some(OwnKind::Request(_) | OwnKind::Driver(_)) | None => self.leaving = true,
        }
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        assert_eq!(reason, LostReason::Left);
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

#[test]
fn every_thread_gets_its_answers_whoever_receives_them() {
    explore(Scene { threads: 3, questions: 2, ..NOTHING });
}

#[test]
fn requests_are_served_whether_or_not_somebody_waits() {
    explore(Scene { threads: 2, questions: 1, requests: 3, ..NOTHING });
}

#[test]
fn threads_of_a_node_wake_each_other_from_every_sleep() {
    explore(Scene { threads: 3, locks: 2, barriers: true, ..NOTHING });
}

#[test]
fn sleepers_wake_for_threads_of_their_node_and_for_the_other_node() {
    explore(Scene { threads: 3, questions: 1, locks: 1, barriers: true, requests: 2, ..NOTHING });
}

#[test]
fn of_the_threads_that_wait_one_receives() {
    explore(Scene { threads: 2, questions: 1, service: false, ..NOTHING });
}

#[test]
fn leaving_ends_a_node_that_does_nothing() {
    explore(NOTHING);
}

/// What came at the other node, in order.
#[derive(Default)]
struct Order(Vec<Message>);

// SAFETY: it names no place.
unsafe impl Sink for Order {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, header: &Header, _: Option<&[u8]>) -> Result<(), String> {
        self.0.push(Message::from_words(&words_of(header)).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        panic!("{reason}");
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

/// Node 0 reads two minipages of node 1, and then writes the second.
fn fetch_in_a_row() {
    slots::forget_all();
    let [ours, theirs] = pair(None);
    let memory = multigrain_memory::Config::new(8192, GuardChoice::Mprotect);
    let config = Config::single();
    let runtime = Runtime::assemble(&config, 2, Memory::new(&memory).unwrap(), ours, None).unwrap();
    let (id, shape) = (AreaId(0), Shape::Pages { pages: 1 });
    let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes: 8192, shape };
    let items = Items { bytes: 4096, count: 2, chunk: 1, array: false };
    let consistency = Consistency::Sequential;
    assert_eq!(
        runtime.adopt(AreaRecord {
            area,
            owner: NodeId(1),
            items,
            consistency,
            origin: Origin::Heap
        }),
        0
    );
    let [first, second] = [0, 1].map(|index| MinipageId::new(id, index));
    let fault = |minipage, kind| {
        runtime.driver.engine().step_sure(Input::Fault { thread: ThreadId(0), minipage, kind });
    };
    let get = |minipage| {
        let (kind, attach) = (Kind::Read, Attach::Page);
        let reply =
            PageMessage::Reply { kind, attach, ack_now: false, turns: Turns::NONE }.about(minipage);
        theirs.send_bytes(NodeId(0), header_of(reply), &[1; 4096]).unwrap();
        assert_eq!(
            runtime.driver.mesh().receive(&mut NodeSink::new(&runtime.driver), Timeout::Now),
            1
        );
        runtime.driver.engine().step_sure(Input::Resumed { thread: ThreadId(0), minipage });
    };
    let expect = |messages: &[Message]| {
        let mut order = Order::default();
        theirs.receive(&mut order, Timeout::Now);
        assert_eq!(order.0, messages);
    };
    let request = |kind, minipage| PageMessage::Request { kind }.about(minipage);
    fault(first, Kind::Read);
    expect(&[request(Kind::Read, first)]);
    get(first);
    fault(second, Kind::Read);
    expect(&[PageMessage::Ack { turn_us: 0 }.about(first), request(Kind::Read, second)]);
    get(second);
    fault(second, Kind::Write);
    expect(&[PageMessage::Ack { turn_us: 0 }.about(second), request(Kind::Write, second)]);
}

#[test]
fn a_deferred_ack_goes_with_the_next_request_and_before_it() {
    play_random(fetch_in_a_row, 1);
}
